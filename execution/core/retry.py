"""Retry arithmetic: base · 2^(n−1), capped, with full jitter; a foreign Retry-After is respected and bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

RETRY_AFTER_MAX_S: Final = 900.0
"""A longer Retry-After is cut to this: an absurd one must not park a command for days in silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how far apart (seconds). `attempts_max` counts all attempts, the first included."""

    attempts_max: int = 3
    base_s: float = 1.0
    cap_s: float = 60.0

    def __post_init__(self) -> None:
        if not (1 <= self.attempts_max <= 1000 and 0 < self.base_s <= self.cap_s <= 3600):
            raise ValueError("retry policy out of range")

    def allows(self, attempts_made: int) -> bool:
        """May another attempt follow after that many?"""
        return attempts_made < self.attempts_max

    def delay_s(self, attempts_made: int, jitter: float, asked_s: float | None = None) -> float:
        """Seconds to wait after the n-th attempt (n ≥ 1); `jitter` in [0, 1); never shorter than what was asked."""
        exponent = min(max(attempts_made, 1) - 1, 32)
        own = min(self.base_s * 2.0**exponent, self.cap_s) * jitter
        return max(own, bounded_retry_after_s(asked_s))


def bounded_retry_after_s(asked_s: float | None) -> float:
    """A usable number from whatever stood in Retry-After: missing, NaN, infinite and past become 0, absurd is cut."""
    if asked_s is None or math.isnan(asked_s) or asked_s <= 0:
        return 0.0
    return min(asked_s, RETRY_AFTER_MAX_S)
