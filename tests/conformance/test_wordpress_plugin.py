"""The port `WordPress` on a site with the must-use plugin that the package ships: stand-in and real site agree."""

import asyncio
import html
import json

from adapters.wordpress import WordPressSite
from execution.core.failures import Absent, CannotTell, FailureClass, Landed, Lost, Present, Receipt, Refused
from tests.conformance.beds import Bed, carry_out, fresh_article, fresh_marker
from tests.conformance.test_wordpress_port import drafted, foreign, present, published
from tests.services import WordPress

POSTS = "/wp/v2/posts"
TOGETHER = 20
DESCRIPTION = 'Tom & Jerry’s "brew": 1 < 2, 100 %20 \\ 猫'


async def kept(bed: Bed, receipt: Receipt) -> str:
    """The description that the site keeps."""
    stored = await bed.person("GET", f"{POSTS}/{receipt.resource_id}?context=edit")
    meta = stored["meta"]
    return str(meta["_remit_description"]) if isinstance(meta, dict) else ""


# One post for one key


async def test_a_second_create_is_doubt_that_the_read_back_resolves(keyed_bed: Bed) -> None:
    async with keyed_bed.site(plugin=True) as site:
        assert (site.key_strategy, await site.check()) == ("plugin", ())
        marker, article = fresh_marker(), fresh_article()
        assert await site.observe_draft(marker=marker, article=article, known_id=None) == Absent()
        receipt = await drafted(site, article, marker)
        assert receipt.data["key_strategy"] == "plugin"
        again = await carry_out(await site.create_draft(marker=marker, article=article))
        assert again == Lost(code="already_exists")
        assert await site.observe_draft(marker=marker, article=article, known_id=None) == Present(receipt=receipt)


async def test_of_twenty_creates_at_once_under_one_key_one_makes_a_post(keyed_bed: Bed) -> None:
    async with keyed_bed.site(plugin=True) as site:
        marker, article = fresh_marker(), fresh_article()
        writes = [await site.create_draft(marker=marker, article=article) for _ in range(TOGETHER)]
        answers = await asyncio.gather(*(carry_out(write) for write in writes))
        made = [answer for answer in answers if isinstance(answer, Landed)]
        assert (len(made), len(answers)) == (1, TOGETHER)
        seen = present(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.rows, seen.receipt) == (1, made[0].receipt)


async def test_of_twenty_creates_at_once_one_row_stands_in_the_database(wordpress: WordPress) -> None:
    marker = fresh_marker()
    body = {"title": "x", "status": "draft", "meta": {"_remit_key": marker}}
    with wordpress.key_plugin():
        calls = (asyncio.to_thread(wordpress.rest, "POST", "/wp/v2/posts", body, role="editor") for _ in range(8))
        answers = await asyncio.gather(*calls)
    assert sorted(answer.status for answer in answers) == [201, *[409] * 7]
    found = wordpress.sql(f"SELECT post_id FROM wp_postmeta WHERE meta_key = '_remit_key' AND meta_value = '{marker}'")
    assert len(found) == 1


async def test_a_key_in_the_trash_is_taken_too(keyed_bed: Bed) -> None:
    async with keyed_bed.site(plugin=True) as site:
        marker, article = fresh_marker(), fresh_article()
        receipt = await drafted(site, article, marker)
        await keyed_bed.person("DELETE", f"{POSTS}/{receipt.resource_id}")
        answer = await carry_out(await site.create_draft(marker=marker, article=article))
        assert answer == Lost(code="already_exists")
        assert foreign(await site.observe_draft(marker=marker, article=article, known_id=None)).code == "trashed"


async def test_a_renamed_draft_is_still_ours(keyed_bed: Bed) -> None:
    async with keyed_bed.site(plugin=True) as site:
        marker, article = fresh_marker(), fresh_article()
        receipt = await drafted(site, article, marker)
        await keyed_bed.person("POST", f"{POSTS}/{receipt.resource_id}", {"slug": f"other-{marker[:8]}"})
        seen = present(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.rows, seen.receipt.resource_id) == (1, receipt.resource_id)


async def test_a_key_is_shown_to_editors_alone_and_changed_by_nobody_else(keyed_bed: Bed) -> None:
    async with keyed_bed.site(plugin=True) as site:
        marker, article = fresh_marker(), fresh_article()
        draft = await drafted(site, article, marker)
        await published(site, draft, article)
        status, body = await keyed_bed.rest("GET", f"{POSTS}/{draft.resource_id}", role=None)
        assert (status, marker in json.dumps(body)) == (200, False)
        meta = {"meta": {"_remit_key": "stolen"}}
        status, _ = await keyed_bed.rest("POST", f"{POSTS}/{draft.resource_id}", meta, role="author")
        assert status == 403
        status, _ = await keyed_bed.rest("GET", "/remit/v1/plugin", role=None)
        assert status == 401


