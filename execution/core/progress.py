"""Saga level: given the aggregate, what is to be done next? Pure; level-triggered, so it never remembers, only looks.

`advance` folds everything that needs nothing but the journal (claiming the next step, completing the root, turning
back, planning a compensation) into the commit in the making, and answers with the one thing that needs the world, or
with how long to wait. Doing the same on the same aggregate answers the same: that is what a crash resumes with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from execution.core.apply import action_of
from execution.core.command import Command, Saga
from execution.core.definition import ApprovalGate, CheckGate, SagaDefinition, Step
from execution.core.draft import Draft
from execution.core.events import Fact
from execution.core.horizon import (
    UNSTARTED,
    WAITING,
    AskApproval,
    CheckNow,
    Execute,
    Horizon,
    Next,
    Reconcile,
    VerifyReceipt,
    Wait,
    Watch,
    begin,
    earliest,
    ended,
    forward_rows,
    given_up,
    open_review,
)
from execution.core.states import IN_DOUBT, ApprovalState, Blocker, EffectClass, Kind, Phase, ReviewKind, State
from execution.core.transitions import Trigger
from execution.core.unwinding import abandon, unwind
from execution.core.watching import watch

FOLDS_MAX: Final = 16
"""How often the instant part may follow itself within one commit."""


def advance(draft: Draft, definition: SagaDefinition[Any], at: Horizon) -> Next:
    """Fold the instant changes into the draft and say what comes next."""
    following = _turn(draft, definition, at)
    for _ in range(FOLDS_MAX):
        if not isinstance(following, Wait) or following.until_ms is None or following.until_ms > at.now_ms:
            break
        following = _turn(draft, definition, at)
    return _once_open(draft, definition, following, at)


def _once_open(draft: Draft, definition: SagaDefinition[Any], following: Next, at: Horizon) -> Next:
    """Finding out waits, too, for a system that takes nothing now; nobody holds the saga meanwhile."""
    match following:
        case Reconcile(command_id=one) | VerifyReceipt(command_id=one):
            asked: tuple[str, ...] = (one,)
        case Watch(command_ids=several):
            asked = several
        case _:
            return following
    rows = [draft.row(command_id) for command_id in asked]
    paces = [action_of(definition, draft.saga, row).paced_as(row.site) for row in rows]
    until = [at.paused_until(pace, new=False) for pace in paces]
    closed = [moment for moment in until if moment is not None]
    return Wait(until_ms=max(closed)) if closed else following


def _turn(draft: Draft, definition: SagaDefinition[Any], at: Horizon) -> Next:
    """One pass over the aggregate."""
    root = draft.root
    if root.is_terminal:
        return watch(draft, at)
    if root.state is State.COMPENSATING:
        return unwind(draft, definition, at)
    if root.state is not State.RUNNING:
        return Wait(until_ms=None)
    if root.ending is not None and root.phase is Phase.PRE_PIVOT:
        return abandon(draft, definition, at)
    return _forward(draft, definition, at)


def _forward(draft: Draft, definition: SagaDefinition[Any], at: Horizon) -> Next:
    due: list[int | None] = []
    for row in forward_rows(draft.saga):
        if row.state is State.SUCCESS or given_up(row):
            continue
        step = _forward_one(draft, definition, row, at)
        if isinstance(step, Wait):
            due.append(step.until_ms)
            continue
        return step
    rows = forward_rows(draft.saga)
    if all(row.state is State.SUCCESS or given_up(row) for row in rows):
        return _complete(draft, at)
    return Wait(until_ms=earliest(due))


def _requirements_met(saga: Saga, definition: SagaDefinition[Any], row: Command) -> bool:
    for name in definition.requirements(row.command_type):
        needed = saga.named(name)
        if needed is None:
            continue
        ruled_off = needed.state is State.FAILED and saga.root.phase is Phase.POST_PIVOT
        if needed.state is not State.SUCCESS and not ruled_off:
            return False
    return True


def _forward_one(draft: Draft, definition: SagaDefinition[Any], row: Command, at: Horizon) -> Next:
    """What this row needs now; Wait when it is not this row's turn or nothing can be done about it."""
    command_id = row.command_id
    if row.state in WAITING:
        return Wait(until_ms=None)
    if row.state in IN_DOUBT:
        when = row.next_check_at_ms or 0
        return Reconcile(command_id=command_id) if when <= at.now_ms else Wait(until_ms=when)
    if row.state in UNSTARTED:
        if not _requirements_met(draft.saga, definition, row):
            return Wait(until_ms=None)
        waiting = _not_yet(draft, definition, row, at)
        if waiting is not None:
            return waiting
        part = definition.part(row.command_type)
        if isinstance(part, Step) and _needs_approval(draft.saga, definition, row):
            return _approval_again(draft, row, at)
        if row.effect_class is EffectClass.PIVOT:
            draft.unblock(Blocker.AWAITING_APPROVAL)
        if not begin(draft, command_id, at):
            draft.move(
                command_id, Trigger.GIVEN_UP if not draft.saga.open_attempts(command_id) else Trigger.DOUBT_REMAINS
            )
            if draft.row(command_id).state is State.FAILED:
                draft.move(command_id, Trigger.PERSON_NEEDED, {"code": "claimed_too_often"})
                open_review(draft, command_id, ReviewKind.POISON, {"claims": row.claim_count}, at)
            else:
                draft.set(command_id, next_check_at_ms=at.now_ms, claim_count=0)
            return Wait(until_ms=at.now_ms)
        if row.kind is Kind.GATE:
            draft.move(command_id, Trigger.STARTED)
    return _active(draft, definition, draft.row(command_id), at)


