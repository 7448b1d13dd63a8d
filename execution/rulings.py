"""Carrying out a person's ruling: only a worker does it, with a fresh read-back, and refuses what the facts contradict.

A ruling is requested on the review (verdict, operator, reason, signature) and carried out here, because only workers
hold credentials. The signature is judged again, because a row is no proof of who wrote it. A ruling obeys quiescence
like everything else, and it is a question put to reality before it is an answer: `absent` while the effect is there,
or `present` while it is not, is refused and stays open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from execution import acts
from execution.core.apply import record_receipt, settle_found, sighting_body
from execution.core.command import Command, Review
from execution.core.draft import Draft
from execution.core.events import Fact
from execution.core.failures import Absent, CannotTell, Foreign, Present, Receipt, Sighting
from execution.core.horizon import Next, ended
from execution.core.states import (
    ApprovalState,
    Blocker,
    CompensationState,
    EffectClass,
    Kind,
    Phase,
    ReviewKind,
    Settlement,
    State,
    Verdict,
)
from execution.core.transitions import Trigger
from execution.core.verdicts import FINDINGS, untried
from execution.drive import Drive


async def rule(drive: Drive, review_id: str) -> Next:
    """Carry out the ruling that was requested on that review, or refuse it with the reason journaled."""
    review = next(r for r in drive.saga.reviews if r.review_id == review_id)
    row = drive.saga.member(review.command_id)
    unproven = _unproven(drive, review)
    sighting, quiet = await _evidence(drive, review) if unproven is None else (None, None)

    def change(draft: Draft) -> None:
        known = next(r for r in draft.saga.reviews if r.review_id == review_id)
        refusal = (
            unproven
            or _unproven(drive, known)
            or _refusal(draft, known, sighting, quiet, observable=_observable(drive, review))
        )
        body: dict[str, Any] = {"review_id": review_id, "verdict": known.verdict, "by": known.closed_by}
        body |= {"reason": known.reason, "before": row.state}
        body |= {"at_ms": known.answered_at_ms, "signature": known.signature}
        if sighting is not None:
            evidence = sighting_body(sighting, source=row.target_system, asked_at_ms=draft.now_ms, purpose="ruling")
            body["evidence"] = evidence
        if refusal is not None:
            draft.note(review.command_id, Fact.RULED, body | {"refused": refusal})
            reason = f"refused: {refusal}"
            asked = replace(known, verdict=None, closed_by=None, answered_at_ms=None, signature=None, reason=reason)
            draft.put_review(asked)
            return
        draft.note(review.command_id, Fact.RULED, body)
        draft.put_review(replace(known, closed_at_ms=draft.now_ms))
        _carry_out(drive, draft, known, sighting)
        _lower_flags(draft, review.command_id)
        _end_unwinding(draft)

    return await drive.commit(change)


def _unproven(drive: Drive, review: Review) -> str | None:
    """Why it is no ruling of a person who may rule; None when it is."""
    return acts.invalid(acts.ruling_of(review), drive.env.rulers)


def _observable(drive: Drive, review: Review) -> bool:
    row = drive.saga.member(review.command_id)
    if row.kind not in (Kind.STEP, Kind.COMPENSATION):
        return False
    if (
        review.kind is ReviewKind.POISON
        and review.verdict == Verdict.ABANDON
        and not drive.saga.attempts_of(row.command_id)
    ):
        return False  # never sent: nothing is there, and looking may be what ends its workers
    return drive.action(review.command_id).observe is not None


async def _evidence(drive: Drive, review: Review) -> tuple[Sighting | None, float | None]:
    quiet = drive.env.doubts.remaining_s(drive.saga.open_attempts(review.command_id))
    if not _observable(drive, review):
        return None, quiet
    async with drive.turn(review.command_id):
        return await drive.observe(review.command_id), quiet


def _refusal(
    draft: Draft, review: Review, sighting: Sighting | None, quiet: float | None, *, observable: bool
) -> str | None:
    """Why the facts do not allow it; None when they do."""
    row = draft.row(review.command_id)
    if review.kind in FINDINGS and review.verdict == Verdict.CONTINUE:
        return None
    if _ends_the_saga(row, review):
        return None if draft.root.phase is Phase.PRE_PIVOT and not draft.root.is_terminal else "too_late"
    if untried(row):
        return "not_seen_gone" if review.verdict == Verdict.PRESENT and not isinstance(sighting, Absent) else None
    if row.state is not State.NEEDS_REVIEW:
        return "no_longer_in_review"
    match review.verdict:
        case Verdict.PRESENT:
            return "not_seen_there" if observable and not isinstance(sighting, Present) else None
        case Verdict.CONTINUE if _counts_as_there(review, sighting):
            return None
        case Verdict.ABSENT | Verdict.CONTINUE | Verdict.ABANDON if draft.saga.open_attempts(review.command_id):
            return _refusal_in_doubt(draft, review, sighting, quiet, observable=observable)
        case Verdict.CONTINUE | Verdict.ABANDON if isinstance(sighting, Present) and row.kind is Kind.STEP:
            return "seen_there"
        case Verdict.CONTINUE if review.kind is ReviewKind.CONFLICT and isinstance(sighting, Foreign):
            return "still_in_the_way"
        case Verdict.REBASE if not isinstance(sighting, Foreign | Absent):
            return "nothing_to_rebase_on"
        case Verdict.ABANDON if row.effect_class is EffectClass.PIVOT and draft.root.phase is Phase.COMPLETED:
            return "already_completed"
        case _:
            return None


def _refusal_in_doubt(
    draft: Draft, review: Review, sighting: Sighting | None, quiet: float | None, *, observable: bool
) -> str | None:
    """While an attempt may still land. What is public is never given up beside something that stands in its place."""
    row = draft.row(review.command_id)
    left = review.verdict == Verdict.ABANDON and row.effect_class is not EffectClass.PIVOT
    if isinstance(sighting, Present) or (isinstance(sighting, Foreign) and not left):
        return "seen_there"
    nobody_reads = not observable or _unasked(sighting, row)
    if isinstance(sighting, CannotTell) and not nobody_reads:
        return "cannot_be_read"
    early = nobody_reads and _looked_early(draft, review)
    return "not_quiescent" if early or (quiet is not None and quiet > 0) else None


def _counts_as_there(review: Review, sighting: Sighting | None) -> bool:
    """It was ruled present, or what seemed to be in the way turned out to be the effect itself."""
    conflict = review.kind is ReviewKind.CONFLICT and isinstance(sighting, Present)
    return review.verdict == Verdict.PRESENT or conflict


def _unasked(sighting: Sighting | None, row: Command) -> bool:
    """What the question needs is missing for good: only the person can look. What is public is never left to that."""
    return isinstance(sighting, CannotTell) and sighting.unasked and row.effect_class is not EffectClass.PIVOT


def _looked_early(draft: Draft, review: Review) -> bool:
    """Nobody can read it back but the person, and when they answered, something could still land."""
    answered = review.answered_at_ms or 0
    known = [(a.fenced_at_ms, a.quiescent_after_s) for a in draft.saga.open_attempts(review.command_id)]
    return any(after_s is not None and fenced + after_s * 1000 > answered for fenced, after_s in known)


def _carry_out(drive: Drive, draft: Draft, review: Review, sighting: Sighting | None) -> None:
    command_id = review.command_id
    row = draft.row(command_id)
    if _ends_the_saga(row, review):
        draft.set(draft.root.command_id, ending=draft.root.ending or "abandoned")
        return
    if untried(row):
        _rule_untried(draft, row, review.verdict)
        return
    if review.kind in FINDINGS and (row.is_root or row.state is not State.NEEDS_REVIEW):
        if review.kind is ReviewKind.LATE_FACT:
            _close_attempts(draft, command_id)
        if review.kind is ReviewKind.STUCK and row.kind is Kind.GATE:
            draft.set(command_id, attempt_count=0, claim_count=0, next_retry_at_ms=draft.now_ms)
        if review.kind is ReviewKind.DRIFT and row.state is State.SUCCESS and _whole(sighting):
            draft.set(command_id, verified_at_ms=draft.now_ms)  # somebody mended it: it is what was asked for again
        return
    match review.verdict:
        case Verdict.PRESENT | Verdict.CONTINUE if _counts_as_there(review, sighting):
            _present(draft, command_id, sighting)
        case Verdict.ABSENT:
            _close_attempts(draft, command_id)
            draft.move(command_id, Trigger.RULED_ABSENT, next_retry_at_ms=draft.now_ms, claim_count=0)
            _back_before_pivot(draft, command_id)
            _resume_unwinding(draft)
        case Verdict.ABANDON:
            _abandon(draft, command_id)
        case Verdict.REBASE:
            _rebase(draft, command_id, sighting)
        case Verdict.COMPENSATE:
            _abandon(draft, command_id)
        case _:
            _continue(drive, draft, command_id)


def _ends_the_saga(row: Command, review: Review) -> bool:
    """Giving up on the whole, or on a step that could not even be begun: there is nothing to rule about it alone."""
    begun = row.state is State.NEEDS_REVIEW
    return review.verdict == Verdict.ABANDON and (row.is_root or (review.kind is ReviewKind.STUCK and not begun))


def _whole(sighting: Sighting | None) -> bool:
    return isinstance(sighting, Present) and sighting.complete and sighting.rows == 1


def _rule_untried(draft: Draft, row: Command, verdict: str | None) -> None:
    """The person answers for the open attempts: undo it now, it is gone already, or leave it."""
    if verdict == Verdict.ABANDON:
        return
    _close_attempts(draft, row.command_id)
    gone = verdict == Verdict.PRESENT
    state = CompensationState.DONE if gone else CompensationState.PENDING
    draft.set(row.command_id, compensation_state=state)
    draft.note(row.command_id, Fact.COMPENSATION_STATE, {"to": state})
    _resume_unwinding(draft)


def _end_unwinding(draft: Draft) -> None:
    """What a person left is left: with the last answer, whatever it was about, the unwinding ends and says so."""
    if draft.root.state is State.NEEDS_REVIEW and not any(r.closed_at_ms is None for r in draft.saga.reviews):
        draft.move(draft.root.command_id, Trigger.RULED_ABANDON, {"code": "not_compensated"})
        ended(draft)


def _present(draft: Draft, command_id: str, sighting: Sighting | None) -> None:
    if isinstance(sighting, Present):
        settle_found(draft, command_id, sighting)
        record_receipt(draft, command_id, sighting.receipt, verified=sighting.seen)
    else:
        record_receipt(draft, command_id, Receipt(resource_id="ruled", data={"ruled": True}), verified=False)
        _close_attempts(draft, command_id)
    draft.move(command_id, Trigger.RULED_PRESENT)
    if draft.row(command_id).effect_class is EffectClass.PIVOT and draft.root.phase is Phase.PRE_PIVOT:
        draft.phase(Phase.POST_PIVOT)
    _resume_unwinding(draft)


def _close_attempts(draft: Draft, command_id: str) -> None:
    """A person answered for them after quiescence; they leave the watch list with that on record."""
    for attempt in draft.saga.open_attempts(command_id):
        quiet = replace(attempt, settlement=Settlement.QUIET, settled_at_ms=draft.now_ms, code="ruled_absent")
        draft.put_attempt(quiet)


def _back_before_pivot(draft: Draft, command_id: str) -> None:
    """Nothing is public after all; where an earlier step was given up meanwhile, nothing can follow it either."""
    if draft.row(command_id).effect_class is not EffectClass.PIVOT or draft.root.phase is not Phase.POST_PIVOT:
        return
    draft.phase(Phase.PRE_PIVOT)
    if any(row.kind in (Kind.STEP, Kind.GATE) and row.state is State.FAILED for row in draft.saga.members):
        draft.set(draft.root.command_id, ending=draft.root.ending or "abandoned")


def _abandon(draft: Draft, command_id: str) -> None:
    """Before the pivot the saga unwinds; after it only this step is given up, and the ending says so."""
    _close_attempts(draft, command_id)
    draft.move(command_id, Trigger.RULED_ABANDON)
    _back_before_pivot(draft, command_id)
    row = draft.row(command_id)
    if row.kind is Kind.COMPENSATION:
        assert row.compensates is not None
        draft.set(row.compensates, compensation_state=CompensationState.FAILED)
        return
    if draft.root.phase is Phase.PRE_PIVOT:
        draft.set(draft.root.command_id, ending=draft.root.ending or "abandoned")


def _continue(drive: Drive, draft: Draft, command_id: str) -> None:
    row = draft.row(command_id)
    if row.kind is Kind.GATE:
        draft.move(command_id, Trigger.RULED_ACCEPT)
        return
    draft.move(
        command_id, Trigger.RULED_CONTINUE, attempt_count=0, claim_count=0, next_retry_at_ms=None, error_class=None
    )
    if row.effect_class is EffectClass.PIVOT:
        draft.set(draft.root.command_id, not_before_ms=None)
    _back_before_pivot(draft, command_id)
    _resume_unwinding(draft)


def _resume_unwinding(draft: Draft) -> None:
    if draft.root.state is State.NEEDS_REVIEW:
        draft.move(draft.root.command_id, Trigger.RULED_COMPENSATE)


def _rebase(draft: Draft, command_id: str, sighting: Sighting | None) -> None:
    """What is there now becomes what is expected; the approval is void and asked for anew."""
    found = sighting.receipt if isinstance(sighting, Foreign | Absent) else None
    for approval in draft.saga.approvals:
        if approval.state in (ApprovalState.PENDING, ApprovalState.APPROVED):
            draft.put_approval(replace(approval, state=ApprovalState.VOID, decided_at_ms=draft.now_ms, reason="rebase"))
            draft.note(command_id, Fact.APPROVAL_VOIDED, {"approval_id": approval.approval_id, "reason": "rebase"})
    draft.move(
        command_id,
        Trigger.RULED_CONTINUE,
        expected_version=found.version if found is not None else None,
        attempt_count=0,
        claim_count=0,
        next_retry_at_ms=None,
    )
    _back_before_pivot(draft, command_id)
    _resume_unwinding(draft)


def _lower_flags(draft: Draft, command_id: str) -> None:
    """Nothing asks for a person any more once the last open question is answered."""
    still_open = [r for r in draft.saga.reviews if r.closed_at_ms is None]
    if not any(r.command_id == command_id for r in still_open):
        draft.set(command_id, human_review_required=False)
    if not still_open:
        draft.set(draft.root.command_id, human_review_required=False)
        draft.unblock(Blocker.FINDING_OPEN)
