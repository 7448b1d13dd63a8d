"""A person's verdict is put to the facts by a worker, obeys quiescence, and is recorded with what was found."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from adapters.sandbox.faults import FaultKind
from execution.core.quiescence import Bounds
from execution.core.states import Verdict
from execution.operations import OperationRefused
from execution.store import schema
from tests.integration.passage import CANCEL, CREATE, NOTIFY, STAGE, TRASH
from tests.integration.world import World, proposal, world_at
from tests.operators import ruled

NOTIFYING = proposal(notify=["team"])


@pytest.fixture
async def unbounded(tmp_path: Path) -> AsyncIterator[World]:
    """A site of which nobody knows how long a request may run."""
    async with world_at(tmp_path, bounds=Bounds()) as made:
        yield made


async def lost_mail(world: World, kind: FaultKind) -> str:
    command_id = await world.until_approval(NOTIFYING)
    await world.approve(command_id)
    world.arm("SMTP DATA", kind)
    view = await world.settle(command_id)
    assert (view.state, [(r.kind, r.step) for r in view.reviews]) == (
        "NEEDS_REVIEW",
        [("OUTCOME_UNKNOWN", "SEND_NOTIFICATION")],
    )
    assert view.live
    return command_id


async def rulings(world: World, command_id: str) -> list[dict[str, Any]]:
    events = await world.first.status.journal(command_id)
    return [json.loads(event.body) for event in events if event.type == "RULED"]


async def test_a_lost_mail_ruled_present_ends_the_saga_without_another(world: World) -> None:
    command_id = await lost_mail(world, FaultKind.DROP_AFTER)
    view = await world.rule(command_id, Verdict.PRESENT, "Ann has it")
    assert (view.state, view.done, view.live) == ("SUCCESS", True, True)
    assert world.passage.sent.count(NOTIFY) == 1
    (ruled,) = await rulings(world, command_id)
    assert (ruled["by"], ruled["reason"], ruled["before"], ruled["verdict"]) == (
        "operator:olivia",
        "Ann has it",
        "NEEDS_REVIEW",
        "present",
    )


async def test_a_lost_mail_ruled_absent_is_sent_once_more_after_quiescence(world: World) -> None:
    command_id = await lost_mail(world, FaultKind.DROP_BEFORE)
    assert len(world.reality().messages) == 0
    world.clock.move_on(120)
    view = await world.rule(command_id, Verdict.ABSENT)
    assert (view.state, view.done) == ("SUCCESS", True)
    assert len(world.reality().messages) == 1
    assert world.passage.sent.count(NOTIFY) == 2


@pytest.mark.behaviour("law.rulings")
async def test_an_absent_before_quiescence_is_refused_and_the_question_stays(tmp_path: Path) -> None:
    slow = Bounds(max_run_s=3600.0, max_run_source="the relay's own limit")
    async with world_at(tmp_path, mail_bounds=slow) as world:
        command_id = await lost_mail(world, FaultKind.DROP_BEFORE)
        view = await world.rule(command_id, Verdict.ABSENT)
        assert (view.state, len(view.reviews)) == ("NEEDS_REVIEW", 1)
        assert [ruled.get("refused") for ruled in await rulings(world, command_id)] == ["not_quiescent"]
        assert world.passage.sent.count(NOTIFY) == 1
        world.clock.move_on(3800)
        assert (await world.rule(command_id, Verdict.ABSENT)).state == "SUCCESS"
        assert len(world.reality().messages) == 1


@pytest.mark.behaviour("law.rulings")
async def test_an_absent_of_somebody_who_looked_too_early_is_refused_however_late_it_is_carried_out(
    world: World,
) -> None:
    """The person looks at once, the worker is away until nothing can land any more, and the message came meanwhile."""
    command_id = await lost_mail(world, FaultKind.DROP_AFTER)
    review = await world.review(command_id)
    early = ruled(review.review_id, Verdict.ABSENT, "olivia", "not there", world.clock.now_ms())
    await world.operations.request_ruling(review.review_id, **early)
    assert len(world.reality().messages) == 1
    world.clock.move_on(120)
    view = await world.settle(command_id)
    assert (view.state, len(view.reviews)) == ("NEEDS_REVIEW", 1)
    assert [ruled.get("refused") for ruled in await rulings(world, command_id)] == ["not_quiescent"]
    assert world.passage.sent.count(NOTIFY) == 1
    assert (await world.rule(command_id, Verdict.PRESENT)).state == "SUCCESS"
    assert len(world.reality().messages) == 1


async def test_a_lost_mail_that_is_abandoned_is_named_in_the_ending(world: World) -> None:
    command_id = await lost_mail(world, FaultKind.DROP_BEFORE)
    world.clock.move_on(120)
    view = await world.rule(command_id, Verdict.ABANDON)
    assert (view.state, view.ending, view.live) == ("SUCCESS", "completed_with_gaps", True)
    assert "SEND_NOTIFICATION" in view.say_to_user
    assert world.reality().messages == ()


async def test_only_what_is_offered_can_be_ruled_and_only_once(world: World) -> None:
    command_id = await lost_mail(world, FaultKind.DROP_AFTER)
    review = await world.review(command_id)
    ask, now_ms = world.operations.request_ruling, world.clock.now_ms()
    with pytest.raises(OperationRefused, match="verdict_not_offered"):
        await ask(review.review_id, **ruled(review.review_id, Verdict.REBASE, "olivia", "", now_ms))
    await ask(review.review_id, **ruled(review.review_id, Verdict.PRESENT, "olivia", "seen", now_ms))
    with pytest.raises(OperationRefused, match="ruling_under_way: present by operator:olivia"):
        await ask(review.review_id, **ruled(review.review_id, Verdict.ABSENT, "pat", "no", now_ms))
    assert (await world.view(command_id)).state == "NEEDS_REVIEW"
    await world.settle(command_id)
    sent = list(world.passage.sent)
    stands = "already_decided: present by operator:olivia; PUBLISH_WORDPRESS_POST succeeded on 1 at 20[-0-9]+T[:0-9]+Z"
    with pytest.raises(OperationRefused, match=stands):
        await ask(review.review_id, **ruled(review.review_id, Verdict.ABSENT, "pat", "no", now_ms))
    await world.settle(command_id)
    assert world.passage.sent == sent


async def lost_draft(world: World, kind: FaultKind) -> str:
    """The answer to the draft is lost, and the site cannot be read until a person is asked."""
    command_id = await world.accepted()

    async def unreadable() -> None:
        world.arm("GET /wp-json/wp/v2/", FaultKind.STATUS_BEFORE, left=0, status=503)

    world.arm("POST /wp-json/wp/v2/posts", kind)
    world.passage.after_send[CREATE] = unreadable
    view = await world.settle(command_id)
    assert (view.state, [r.kind for r in view.reviews]) == ("NEEDS_REVIEW", ["OUTCOME_UNKNOWN"])
    return command_id


async def test_an_unreadable_site_proves_nothing_and_no_verdict_is_carried_out(unbounded: World) -> None:
    command_id = await lost_draft(unbounded, FaultKind.DROP_AFTER)
    for verdict, reason in ((Verdict.ABSENT, "cannot_be_read"), (Verdict.PRESENT, "not_seen_there")):
        assert (await unbounded.rule(command_id, verdict)).state == "NEEDS_REVIEW"
        assert (await rulings(unbounded, command_id))[-1]["refused"] == reason
    assert unbounded.passage.sent == [CREATE]


async def test_a_draft_that_is_there_is_not_ruled_absent_and_is_adopted_when_ruled_present(unbounded: World) -> None:
    command_id = await lost_draft(unbounded, FaultKind.DROP_AFTER)
    unbounded.sandbox.faults.clear()
    assert (await unbounded.rule(command_id, Verdict.ABSENT)).state == "NEEDS_REVIEW"
    assert (await rulings(unbounded, command_id))[-1]["refused"] == "seen_there"
    view = await unbounded.rule(command_id, Verdict.PRESENT)
    assert view.state == "AWAITING_APPROVAL"
    assert (await rulings(unbounded, command_id))[-1]["evidence"]["verdict"] == "PRESENT"
    assert unbounded.passage.sent == [CREATE, STAGE]
    assert len(unbounded.reality().posts) == 1


async def test_a_draft_that_is_not_there_is_not_ruled_present_and_made_once_when_ruled_absent(
    unbounded: World,
) -> None:
    command_id = await lost_draft(unbounded, FaultKind.DROP_BEFORE)
    unbounded.sandbox.faults.clear()
    assert (await unbounded.rule(command_id, Verdict.PRESENT)).state == "NEEDS_REVIEW"
    assert (await rulings(unbounded, command_id))[-1]["refused"] == "not_seen_there"
    view = await unbounded.rule(command_id, Verdict.ABSENT)
    assert view.state == "AWAITING_APPROVAL"
    assert len(unbounded.reality().posts) == 1


async def test_nothing_is_sent_again_by_itself_while_nobody_knows_when_it_is_over(unbounded: World) -> None:
    command_id = await lost_draft(unbounded, FaultKind.DROP_BEFORE)
    unbounded.sandbox.faults.clear()
    unbounded.clock.move_on(86_400)
    assert (await unbounded.settle(command_id)).state == "NEEDS_REVIEW"
    assert unbounded.passage.sent == [CREATE]
    view = await unbounded.rule(command_id, Verdict.ABANDON)
    assert (view.state, view.ending, view.done) == ("FAILED", "abandoned", True)
    assert unbounded.reality().posts == {}


async def failed_compensation(world: World) -> str:
    """The draft cannot be thrown away: the site refuses it for good."""
    command_id = await world.until_approval()
    await world.operations.reject(command_id, operator="operator:olivia", reason="no")
    refusal = '{"code":"rest_cannot_delete","message":"no","data":{"status":403}}'
    world.arm("DELETE /wp-json/wp/v2/posts/1", FaultKind.STATUS_BEFORE, status=403, body=refusal)
    view = await world.settle(command_id)
    assert (view.state, view.answers.compensation, view.done) == ("NEEDS_REVIEW", "failed", False)
    assert [(r.kind, r.step) for r in view.reviews] == [("COMPENSATION_FAILED", "TRASH_WORDPRESS_DRAFT")]
    assert "undone." not in view.say_to_user
    assert world.reality().row(await world.saga(command_id)) == "cancelled"
    return command_id


async def test_a_failed_compensation_goes_on_when_a_person_mended_the_cause(world: World) -> None:
    command_id = await failed_compensation(world)
    view = await world.rule(command_id, Verdict.CONTINUE, "gave the account its right back")
    assert (view.state, view.answers.compensation) == ("COMPENSATED", "done")
    assert world.reality().status_of("1") == "trash"
    assert world.passage.sent == [CREATE, STAGE, CANCEL, TRASH, TRASH]


async def test_a_failed_compensation_is_not_ruled_done_while_the_draft_is_there(world: World) -> None:
    command_id = await failed_compensation(world)
    assert (await world.rule(command_id, Verdict.PRESENT)).state == "NEEDS_REVIEW"
    assert (await rulings(world, command_id))[-1]["refused"] == "not_seen_there"
    view = await world.rule(command_id, Verdict.ABANDON, "it may stay")
    assert (view.state, view.answers.compensation, view.done) == ("FAILED", "failed", True)
    assert world.reality().status_of("1") == "draft"


async def test_two_failed_compensations_are_two_questions_and_each_answer_counts(world: World) -> None:
    command_id = await world.until_approval()
    with world.table:
        world.table.execute("UPDATE remit_publications SET status = 'published'")
    await world.operations.reject(command_id, operator="operator:olivia", reason="no")
    refusal = '{"code":"rest_cannot_delete","message":"no","data":{"status":403}}'
    world.arm("DELETE /wp-json/wp/v2/posts/1", FaultKind.STATUS_BEFORE, status=403, body=refusal)
    view = await world.settle(command_id)
    assert sorted(r.step for r in view.reviews) == ["CANCEL_PUBLICATION_RECORD", "TRASH_WORDPRESS_DRAFT"]
    by_step = {r.step: r.review_id for r in view.reviews}

    async def ask(step: str, verdict: Verdict) -> None:
        said = ruled(by_step[step], verdict, "olivia", "looked", world.clock.now_ms())
        await world.operations.request_ruling(by_step[step], **said)

    await ask("CANCEL_PUBLICATION_RECORD", Verdict.ABANDON)
    view = await world.settle(command_id)
    assert (view.state, view.done, len(view.reviews)) == ("NEEDS_REVIEW", False, 1)
    await ask("TRASH_WORDPRESS_DRAFT", Verdict.CONTINUE)
    view = await world.settle(command_id)
    assert (view.state, view.answers.compensation, view.done) == ("FAILED", "failed", True)
    assert world.reality().status_of("1") == "trash"


@pytest.mark.behaviour("operator.key")
@pytest.mark.parametrize("forged", ["verdict", "reason", "closed_by", "answered_at_ms", "signature"])
async def test_a_row_that_says_a_person_ruled_is_no_ruling(world: World, forged: str) -> None:
    """Whoever can write the database writes an answer, or makes another of one that a person signed."""
    command_id = await lost_mail(world, FaultKind.DROP_BEFORE)
    review = await world.review(command_id)
    world.clock.move_on(120)
    said = ruled(review.review_id, Verdict.ABSENT, "olivia", "not there", world.clock.now_ms())
    await world.operations.request_ruling(review.review_id, **said)
    other = {
        "verdict": "abandon",
        "reason": "other",
        "closed_by": "operator:mallory",
        "answered_at_ms": world.clock.now_ms() + 1,
        "signature": None,
    }
    changed = update(schema.REVIEWS).where(schema.REVIEWS.c.review_id == review.review_id)
    await world.store.transact(lambda conn: conn.execute(changed.values({forged: other[forged]})))
    view = await world.settle(command_id)
    assert (view.state, len(view.reviews)) == ("NEEDS_REVIEW", 1)
    why = "unknown_operator" if forged == "closed_by" else "bad_signature"
    assert [entry.get("refused") for entry in await rulings(world, command_id)] == [why]
    assert world.passage.sent.count(NOTIFY) == 1
    assert (await world.rule(command_id, Verdict.ABSENT)).state == "SUCCESS"
    assert len(world.reality().messages) == 1


@pytest.mark.behaviour("operator.key")
async def test_who_may_not_rule_any_more_has_not_ruled(world: World) -> None:
    command_id = await lost_mail(world, FaultKind.DROP_BEFORE)
    world.clock.move_on(120)
    worker = world.first.worker
    worker.env = replace(worker.env, rulers={})
    assert (await world.rule(command_id, Verdict.ABSENT)).state == "NEEDS_REVIEW"
    assert [entry.get("refused") for entry in await rulings(world, command_id)] == ["unknown_operator"]
