"""A later version is prepared beside what is live, and written over it only when nobody else has changed it."""

import asyncio

import pytest

from adapters.sandbox.faults import FaultKind
from execution.core.states import Verdict
from execution.proposal import IntakeRefused
from tests.integration.passage import CREATE, PUBLISH, RECORD, STAGE, TRASH, UPDATE
from tests.integration.world import World, proposal

FIRST, SECOND, THIRD = "<p>First</p>", "<p>Second</p>", "<p>Third</p>"


async def publish_first(world: World) -> str:
    command_id = await world.published(proposal(content=FIRST, content_format="html"))
    world.passage.sent.clear()
    return command_id


async def test_a_second_version_leaves_what_is_live_alone_until_its_pivot_writes_over_it(world: World) -> None:
    await publish_first(world)
    second = await world.until_approval(proposal(version=2, content=SECOND, content_format="html"))
    real = world.reality()
    assert [(post["id"], post["content"].strip()) for post in real.live] == [(1, FIRST)]
    assert [post["content"].strip() for post in real.with_status("draft")] == [SECOND]
    await world.approve(second)
    view = await world.settle(second)
    assert (view.state, view.live) == ("SUCCESS", True)
    real = world.reality()
    assert [(post["id"], post["content"].strip()) for post in real.live] == [(1, SECOND)]
    assert [post["id"] for post in real.with_status("trash")] == [2]
    assert world.passage.sent == [CREATE, STAGE, UPDATE, RECORD, TRASH]
    assert [row["status"] for row in real.rows] == ["published", "published"]


async def test_a_second_version_supersedes_a_first_one_that_has_not_reached_its_pivot(world: World) -> None:
    first = await world.until_approval(proposal(content=FIRST, content_format="html"))
    second = await world.accepted(proposal(version=2, content=SECOND, content_format="html"))
    await world.turn(second)
    assert "LOCKED" in (await world.view(second)).blockers
    view = await world.settle(first)
    assert (view.state, view.ending) == ("COMPENSATED", "superseded")
    assert (await world.settle(second)).state == "AWAITING_APPROVAL"
    await world.approve(second)
    assert (await world.settle(second)).live
    assert [post["content"].strip() for post in world.reality().live] == [SECOND]


async def test_a_second_version_that_arrives_just_before_the_fence_of_the_first_stops_it(world: World) -> None:
    first = await world.until_approval(proposal(content=FIRST, content_format="html"))
    await world.approve(first)

    async def arrive() -> None:
        await world.propose(proposal(version=2, content=SECOND, content_format="html"))

    world.passage.before_fence[PUBLISH] = arrive
    view = await world.settle(first)
    assert (view.state, view.ending) == ("COMPENSATED", "superseded")
    assert PUBLISH not in world.passage.sent
    assert world.reality().live == []


async def test_a_second_version_waits_while_the_first_is_past_its_pivot(world: World) -> None:
    first = await world.until_approval(proposal(content=FIRST, content_format="html", notify=["team"]))
    await world.approve(first)
    world.arm("SMTP MAIL", FaultKind.DELAY, seconds=0.0)
    held: list[str] = []

    async def arrive() -> None:
        second = await world.accepted(proposal(version=2, content=SECOND, content_format="html"))
        await world.turn(second)
        view = await world.view(second)
        held.append(second)
        assert view.state == "LOCKED"
        assert view.waiting_for is not None
        assert world.passage.sent.count(CREATE) == 1

    world.passage.before_fence[RECORD] = arrive
    assert (await world.settle(first)).state == "SUCCESS"
    (second,) = held
    assert (await world.settle(second)).state == "AWAITING_APPROVAL"
    await world.approve(second)
    assert (await world.settle(second)).live
    assert [(post["id"], post["content"].strip()) for post in world.reality().live] == [(1, SECOND)]


async def test_an_edit_of_what_is_live_stops_the_next_version_and_stays(world: World) -> None:
    await publish_first(world)
    second = await world.until_approval(proposal(version=2, content=SECOND, content_format="html"))
    await world.approve(second)
    await world.edit(1, content="A person's words")
    view = await world.settle(second)
    assert (view.state, [r.kind for r in view.reviews]) == ("NEEDS_REVIEW", ["CONFLICT"])
    assert [post["content"] for post in world.reality().live] == ["A person's words"]
    assert UPDATE not in world.passage.sent

    view = await world.rule(second, Verdict.REBASE)
    assert view.state == "AWAITING_APPROVAL"
    await world.approve(second)
    assert (await world.settle(second)).live
    assert [post["content"].strip() for post in world.reality().live] == [SECOND]


async def test_an_edit_before_the_gate_is_a_finding_and_a_later_version_needs_to_say_what_it_knows(
    world: World,
) -> None:
    await publish_first(world)
    await world.edit(1, content="A person's words")
    second = await world.accepted(proposal(version=2, content=SECOND, content_format="html"))
    view = await world.settle(second)
    assert (view.state, [r.kind for r in view.reviews]) == ("NEEDS_REVIEW", ["VALIDATION_FINDINGS"])
    assert [post["content"] for post in world.reality().live] == ["A person's words"]


async def test_the_base_version_that_status_shows_is_the_one_a_proposal_may_name(world: World) -> None:
    first = await publish_first(world)
    shown = (await world.view(first)).external_version
    assert shown is not None
    named = proposal(version=2, content=SECOND, content_format="html", base_version=shown)
    assert (await world.view(await world.until_approval(named))).state == "AWAITING_APPROVAL"


async def test_a_base_version_that_is_no_longer_there_is_a_finding(world: World) -> None:
    await publish_first(world)
    named = proposal(version=2, content=SECOND, content_format="html", base_version="of-some-other-day")
    view = await world.settle(await world.accepted(named))
    assert (view.state, [r.kind for r in view.reviews]) == ("NEEDS_REVIEW", ["VALIDATION_FINDINGS"])


async def test_a_base_version_of_what_was_never_published_is_refused(world: World) -> None:
    with pytest.raises(IntakeRefused, match="base_version_unknown"):
        await world.propose(proposal(base_version="anything"))


async def test_many_versions_at_once_end_with_the_newest_live_and_nothing_left_over(world: World) -> None:
    offered = [proposal(version=n, content=f"<p>{n}</p>", content_format="html") for n in (1, 2, 3)]
    ids = [await world.accepted(one) for one in offered]
    await asyncio.gather(*(world.turn(c) for c in ids))
    endings = [(await world.settle(c)).ending for c in ids[:2]]
    assert endings == ["superseded", "superseded"]
    assert (await world.settle(ids[2])).state == "AWAITING_APPROVAL"
    await world.approve(ids[2])
    await world.settle(ids[2])
    real = world.reality()
    assert [post["content"].strip() for post in real.live] == ["<p>3</p>"]
    assert real.with_status("draft") == []
