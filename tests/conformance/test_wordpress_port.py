"""The port `WordPress`, over the stand-in and the real site: both must agree on everything asked here."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from adapters.wordpress import WordPressSite
from execution.content import with_structured_data
from execution.core.failures import (
    Absent,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Present,
    Receipt,
    Refused,
    Sighting,
    Unprepared,
)
from execution.ports import Article
from tests.conformance.beds import Bed, carry_out, fresh_article, fresh_marker, real_bed
from tests.services import WordPress


async def drafted(site: WordPressSite, article: Article, marker: str | None = None) -> Receipt:
    """A draft of ours."""
    answer = await carry_out(await site.create_draft(marker=marker or fresh_marker(), article=article))
    assert isinstance(answer, Landed), answer
    return answer.receipt


async def published(site: WordPressSite, draft: Receipt, article: Article) -> Receipt:
    """The draft, live."""
    prepared = await site.publish(post_id=draft.resource_id, expected_version=draft.version, article=article)
    answer = await carry_out(prepared)
    assert isinstance(answer, Landed), answer
    return answer.receipt


def present(sighting: Sighting) -> Present:
    assert isinstance(sighting, Present), sighting
    return sighting


def foreign(sighting: Sighting) -> Foreign:
    assert isinstance(sighting, Foreign), sighting
    return sighting


# Drafts


async def test_a_created_draft_is_found_by_its_marker_as_the_receipt_said(bed: Bed) -> None:
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article()
        assert await site.observe_draft(marker=marker, article=article, known_id=None) == Absent()
        receipt = await drafted(site, article, marker)
        assert receipt.data["slug"] == f"remit-{marker}"
        expected = Present(receipt=receipt)
        assert await site.observe_draft(marker=marker, article=article, known_id=None) == expected
        assert await site.observe_draft(marker=marker, article=article, known_id=receipt.resource_id) == expected
        assert await site.read(post_id=receipt.resource_id) == expected


async def test_a_draft_of_ours_is_not_found_by_another_marker(bed: Bed) -> None:
    async with bed.site() as site:
        article = fresh_article()
        await drafted(site, article)
        assert await site.observe_draft(marker=fresh_marker(), article=article, known_id=None) == Absent()


async def test_two_creates_under_one_marker_are_counted(bed: Bed) -> None:
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article()
        first, second = await drafted(site, article, marker), await drafted(site, article, marker)
        assert second.data["slug"] == f"remit-{marker}-2"
        seen = present(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.rows, seen.receipt) == (2, first)


async def test_a_trashed_draft_of_ours_is_foreign_and_a_new_one_counts_alone(bed: Bed) -> None:
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article()
        first = await drafted(site, article, marker)
        await bed.person("DELETE", f"/wp/v2/posts/{first.resource_id}")
        seen = foreign(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.code, seen.receipt and seen.receipt.resource_id) == ("trashed", first.resource_id)
        second = await drafted(site, article, marker)
        assert second.data["slug"] == f"remit-{marker}"
        assert present(await site.observe_draft(marker=marker, article=article, known_id=None)).rows == 1


async def test_a_draft_that_we_know_and_that_is_gone_is_foreign(bed: Bed) -> None:
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article()
        receipt = await drafted(site, article, marker)
        await bed.person("DELETE", f"/wp/v2/posts/{receipt.resource_id}?force=true")
        seen = await site.observe_draft(marker=marker, article=article, known_id=receipt.resource_id)
        assert seen == Foreign(code="gone")
        assert await site.read(post_id=receipt.resource_id) == Absent()


async def test_without_a_draft_of_ours_a_taken_public_slug_is_foreign(bed: Bed) -> None:
    async with bed.site() as site:
        article = fresh_article()
        other = await bed.person("POST", "/wp/v2/posts", {"title": "x", "slug": article.slug, "status": "publish"})
        seen = foreign(await site.observe_draft(marker=fresh_marker(), article=article, known_id=None))
        assert (seen.code, seen.receipt and seen.receipt.resource_id) == ("slug_taken", str(other["id"]))


@pytest.mark.services
@pytest.mark.xdist_group("wordpress")
async def test_on_a_site_ahead_of_or_behind_utc_now_is_now_and_a_second_save_moves_no_date(
    wordpress: WordPress,
) -> None:
    async with real_bed(wordpress).site() as site:
        for zone in ("America/Bogota", "Africa/Maputo", "Asia/Kathmandu"):
            with wordpress.on_the_clock_of(zone):
                article = fresh_article()
                begun = datetime.now(UTC)
                live = await published(site, await drafted(site, article), article)
                (first,) = wordpress.posts(article.slug)
                made = datetime.fromisoformat(first.date_gmt).replace(tzinfo=UTC)
                assert (first.status, abs((made - begun).total_seconds()) < 120) == ("publish", True), zone
                changed = replace(article, content="<p>Another body</p>")
                await published(site, live, changed)
                (again,) = wordpress.posts(article.slug)
                assert (again.status, again.date_gmt, again.content) == ("publish", first.date_gmt, changed.content)


async def test_what_the_site_stores_differently_is_named_and_not_judged(bed: Bed) -> None:
    async with bed.site("author", own_posts_only=True) as site:
        marker = fresh_marker()
        article = fresh_article(title=" Q & A ", content="<p>1 < 2 & 3</p><script>x()</script>")
        draft = await drafted(site, article, marker)
        seen = present(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.complete, seen.difference) == (True, ("title", "content"))
        await published(site, draft, article)
        live = present(
            await site.observe_publication(post_id=draft.resource_id, expected_version=draft.version, article=article)
        )
        assert (live.complete, live.difference) == (True, ("title", "content"))


async def test_an_editors_bytes_are_stored_as_given(bed: Bed) -> None:
    async with bed.site() as site:
        marker = fresh_marker()
        article = fresh_article(
            title='Tom & Jerry’s <b>"Q&A"</b> \\o/',
            content="<!-- wp:paragraph -->\n<p>1 < 2 & é 日本 \\ ' \" 🎉</p>\n<!-- /wp:paragraph -->",
            excerpt="a & b",
        )
        await drafted(site, article, marker)
        assert present(await site.observe_draft(marker=marker, article=article, known_id=None)).difference == ()


async def test_terms_are_resolved_by_name_and_a_draft_without_them_is_not_complete(bed: Bed) -> None:
    name = f"News & more {fresh_marker()[:8]}"
    category = await bed.person("POST", "/wp/v2/categories", {"name": name})
    tag = await bed.person("POST", "/wp/v2/tags", {"name": name})
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article(categories=(name,), tags=(name.upper(),))
        receipt = await drafted(site, article, marker)
        stored = await bed.person("GET", f"/wp/v2/posts/{receipt.resource_id}?context=edit")
        assert (stored["categories"], stored["tags"]) == ([category["id"]], [tag["id"]])
        assert present(await site.observe_draft(marker=marker, article=article, known_id=None)).complete
        await bed.person("POST", f"/wp/v2/posts/{receipt.resource_id}", {"tags": []})
        seen = present(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.complete, seen.difference) == (False, ("tags",))


async def test_what_a_draft_lacks_is_added_to_that_draft(bed: Bed) -> None:
    name = f"later {fresh_marker()[:8]}"
    await bed.person("POST", "/wp/v2/tags", {"name": name})
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article(tags=(name,))
        receipt = await drafted(site, article, marker)
        await bed.person("POST", f"/wp/v2/posts/{receipt.resource_id}", {"tags": []})
        seen = present(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.complete, seen.mendable) == (False, True)
        look = {"post_id": receipt.resource_id, "expected_version": seen.receipt.version}
        assert isinstance(await carry_out(await site.complete_draft(**look, article=article)), Landed)
        seen = present(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.complete, seen.rows, seen.receipt.data["status"]) == (True, 1, "draft")


async def test_what_a_live_post_lacks_is_added_over_nobodys_change(bed: Bed) -> None:
    names = [f"{word} {fresh_marker()[:8]}" for word in ("first", "second", "theirs")]
    terms = [(await bed.person("POST", "/wp/v2/tags", {"name": name}))["id"] for name in names]
    async with bed.site() as site:
        first = fresh_article(tags=(names[0],))
        live = await published(site, await drafted(site, first), first)
        second = replace(first, content=first.content + "<p>more</p>", tags=(names[1],))
        row = {"title": second.title, "content": second.content, "excerpt": second.excerpt}
        await bed.person("POST", f"/wp/v2/posts/{live.resource_id}", row)

        async def seen() -> Present:
            look = site.observe_publication(post_id=live.resource_id, expected_version=live.version, article=second)
            return present(await look)

        interrupted = await seen()
        assert (interrupted.complete, interrupted.mendable, interrupted.difference) == (False, True, ("tags",))
        await bed.person("POST", f"/wp/v2/posts/{live.resource_id}", {"tags": [terms[0], terms[2]]})
        edited = await seen()
        assert (edited.complete, edited.mendable, edited.difference) == (False, False, ("tags",))


async def test_structured_data_stays_with_an_editor_and_is_missed_with_an_author(bed: Bed) -> None:
    html = with_structured_data("<p>x</p>", {"@context": "https://schema.org", "name": "a < b & c"}, "html")
    article = fresh_article(content=html)
    async with bed.site() as site:
        marker = fresh_marker()
        await drafted(site, article, marker)
        assert present(await site.observe_draft(marker=marker, article=article, known_id=None)).difference == ()
    async with bed.site("author", own_posts_only=True) as site:
        marker = fresh_marker()
        await drafted(site, article, marker)
        seen = present(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.complete, seen.difference) == (True, ("content", "structured_data"))


async def test_an_unknown_term_stops_the_request_before_it_is_built(bed: Bed) -> None:
    async with bed.site() as site:
        with pytest.raises(Unprepared) as caught:
            await site.create_draft(marker=fresh_marker(), article=fresh_article(tags=("no-such-tag-anywhere",)))
        assert (caught.value.failure, caught.value.code) == (FailureClass.BUSINESS, "unknown_term")


# Authority


async def test_a_wrong_password_proves_nothing_and_writes_nothing(bed: Bed) -> None:
    async with bed.site(password="wrong") as site:
        marker, article = fresh_marker(), fresh_article()
        cannot = CannotTell(code="not_authorised")
        assert await site.observe_draft(marker=marker, article=article, known_id=None) == cannot
        assert await site.find_public(slug=article.slug) == cannot
        assert await site.check() == ("not_authorised",)
        answer = await carry_out(await site.create_draft(marker=marker, article=article))
        assert answer == Refused(failure=FailureClass.PERMANENT, code="not_authenticated")


async def test_an_account_that_cannot_see_the_drafts_of_others_proves_no_absence(bed: Bed) -> None:
    marker, article = fresh_marker(), fresh_article()
    async with bed.site() as editor:
        await drafted(editor, article, marker)
    async with bed.site("author") as site:
        seen = await site.observe_draft(marker=marker, article=article, known_id=None)
        assert seen == CannotTell(code="cannot_see_others")
        assert await site.check() == ("cannot_see_others",)


@pytest.mark.parametrize(("role", "failure"), [("subscriber", "not_permitted"), ("contributor", "not_permitted")])
async def test_an_account_without_the_right_is_refused_for_good(bed: Bed, role: str, failure: str) -> None:
    async with bed.site() as editor:
        draft, article = await drafted(editor, fresh_article()), fresh_article()
    async with bed.site(role) as site:
        prepared = await site.publish(post_id=draft.resource_id, expected_version=draft.version, article=article)
        assert await carry_out(prepared) == Refused(failure=FailureClass.PERMANENT, code=failure)
        assert await carry_out(site.trash(post_id=draft.resource_id, expected_version="")) == Refused(
            failure=FailureClass.PERMANENT, code=failure
        )


async def test_the_accounts_that_fit_pass_the_check(bed: Bed) -> None:
    async with bed.site() as site:
        assert await site.check() == ()
    async with bed.site("author", own_posts_only=True) as site:
        assert await site.check() == ()


# Publications


async def test_a_publication_carries_the_approved_bytes_and_is_seen_by_readers(bed: Bed) -> None:
    async with bed.site() as site:
        draft_article = fresh_article()
        draft = await drafted(site, draft_article)
        article = fresh_article(title="Approved", content="<p>Approved</p>", excerpt="short")
        before = await site.observe_publication(
            post_id=draft.resource_id, expected_version=draft.version, article=article
        )
        assert before == Absent(receipt=draft)
        receipt = await published(site, draft, article)
        assert (receipt.data["status"], receipt.data["slug"]) == ("publish", article.slug)
        assert receipt.reference == f"{bed.url}/{article.slug}/"
        after = await site.observe_publication(
            post_id=draft.resource_id, expected_version=draft.version, article=article
        )
        assert after == Present(receipt=receipt)
        assert await site.find_public(slug=article.slug) == Present(receipt=receipt)
        assert await bed.page_status(article.slug) == 200
        stored = await bed.person("GET", f"/wp/v2/posts/{draft.resource_id}?context=edit")
        assert (stored["title"]["raw"], stored["content"]["raw"]) == ("Approved", "<p>Approved</p>")


async def test_publishing_twice_changes_nothing_that_matters(bed: Bed) -> None:
    async with bed.site() as site:
        article = fresh_article()
        draft = await drafted(site, article)
        await published(site, draft, article)
        again = await published(site, draft, article)
        seen = await site.observe_publication(
            post_id=draft.resource_id, expected_version=draft.version, article=article
        )
        assert seen == Present(receipt=again)


@pytest.mark.behaviour("threat.31")
async def test_a_silent_rename_is_present_but_not_complete(bed: Bed) -> None:
    async with bed.site() as site:
        article = fresh_article()
        draft = await drafted(site, article)
        other = await bed.person("POST", "/wp/v2/posts", {"title": "x", "slug": article.slug, "status": "publish"})
        before = foreign(
            await site.observe_publication(post_id=draft.resource_id, expected_version=draft.version, article=article)
        )
        assert (before.code, before.receipt and before.receipt.resource_id) == ("slug_taken", str(other["id"]))
        receipt = await published(site, draft, article)
        assert receipt.data["slug"] == f"{article.slug}-2"
        after = present(
            await site.observe_publication(post_id=draft.resource_id, expected_version=draft.version, article=article)
        )
        assert (after.complete, after.difference) == (False, ("slug",))


async def test_a_persons_edit_is_foreign_before_and_after_our_publication(bed: Bed) -> None:
    async with bed.site() as site:
        article = fresh_article()
        draft = await drafted(site, article)
        path = f"/wp/v2/posts/{draft.resource_id}"
        await bed.person("POST", path, {"content": "<p>edited</p>"})
        look = {"post_id": draft.resource_id, "expected_version": draft.version}
        seen = foreign(await site.observe_publication(**look, article=article))
        assert (seen.code, seen.difference) == ("changed", ("content",))
        assert foreign(await site.observe_trashed(**look)).code == "changed"
        await published(site, draft, article)
        assert present(await site.observe_publication(**look, article=article)).complete
        await bed.person("POST", path, {"title": "edited"})
        seen = foreign(await site.observe_publication(**look, article=article))
        assert (seen.code, seen.difference) == ("changed", ("title",))


async def test_a_post_that_is_gone_or_in_the_trash_is_foreign(bed: Bed) -> None:
    async with bed.site() as site:
        article = fresh_article()
        draft = await drafted(site, article)
        look = {"post_id": draft.resource_id, "expected_version": draft.version}
        await bed.person("DELETE", f"/wp/v2/posts/{draft.resource_id}")
        assert foreign(await site.observe_publication(**look, article=article)).code == "gone"
        await bed.person("DELETE", f"/wp/v2/posts/{draft.resource_id}?force=true")
        assert await site.observe_publication(**look, article=article) == Foreign(code="gone")
        answer = await carry_out(await site.publish(**look, article=article))
        assert answer == Refused(failure=FailureClass.CONFLICT, code="gone")


async def test_a_later_version_replaces_the_live_post_and_only_as_expected(bed: Bed) -> None:
    async with bed.site() as site:
        first = fresh_article()
        live = await published(site, await drafted(site, first), first)
        second = fresh_article(title="Second", slug=first.slug)
        baseline = await drafted(site, second)
        look = {"post_id": live.resource_id, "expected_version": live.version}
        hashes = {"baseline_hash": str(baseline.data["raw_hash"])}
        assert await site.observe_publication(**look, article=second, **hashes) == Absent(receipt=live)
        answer = await carry_out(await site.update(**look, article=second))
        assert isinstance(answer, Landed)
        assert await site.observe_publication(**look, article=second, **hashes) == Present(receipt=answer.receipt)
        await bed.person("POST", f"/wp/v2/posts/{live.resource_id}", {"content": "<p>edited</p>"})
        assert foreign(await site.observe_publication(**look, article=second, **hashes)).code == "changed"


async def test_empty_content_is_refused_as_business(bed: Bed) -> None:
    async with bed.site() as site:
        article = fresh_article(title="", content="")
        answer = await carry_out(await site.create_draft(marker=fresh_marker(), article=article))
        assert answer == Refused(failure=FailureClass.BUSINESS, code="content_refused")


# Trash


async def test_trashing_a_draft_is_seen_and_doing_it_again_is_no_failure(bed: Bed) -> None:
    async with bed.site() as site:
        draft = await drafted(site, fresh_article())
        look = {"post_id": draft.resource_id, "expected_version": draft.version}
        assert await site.observe_trashed(**look) == Absent(receipt=draft)
        answer = await carry_out(site.trash(**look))
        assert isinstance(answer, Landed)
        assert answer.receipt.data["slug"] == f"{draft.data['slug']}__trashed"
        assert await site.observe_trashed(**look) == Present(receipt=answer.receipt)
        again = Landed(receipt=Receipt(resource_id=draft.resource_id, data={"status": "trash"}))
        assert await carry_out(site.trash(**look)) == again
        await bed.person("DELETE", f"/wp/v2/posts/{draft.resource_id}?force=true")
        gone = Receipt(resource_id=draft.resource_id, data={"status": "gone"})
        assert await carry_out(site.trash(**look)) == Landed(receipt=gone)
        assert await site.observe_trashed(**look) == Present(receipt=gone)


async def test_a_live_post_is_hands_off_for_a_compensation(bed: Bed) -> None:
    async with bed.site() as site:
        article = fresh_article()
        draft = await drafted(site, article)
        live = await published(site, draft, article)
        for version in (draft.version, live.version):
            seen = foreign(await site.observe_trashed(post_id=draft.resource_id, expected_version=version))
            assert seen.code == "live"


async def test_what_carries_a_marker_is_listed_whoever_made_it_and_nothing_else(bed: Bed) -> None:
    ours, theirs, thrown = fresh_marker(), fresh_marker(), fresh_marker()
    async with bed.site() as site:
        draft = await drafted(site, fresh_article(), ours)
        await bed.person("POST", "/wp/v2/posts", {"title": "ghost", "slug": f"remit-{theirs}", "status": "draft"})
        other = await bed.person("POST", "/wp/v2/posts", {"title": "mine", "slug": "remit-notes", "status": "draft"})
        gone = await drafted(site, fresh_article(), thrown)
        await carry_out(site.trash(post_id=gone.resource_id, expected_version=gone.version))
        listed = await site.marked(2_000)
    assert not isinstance(listed, CannotTell)
    found = {one.marker: (one.resource_id, one.state) for one in listed}
    assert found[ours] == (draft.resource_id, "draft")
    assert theirs in found
    assert thrown not in found
    assert str(other["id"]) not in {one.resource_id for one in listed}
    async with bed.site(password="wrong") as stranger:
        assert await stranger.marked(10) == CannotTell(code="not_authorised")


# Taking down


async def test_taking_a_post_down_changes_nothing_but_its_status_and_it_can_be_published_again(bed: Bed) -> None:
    async with bed.site() as site:
        article = fresh_article()
        draft = await drafted(site, article)
        live = await published(site, draft, article)
        look = {"post_id": live.resource_id, "expected_version": live.version}
        assert await site.observe_unpublished(**look) == Absent(receipt=live)
        answer = await carry_out(site.unpublish(**look))
        assert isinstance(answer, Landed), answer
        down = answer.receipt
        assert (down.data["status"], down.data["slug"], down.data["raw_hash"]) == (
            "draft",
            article.slug,
            live.data["raw_hash"],
        )
        assert await site.observe_unpublished(**look) == Present(receipt=down)
        assert isinstance(await carry_out(site.unpublish(**look)), Landed)

        now = present(await site.read(post_id=down.resource_id)).receipt
        again = await carry_out(
            await site.publish(post_id=now.resource_id, expected_version=now.version, article=article)
        )
        assert isinstance(again, Landed), again
        assert (again.receipt.data["status"], again.receipt.data["slug"]) == ("publish", article.slug)
        assert again.receipt.resource_id == live.resource_id


async def test_a_live_post_that_a_person_changed_is_not_taken_down(bed: Bed) -> None:
    async with bed.site() as site:
        article = fresh_article()
        live = await published(site, await drafted(site, article), article)
        await bed.person("POST", f"/wp/v2/posts/{live.resource_id}", {"content": "A person's words"})
        seen = foreign(await site.observe_unpublished(post_id=live.resource_id, expected_version=live.version))
        assert seen.code == "changed"


@pytest.mark.parametrize(
    ("method", "path", "fields", "status"),
    [
        ("POST", "", {"status": "draft", "content": "Mine"}, "draft"),
        ("POST", "", {"status": "private"}, "private"),
        ("DELETE", "", None, "trash"),
        ("DELETE", "?force=true", None, "gone"),
    ],
)
async def test_what_a_person_took_down_is_down(
    bed: Bed, method: str, path: str, fields: dict[str, str] | None, status: str
) -> None:
    async with bed.site() as site:
        article = fresh_article()
        live = await published(site, await drafted(site, article), article)
        await bed.person(method, f"/wp/v2/posts/{live.resource_id}{path}", fields)
        seen = present(await site.observe_unpublished(post_id=live.resource_id, expected_version=live.version))
        assert seen.receipt.data["status"] == status


async def test_taking_down_what_is_gone_is_a_conflict(bed: Bed) -> None:
    async with bed.site() as site:
        live = await published(site, await drafted(site, article := fresh_article()), article)
        await bed.person("DELETE", f"/wp/v2/posts/{live.resource_id}?force=true")
        answer = await carry_out(site.unpublish(post_id=live.resource_id, expected_version=live.version))
        assert answer == Refused(failure=FailureClass.CONFLICT, code="gone")
