"""Turning back: abandoning a saga before its pivot, and compensating what was done, newest first.

Nothing is given up in doubt: a step with an unproven attempt is reconciled first, and nothing is compensated while an
attempt on it could still land. What fails to be compensated waits for a person and never counts as compensated;
independent compensations go on.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from execution.core.apply import landed_receipt
from execution.core.command import Command
from execution.core.definition import Action, SagaDefinition, Step
from execution.core.draft import Draft
from execution.core.events import Fact
from execution.core.horizon import (
    UNSTARTED,
    WAITING,
    Execute,
    Horizon,
    Next,
    Reconcile,
    VerifyReceipt,
    Wait,
    begin,
    earliest,
    ended,
    forward_rows,
    open_review,
    to_compensate,
)
from execution.core.states import (
    IN_DOUBT,
    ApprovalState,
    Blocker,
    CompensationState,
    EffectClass,
    Kind,
    Phase,
    ReviewKind,
    State,
    Verdict,
)
from execution.core.transitions import Trigger
from execution.core.watching import watch


def start_unwinding(draft: Draft, reason: str, at: Horizon) -> None:
    """FAILED and the start of unwinding, in one transaction; FAILED alone when nothing was done yet."""
    root_id = draft.root.command_id
    draft.move(root_id, Trigger.REFUSED, {"reason": reason}, ending=draft.root.ending or reason)
    for row in forward_rows(draft.saga):
        if row.state in UNSTARTED:
            draft.move(row.command_id, Trigger.GIVEN_UP, {"reason": reason})
    for blocker in (Blocker.AWAITING_APPROVAL, Blocker.SCHEDULED, Blocker.AWAITING_AUTHORIZATION):
        draft.unblock(blocker)
    _void_approvals(draft, reason)
    if not to_compensate(draft.saga):
        draft.phase(Phase.UNWOUND)
        ended(draft)
        draft.free_locks()
        return
    draft.move(root_id, Trigger.UNWIND_STARTED, {"reason": reason}, completed_at_ms=None)
    draft.phase(Phase.UNWINDING)
    for row in to_compensate(draft.saga):
        draft.set(row.command_id, compensation_state=CompensationState.PENDING)
        draft.note(row.command_id, Fact.COMPENSATION_STATE, {"to": CompensationState.PENDING})


def _void_approvals(draft: Draft, reason: str) -> None:
    for approval in draft.saga.approvals:
        if approval.state in (ApprovalState.PENDING, ApprovalState.APPROVED):
            draft.put_approval(replace(approval, state=ApprovalState.VOID, decided_at_ms=draft.now_ms, reason=reason))
            draft.note(approval.command_id, Fact.APPROVAL_VOIDED, {"approval_id": approval.approval_id})


def abandon(draft: Draft, definition: SagaDefinition[Any], at: Horizon) -> Next:
    """The saga is to end before its pivot: every doubt is cleared first, then it unwinds."""
    due: list[int | None] = []
    clear = True
    for row in forward_rows(draft.saga):
        if row.state is State.SUCCESS or row.state is State.FAILED:
            continue
        if row.state in UNSTARTED and not _may_exist(draft, row):
            continue
        outcome = _abandon_one(draft, row, at)
        if outcome is None:
            continue
        if not isinstance(outcome, Wait):
            return outcome
        clear = False
        due.append(outcome.until_ms)
    if clear:
        start_unwinding(draft, draft.root.ending or "cancelled", at)
        return Wait(until_ms=at.now_ms)
    return Wait(until_ms=earliest(due))


def _may_exist(draft: Draft, row: Command) -> bool:
    """Whether an effect of this unfinished step exists, or could."""
    return bool(draft.saga.open_attempts(row.command_id)) or landed_receipt(draft.saga, row) is not None


def _give_up_review(draft: Draft, command_id: str) -> None:
    """The step ends with its saga; what a person was asked about it has answered itself."""
    draft.move(command_id, Trigger.RULED_ABANDON, {"reason": draft.root.ending})
    for review in draft.saga.reviews:
        if review.command_id == command_id and review.closed_at_ms is None:
            closed = replace(review, closed_at_ms=draft.now_ms, closed_by="remit", verdict=Verdict.ABANDON)
            draft.put_review(replace(closed, reason=draft.root.ending))
    draft.set(command_id, human_review_required=False)
    if all(review.closed_at_ms is not None for review in draft.saga.reviews):
        draft.set(draft.root.command_id, human_review_required=False)
        draft.unblock(Blocker.FINDING_OPEN)


def _abandon_one(draft: Draft, row: Command, at: Horizon) -> Next | None:
    """None when the row no longer stands in the way."""
    command_id = row.command_id
    if row.state in UNSTARTED:
        draft.move(command_id, Trigger.DOUBT_REMAINS, next_check_at_ms=at.now_ms)
        return Reconcile(command_id=command_id)
    if row.state in IN_DOUBT:
        when = row.next_check_at_ms or 0
        return Reconcile(command_id=command_id) if when <= at.now_ms else Wait(until_ms=when)
    if row.state is State.DISPATCHING:
        draft.move(command_id, Trigger.FENCE_REFUSED, {"reason": "abandoned"})
        return _abandon_one(draft, draft.row(command_id), at) if _may_exist(draft, row) else None
    if row.kind is Kind.GATE and row.state is State.RUNNING:
        draft.move(command_id, Trigger.REFUSED, {"reason": draft.root.ending})
        return None
    if row.state is State.RUNNING:
        return VerifyReceipt(command_id=command_id)
    if row.state is State.NEEDS_REVIEW and (row.kind is Kind.GATE or not _may_exist(draft, row)):
        _give_up_review(draft, command_id)
        return None
    return Wait(until_ms=None)


def unwind(draft: Draft, definition: SagaDefinition[Any], at: Horizon) -> Next:
    """Compensate in reverse; what fails waits for a person, independent compensations go on."""
    due: list[int | None] = []
    failed = False
    for step in to_compensate(draft.saga):
        outcome = _compensate(draft, definition, step, at)
        if outcome is None:
            continue
        if not isinstance(outcome, Wait):
            return outcome
        row = draft.row(step.command_id)
        if row.compensation_state is CompensationState.FAILED:
            failed = True
            continue
        due.append(outcome.until_ms)
        break
    if due:
        return Wait(until_ms=earliest(due))
    root_id = draft.root.command_id
    if failed:
        draft.move(root_id, Trigger.PERSON_NEEDED, {"code": "compensation_failed"})
        if not any(review.closed_at_ms is None for review in draft.saga.reviews):
            draft.move(root_id, Trigger.RULED_ABANDON, {"code": "not_compensated"})
            return watch(draft, at)
        draft.set(root_id, human_review_required=True)
        return Wait(until_ms=None)
    draft.move(root_id, Trigger.UNWOUND)
    draft.phase(Phase.UNWOUND)
    ended(draft)
    return watch(draft, at)


def _compensation_row(draft: Draft, step: Step[Any], row: Command, at: Horizon) -> Command:
    """The compensation as a command of its own, with its own key."""
    assert step.compensation is not None and step.compensation_type is not None
    key = row.idempotency_key + ":" + step.compensation.operation
    new = replace(
        row,
        command_id=at.new_id("cmd"),
        position=max(r.position for r in draft.saga.members) + 1,
        kind=Kind.COMPENSATION,
        command_type=step.compensation_type,
        effect_class=EffectClass.RETRYABLE,
        target_system=step.compensation.system,
        idempotency_key=key,
        state=State.AUTHORIZED,
        attempt_count=0,
        claim_count=0,
        created_at_ms=at.now_ms,
        started_at_ms=None,
        last_attempt_at_ms=None,
        completed_at_ms=None,
        expected_version=row.external_version,
        external_resource_id=None,
        external_version=None,
        result_reference=None,
        receipt=None,
        verified_at_ms=None,
        error_class=None,
        error_code=None,
        next_retry_at_ms=None,
        next_check_at_ms=None,
        compensates=row.command_id,
        compensation_command=None,
        compensation_state=CompensationState.NOT_NEEDED,
        human_review_required=False,
        version=1,
        chain_seq=0,
        chain_head="",
    )
    draft.add_command(new)
    draft.note(new.command_id, Fact.PLANNED, {"compensates": row.command_id, "key": key})
    draft.set(row.command_id, compensation_command=new.command_id, compensation_state=CompensationState.RUNNING)
    draft.note(row.command_id, Fact.COMPENSATION_PLANNED, {"command_id": new.command_id})
    return draft.row(new.command_id)


def _compensate(draft: Draft, definition: SagaDefinition[Any], row: Command, at: Horizon) -> Next | None:
    """None when this step's compensation is done."""
    if row.compensation_state is CompensationState.DONE:
        return None
    step = definition.part(row.command_type)
    assert isinstance(step, Step) and step.compensation is not None
    if row.compensation_command is None:
        quiet = at.quiet_at_ms.get(row.command_id, at.now_ms)
        if quiet is None:
            _compensation_state(draft, row, CompensationState.FAILED)
            facts = {"code": "quiescence_unknown", "step": row.command_type}
            open_review(draft, row.command_id, ReviewKind.COMPENSATION_FAILED, facts, at)
            return Wait(until_ms=None)
        quiet = max(quiet, _seen_from_ms(draft, row))
        if quiet > at.now_ms:
            return Wait(until_ms=quiet)
        comp = _compensation_row(draft, step, row, at)
    else:
        comp = draft.row(row.compensation_command)
    if comp.state is State.SUCCESS:
        _compensation_state(draft, row, CompensationState.DONE)
        return None
    if comp.state in WAITING or comp.state is State.FAILED:
        _compensation_state(draft, row, CompensationState.FAILED)
        return Wait(until_ms=None)
    if comp.state in IN_DOUBT:
        _compensation_state(draft, row, CompensationState.UNKNOWN)
        when = comp.next_check_at_ms or 0
        return Reconcile(command_id=comp.command_id) if when <= at.now_ms else Wait(until_ms=when)
    if comp.state in UNSTARTED:
        due = _compensable_from(comp, step.compensation, at)
        if due is not None:
            return Wait(until_ms=due)
        if not begin(draft, comp.command_id, at):
            return _quarantine_compensation(draft, row, comp, at)
        _compensation_state(draft, row, CompensationState.RUNNING)
        comp = draft.row(comp.command_id)
    if comp.state is State.DISPATCHING:
        return Execute(command_id=comp.command_id)
    return VerifyReceipt(command_id=comp.command_id)