def _not_yet(draft: Draft, definition: SagaDefinition[Any], row: Command, at: Horizon) -> Wait | None:
    """Backoff, and a pause of its system. For the pivot the schedule: never early, and not much too late without a
    person's word.

    What cannot be taken back waits until every question about the saga is answered; what got stuck waits for the answer
    to that alone.
    """
    if any(
        r.command_id == row.command_id and r.kind is ReviewKind.STUCK and r.closed_at_ms is None
        for r in draft.saga.reviews
    ):
        return Wait(until_ms=None)
    if row.next_retry_at_ms is not None and row.next_retry_at_ms > at.now_ms:
        return Wait(until_ms=row.next_retry_at_ms)
    part = definition.part(row.command_type)
    paused = at.paused_until(part.action.paced_as(row.site), new=True) if isinstance(part, Step) else None
    if paused is not None:
        return Wait(until_ms=paused)
    if row.effect_class is EffectClass.IRREVERSIBLE and any(r.closed_at_ms is None for r in draft.saga.reviews):
        return Wait(until_ms=None)
    starts = draft.root.not_before_ms
    if row.effect_class is not EffectClass.PIVOT or starts is None:
        return None
    if starts > at.now_ms:
        draft.block(Blocker.SCHEDULED, {"until_ms": starts})
        return Wait(until_ms=starts)
    draft.unblock(Blocker.SCHEDULED)
    if row.attempt_count == 0 and at.now_ms - starts > definition.max_lateness_s * 1000:
        draft.move(row.command_id, Trigger.GIVEN_UP, {"code": "too_late"})
        draft.move(row.command_id, Trigger.PERSON_NEEDED)
        facts = {"code": "too_late", "scheduled_ms": starts}
        open_review(draft, row.command_id, ReviewKind.STUCK, facts, at)
        return Wait(until_ms=None)
    return None


def _needs_approval(saga: Saga, definition: SagaDefinition[Any], row: Command) -> bool:
    """Whether a gate guards this step and no approval for it is alive."""
    gate = next((p for p in definition.parts if isinstance(p, ApprovalGate) and p.guards == row.command_type), None)
    if gate is None or saga.named(gate.name) is None:
        return False
    newest = saga.approval_pending_or_given()
    return newest is None or newest.state is not ApprovalState.APPROVED


def _approval_again(draft: Draft, row: Command, at: Horizon) -> Next:
    """The guarded step lost its approval (drift, rebase): ask anew before it starts."""
    newest = draft.saga.approval_pending_or_given()
    if newest is None:
        return AskApproval(command_id=row.command_id)
    return _await_approval(draft, row.command_id, at)


def _active(draft: Draft, definition: SagaDefinition[Any], row: Command, at: Horizon) -> Next:
    """DISPATCHING or RUNNING under our lease."""
    part = definition.part(row.command_type)
    if isinstance(part, CheckGate):
        return CheckNow(command_id=row.command_id)
    if isinstance(part, ApprovalGate):
        if draft.saga.approval_pending_or_given() is None:
            return AskApproval(command_id=row.command_id)
        return _await_approval(draft, row.command_id, at)
    if row.state is State.DISPATCHING:
        return Execute(command_id=row.command_id)
    return VerifyReceipt(command_id=row.command_id)


def _await_approval(draft: Draft, command_id: str, at: Horizon) -> Next:
    approval = draft.saga.approval_pending_or_given()
    assert approval is not None
    row = draft.row(command_id)
    if approval.state is ApprovalState.APPROVED:
        draft.unblock(Blocker.AWAITING_APPROVAL)
        if row.kind is Kind.GATE:
            draft.move(command_id, Trigger.SUCCEEDED, {"approval_id": approval.approval_id})
        return Wait(until_ms=at.now_ms)
    if approval.expires_at_ms <= at.now_ms:
        draft.put_approval(replace(approval, state=ApprovalState.EXPIRED, decided_at_ms=at.now_ms))
        draft.note(command_id, Fact.APPROVAL_EXPIRED, {"approval_id": approval.approval_id})
        draft.set(draft.root.command_id, ending="approval_expired")
        return Wait(until_ms=at.now_ms)
    draft.block(Blocker.AWAITING_APPROVAL)
    return Wait(until_ms=approval.expires_at_ms)


def _complete(draft: Draft, at: Horizon) -> Next:
    root_id = draft.root.command_id
    gaps = [row.command_type for row in forward_rows(draft.saga) if given_up(row)]
    ending = "completed_with_gaps" if gaps else "completed"
    draft.move(root_id, Trigger.SUCCEEDED, {"gaps": gaps} if gaps else None, ending=ending)
    draft.phase(Phase.COMPLETED)
    ended(draft)
    return watch(draft, at)
