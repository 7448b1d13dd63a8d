"""After the end of a saga: attempts that were in doubt stay on the watch list until they are settled."""

from __future__ import annotations

from execution.core.draft import Draft
from execution.core.horizon import Horizon, Next, Wait, Watch, earliest, open_review
from execution.core.states import Blocker, ReviewKind


def watch(draft: Draft, at: Horizon) -> Next:
    """After the end: locks are freed when every attempt is settled or quiescent and was counted once more.

    When nobody can know how long an attempt may still take effect, a person says when that is over.
    """
    doubtful = [row.command_id for row in draft.saga.members if draft.saga.open_attempts(row.command_id)]
    if not doubtful:
        draft.free_locks()
        return Wait(until_ms=None)
    times = [at.quiet_at_ms.get(command_id, at.now_ms) for command_id in doubtful]
    for command_id, time in zip(doubtful, times, strict=True):
        if time is None:
            facts = {"code": "quiescence_unknown", "attempts": len(draft.saga.open_attempts(command_id))}
            open_review(draft, command_id, ReviewKind.LATE_FACT, facts, at)
            draft.block(Blocker.FINDING_OPEN)
    ready = tuple(c for c, t in zip(doubtful, times, strict=True) if t is not None and t <= at.now_ms)
    return Watch(command_ids=ready) if ready else Wait(until_ms=earliest(times))
