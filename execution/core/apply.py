"""Decisions applied to a commit in the making: the one place where an outcome becomes rows and events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from execution.core.command import Attempt, Command, Saga, receipt_json, receipt_of
from execution.core.decide import Decision, Standing
from execution.core.definition import Action, OnRefused, SagaDefinition, Step
from execution.core.draft import Draft
from execution.core.events import Fact, canonical
from execution.core.failures import (
    Absent,
    Answer,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Sighting,
    Unsent,
)
from execution.core.horizon import Horizon, open_review
from execution.core.retry import RetryPolicy
from execution.core.states import ApprovalState, Blocker, EffectClass, Kind, Phase, Settlement, State
from execution.core.transitions import Trigger

_PROVES_ABSENCE: Final = frozenset({Trigger.NOT_APPLIED, Trigger.REFUSED, Trigger.FOUND_ABSENT, Trigger.ABANDONED})


def step_of(definition: SagaDefinition[Any], saga: Saga, row: Command) -> Step[Any]:
    """The step that a forward or compensating row belongs to."""
    original = saga.member(row.compensates) if row.compensates is not None else row
    part = definition.part(original.command_type)
    assert isinstance(part, Step)
    return part


def action_of(definition: SagaDefinition[Any], saga: Saga, row: Command) -> Action[Any]:
    """What the engine executes for that row."""
    step = step_of(definition, saga, row)
    if row.compensates is None:
        return step.action
    assert step.compensation is not None
    return step.compensation


def landed_receipt(saga: Saga, row: Command) -> Receipt | None:
    """A receipt in evidence: on the row, or on an attempt that a late answer settled."""
    texts = [row.receipt, *(a.receipt for a in saga.attempts_of(row.command_id) if a.settlement is Settlement.LANDED)]
    return next((receipt_of(text) for text in texts if text), None)


def standing(
    definition: SagaDefinition[Any],
    saga: Saga,
    row: Command,
    *,
    looks_policy: RetryPolicy,
    looks: int = 0,
    quiet_in_s: float | None = 0.0,
    shown_in_s: float | None = 0.0,
    but: str | None = None,
) -> Standing:
    """Where a row stands; `but` leaves the attempt that was just answered out of the unproven ones."""
    step = step_of(definition, saga, row)
    action = action_of(definition, saga, row)
    compensation = row.kind is Kind.COMPENSATION
    unproven = sum(1 for attempt in saga.open_attempts(row.command_id) if attempt.attempt_id != but)
    after_pivot = saga.root.phase is Phase.POST_PIVOT and row.effect_class is not EffectClass.PIVOT
    return Standing(
        effect=row.effect_class,
        repeat=action.repeat,
        retry=action.retry,
        looks_policy=looks_policy,
        on_refused=OnRefused.REVIEW if compensation else step.on_refused,
        on_exhausted=OnRefused.REVIEW if compensation else step.on_exhausted,
        verifies=action.verify is not None,
        observable=action.observe is not None,
        compensation=compensation,
        attempts=row.attempt_count,
        looks=looks,
        unproven=unproven,
        quiet_in_s=quiet_in_s,
        shown_in_s=shown_in_s,
        landed=landed_receipt(saga, row),
        abandon=saga.root.ending is not None and saga.root.phase is Phase.PRE_PIVOT and not compensation,
        forward_only=after_pivot,
        adopts=action.adopts,
        mends=action.mend is not None,
    )


def record_receipt(draft: Draft, command_id: str, receipt: Receipt, *, verified: bool) -> None:
    """The receipt's columns on the row."""
    columns: dict[str, Any] = {
        "receipt": canonical(receipt_json(receipt)),
        "external_resource_id": receipt.resource_id,
        "external_version": receipt.version or None,
        "result_reference": receipt.reference or None,
    }
    if verified:
        columns["verified_at_ms"] = draft.now_ms
    draft.set(command_id, **columns)


