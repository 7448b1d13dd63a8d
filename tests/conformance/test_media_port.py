"""The port `MediaLibrary`, over the stand-in and the real site: both must agree on everything asked here."""

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from adapters.http import _Planned
from adapters.wordpress_media import WordPressMedia
from adapters.writes import ONLY, HttpWrite
from execution.core.failures import (
    Absent,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Sighting,
    Unprepared,
)
from execution.core.quiescence import SEND_BUDGET_S
from execution.ports import Image
from tests.conformance.beds import Bed, carry_out, fresh_article, fresh_marker
from tests.pictures import GIF, png

POSTS = "/wp/v2/posts"
TITLE = "Tom & Jerry at work"


def picture(content: bytes | None = None, **fields: Any) -> tuple[Image, bytes]:
    """An image that nobody else uses."""
    content = png(secrets.randbelow(256)) if content is None else content
    return Image(
        **{"sha256": hashlib.sha256(content).hexdigest(), "media_type": "image/png", "alt": TITLE, **fields}
    ), content


async def uploaded(library: WordPressMedia, image: Image, content: bytes, marker: str | None = None) -> Receipt:
    """The image, in the library."""
    answer = await carry_out(library.upload(marker=marker or fresh_marker(), image=image, content=content))
    assert isinstance(answer, Landed), answer
    return answer.receipt


async def undone(library: WordPressMedia, receipt: Receipt) -> Sighting:
    """What is seen before the image is deleted."""
    return await library.observe_deleted(media_id=receipt.resource_id, expected_version=receipt.version)


async def test_an_uploaded_image_is_found_by_its_marker_as_the_receipt_said(bed: Bed) -> None:
    async with bed.site() as site:
        marker, (image, content) = fresh_marker(), picture()
        assert await site.media.observe_image(marker=marker, image=image, known_id=None) == Absent()
        receipt = await uploaded(site.media, image, content, marker)
        assert receipt.data["slug"] == f"remit-{marker}-{image.sha256[:16]}"
        assert receipt.reference.startswith(f"{bed.url}/wp-content/uploads/")
        expected = Present(receipt=receipt)
        assert await site.media.observe_image(marker=marker, image=image, known_id=None) == expected
        assert await site.media.observe_image(marker=marker, image=image, known_id=receipt.resource_id) == expected
        stored = await bed.person("GET", f"/wp/v2/media/{receipt.resource_id}?context=edit")
        assert (stored["alt_text"], stored["mime_type"], stored["status"]) == (TITLE, "image/png", "inherit")
        assert await bed.file(receipt.reference) == content


async def test_an_image_is_not_found_by_another_marker_or_for_other_bytes(bed: Bed) -> None:
    async with bed.site() as site:
        marker, (image, content) = fresh_marker(), picture()
        await uploaded(site.media, image, content, marker)
        other, _ = picture(GIF, media_type="image/gif")
        assert await site.media.observe_image(marker=fresh_marker(), image=image, known_id=None) == Absent()
        assert await site.media.observe_image(marker=marker, image=other, known_id=None) == Absent()


async def test_two_uploads_under_one_marker_are_counted(bed: Bed) -> None:
    async with bed.site() as site:
        marker, (image, content) = fresh_marker(), picture()
        first, second = [await uploaded(site.media, image, content, marker) for _ in range(2)]
        assert second.data["slug"] == f"{first.data['slug']}-2"
        seen = await site.media.observe_image(marker=marker, image=image, known_id=None)
        assert isinstance(seen, Present)
        assert (seen.rows, seen.receipt) == (2, first)


async def test_bytes_that_were_altered_on_the_way_are_refused_and_not_kept(bed: Bed) -> None:
    async with bed.site() as site:
        marker, (image, content) = fresh_marker(), picture()
        write = site.media.upload(marker=marker, image=image, content=content)
        assert isinstance(write, HttpWrite)
        planned = write._effects[ONLY]
        assert isinstance(planned, _Planned)
        planned.request.headers["Content-MD5"] = "0" * 32
        assert await carry_out(write) == Refused(failure=FailureClass.TRANSIENT, code="altered_on_the_way")
        assert await site.media.observe_image(marker=marker, image=image, known_id=None) == Absent()


