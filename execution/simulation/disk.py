"""One process's way to the journal: the real writer, run on the loop, with commits that take time and can be lost.

Several processes share one in-memory database. A batch is written within one callback, so that batches of different
processes never interleave, as the database's own lock sees to. Each commit has two boundaries, before and after, at
which the process may die: before, nothing is on disk; after, everything is, and nobody was told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final, Protocol

from execution.core.draft import Unit
from execution.simulation.loop import Process, VirtualLoop
from execution.store.batch import Job, Writer
from execution.store.errors import StoreUnavailable, UnknownCommit
from execution.store.executors import run_batch
from execution.store.writer import Store

SLOW_S: Final = 3.0
"""The longest that a slow disk takes, each way."""


class Side(StrEnum):
    """Where at a commit a process dies."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(slots=True, kw_only=True)
class DiskTrouble:
    """How often commits are slow, their answers lost, or the database away; probabilities."""

    slow: float = 0.0
    lost: float = 0.0
    away: float = 0.0


class Boundaries(Protocol):
    """Whoever watches commits: told at each boundary, and of what was written."""

    def boundary(self, process: Process, side: Side) -> None: ...

    def written(self, process: Process, units: Sequence[Unit]) -> None: ...


class Disk:
    """An executor (`execution.store.executors.Executor`) of one process."""

    def __init__(
        self, loop: VirtualLoop, process: Process, rng: Random, trouble: DiskTrouble, watcher: Boundaries
    ) -> None:
        self._loop = loop
        self._process = process
        self._rng = rng
        self._trouble = trouble
        self._watcher = watcher
        self._writer: Writer | None = None
        self._collected: list[Job] = []
        self._current: Sequence[Job] = ()
        self._busy = False
        self._lost = False

    def open(self, engine: object) -> None:
        """Called once, before any work."""
        self._writer = Writer(engine, self)  # type: ignore[arg-type]  # the engine's type belongs to the store

    def submit(self, job: Job) -> None:
        """Collect the job for the next batch."""
        if not self._process.alive:
            return
        self._collected.append(job)
        if not self._busy:
            self._busy = True
            self._after(self._delay(), self._turn)

    async def close(self) -> None:
        """A process of a simulation ends by being killed or by the end of its schedule."""

    def before_commit(self) -> bool:
        """The writer's boundary: False leaves nothing on disk."""
        self._watcher.boundary(self._process, Side.BEFORE)
        if self._rng.random() < self._trouble.lost:
            self._lost = True
            return False
        return self._process.alive

    def after_commit(self) -> bool:
        """The writer's boundary: what was written is on disk."""
        units = [job.work for job in self._current if job.error is None and isinstance(job.work, Unit)]
        self._watcher.written(self._process, units)
        self._watcher.boundary(self._process, Side.AFTER)
        self._lost = self._rng.random() < self._trouble.lost
        return self._process.alive

    def _delay(self) -> float:
        return self._rng.random() * SLOW_S if self._rng.random() < self._trouble.slow else 0.0

    def _after(self, delay: float, callback: Callable[[], None]) -> None:
        if delay:
            self._loop.call_later(delay, callback, context=self._process.context)
        else:
            self._loop.call_soon(callback, context=self._process.context)

    def _turn(self) -> None:
        assert self._writer is not None
        jobs, self._collected = self._collected, []
        if self._rng.random() < self._trouble.away:
            for job in jobs:
                job.error = StoreUnavailable("the database is away")
            self._told(jobs)
            self._next()
            return
        self._current = [job for job in jobs if not job.reading]
        run_batch(self._writer, jobs, self._hand_over)
        if not self._current:
            self._next()

    def _hand_over(self, jobs: Sequence[Job]) -> None:
        if not self._process.alive:
            return
        if jobs[0].reading:
            self._told(jobs)
            return
        if self._lost:
            for job in jobs:
                job.error = job.error or UnknownCommit("the answer was lost")
            self._lost = False
        self._after(self._delay(), lambda: self._acknowledge(jobs))

    def _acknowledge(self, jobs: Sequence[Job]) -> None:
        self._told(jobs)
        self._next()

    def _told(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.deliver()

    def _next(self) -> None:
        self._busy = bool(self._collected)
        if self._busy:
            self._after(self._delay(), self._turn)


def store_of(engine: object, disk: Disk) -> Store:
    """A store over the shared database, by way of that process's disk."""
    return Store(engine, executor=disk)  # type: ignore[arg-type]  # the engine's type belongs to the store