def settle_answer(draft: Draft, attempt: Attempt, answer: Answer, *, late: bool = False) -> None:
    """File what the exchange proved about its attempt. A proof is never overwritten by a doubt."""
    if attempt.settlement is not Settlement.OPEN:
        return
    command_id, now = attempt.command_id, draft.now_ms
    body: dict[str, Any] = {"attempt_id": attempt.attempt_id, "number": attempt.number}
    match answer:
        case Landed(receipt=receipt):
            text = receipt_json(receipt)
            draft.put_attempt(
                replace(attempt, settlement=Settlement.LANDED, settled_at_ms=now, receipt=canonical(text))
            )
            draft.note(command_id, Fact.LATE_ANSWER if late else Fact.RECEIPT_RECORDED, body | {"receipt": text})
        case Unsent(code=code):
            draft.put_attempt(replace(attempt, settlement=Settlement.UNSENT, settled_at_ms=now, code=code))
            draft.note(command_id, Fact.LATE_ANSWER if late else Fact.ATTEMPT_UNSENT, body | {"code": code})
        case Refused(code=code, failure=failure):
            draft.put_attempt(replace(attempt, settlement=Settlement.REFUSED, settled_at_ms=now, code=code))
            fact = Fact.LATE_ANSWER if late else Fact.ATTEMPT_REFUSED
            draft.note(command_id, fact, body | {"code": code, "class": failure})
        case Lost(code=code):
            draft.put_attempt(replace(attempt, code=code))
            draft.note(command_id, Fact.ATTEMPT_LOST, body | {"code": code})


def sighting_body(sighting: Sighting, *, source: str, asked_at_ms: int, purpose: str) -> dict[str, Any]:
    """An OBSERVED event: what was asked, when the read began, what it answered."""
    body: dict[str, Any] = {"source": source, "asked_at": asked_at_ms, "query": purpose}
    match sighting:
        case Present(receipt=receipt, rows=rows, complete=complete, difference=difference, seen=seen):
            body |= {"verdict": "PRESENT", "receipt": receipt_json(receipt), "rows": rows}
            body |= {} if seen else {"seen": False}
            body |= {} if complete and not difference else {"complete": complete, "difference": list(difference)}
        case Absent(receipt=found):
            body |= {"verdict": "ABSENT"} | ({"receipt": receipt_json(found)} if found else {})
        case Foreign(code=code, receipt=found, difference=difference):
            body |= {"verdict": "FOREIGN", "code": code, "difference": list(difference)}
            body |= {"receipt": receipt_json(found)} if found else {}
        case CannotTell(code=code):
            body |= {"verdict": "CANNOT_TELL", "code": code}
    return body


def apply(draft: Draft, command_id: str, decision: Decision, at: Horizon) -> None:
    """Carry a decision out: moves, times, errors, the saga's phase, reviews and findings."""
    _columns(draft, command_id, decision)
    for trigger in decision.moves:
        draft.move(command_id, trigger, _move_body(decision))
    row = draft.row(command_id)
    due = None if decision.retry_in_s is None else at.now_ms + int(decision.retry_in_s * 1000) + 1
    if row.state is State.RETRY_PENDING:
        draft.set(command_id, next_retry_at_ms=due)
        draft.note(command_id, Fact.RETRY_SCHEDULED, {"at": due, "attempts": row.attempt_count})
    elif row.state is State.OUTCOME_UNKNOWN:
        draft.set(command_id, next_check_at_ms=due)
    elif row.is_terminal:
        draft.set(command_id, next_retry_at_ms=None, next_check_at_ms=None)
    _phase(draft, row, decision)
    if row.effect_class is EffectClass.PIVOT and row.state is State.SUCCESS:
        _consume_approval(draft, command_id)
    if row.effect_class is EffectClass.PIVOT and decision.failure is FailureClass.CONFLICT:
        _void_approval(draft, command_id, decision.code or "conflict")
    facts = {"code": decision.code, "difference": list(decision.difference), **decision.facts}
    if decision.review is not None:
        open_review(draft, command_id, decision.review, facts, at)
    if decision.finding is not None:
        open_review(draft, command_id, decision.finding, facts, at)
        draft.note(command_id, Fact.FINDING_ADDED, {"kind": decision.finding, **facts})
        draft.block(Blocker.FINDING_OPEN)
    if decision.unwind and draft.root.ending is None:
        draft.set(draft.root.command_id, ending="failed", error_code=decision.code)