async def test_bytes_that_are_no_image_are_refused_and_not_kept(bed: Bed) -> None:
    async with bed.site() as site:
        marker, (image, content) = fresh_marker(), picture(b"<svg xmlns='http://www.w3.org/2000/svg'/>")
        answer = await carry_out(site.media.upload(marker=marker, image=image, content=content))
        assert answer == Refused(failure=FailureClass.BUSINESS, code="image_refused")
        assert await site.media.observe_image(marker=marker, image=image, known_id=None) == Absent()


async def test_other_bytes_than_the_image_names_are_never_sent(bed: Bed) -> None:
    async with bed.site() as site:
        image, content = picture()
        with pytest.raises(Unprepared) as caught:
            site.media.upload(marker=fresh_marker(), image=image, content=content + b"!")
        assert (caught.value.failure, caught.value.code) == (FailureClass.PERMANENT, "artifact_altered")


async def test_what_the_site_stores_differently_is_named(bed: Bed) -> None:
    async with bed.site() as site:
        marker, (image, content) = fresh_marker(), picture(alt="a\\b <i>c</i>")
        await uploaded(site.media, image, content, marker)
        seen = await site.media.observe_image(marker=marker, image=image, known_id=None)
        assert isinstance(seen, Present)
        assert (seen.complete, seen.difference) == (True, ("alt",))


# Authority


@pytest.mark.parametrize("role", ["contributor", "subscriber"])
async def test_an_account_without_the_right_to_upload_is_refused_for_good(bed: Bed, role: str) -> None:
    async with bed.site(role) as site:
        image, content = picture()
        answer = await carry_out(site.media.upload(marker=fresh_marker(), image=image, content=content))
        assert answer == Refused(failure=FailureClass.PERMANENT, code="not_permitted")
        assert "cannot_upload" in await site.check()


async def test_a_wrong_password_proves_nothing_and_writes_nothing(bed: Bed) -> None:
    async with bed.site(password="wrong") as site:
        marker, (image, content) = fresh_marker(), picture()
        seen = await site.media.observe_image(marker=marker, image=image, known_id=None)
        assert seen == CannotTell(code="not_authorised")
        answer = await carry_out(site.media.upload(marker=marker, image=image, content=content))
        assert answer == Refused(failure=FailureClass.PERMANENT, code="not_authenticated")


async def test_an_account_that_cannot_see_the_files_of_others_proves_no_absence(bed: Bed) -> None:
    marker, (image, content) = fresh_marker(), picture()
    async with bed.site() as editor:
        receipt = await uploaded(editor.media, image, content, marker)
    cannot = CannotTell(code="cannot_see_others")
    async with bed.site("author") as site:
        assert await site.media.observe_image(marker=marker, image=image, known_id=None) == cannot
        answer = await carry_out(site.media.delete(media_id=receipt.resource_id, expected_version=""))
        assert answer == Refused(failure=FailureClass.PERMANENT, code="not_permitted")
    async with bed.site("author", own_posts_only=True) as site:
        own = await uploaded(site.media, image, content)
        assert await undone(site.media, own) == Absent(receipt=own)


# Deleting


async def test_deleting_is_seen_and_doing_it_again_is_no_failure(bed: Bed) -> None:
    async with bed.site() as site:
        marker, (image, content) = fresh_marker(), picture()
        receipt = await uploaded(site.media, image, content, marker)
        assert await undone(site.media, receipt) == Absent(receipt=receipt)
        look = {"media_id": receipt.resource_id, "expected_version": receipt.version}
        gone = Receipt(resource_id=receipt.resource_id, data={"status": "gone"})
        assert await carry_out(site.media.delete(**look)) == Landed(receipt=gone)
        assert await undone(site.media, receipt) == Present(receipt=gone)
        assert await carry_out(site.media.delete(**look)) == Landed(receipt=gone)
        seen = await site.media.observe_image(marker=marker, image=image, known_id=receipt.resource_id)
        assert seen == Foreign(code="gone")
        assert await bed.file(receipt.reference) is None