# Only over what is expected


async def test_a_write_over_something_else_is_refused_by_the_site(keyed_bed: Bed) -> None:
    async with keyed_bed.site(plugin=True) as site:
        article = fresh_article()
        draft = await drafted(site, article)
        await keyed_bed.person("POST", f"{POSTS}/{draft.resource_id}", {"content": "<p>edited</p>"})
        write = await site.publish(post_id=draft.resource_id, expected_version=draft.version, article=article)
        assert await carry_out(write) == Refused(failure=FailureClass.CONFLICT, code="changed")
        stored = await keyed_bed.person("GET", f"{POSTS}/{draft.resource_id}?context=edit")
        assert (stored["status"], stored["content"]["raw"]) == ("draft", "<p>edited</p>")


async def test_a_live_post_of_before_the_plugin_is_written_over_under_the_same_version(keyed_bed: Bed) -> None:
    article = fresh_article()
    async with keyed_bed.site() as plain:
        live = await published(plain, await drafted(plain, article), article)
    async with keyed_bed.site(plugin=True) as site:
        later = fresh_article(slug=article.slug, title="Second")
        look = {"post_id": live.resource_id, "expected_version": live.version}
        assert await site.observe_publication(**look, article=later) == Absent(receipt=live)
        assert isinstance(await carry_out(await site.update(**look, article=later)), Landed)
        stale = await carry_out(await site.update(**look, article=later))
        assert stale == Refused(failure=FailureClass.CONFLICT, code="changed")


# Meta description


async def test_a_description_is_kept_byte_for_byte_and_shown_to_search_engines(keyed_bed: Bed) -> None:
    async with keyed_bed.site(plugin=True) as site:
        marker, article = fresh_marker(), fresh_article(meta_description=DESCRIPTION)
        draft = await drafted(site, article, marker)
        assert await kept(keyed_bed, draft) == DESCRIPTION
        assert await site.observe_draft(marker=marker, article=article, known_id=None) == Present(receipt=draft)
        live = await published(site, draft, article)
        seen = await site.observe_publication(
            post_id=draft.resource_id, expected_version=draft.version, article=article
        )
        assert seen == Present(receipt=live)
        page = await keyed_bed.file(live.reference)
        assert page is not None
        assert (
            f'<meta name="description" content="{html.escape(DESCRIPTION)}">'.replace("&#x27;", "&#039;")
            in page.decode()
        )


async def test_a_description_that_was_lost_is_missing_and_can_be_added(keyed_bed: Bed) -> None:
    async with keyed_bed.site(plugin=True) as site:
        marker, article = fresh_marker(), fresh_article(meta_description=DESCRIPTION)
        draft = await drafted(site, article, marker)
        await keyed_bed.person("POST", f"{POSTS}/{draft.resource_id}", {"meta": {"_remit_description": ""}})
        seen = present(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.complete, seen.mendable, seen.difference) == (False, True, ("meta_description",))
        mend = await site.complete_draft(
            post_id=draft.resource_id, expected_version=seen.receipt.version, article=article
        )
        assert isinstance(await carry_out(mend), Landed)
        assert present(await site.observe_draft(marker=marker, article=article, known_id=None)).complete
        assert await kept(keyed_bed, draft) == DESCRIPTION


async def test_without_the_plugin_a_description_is_named_as_not_kept_and_nothing_is_missing(bed: Bed) -> None:
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article(meta_description=DESCRIPTION)
        draft = await drafted(site, article, marker)
        assert draft.data["key_strategy"] == "slug"
        seen = present(await site.observe_draft(marker=marker, article=article, known_id=None))
        assert (seen.complete, seen.mendable, seen.difference) == (True, False, ("meta_description",))


# A site that should have it and has it not


async def test_without_the_plugin_the_plugin_strategy_proves_no_absence_and_writes_nothing(bed: Bed) -> None:
    missing = CannotTell(code="plugin_missing")
    async with bed.site(plugin=True) as site:
        assert await site.check() == ("plugin_missing",)
        seen = await site.observe_draft(marker=fresh_marker(), article=fresh_article(), known_id=None)
        assert seen == missing
        assert await publication_of(bed, site) == missing


async def publication_of(bed: Bed, site: WordPressSite) -> object:
    """What the look before a publication says of a draft that stands there unchanged."""
    article = fresh_article()
    async with bed.site() as plain:
        draft = await drafted(plain, article)
    return await site.observe_publication(post_id=draft.resource_id, expected_version=draft.version, article=article)