def _columns(draft: Draft, command_id: str, decision: Decision) -> None:
    if decision.receipt is not None:
        seen = bool({Trigger.SUCCEEDED, Trigger.ADOPTED, Trigger.FOUND_PRESENT} & set(decision.moves))
        verified = seen and decision.verified
        record_receipt(draft, command_id, decision.receipt, verified=verified)
    if decision.failure is not None:
        draft.set(command_id, error_class=decision.failure, error_code=decision.code)
    elif decision.moves:
        draft.set(command_id, error_class=None, error_code=None)


def _move_body(decision: Decision) -> dict[str, Any] | None:
    if decision.code is None and not decision.difference:
        return None
    body: dict[str, Any] = {"code": decision.code}
    if decision.failure is not None:
        body["class"] = decision.failure
    if decision.difference:
        body["difference"] = list(decision.difference)
    return body


def _phase(draft: Draft, row: Command, decision: Decision) -> None:
    """After the pivot's fence, or once it was found, the saga goes forward only, until its absence is proven."""
    if row.effect_class is EffectClass.PIVOT and row.state is State.SUCCESS and draft.root.phase is Phase.PRE_PIVOT:
        draft.phase(Phase.POST_PIVOT)
        return
    if row.effect_class is not EffectClass.PIVOT or draft.root.phase is not Phase.POST_PIVOT:
        return
    concluded = bool({Trigger.FOUND_ABSENT, Trigger.ABANDONED} & set(decision.moves))
    refused = bool(_PROVES_ABSENCE & set(decision.moves)) and not _may_have_landed(draft.saga, row)
    if concluded or refused:
        draft.phase(Phase.PRE_PIVOT)


def _may_have_landed(saga: Saga, row: Command) -> bool:
    return bool(saga.open_attempts(row.command_id)) or landed_receipt(saga, row) is not None


def _consume_approval(draft: Draft, command_id: str) -> None:
    """An approval serves one effect."""
    for approval in draft.saga.approvals:
        if approval.state is ApprovalState.APPROVED:
            draft.put_approval(replace(approval, state=ApprovalState.CONSUMED))
            draft.note(command_id, Fact.APPROVAL_CONSUMED, {"approval_id": approval.approval_id})


def _void_approval(draft: Draft, command_id: str, reason: str) -> None:
    """What is there is not what was approved: the yes does not count any more."""
    for approval in draft.saga.approvals:
        if approval.state is ApprovalState.APPROVED:
            void = replace(approval, state=ApprovalState.VOID, decided_at_ms=draft.now_ms, reason=reason)
            draft.put_approval(void)
            draft.note(command_id, Fact.APPROVAL_VOIDED, {"approval_id": approval.approval_id, "reason": reason})


def settle_found(draft: Draft, command_id: str, sighting: Sighting) -> None:
    """One object of ours and one open attempt: that attempt made it. Otherwise all stay on the watch list."""
    open_attempts = draft.saga.open_attempts(command_id)
    if isinstance(sighting, Present) and sighting.rows == 1 and len(open_attempts) == 1:
        settled = replace(
            open_attempts[0],
            settlement=Settlement.LANDED,
            settled_at_ms=draft.now_ms,
            receipt=canonical(receipt_json(sighting.receipt)),
        )
        draft.put_attempt(settled)
