"""What the engine asks of the machine: time, fresh names, chance."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time. Wall time is compared across processes, awake time measures waits, boot time permission to send."""

    def now_ms(self) -> int:
        """Unix milliseconds."""
        ...

    def awake_s(self) -> float:
        """Seconds that this process's machine was awake (CLOCK_MONOTONIC)."""
        ...

    def boot_s(self) -> float:
        """Seconds since boot, suspends included (CLOCK_BOOTTIME)."""
        ...


class Ids(Protocol):
    """Fresh names."""

    def new(self, prefix: str) -> str:
        """A prefixed lower-case ULID: cmd_01kb9zq3m4n5p6q7r8s9t0v1w2."""
        ...


class Chance(Protocol):
    """Randomness for jitter."""

    def uniform(self) -> float:
        """A number in [0, 1)."""
        ...
