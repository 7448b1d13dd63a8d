"""How long this process has been awake since it first saw each doubt.

Quiescence must have elapsed by the store's clock *and* by the observer's own awake time, because a step of the wall
clock must not end the wait. What is remembered here is deliberately lost with the process: a new observer waits anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from execution.core.command import Attempt, Saga
from execution.core.quiescence import Doubt, remaining_s, seen_after_s
from execution.ports import Clock


class Doubts:
    """First sightings of open attempts, by attempt id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}

    def remaining_s(self, attempts: Iterable[Attempt]) -> float | None:
        """Seconds until all of these open attempts are quiescent; 0 when they are, None when nobody can know."""
        awake = self._clock.awake_s()
        doubts = [
            Doubt(
                fenced_ms=attempt.fenced_at_ms,
                q_s=attempt.quiescent_after_s,
                seen_awake_s=awake - self._seen.setdefault(attempt.attempt_id, awake),
            )
            for attempt in attempts
        ]
        return remaining_s(doubts, self._clock.now_ms())

    def shown_in_s(self, attempts: Iterable[Attempt]) -> float:
        """Seconds until a read shows what of these took effect, as far as that can be known: what landed had done so
        when its answer was there.
        """
        now, longest = self._clock.now_ms(), 0.0
        for attempt in attempts:
            if attempt.settled_at_ms is None:
                longest = max(longest, self.remaining_s([attempt]) or 0.0)
            else:
                longest = max(longest, seen_after_s(json.loads(attempt.terms)) - (now - attempt.settled_at_ms) / 1000)
        return longest

    def quiet_at_ms(self, saga: Saga) -> dict[str, int | None]:
        """For each command of the saga with open attempts: when they are quiescent (Unix ms), None when never known."""
        now = self._clock.now_ms()
        times: dict[str, int | None] = {}
        for row in saga.members:
            attempts = saga.open_attempts(row.command_id)
            if attempts:
                left = self.remaining_s(attempts)
                times[row.command_id] = None if left is None else now + int(left * 1000 + 0.999)
        return times

    def forget(self, saga: Saga) -> None:
        """The saga left this process's hands and is settled."""
        for attempt in saga.attempts:
            self._seen.pop(attempt.attempt_id, None)
