"""Gates, approvals and refused fences: where a saga waits for a judgement."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from execution.comparing import compared
from execution.core import decide
from execution.core.apply import apply, landed_receipt
from execution.core.command import Approval
from execution.core.decide import Decision
from execution.core.definition import ApprovalGate, CheckGate, Finding
from execution.core.draft import Draft
from execution.core.events import Fact, canonical
from execution.core.failures import CannotTell, FailureClass, Refused
from execution.core.horizon import Next, open_review
from execution.core.states import ApprovalState, Blocker, Phase, ReviewKind, State
from execution.core.transitions import Trigger
from execution.drive import Drive
from execution.store.errors import FenceRefused, Refusal

FINDINGS_MAX: Final = 50
"""A gate reports at most this many findings to a person."""


async def check_gate(drive: Drive, command_id: str) -> Next:
    """Evaluate a check gate: pass, ask a person, or try again when the facts could not be read."""
    row = drive.saga.member(command_id)
    gate = drive.definition.part(row.command_type)
    assert isinstance(gate, CheckGate)
    found = await drive.keeping(drive.env.performer.check(gate, drive.context(command_id)))
    texts: Mapping[str, Any] = {}
    if gate.compare is not None and isinstance(found, tuple) and any(f.code in gate.compares for f in found):
        texts = await compared(drive, command_id, gate.compare)

    def change(draft: Draft) -> None:
        if isinstance(found, CannotTell):
            _gate_unread(drive, draft, command_id, gate, found)
        elif found:
            _gate_findings(drive, draft, command_id, found, texts)
        else:
            draft.move(command_id, Trigger.SUCCEEDED)

    return await drive.commit(change)


def _gate_findings(
    drive: Drive, draft: Draft, command_id: str, found: tuple[Finding, ...], texts: Mapping[str, Any]
) -> None:
    listed = [{"code": f.code, "where": f.where, "detail": f.detail} for f in found[:FINDINGS_MAX]]
    draft.note(command_id, Fact.FINDINGS, {"findings": listed})
    draft.move(command_id, Trigger.REFUSED, {"code": "findings"})
    draft.move(command_id, Trigger.PERSON_NEEDED)
    draft.set(command_id, error_class=FailureClass.BUSINESS, error_code=found[0].code)
    facts = {"findings": listed, **texts}
    open_review(draft, command_id, ReviewKind.VALIDATION_FINDINGS, facts, drive.horizon(draft.saga))


def _gate_unread(drive: Drive, draft: Draft, command_id: str, gate: CheckGate[Any], found: CannotTell) -> None:
    """A gate sends nothing, so a failed read is only a reason to read again, then to ask."""
    row = draft.row(command_id)
    made = row.attempt_count + 1
    if gate.retry.allows(made):
        delay_s = gate.retry.delay_s(made, drive.jitter(), found.retry_after_s)
        draft.move(command_id, Trigger.NOT_APPLIED, {"code": found.code}, attempt_count=made)
        due = draft.now_ms + int(delay_s * 1000) + 1
        draft.set(command_id, next_retry_at_ms=due, error_class=FailureClass.TRANSIENT, error_code=found.code)
        draft.note(command_id, Fact.RETRY_SCHEDULED, {"at": due, "attempts": made})
        return
    draft.move(command_id, Trigger.REFUSED, {"code": found.code}, attempt_count=made)
    draft.move(command_id, Trigger.PERSON_NEEDED)
    draft.set(command_id, error_class=FailureClass.TRANSIENT, error_code=found.code)
    facts = {"code": found.code}
    open_review(draft, command_id, ReviewKind.VALIDATION_FINDINGS, facts, drive.horizon(draft.saga))


async def ask_approval(drive: Drive, command_id: str) -> Next:
    """Ask a person for a yes to the exact request of the guarded step, its target and what is stored now."""
    gate = _gate_for(drive, command_id)
    guarded = drive.saga.named(gate.guards)
    assert guarded is not None
    context = drive.context(guarded.command_id)
    prepared = await drive.keeping(drive.env.performer.prepare(drive.action(guarded.command_id).forward, context))
    if isinstance(prepared, Refused):
        return await _cannot_ask(drive, command_id, CannotTell(code=prepared.code))
    digest = prepared.request_digest
    await drive.env.performer.close(prepared)
    subject = await drive.keeping(drive.env.performer.subject(gate, context))
    if isinstance(subject, CannotTell):
        return await _cannot_ask(drive, command_id, subject)

    def change(draft: Draft) -> None:
        text = canonical(
            {
                **subject,
                "command_id": drive.saga.root.command_id,
                "request_digest": digest,
                "plan_hash": hashlib.sha256(canonical(drive.plan).encode()).hexdigest(),
                "policy_hash": drive.env.catalog.policy_hash(drive.saga.root),
            }
        )
        approval = Approval(
            approval_id=drive.env.ids.new("apr"),
            root_id=draft.root.command_id,
            command_id=command_id,
            content_hash=hashlib.sha256(text.encode()).hexdigest(),
            request_digest=digest,
            subject=text,
            state=ApprovalState.PENDING,
            requested_at_ms=draft.now_ms,
            expires_at_ms=_expires(drive, draft),
        )
        draft.put_approval(approval)
        body = {"approval_id": approval.approval_id, "content_hash": approval.content_hash, "digest": digest}
        draft.note(command_id, Fact.APPROVAL_REQUESTED, body | {"expires_at": approval.expires_at_ms})
        draft.block(Blocker.AWAITING_APPROVAL)

    return await drive.commit(change)


def _expires(drive: Drive, draft: Draft) -> int:
    """A yes to what is scheduled lasts until that may no longer be done."""
    answered_by = draft.now_ms + drive.horizon(draft.saga).approval_ttl_ms
    scheduled = draft.root.not_before_ms
    if scheduled is None:
        return answered_by
    return max(answered_by, scheduled + int(drive.definition.max_lateness_s * 1000) + 1)


def _gate_for(drive: Drive, command_id: str) -> ApprovalGate[Any]:
    name = drive.saga.member(command_id).command_type
    for part in drive.definition.parts:
        if isinstance(part, ApprovalGate) and name in (part.name, part.guards):
            return part
    raise KeyError(name)


async def _cannot_ask(drive: Drive, command_id: str, why: CannotTell) -> Next:
    """What a person would be shown cannot be read now: later, and after many tries a person."""

    def change(draft: Draft) -> None:
        row = draft.row(command_id)
        made = row.attempt_count + 1
        due = draft.now_ms + int(drive.env.settings.looks.delay_s(made, drive.jitter(), why.retry_after_s) * 1000) + 1
        if row.state in (State.RUNNING, State.DISPATCHING):
            draft.move(command_id, Trigger.NOT_APPLIED, {"code": why.code})
        draft.set(command_id, attempt_count=made, next_retry_at_ms=due, error_code=why.code)
        if not drive.env.settings.looks.allows(made):
            facts = {"code": why.code}
            open_review(draft, command_id, ReviewKind.STUCK, facts, drive.horizon(draft.saga))

    return await drive.commit(change)


async def fence_refused(drive: Drive, command_id: str, refused: FenceRefused) -> Next:
    """Nothing was written and nothing was sent. What follows depends on why, and on which side of the pivot we are."""

    def change(draft: Draft) -> None:
        body = {"reason": refused.reason, "scopes": list(refused.scopes)}
        match refused.reason:
            case Refusal.APPROVAL_MISSING | Refusal.APPROVAL_INVALID | Refusal.APPROVAL_DIFFERS if _has_landed(
                draft, command_id
            ):
                _left_as_it_is(drive, draft, command_id, body)
            case Refusal.HELD:
                _held(drive, draft, command_id, Blocker.HELD, body)
            case Refusal.GRANT_LAPSED | Refusal.POLICY_CHANGED:
                _held(drive, draft, command_id, Blocker.AWAITING_AUTHORIZATION, body)
            case Refusal.REVOKED:
                _revoked(drive, draft, command_id, body)
            case Refusal.OUT_OF_SCOPE:
                _out_of_scope(drive, draft, command_id, body)
            case Refusal.NOT_ITS_TURN:
                _not_its_turn(draft, command_id, refused.until_ms, body)
            case Refusal.APPROVAL_MISSING | Refusal.APPROVAL_INVALID | Refusal.APPROVAL_DIFFERS:
                _unapproved(drive, draft, command_id, refused.reason, body)

    return await drive.commit(change)


def _has_landed(draft: Draft, command_id: str) -> bool:
    return landed_receipt(draft.saga, draft.row(command_id)) is not None


def _left_as_it_is(drive: Drive, draft: Draft, command_id: str, body: dict[str, Any]) -> None:
    """What would mend it is not what was approved: its tries are used up, and the look that follows reports it."""
    draft.move(command_id, Trigger.FENCE_REFUSED, body)
    tries = drive.action(command_id).retry.attempts_max
    draft.move(command_id, Trigger.DOUBT_REMAINS, next_check_at_ms=draft.now_ms, attempt_count=tries)


def _held(drive: Drive, draft: Draft, command_id: str, blocker: Blocker, body: dict[str, Any]) -> None:
    draft.move(command_id, Trigger.FENCE_REFUSED, body)
    draft.block(blocker, body)
    due = draft.now_ms + int(drive.env.settings.held_poll_s * 1000)
    draft.set(command_id, next_retry_at_ms=due, claim_count=draft.row(command_id).claim_count - 1)


def _not_its_turn(draft: Draft, command_id: str, until_ms: int | None, body: dict[str, Any]) -> None:
    """Another scheduled publication of the site had the turn."""
    draft.move(command_id, Trigger.FENCE_REFUSED, body)
    draft.block(Blocker.SCHEDULED, {"until_ms": until_ms})
    draft.set(command_id, next_retry_at_ms=until_ms, claim_count=draft.row(command_id).claim_count - 1)


def _out_of_scope(drive: Drive, draft: Draft, command_id: str, body: dict[str, Any]) -> None:
    """No later time makes it right: what it would touch is not what it was allowed for."""
    draft.note(command_id, Fact.ATTEMPT_UNSENT, {"code": "out_of_scope", **body})
    refused = Refused(failure=FailureClass.BUSINESS, code="out_of_scope")
    decision = decide.before_fence(drive.standing(draft.saga, command_id), refused, drive.jitter())
    apply(draft, command_id, decision, drive.horizon(draft.saga))


def _revoked(drive: Drive, draft: Draft, command_id: str, body: dict[str, Any]) -> None:
    """Before the pivot the saga stops and unwinds; after it nothing is undone blindly and a person is asked."""
    draft.move(command_id, Trigger.FENCE_REFUSED, body)
    if draft.root.phase is Phase.PRE_PIVOT:
        draft.set(draft.root.command_id, ending="revoked", error_code="revoked")
        return
    if draft.saga.open_attempts(command_id):
        draft.move(command_id, Trigger.DOUBT_REMAINS, next_check_at_ms=draft.now_ms)
        return
    draft.move(command_id, Trigger.GIVEN_UP, {"code": "revoked"})
    draft.move(command_id, Trigger.PERSON_NEEDED)
    draft.set(command_id, error_class=FailureClass.BUSINESS, error_code="revoked")
    open_review(draft, command_id, ReviewKind.REVOKED_AFTER_PIVOT, body, drive.horizon(draft.saga))


def _unapproved(drive: Drive, draft: Draft, command_id: str, reason: Refusal, body: dict[str, Any]) -> None:
    """Missing, expired or not to be believed: ask anew. Other bytes than those approved: a conflict for a person. The
    approval is void."""
    for approval in draft.saga.approvals:
        if approval.state is ApprovalState.APPROVED:
            draft.put_approval(
                replace(approval, state=ApprovalState.VOID, decided_at_ms=draft.now_ms, reason=reason.value)
            )
            draft.note(command_id, Fact.APPROVAL_VOIDED, {"approval_id": approval.approval_id, **body})
    if reason is not Refusal.APPROVAL_DIFFERS or draft.saga.open_attempts(command_id):
        draft.move(command_id, Trigger.FENCE_REFUSED, body)
        draft.set(command_id, claim_count=draft.row(command_id).claim_count - 1)
        return
    decision = Decision(
        moves=(Trigger.VERSION_DIFFERS, Trigger.PERSON_NEEDED),
        failure=FailureClass.CONFLICT,
        code="approval_differs",
        review=ReviewKind.CONFLICT,
    )
    apply(draft, command_id, decision, drive.horizon(draft.saga))


def subject_of(approval: Approval) -> dict[str, Any]:
    """What the approver is shown."""
    subject: dict[str, Any] = json.loads(approval.subject)
    return subject
