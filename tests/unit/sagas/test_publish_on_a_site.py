"""The WordPress steps against a site on loopback: one post per article, whatever the version."""

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.sandbox.running import Sandbox
from adapters.wordpress import WordPressSite
from execution.catalog import Plan, Previous
from execution.core.command import Context
from execution.core.definition import Action, Step
from execution.core.failures import Absent, Foreign, Landed, Present, Receipt, Sighting
from execution.ports import Ports
from execution.sagas.publish_gates import HUMAN_APPROVAL, VALIDATE_PUBLICATION
from execution.sagas.publish_wordpress import CREATE_WORDPRESS_DRAFT, PUBLISH_WORDPRESS_POST, TRASH_STAGED_DRAFT
from tests.unit.sagas.world import Contents, World, planned


@dataclass
class Blog:
    """A running site with our account on it."""

    sandbox: Sandbox
    site: WordPressSite

    def posts(self) -> list[tuple[str, str]]:
        """(slug, status) of every post, oldest first."""
        posts: Any = self.sandbox.effects()["posts"]
        return [(post["slug"], post["status"]) for post in posts]


@pytest.fixture
async def blog(tmp_path: Path) -> AsyncIterator[Blog]:
    seconds = itertools.count(1_800_000_000, 10)
    sandbox = Sandbox(tmp_path / "state.db", lambda: float(next(seconds)))
    await sandbox.start()
    site = WordPressSite(sandbox.url, "editor1", "sandbox-editor1", sandbox.settings.bounds())
    yield Blog(sandbox, site)
    await site.aclose()
    await sandbox.stop()


class Run:
    """One version's saga, step by step, without an engine."""

    def __init__(self, blog: Blog, plan: Plan) -> None:
        self.world = World(plan)
        self.ports = Ports(artifacts=Contents(dict(plan.artifacts)), wordpress={"blog": blog.site})

    def context(self, step: str) -> Context:
        return self.world.context(step)

    async def do(self, step: Step[Ports], action: Action[Ports] | None = None) -> Receipt:
        """Prepare, connect, send, record; the receipt."""
        prepared = await (action or step.action).forward(self.ports, self.context(step.name))
        try:
            assert await prepared.connect() is None
            answer = await prepared.send(10.0)
        finally:
            await prepared.close()
        assert isinstance(answer, Landed), answer
        if action is None:
            self.world.receipts[step.name] = answer.receipt
        return answer.receipt

    async def look(self, step: Step[Ports]) -> Sighting:
        assert step.action.observe is not None
        return await step.action.observe(self.ports, self.context(step.name))

    async def verified(self, step: Step[Ports]) -> bool:
        assert step.action.verify is not None
        seen = await step.action.verify(self.ports, self.context(step.name), self.world.receipts[step.name])
        return isinstance(seen, Present) and seen.complete and seen.rows == 1

    async def findings(self) -> list[str]:
        found = await VALIDATE_PUBLICATION.check(self.ports, self.context(VALIDATE_PUBLICATION.name))
        assert isinstance(found, tuple), found
        return [finding.code for finding in found]


async def published(blog: Blog) -> tuple[Run, Previous]:
    """Version 1, live."""
    run = Run(blog, planned())
    assert isinstance(await run.look(CREATE_WORDPRESS_DRAFT), Absent)
    await run.do(CREATE_WORDPRESS_DRAFT)
    assert isinstance(await run.look(PUBLISH_WORDPRESS_POST), Absent)
    live = await run.do(PUBLISH_WORDPRESS_POST)
    previous = Previous(
        version=1, post_id=live.resource_id, external_version=live.version, url=live.reference, slug=None, live=True
    )
    return run, previous


async def test_a_first_version_is_a_hidden_draft_and_then_public_under_its_slug(blog: Blog) -> None:
    run = Run(blog, planned())
    await run.do(CREATE_WORDPRESS_DRAFT)
    marker = run.context(CREATE_WORDPRESS_DRAFT.name).marker
    assert blog.posts() == [(f"remit-{marker}", "draft")]
    assert await run.verified(CREATE_WORDPRESS_DRAFT)
    assert await run.findings() == []
    shown = await HUMAN_APPROVAL.subject(run.ports, run.context(PUBLISH_WORDPRESS_POST.name))
    assert isinstance(shown, dict)
    assert shown["difference"] == []
    await run.do(PUBLISH_WORDPRESS_POST)
    assert await run.verified(PUBLISH_WORDPRESS_POST)
    assert blog.posts() == [("how-to-brew", "publish")]


