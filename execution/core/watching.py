"""After the end of a saga: attempts that were in doubt stay on the watch list until they are settled."""

from __future__ import annotations

from execution.core.draft import Draft
from execution.core.horizon import Horizon, Next, Wait, Watch, earliest, open_review
from execution.core.states import Blocker, ReviewKind


def watch(draft: Draft, at: Horizon) -> Next:
    """After the end: locks are freed when every attempt is settled or quiescent and was counted once more.

    When nobody can know how long an attempt may still take effect, a person says when that is over.
    """
    rows = [row for row in draft.saga.members if draft.saga.open_attempts(row.command_id)]
    if not rows:
        draft.free_locks()
        return Wait(until_ms=None)
    doubtful = [row.command_id for row in rows]
    times = [_due(at.quiet_at_ms.get(row.command_id, at.now_ms), row.next_check_at_ms) for row in rows]
    for command_id, time in zip(doubtful, times, strict=True):
        if time is None:
            facts = {"code": "quiescence_unknown", "attempts": len(draft.saga.open_attempts(command_id))}
            open_review(draft, command_id, ReviewKind.LATE_FACT, facts, at)
            draft.block(Blocker.FINDING_OPEN)
    ready = tuple(c for c, t in zip(doubtful, times, strict=True) if t is not None and t <= at.now_ms)
    return Watch(command_ids=ready) if ready else Wait(until_ms=earliest(times))


def _due(quiet_at_ms: int | None, next_check_at_ms: int | None) -> int | None:
    """Once it is quiescent; later when the last look could not tell."""
    return None if quiet_at_ms is None else max(quiet_at_ms, next_check_at_ms or 0)
