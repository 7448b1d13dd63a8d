"""Lost answers of the real site behind its real front: what the adapter says, and what the database says."""

import asyncio
from urllib.parse import urlsplit

from execution.core.failures import Absent, Landed, Lost, Present, Unsent
from tests.conformance.beds import carry_out, fresh_article, fresh_marker, real_bed
from tests.services import WordPress

CLOSED_MAX_S = 20.0


async def test_an_answer_that_comes_too_late_is_doubt_although_the_row_exists(wordpress: WordPress) -> None:
    wordpress.arm_next_write(after_s=1.5)
    async with real_bed(wordpress).site() as site:
        marker, article = fresh_marker(), fresh_article()
        answer = await carry_out(await site.create_draft(marker=marker, article=article), 1.0)
        assert answer == Lost(code="no_answer_in_time")
        assert isinstance(await site.observe_draft(marker=marker, article=article, known_id=None), Present)
        assert wordpress.count_posts(f"remit-{marker}") == 1


async def test_a_row_that_is_written_after_the_client_has_gone_appears_within_the_bounds(wordpress: WordPress) -> None:
    wordpress.arm_next_write(before_s=1.5)
    bed = real_bed(wordpress)
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article()
        answer = await carry_out(await site.create_draft(marker=marker, article=article), 0.7)
        assert answer == Lost(code="no_answer_in_time")
        assert await site.observe_draft(marker=marker, article=article, known_id=None) == Absent()
        async with asyncio.timeout(bed.bounds.quiescent_after_s()):
            while not isinstance(await site.observe_draft(marker=marker, article=article, known_id=None), Present):
                pass
        assert wordpress.count_posts(f"remit-{marker}") == 1


async def test_a_site_that_dies_after_the_row_is_doubt_and_the_missing_terms_are_seen(wordpress: WordPress) -> None:
    bed = real_bed(wordpress)
    name = f"tag {fresh_marker()[:8]}"
    await bed.person("POST", "/wp/v2/tags", {"name": name})
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article(tags=(name,))
        prepared = await site.create_draft(marker=marker, article=article)
        wordpress.arm_next_write(die="exit")
        assert isinstance(await carry_out(prepared), Lost)
        seen = await site.observe_draft(marker=marker, article=article, known_id=None)
        assert isinstance(seen, Present)
        assert (seen.complete, seen.difference, wordpress.count_posts(f"remit-{marker}")) == (False, ("tags",), 1)


async def test_a_request_beyond_the_maximum_run_time_is_killed_and_never_lands(wordpress: WordPress) -> None:
    wordpress.arm_next_write(before_s=wordpress.run_s + 10.0)
    bed = real_bed(wordpress)
    async with bed.site() as site:
        marker, article = fresh_marker(), fresh_article()
        answer = await carry_out(await site.create_draft(marker=marker, article=article), wordpress.run_s + 5.0)
        assert isinstance(answer, Lost)
        assert await site.observe_draft(marker=marker, article=article, known_id=None) == Absent()
        assert wordpress.count_posts(f"remit-{marker}") == 0


async def test_a_connection_that_the_front_dropped_while_the_fence_was_slow_is_unsent(wordpress: WordPress) -> None:
    address = urlsplit(wordpress.url)
    async with real_bed(wordpress).site() as site:
        marker, article = fresh_marker(), fresh_article()
        prepared = await site.create_draft(marker=marker, article=article)
        assert await prepared.connect() is None
        witness, writer = await asyncio.open_connection(address.hostname, address.port)
        assert await asyncio.wait_for(witness.read(), CLOSED_MAX_S) == b""  # opened later, and dropped already
        writer.close()
        assert await prepared.send(5.0) == Unsent(code="connection_closed")
        await prepared.close()
        assert wordpress.count_posts(f"remit-{marker}") == 0


async def test_a_lost_publication_is_recognised_by_its_read_back(wordpress: WordPress) -> None:
    async with real_bed(wordpress).site() as site:
        article = fresh_article()
        draft = await carry_out(await site.create_draft(marker=fresh_marker(), article=article))
        assert isinstance(draft, Landed)
        look = {"post_id": draft.receipt.resource_id, "expected_version": draft.receipt.version}
        prepared = await site.publish(**look, article=article)
        wordpress.arm_next_write(after_s=1.5)
        assert await carry_out(prepared, 1.0) == Lost(code="no_answer_in_time")
        seen = await site.observe_publication(**look, article=article)
        assert isinstance(seen, Present)
        assert wordpress.count_posts(article.slug, status="publish") == 1
