"""A real WordPress whose PHP ends right after it wrote the row: by `exit` (200 and nothing), by a fatal error (500), or
killed. What it writes after the row (terms, sizes, texts) is missing then.

What stands in the end is read from the site's database.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.real import (
    RealHome,
    fresh_name,
    mails_of,
    quiescence_s,
    real_home,
    rows_of,
    statuses_of,
    wait_until_taken,
    working,
)
from tests.e2e.world import Agent, agent, answer
from tests.pictures import png
from tests.services import Mailbox, WordPress

ENDS: Final = ("exit", "fatal", "kill")
DRAFT, PUBLISH, UPLOAD = "CREATE_WORDPRESS_DRAFT", "PUBLISH_WORDPRESS_POST", "UPLOAD_FEATURED_IMAGE"


class Articles:
    """One article for each way to end, on one home."""

    def __init__(self, home: RealHome, site: WordPress, writer: Agent) -> None:
        self.home, self.site, self.writer = home, site, writer
        self.names = {end: f"{fresh_name()}-{end}" for end in ENDS}
        self.tag = fresh_name()
        made = site.rest("POST", "/wp/v2/tags", {"name": self.tag}, role="editor")
        assert made.status == 201, made

    async def propose(self, end: str, version: int = 1, **more: Any) -> str:
        name = self.names[end]
        article = {"article_id": name, "version": version, "site": "blog", "title": f"Half {name}", "notify": ["team"]}
        accepted = await self.writer.call(
            "propose_publish", **article, content=f"Version {version} of {name}.", wait_seconds=0, **more
        )
        return str(answer(accepted)["command_id"])

    async def asked(self, command_id: str) -> str:
        found = await self.writer.settled(command_id)
        assert (found["state"], found["live"]) == ("AWAITING_APPROVAL", False), found
        return str(found["approval"]["content_hash"])

    async def is_live(self, command_id: str, end: str) -> None:
        found = await self.writer.settled(command_id)
        assert (found["state"], found["live"], found["done"]) == ("SUCCESS", True, True), (end, found)

    def tags(self, end: str, status: str) -> list[str]:
        """Names of the tags of the article's post with that status."""
        (row,) = (row for row in rows_of(self.site, self.names[end]) if row.status == status)
        found = self.site.sql(
            "SELECT name FROM wp_term_relationships r JOIN wp_term_taxonomy x USING (term_taxonomy_id)"
            f" JOIN wp_terms t USING (term_id) WHERE r.object_id = {row.post_id} AND x.taxonomy = 'post_tag'"
        )
        return [name for (name,) in found]

    def tries(self, command_id: str, step: str) -> int:
        return len(self.home.fences(command_id, step))


@pytest.mark.behaviour("mend.whole")
async def test_however_php_ends_after_a_row_the_article_ends_whole(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path
) -> None:
    home = real_home(tmp_path, wordpress, smtp)
    home.issue("--uses", "6", "--open", "6")
    async with agent(home, "--no-worker") as writer:
        articles = Articles(home, wordpress, writer)
        with working(home):
            first = await drafts_end_whole(articles)
            await publications_end_whole(articles, first)
            await updates_end_whole(articles)
    for name in articles.names.values():
        assert (statuses_of(wordpress, name), mails_of(smtp, name)) == (["publish", "trash"], 2)
    assert home.remit("review", "ls").document["reviews"] == []
    assert home.remit("verify").document["ok"] is True


async def drafts_end_whole(articles: Articles) -> Mapping[str, tuple[str, str]]:
    """PHP ends at the creation of each draft: the row is found, and its tag added once nothing can follow any more."""
    commands = {}
    for end in ENDS:
        articles.site.arm_next_write(die=end)
        commands[end] = await articles.propose(end, tags=[articles.tag])
        wait_until_taken(articles.site)
    asked = {end: (command_id, await articles.asked(command_id)) for end, command_id in commands.items()}
    for end, command_id in commands.items():
        assert statuses_of(articles.site, articles.names[end]) == ["draft"], end
        assert (articles.tags(end, "draft"), articles.tries(command_id, DRAFT)) == ([articles.tag], 2), end
        begun, mended = articles.home.fences(command_id, DRAFT)
        assert (mended - begun) / 1000.0 >= quiescence_s(articles.site), end
    return asked


async def publications_end_whole(articles: Articles, asked: Mapping[str, tuple[str, str]]) -> None:
    """PHP ends at each publication: the post is public all the same, nothing is missing, nothing is sent again."""
    for end in ENDS:
        articles.site.arm_next_write(die=end)
        with articles.home.approving(*asked[end]):
            wait_until_taken(articles.site)
    for end, (command_id, _) in asked.items():
        await articles.is_live(command_id, end)
        assert (articles.tags(end, "publish"), articles.tries(command_id, PUBLISH)) == ([articles.tag], 1), end


async def updates_end_whole(articles: Articles) -> None:
    """A second version brings a second tag; PHP ends before it is written to the public post."""
    second = fresh_name()
    assert articles.site.rest("POST", "/wp/v2/tags", {"name": second}, role="editor").status == 201
    commands = {end: await articles.propose(end, 2, tags=[articles.tag, second]) for end in ENDS}
    asked = {end: await articles.asked(command_id) for end, command_id in commands.items()}
    for end in ENDS:
        articles.site.arm_next_write(die=end)
        with articles.home.approving(commands[end], asked[end]):
            wait_until_taken(articles.site)
    for end, command_id in commands.items():
        await articles.is_live(command_id, end)
        assert sorted(articles.tags(end, "publish")) == sorted([articles.tag, second]), end
        assert articles.tries(command_id, PUBLISH) == 2, end


@pytest.mark.behaviour("mend.whole")
async def test_however_php_ends_after_the_row_of_an_image_one_whole_image_stands(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path
) -> None:
    home = real_home(tmp_path, wordpress, smtp)
    home.issue("--uses", "3", "--open", "3")
    async with agent(home, "--no-worker") as writer:
        articles = Articles(home, wordpress, writer)
        with working(home):
            commands, refs = {}, {}
            for end in ENDS:
                refs[end] = home.stored(f"{end}.png", png(1, 700, 500) + articles.names[end].encode())
                wordpress.arm_next_write(die=end)
                commands[end] = await articles.propose(end, featured_image=refs[end])
                wait_until_taken(wordpress)
            for end, command_id in commands.items():
                await articles.asked(command_id)
                sha256 = refs[end].rpartition("/")[2]
                (image,) = (image for image in wordpress.images() if sha256[:16] in image.slug)
                found = (image.sha256, image.processed, image.alt)
                assert found == (sha256, True, f"Half {articles.names[end]}"), end
                (draft,) = rows_of(wordpress, articles.names[end])
                assert wordpress.featured_image(draft.post_id) == image.media_id
                assert articles.tries(command_id, UPLOAD) == 3, end
    assert home.remit("review", "ls").document["reviews"] == []
