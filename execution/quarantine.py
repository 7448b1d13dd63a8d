"""What ends its workers again and again is put before a person, whatever was being done with it.

A worker that was lost at its work may have been lost by chance, or by what it read there. Claims of steps are counted
where they are made (`core.horizon.begin`); here everything else is counted, by whoever takes over: evaluating a gate,
finding out, verifying, counting once more after the end, carrying out a ruling. The counts stand in the registry, so
that a restart of the fleet forgets none, and quarantines nobody who was lost along with it a few times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from execution.core.apply import landed_receipt
from execution.core.command import Attempt, Command, Review, Saga
from execution.core.draft import Draft
from execution.core.events import Fact
from execution.core.horizon import Horizon, open_review
from execution.core.states import Blocker, Kind, ReviewKind, Settlement, State
from execution.core.transitions import Trigger

CODE: Final = "claimed_too_often"


def count_loss(draft: Draft, left: Saga, at: Horizon) -> None:
    """The owner of `left` was lost; `draft` is the takeover, in which what it left was judged."""
    for row in left.members:
        if row.kind is Kind.GATE and row.state is State.RUNNING:
            if _too_often(draft, row, at):
                draft.move(row.command_id, Trigger.REFUSED, {"code": CODE})
                draft.move(row.command_id, Trigger.PERSON_NEEDED)
                open_review(draft, row.command_id, ReviewKind.POISON, _facts(draft, row), at)
        elif _was_looked_for(left, row) and _too_often(draft, row, at):
            _stop_looking(draft, row, at)
    if left.root.is_terminal and _too_often(draft, left.root, at):
        _stop_watching(draft, left.root, at)


def refuse_ruling(draft: Draft, review: Review, at: Horizon) -> bool:
    """Whether carrying it out ended so many owners that it is refused; whoever ruled may rule something else."""
    row = draft.row(review.command_id)
    if not _too_often(draft, row, at):
        return False
    body: dict[str, Any] = {"review_id": review.review_id, "verdict": review.verdict, "by": review.closed_by}
    draft.note(row.command_id, Fact.RULED, body | {"reason": review.reason, "before": row.state, "refused": CODE})
    draft.put_review(replace(review, verdict=None, closed_by=None, answered_at_ms=None, reason=f"refused: {CODE}"))
    draft.set(row.command_id, claim_count=row.attempt_count)
    return True


def _too_often(draft: Draft, row: Command, at: Horizon) -> bool:
    """Count one more; what attempts were made of is progress."""
    lost = draft.row(row.command_id).claim_count + 1
    draft.set(row.command_id, claim_count=lost)
    return lost - row.attempt_count > at.claims_max


def _facts(draft: Draft, row: Command) -> dict[str, Any]:
    return {"code": CODE, "claims": draft.row(row.command_id).claim_count}


def _was_looked_for(left: Saga, row: Command) -> bool:
    verified = row.state is State.RUNNING and landed_receipt(left, row) is not None
    return row.kind is not Kind.GATE and (row.state is State.RECONCILING or verified)


def _stop_looking(draft: Draft, row: Command, at: Horizon) -> None:
    if row.state is State.RUNNING:
        draft.move(row.command_id, Trigger.OUTCOME_LOST, {"code": CODE})
    draft.move(row.command_id, Trigger.PROBING)
    draft.move(row.command_id, Trigger.PERSON_NEEDED, {"code": CODE})
    open_review(draft, row.command_id, ReviewKind.OUTCOME_UNKNOWN, _facts(draft, row), at)
    draft.set(row.command_id, claim_count=row.attempt_count, next_check_at_ms=None)


def _stop_watching(draft: Draft, root: Command, at: Horizon) -> None:
    """It ended, and its objects cannot be counted once more: the watch list is closed, and a person is told."""
    facts = _facts(draft, root)
    for row in draft.saga.members:
        quiet = [a for a in draft.saga.open_attempts(row.command_id) if _is_quiet(a, draft.now_ms)]
        if not quiet:
            continue
        for attempt in quiet:
            draft.put_attempt(replace(attempt, settlement=Settlement.QUIET, settled_at_ms=draft.now_ms, code=CODE))
        draft.note(row.command_id, Fact.FINDING_ADDED, {"kind": ReviewKind.LATE_FACT, **facts})
        open_review(draft, row.command_id, ReviewKind.LATE_FACT, facts, at)
        draft.set(row.command_id, next_check_at_ms=None, look_count=0)
        draft.block(Blocker.FINDING_OPEN)
    draft.set(root.command_id, claim_count=0)


def _is_quiet(attempt: Attempt, now_ms: int) -> bool:
    """By the store's clock: every owner that was lost had waited by its own as well before it looked."""
    after_s = attempt.quiescent_after_s
    return after_s is not None and attempt.fenced_at_ms + after_s * 1000 <= now_ms