async def test_a_draft_that_is_not_wanted_ends_in_the_trash(blog: Blog) -> None:
    run = Run(blog, planned())
    await run.do(CREATE_WORDPRESS_DRAFT)
    compensation = CREATE_WORDPRESS_DRAFT.compensation
    assert compensation is not None
    assert compensation.verify is not None
    trashed = await run.do(CREATE_WORDPRESS_DRAFT, compensation)
    seen = await compensation.verify(run.ports, run.context(CREATE_WORDPRESS_DRAFT.name), trashed)
    assert isinstance(seen, Present)
    assert [status for _, status in blog.posts()] == ["trash"]


async def test_a_later_version_leaves_the_live_post_alone_until_its_pivot_writes_over_it(blog: Blog) -> None:
    _, previous = await published(blog)
    run = Run(blog, planned(content="second text", version=2, previous=previous))
    assert isinstance(await run.look(CREATE_WORDPRESS_DRAFT), Absent)
    await run.do(CREATE_WORDPRESS_DRAFT)
    assert [status for _, status in blog.posts()] == ["publish", "draft"]
    assert await run.verified(CREATE_WORDPRESS_DRAFT)
    assert await run.findings() == []
    assert isinstance(await run.look(PUBLISH_WORDPRESS_POST), Absent)
    live = await run.do(PUBLISH_WORDPRESS_POST)
    assert live.resource_id == previous.post_id
    assert await run.verified(PUBLISH_WORDPRESS_POST)
    await run.do(TRASH_STAGED_DRAFT)
    assert await run.verified(TRASH_STAGED_DRAFT)
    assert [(status, slug == "how-to-brew") for slug, status in blog.posts()] == [("publish", True), ("trash", False)]


async def test_a_person_who_edits_the_live_post_stops_the_later_version(blog: Blog) -> None:
    _, previous = await published(blog)
    run = Run(blog, planned(content="second text", version=2, previous=previous))
    await run.do(CREATE_WORDPRESS_DRAFT)
    person = Run(blog, planned(content="a person's text", version=2, previous=previous))
    person.world.receipts = run.world.receipts
    await person.do(PUBLISH_WORDPRESS_POST)
    assert await run.findings() == ["live_changed"]
    seen = await run.look(PUBLISH_WORDPRESS_POST)
    assert isinstance(seen, Foreign)
    assert seen.code == "changed"


async def test_another_article_at_the_same_address_is_foreign(blog: Blog) -> None:
    await published(blog)
    other = Run(blog, planned(title="How to brew"))
    other.world.generation = "#abcdefghijklmnop"
    seen = await other.look(CREATE_WORDPRESS_DRAFT)
    assert isinstance(seen, Foreign)
    assert seen.code == "slug_taken"


async def test_an_address_taken_after_the_draft_was_made_is_found_before_the_pivot(blog: Blog) -> None:
    run = Run(blog, planned())
    await run.do(CREATE_WORDPRESS_DRAFT)
    other = Run(blog, planned(content="other text"))
    other.world.generation = "#abcdefghijklmnop"
    await other.do(CREATE_WORDPRESS_DRAFT)
    await other.do(PUBLISH_WORDPRESS_POST)
    assert await run.findings() == ["slug_taken"]
    seen = await run.look(PUBLISH_WORDPRESS_POST)
    assert isinstance(seen, Foreign)


async def test_a_site_that_renames_the_address_in_silence_is_found_out(blog: Blog) -> None:
    run = Run(blog, planned())
    await run.do(CREATE_WORDPRESS_DRAFT)
    other = Run(blog, planned(content="other text"))
    other.world.generation = "#abcdefghijklmnop"
    await other.do(CREATE_WORDPRESS_DRAFT)
    await other.do(PUBLISH_WORDPRESS_POST)
    await run.do(PUBLISH_WORDPRESS_POST)
    seen = await run.look(PUBLISH_WORDPRESS_POST)
    assert isinstance(seen, Present)
    assert (seen.complete, "slug" in seen.difference) == (False, True)
