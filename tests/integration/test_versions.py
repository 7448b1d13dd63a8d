"""A later version is prepared beside what is live, and written over it only when nobody else has changed it."""

import asyncio
import json

import pytest

from adapters.sandbox.faults import FaultKind
from execution.core.states import Verdict
from execution.proposal import IntakeRefused
from execution.store import artifacts
from tests.integration.passage import CANCEL, CREATE, PUBLISH, RECORD, STAGE, TRASH, UPDATE
from tests.integration.world import PROPOSER, World, proposal

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


async def test_an_edit_of_the_staged_draft_after_its_approval_stops_the_publication_until_it_is_put_back(
    world: World,
) -> None:
    """What was approved is what the site had stored: whoever corrects the draft must not see the old text go live."""
    await publish_first(world)
    second = await world.until_approval(proposal(version=2, content=SECOND, content_format="html"))
    await world.approve(second)
    (draft,) = world.reality().with_status("draft")
    await world.edit(draft["id"], content="A person's words")
    view = await world.settle(second)
    assert (view.state, view.live, view.approval.state) == ("NEEDS_REVIEW", False, "VOID")
    assert [(r.kind, r.step) for r in view.reviews] == [("CONFLICT", "PUBLISH_WORDPRESS_POST")]
    facts = json.loads((await world.review(second)).facts)
    (compared,) = facts["three_way"]
    live = await world.store.read(lambda conn: artifacts.get(conn, compared["live"].removeprefix("artifact://sha256/")))
    assert live is not None
    assert (facts["code"], compared["field"], live.content) == ("draft_changed", "content", b"A person's words")
    assert world.passage.sent == [CREATE, STAGE]

    await world.edit(draft["id"], content=draft["content"])
    assert (await world.rule(second, Verdict.REBASE)).state == "AWAITING_APPROVAL"
    await world.approve(second)
    assert (await world.settle(second)).live
    assert [post["content"].strip() for post in world.reality().live] == [SECOND]


async def test_an_edited_staged_draft_is_left_alone_when_the_version_is_given_up(world: World) -> None:
    await publish_first(world)
    second = await world.until_approval(proposal(version=2, content=SECOND, content_format="html"))
    await world.approve(second)
    (draft,) = world.reality().with_status("draft")
    await world.edit(draft["id"], content="A person's words")
    await world.settle(second)
    view = await world.rule(second, Verdict.ABANDON)
    assert (view.live, view.answers.compensation) == (False, "failed")
    real = world.reality()
    assert [post["content"] for post in real.with_status("draft")] == ["A person's words"]
    assert [post["content"].strip() for post in real.live] == [FIRST]


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


async def third_over_second(world: World) -> str:
    """The id of a third version that is approved, over a second that is live."""
    await publish_first(world)
    second = await world.until_approval(proposal(version=2, content=SECOND, content_format="html"))
    await world.approve(second)
    assert (await world.settle(second)).live
    world.passage.sent.clear()
    return await world.accepted(proposal(version=3, content=THIRD, content_format="html"))


FOURTH = "<p>Fourth</p>"


@pytest.mark.behaviour("version.supersedes")
@pytest.mark.parametrize("step", [CREATE, STAGE, UPDATE])
async def test_a_fourth_version_that_comes_before_any_fence_of_the_third_takes_its_place(
    world: World, step: str
) -> None:
    third = await third_over_second(world)
    arrived: list[str] = []

    async def arrive() -> None:
        arrived.append(await world.accepted(proposal(version=4, content=FOURTH, content_format="html")))

    world.passage.before_fence[step] = arrive
    if (await world.settle(third)).state == "AWAITING_APPROVAL":
        await world.approve(third)
    view = await world.settle(third)
    made = [CREATE, STAGE][: [CREATE, STAGE, UPDATE].index(step)]
    undone = [TRASH] if made == [CREATE] else [CANCEL, TRASH] if made else []
    assert (view.ending, view.done, view.live) == ("superseded", True, False)
    assert world.passage.sent == [*made, *undone]
    assert [post["content"].strip() for post in world.reality().live] == [SECOND]

    (fourth,) = arrived
    await world.settle(fourth)
    await world.approve(fourth)
    assert (await world.settle(fourth)).live
    real = world.reality()
    assert [(post["id"], post["content"].strip()) for post in real.live] == [(1, FOURTH)]
    assert real.with_status("draft") == []
    assert world.passage.sent.count(UPDATE) == 1


@pytest.mark.parametrize("fault", [None, FaultKind.DROP_AFTER, FaultKind.DROP_BEFORE])
async def test_a_fourth_version_that_comes_after_the_fence_of_the_thirds_pivot_waits_and_is_written_over_it(
    world: World, fault: FaultKind | None
) -> None:
    third = await third_over_second(world)
    await world.settle(third)
    await world.approve(third)
    offered = proposal(version=4, content=FOURTH, content_format="html")

    async def too_early() -> None:
        with pytest.raises(IntakeRefused, match="earlier_version_in_doubt") as caught:
            await world.propose(offered)
        assert caught.value.retryable

    if fault is not None:
        world.arm("POST /wp-json/wp/v2/posts/1", fault)
    world.passage.before_send[UPDATE] = too_early
    assert (await world.settle(third)).live
    assert [post["content"].strip() for post in world.reality().live] == [THIRD]
    fourth = await world.until_approval(offered)
    await world.approve(fourth)
    assert (await world.settle(fourth)).live
    assert [(post["id"], post["content"].strip()) for post in world.reality().live] == [(1, FOURTH)]
    third_told = (await world.view(third)).say_to_user
    assert third_told == "article-0028 version 3 was published. Version 4 was published since."


async def test_whoever_is_first_of_a_fence_and_a_later_version_the_later_one_is_live_in_the_end(world: World) -> None:
    """The third version's worker and the fourth's proposal, in two processes at the same moment."""
    third = await third_over_second(world)
    await world.settle(third)
    await world.approve(third)
    offered = proposal(version=4, content=FOURTH, content_format="html")
    async with world.another() as gateway:

        async def arrive() -> str | None:
            try:
                return (await gateway.intake.propose(offered, PROPOSER)).command_id
            except IntakeRefused as refused:
                codes.append(refused.code)
                return None

        codes: list[str] = []
        _, arrived = await asyncio.gather(world.turn(third), arrive())
    view = await world.settle(third)
    assert (view.done, view.ending) in [(True, "superseded"), (True, "completed")]
    assert codes in ([], ["earlier_version_in_doubt"])
    fourth = arrived or await world.accepted(offered)
    await world.settle(fourth)
    await world.approve(fourth)
    assert (await world.settle(fourth)).live
    real = world.reality()
    assert [(post["id"], post["content"].strip()) for post in real.live] == [(1, FOURTH)]
    assert real.with_status("draft") == []
