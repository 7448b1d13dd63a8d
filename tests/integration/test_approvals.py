"""An approval is one person's yes to exactly these bytes at exactly this place, once."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from execution.core.events import canonical
from execution.core.states import Verdict
from execution.operations import OperationRefused
from execution.proposal import Proposal
from tests.integration.passage import CANCEL, CREATE, PUBLISH, RECORD, STAGE, TRASH
from tests.integration.world import World, proposal
from tests.operators import signed

OPERATOR = "operator:olivia"


async def subject(world: World, offered: Proposal) -> dict[str, Any]:
    """What is asked for; the request is withdrawn again."""
    command_id = await world.until_approval(offered)
    _, approval = await world.operations.pending(command_id)
    assert approval.content_hash == hashlib.sha256(approval.subject.encode()).hexdigest()
    asked: dict[str, Any] = json.loads(approval.subject)
    assert canonical(asked) == approval.subject
    await world.operations.reject(command_id, operator=OPERATOR, reason="only asked")
    assert (await world.settle(command_id)).done
    return asked


@pytest.mark.behaviour("threat.10")
@pytest.mark.behaviour("incident.65")
@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"content": "# How to brew coffee\n\nUse fresh water!"}, ("content_sha256",)),
        ({"slug": "brewing"}, ("target", "slug")),
        ({"notify": ["board"]}, ("recipients",)),
        ({"publish_at": (datetime.now(UTC) + timedelta(hours=2)).isoformat()}, ("publish_at",)),
    ],
)
async def test_what_is_hashed_names_the_bytes_the_place_and_the_recipients(
    world: World, changed: dict[str, Any], where: tuple[str, ...]
) -> None:
    plain = await subject(world, proposal(notify=["team"]))
    other = await subject(world, proposal(**{"notify": ["team"], **changed}, version=2))
    for name in where:
        plain, other = plain[name], other[name]
    assert plain != other


@pytest.mark.behaviour("threat.10")
@pytest.mark.behaviour("incident.65")
@pytest.mark.behaviour("law.approval")
async def test_the_bytes_of_the_request_that_publishes_are_bound(world: World) -> None:
    one = await subject(world, proposal())
    two = await subject(world, proposal(version=2, content="# How to brew coffee\n\nUse fresh water!"))
    assert one["request_digest"] != two["request_digest"]
    assert len(one["request_digest"]) == 64


async def test_another_hash_than_the_one_asked_for_is_refused(world: World) -> None:
    command_id = await world.until_approval()
    with pytest.raises(OperationRefused, match="hash_differs"):
        await world.operations.approve(command_id, content_hash="0" * 64, operator=OPERATOR, signature="any")
    assert (await world.settle(command_id)).state == "AWAITING_APPROVAL"


ALIASES = (
    "agent:writer",
    "operator:writer",
    "writer",
    "operator:Writer",
    "WRITER",
    "Agent:WRITER",
    "mcp-host:desk",
    "operator:desk",
    "operator:DESK",
)


@pytest.mark.behaviour("threat.50")
@pytest.mark.behaviour("incident.67")
@pytest.mark.behaviour("law.four-eyes")
async def test_nobody_approves_what_they_proposed_whatever_they_call_themselves(world: World) -> None:
    command_id = await world.until_approval()
    for alias in ALIASES:
        with pytest.raises(OperationRefused, match="proposer_cannot_approve"):
            await world.approve(command_id, alias)
    assert (await world.view(command_id)).approval.state == "PENDING"


async def test_of_two_approvers_at_the_same_moment_the_second_learns_who_was_first(world: World) -> None:
    command_id = await world.until_approval()
    _, approval = await world.operations.pending(command_id)
    async with world.another() as console:

        async def approve(operations: Any, operator: str) -> str:
            try:
                await operations.approve(
                    command_id,
                    content_hash=approval.content_hash,
                    operator=operator,
                    signature=signed(approval, operator),
                )
            except OperationRefused as refused:
                return str(refused)
            return operator

        first, second = await asyncio.gather(
            approve(world.operations, "operator:olivia"), approve(console.operations, "operator:pat")
        )
    winners = [answer for answer in (first, second) if answer.startswith("operator:")]
    losers = [answer for answer in (first, second) if answer.startswith("already_decided")]
    assert (len(winners), len(losers)) == (1, 1)
    assert winners[0] in losers[0]
    assert (await world.settle(command_id)).live
    assert world.passage.sent.count(PUBLISH) == 1


@pytest.mark.behaviour("threat.11")
@pytest.mark.behaviour("incident.68")
async def test_a_used_approval_cannot_be_used_again(world: World) -> None:
    command_id = await world.until_approval()
    approval = await world.approve(command_id)
    await world.settle(command_id)
    with pytest.raises(OperationRefused, match="already_decided: CONSUMED by operator:olivia"):
        await world.operations.approve(
            command_id,
            content_hash=approval.content_hash,
            operator="operator:pat",
            signature=signed(approval, "operator:pat"),
        )
    assert (await world.settle(command_id)).state == "SUCCESS"
    assert world.passage.sent.count(PUBLISH) == 1


def meanwhile(world: World, command_id: str, act: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    async def hook() -> None:
        await act()

    return hook


async def test_a_rejection_after_the_approval_and_before_the_fence_unwinds(world: World) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)

    async def reject() -> None:
        await world.operations.reject(command_id, operator="operator:pat", reason="wrong picture")

    world.passage.before_fence[PUBLISH] = reject
    view = await world.settle(command_id)
    assert (view.state, view.ending, view.live) == ("COMPENSATED", "rejected", False)
    assert world.passage.sent == [CREATE, STAGE, CANCEL, TRASH]


async def test_a_cancellation_before_the_fence_is_kept_and_after_it_too_late(world: World) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)

    async def cancel() -> None:
        await world.operations.cancel(command_id, operator=OPERATOR, reason="stop")

    world.passage.before_fence[PUBLISH] = cancel
    view = await world.settle(command_id)
    assert (view.state, view.ending, view.live) == ("COMPENSATED", "cancelled", False)
    assert world.passage.sent == [CREATE, STAGE, CANCEL, TRASH]

    second = await world.until_approval(proposal(version=2, content="# Two"))
    await world.approve(second)
    answers: list[str] = []

    async def cancel_late() -> None:
        try:
            await world.operations.cancel(second, operator=OPERATOR, reason="stop")
        except OperationRefused as refused:
            answers.append(str(refused))

    world.passage.before_send[PUBLISH] = cancel_late
    view = await world.settle(second)
    assert answers == ["too_late: PUBLISH_WORDPRESS_POST has begun and its outcome is being found out"]
    assert (view.state, view.live) == ("SUCCESS", True)
    with pytest.raises(OperationRefused, match="already_ended: PUBLISH_WORDPRESS_POST succeeded on"):
        await world.operations.cancel(second, operator=OPERATOR, reason="stop")


@pytest.mark.parametrize("step", [CREATE, STAGE])
async def test_a_cancellation_just_before_a_fence_sends_nothing_more(world: World, step: str) -> None:
    command_id = await world.accepted()

    async def cancel() -> None:
        await world.operations.cancel(command_id, operator=OPERATOR, reason="stop")

    world.passage.before_fence[step] = cancel
    view = await world.settle(command_id)
    assert view.ending == "cancelled"
    assert world.passage.sent == ([] if step == CREATE else [CREATE, TRASH])
    with pytest.raises(OperationRefused, match="not_awaiting_approval"):
        await world.approve(command_id)


async def test_what_is_being_cancelled_is_not_approved_any_more(world: World) -> None:
    command_id = await world.until_approval()
    _, approval = await world.operations.pending(command_id)
    await world.operations.cancel(command_id, operator=OPERATOR, reason="stop")
    with pytest.raises(OperationRefused, match="too_late"):
        await world.operations.approve(
            command_id, content_hash=approval.content_hash, operator=OPERATOR, signature=signed(approval, OPERATOR)
        )
    assert (await world.settle(command_id)).ending == "cancelled"


async def test_nobodys_yes_in_time_unwinds_with_the_reason(world: World) -> None:
    command_id = await world.until_approval()
    _, approval = await world.operations.pending(command_id)
    world.clock.move_on(72 * 3600 + 1)
    with pytest.raises(OperationRefused, match="approval_expired"):
        await world.operations.approve(
            command_id, content_hash=approval.content_hash, operator=OPERATOR, signature=signed(approval, OPERATOR)
        )
    view = await world.settle(command_id)
    assert (view.state, view.ending) == ("COMPENSATED", "approval_expired")
    assert "Nobody approved it in time" in view.say_to_user
    assert world.passage.sent == [CREATE, STAGE, CANCEL, TRASH]


async def test_a_restart_while_waiting_runs_no_earlier_step_again(world: World) -> None:
    command_id = await world.until_approval()
    async with world.another() as restarted:
        await world.approve(command_id)
        view = await world.settle(command_id, restarted)
    assert view.live
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]


async def draft_of(world: World, command_id: str) -> int:
    return int((await world.step(command_id, "CREATE_WORDPRESS_DRAFT")).external_resource_id or "0")


@pytest.mark.behaviour("law.lost-update")
async def test_an_edit_between_approval_and_publication_is_a_conflict_and_nothing_is_overwritten(world: World) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)
    post = await draft_of(world, command_id)
    await world.edit(post, content="A person's words")
    view = await world.settle(command_id)
    assert (view.state, view.live, view.answers.executed) == ("NEEDS_REVIEW", False, "no")
    assert [(r.kind, r.step) for r in view.reviews] == [("CONFLICT", "PUBLISH_WORDPRESS_POST")]
    assert view.approval.state == "VOID"
    assert view.answers.diverged
    facts = json.loads((await world.review(command_id)).facts)
    assert (facts["code"], facts["difference"]) == ("changed", ["content"])
    real = world.reality()
    assert (real.posts[str(post)]["content"], real.posts[str(post)]["status"]) == ("A person's words", "draft")
    assert PUBLISH not in world.passage.sent


async def test_a_rebase_leads_back_to_a_new_approval_and_then_publishes(world: World) -> None:
    command_id = await world.until_approval()
    first = await world.approve(command_id)
    post = await draft_of(world, command_id)
    await world.edit(post, content="A person's words")
    await world.settle(command_id)
    view = await world.rule(command_id, Verdict.REBASE)
    assert (view.state, view.reviews) == ("AWAITING_APPROVAL", ())
    _, asked = await world.operations.pending(command_id)
    assert asked.content_hash != first.content_hash
    assert "content" in json.loads(asked.subject)["difference"]
    await world.approve(command_id)
    view = await world.settle(command_id)
    assert (view.state, view.live) == ("SUCCESS", True)
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]
    assert len(world.reality().live) == 1


async def test_a_second_edit_after_the_rebase_is_a_conflict_again(world: World) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)
    post = await draft_of(world, command_id)
    await world.edit(post, content="A person's words")
    await world.settle(command_id)
    await world.rule(command_id, Verdict.REBASE)
    await world.approve(command_id)
    await world.edit(post, content="More of them")
    view = await world.settle(command_id)
    assert view.state == "NEEDS_REVIEW"
    assert world.reality().posts[str(post)]["content"] == "More of them"


async def test_abandoning_a_conflict_leaves_the_persons_words_alone(world: World) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)
    post = await draft_of(world, command_id)
    await world.edit(post, content="A person's words")
    await world.settle(command_id)
    view = await world.rule(command_id, Verdict.ABANDON)
    assert (view.state, view.answers.compensation, view.done) == ("NEEDS_REVIEW", "failed", False)
    assert world.reality().status_of(str(post)) == "draft"
    assert world.passage.sent == [CREATE, STAGE, CANCEL]


async def test_a_draft_edited_before_the_approval_is_a_finding(world: World) -> None:
    async def edit() -> None:
        await world.edit(1, content="A person's words")

    world.passage.before_fence[STAGE] = edit
    command_id = await world.accepted()
    view = await world.settle(command_id)
    assert (view.state, [r.kind for r in view.reviews]) == ("NEEDS_REVIEW", ["VALIDATION_FINDINGS"])
    assert json.loads((await world.review(command_id)).facts)["findings"][0]["code"] == "draft_changed"
    view = await world.rule(command_id, Verdict.ABANDON)
    assert view.ending == "abandoned"
    assert world.reality().posts["1"]["content"] == "A person's words"


async def unaskable(world: World) -> str:
    """A person accepted a finding about the draft, and now nobody can be shown what they would approve."""

    async def edit() -> None:
        await world.edit(1, content="A person's words")

    world.passage.before_fence[STAGE] = edit
    command_id = await world.accepted()
    await world.settle(command_id)
    view = await world.rule(command_id, Verdict.CONTINUE)
    assert [(r.kind, r.step) for r in view.reviews] == [("STUCK", "HUMAN_APPROVAL")]
    return command_id


async def test_a_question_that_cannot_be_asked_is_left_to_the_person_who_is_asked_about_it(world: World) -> None:
    original = None

    async def remember() -> None:
        nonlocal original
        original = world.reality().posts["1"]["content"]

    world.passage.after_send[CREATE] = remember
    command_id = await unaskable(world)
    written = len(await world.facts(command_id))
    world.clock.move_on(3_600)
    await world.settle(command_id)
    assert len(await world.facts(command_id)) == written
    await world.edit(1, content=original)
    view = await world.rule(command_id, Verdict.CONTINUE, "put it back")
    assert (view.state, view.reviews) == ("AWAITING_APPROVAL", ())


async def test_a_question_that_cannot_be_asked_may_be_given_up(world: World) -> None:
    command_id = await unaskable(world)
    view = await world.rule(command_id, Verdict.ABANDON)
    assert view.ending == "abandoned"
    assert world.reality().row(await world.saga(command_id)) == "cancelled"


async def test_an_approval_shows_what_the_site_stored_differently(world: World) -> None:
    """An author's account may not store a script; the person sees that before saying yes."""
    command_id = await world.until_approval(replace(proposal(), content_media_type="text/markdown"))
    _, approval = await world.operations.pending(command_id)
    assert json.loads(approval.subject)["difference"] == []
