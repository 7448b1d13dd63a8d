"""What the composition root provides, from a seed: time, ids and chance."""

from __future__ import annotations

from random import Random
from typing import Final

from execution.simulation.loop import Process, VirtualLoop

EPOCH_MS: Final = 1_750_000_000_000
"""Wall time at the start of every schedule."""
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


def seeded(seed: str) -> Random:
    """The only source of chance in a simulation; the same on every machine and in every process."""
    return Random(seed)  # noqa: S311 (a schedule must be repeatable; nothing secret depends on it)


class Wall:
    """The wall clock of the host; it can be set, forward and back."""

    def __init__(self) -> None:
        self.offset_s = 0.0


class VirtualClock:
    """One process's clocks (`execution.ports.Clock`)."""

    def __init__(self, loop: VirtualLoop, wall: Wall, process: Process, skew_s: float = 0.0) -> None:
        self._loop = loop
        self._wall = wall
        self._process = process
        self._skew_s = skew_s

    def now_ms(self) -> int:
        return EPOCH_MS + int((self._loop.time() + self._wall.offset_s + self._skew_s) * 1000)

    def awake_s(self) -> float:
        return 1_000.0 + self._loop.time() - self._process.asleep_s

    def boot_s(self) -> float:
        return 5_000.0 + self._loop.time()


class SeededIds:
    """Prefixed names of a ULID's form: a counter, so that order is that of making, and a little of the seed."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._made = 0

    def new(self, prefix: str) -> str:
        self._made += 1
        number = self._made << 40 | self._rng.getrandbits(40)
        return f"{prefix}_{''.join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))}"


class SeededChance:
    """Jitter (`execution.ports.Chance`)."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def uniform(self) -> float:
        return self._rng.random()