def _compensable_from(comp: Command, action: Action[Any], at: Horizon) -> int | None:
    """Backoff, then a pause of its system; None when it may begin."""
    if comp.next_retry_at_ms is not None and comp.next_retry_at_ms > at.now_ms:
        return comp.next_retry_at_ms
    return at.paused_until(action.paced_as(comp.site), new=True)


def _seen_from_ms(draft: Draft, row: Command) -> int:
    """From when on every read sees what that step did: a staler one would take "not made yet" for "gone already"."""
    lag_s = 0.0
    for attempt in draft.saga.attempts_of(row.command_id):
        terms = json.loads(attempt.terms)
        lag_s = max(lag_s, terms.get("S", 0.0) + terms.get("J", 0.0))
    return (row.completed_at_ms or 0) + int(lag_s * 1000) + 1


def _quarantine_compensation(draft: Draft, row: Command, comp: Command, at: Horizon) -> Next:
    trigger = Trigger.DOUBT_REMAINS if draft.saga.open_attempts(comp.command_id) else Trigger.GIVEN_UP
    draft.move(comp.command_id, trigger)
    if trigger is Trigger.GIVEN_UP:
        draft.move(comp.command_id, Trigger.PERSON_NEEDED, {"code": "claimed_too_often"})
        open_review(draft, comp.command_id, ReviewKind.POISON, {"claims": comp.claim_count}, at)
        _compensation_state(draft, row, CompensationState.FAILED)
        return Wait(until_ms=None)
    draft.set(comp.command_id, next_check_at_ms=at.now_ms, claim_count=0)
    return Reconcile(command_id=comp.command_id)


def _compensation_state(draft: Draft, row: Command, state: CompensationState) -> None:
    if draft.row(row.command_id).compensation_state is not state:
        draft.set(row.command_id, compensation_state=state)
        draft.note(row.command_id, Fact.COMPENSATION_STATE, {"to": state})