async def test_an_image_that_a_person_changed_is_left_alone(bed: Bed) -> None:
    async with bed.site() as site:
        image, content = picture()
        receipt = await uploaded(site.media, image, content)
        await bed.person("POST", f"/wp/v2/media/{receipt.resource_id}", {"title": "Our new logo"})
        seen = await undone(site.media, receipt)
        assert isinstance(seen, Foreign)
        assert seen.code == "changed"


Use = Callable[[Bed, Receipt], Awaitable[Any]]


async def shown_in_content(bed: Bed, receipt: Receipt) -> Any:
    return await bed.person("POST", POSTS, {"title": "x", "content": f'<img src="{receipt.reference}">'})


async def featured(bed: Bed, receipt: Receipt) -> Any:
    return await bed.person("POST", POSTS, {"title": "x", "featured_media": int(receipt.resource_id)})


async def attached(bed: Bed, receipt: Receipt) -> Any:
    post = await bed.person("POST", POSTS, {"title": "x"})
    await bed.person("POST", f"/wp/v2/media/{receipt.resource_id}", {"post": post["id"]})
    return post


@pytest.mark.parametrize("use", [shown_in_content, featured, attached])
async def test_an_image_that_a_post_uses_is_left_alone_until_that_post_is_in_the_trash(bed: Bed, use: Use) -> None:
    async with bed.site() as site:
        image, content = picture()
        receipt = await uploaded(site.media, image, content)
        post = await use(bed, receipt)
        now = await site.media.observe_image(marker=fresh_marker(), image=image, known_id=receipt.resource_id)
        assert isinstance(now, Present)  # attaching changes its time
        assert await undone(site.media, now.receipt) == Foreign(code="in_use", receipt=now.receipt)
        await bed.person("DELETE", f"{POSTS}/{post['id']}")
        assert await undone(site.media, now.receipt) == Absent(receipt=now.receipt)


# Posts that show it


async def test_a_draft_and_its_publication_show_the_image(bed: Bed) -> None:
    async with bed.site() as site:
        image, content = picture()
        receipt = await uploaded(site.media, image, content)
        marker, article = fresh_marker(), fresh_article(featured_media=receipt.resource_id)
        draft = await carry_out(await site.create_draft(marker=marker, article=article))
        assert isinstance(draft, Landed)
        assert await site.observe_draft(marker=marker, article=article, known_id=None) == Present(receipt=draft.receipt)
        look = {"post_id": draft.receipt.resource_id, "expected_version": draft.receipt.version}
        live = await carry_out(await site.publish(**look, article=article))
        assert isinstance(live, Landed)
        assert await site.observe_publication(**look, article=article) == Present(receipt=live.receipt)
        stored = await bed.person("GET", f"{POSTS}/{draft.receipt.resource_id}?context=edit")
        assert str(stored["featured_media"]) == receipt.resource_id


async def test_an_image_that_does_not_exist_is_dropped_without_a_word_and_the_post_is_not_complete(bed: Bed) -> None:
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article(featured_media="987654321")
        draft = await carry_out(await site.create_draft(marker=marker, article=article))
        assert isinstance(draft, Landed)
        seen = await site.observe_draft(marker=marker, article=article, known_id=None)
        assert isinstance(seen, Present)
        assert (seen.complete, seen.difference) == (False, ("featured_image",))
        look = {"post_id": draft.receipt.resource_id, "expected_version": draft.receipt.version}
        await carry_out(await site.publish(**look, article=article))
        seen = await site.observe_publication(**look, article=article)
        assert isinstance(seen, Present)
        assert (seen.complete, seen.difference) == (False, ("featured_image",))


# Time


async def test_a_long_upload_declares_that_its_last_byte_leaves_later(bed: Bed) -> None:
    async with bed.site() as site:
        image, content = picture(png(1) + bytes(4 * 1024 * 1024))
        write = site.media.upload(marker=fresh_marker(), image=image, content=content)
        assert write.bounds.budget_s == pytest.approx(SEND_BUDGET_S + 2.0 + 16.0, abs=0.1)
        quiet_s, usual_s = write.bounds.quiescent_after_s(), bed.bounds.quiescent_after_s()
        assert quiet_s is not None
        assert usual_s is not None
        assert quiet_s > usual_s
        assert isinstance(await carry_out(write), Landed | Lost)
        await write.close()
