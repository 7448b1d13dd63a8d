"""Where batches run: on a thread of their own in production, on the event loop in a simulation.

Both collect what is submitted within one turn of the loop before they begin, so that tasks which become ready together
share a commit. The loop is told once per batch.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

from sqlalchemy import Engine

from execution.store.batch import BATCH_MAX, Job, Writer
from execution.store.errors import StoreClosed, StoreUnavailable

WAITING_MAX: Final = 10_000
"""How much work may wait; more is refused at once, so that an overload is an answer and not a growing queue."""


class Executor(Protocol):
    """Runs jobs in order of submission and delivers their outcomes on the event loop."""

    def open(self, engine: Engine) -> None:
        """Called once, before any work."""
        ...

    def submit(self, job: Job) -> None:
        """Take work; StoreClosed or StoreUnavailable when none is taken."""
        ...

    async def close(self) -> None:
        """Finish what was taken, then stop."""
        ...


class ThreadExecutor:
    """One writer thread."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._collected: list[Job] = []
        self._waiting = 0
        self._closing = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: Writer | None = None

    def open(self, engine: Engine) -> None:
        """Remember the engine; the thread starts with the first job."""
        self._writer = Writer(engine)

    def submit(self, job: Job) -> None:
        """Collect the job; the thread is woken at the end of this turn of the loop."""
        if self._closing:
            raise StoreClosed("the store is closed")
        if self._waiting >= WAITING_MAX:
            raise StoreUnavailable("too much work waits for the disk")
        if self._thread is None:
            self._start()
        self._waiting += 1
        self._collected.append(job)
        if len(self._collected) == 1:
            self._running_loop().call_soon(self._flush)

    async def close(self) -> None:
        """Finish what was taken, then end the thread."""
        if self._closing:
            return
        self._closing = True
        if self._thread is None:
            return
        self._flush()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        await asyncio.sleep(0)  # outcomes that the thread left to the loop

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="remit-writer", daemon=True)
        self._thread.start()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    def _flush(self) -> None:
        if self._collected:
            jobs, self._collected = self._collected, []
            self._queue.put(jobs)

    def _run(self) -> None:
        writer = self._writer
        assert writer is not None
        backlog: deque[Job] = deque()
        more = True
        while more or backlog:
            if more and not backlog:
                more = _take(self._queue.get(), backlog)
            while more and len(backlog) < BATCH_MAX:
                try:
                    more = _take(self._queue.get_nowait(), backlog)
                except Empty:
                    break
            run_batch(writer, _next(backlog), self._hand_over)
        writer.close()

    def _hand_over(self, jobs: Sequence[Job]) -> None:
        loop = self._running_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._deliver, jobs)

    def _deliver(self, jobs: Sequence[Job]) -> None:
        self._waiting -= len(jobs)
        for job in jobs:
            job.deliver()


class InlineExecutor:
    """No thread: the batch runs on the next turn of the loop, the same way on every run.

    `before_commit` and `after_commit` are called at each commit boundary; either may call `kill()`. Killed before the
    commit, the batch is rolled back; killed after it, the batch is on disk; in both cases nobody is ever told, and work
    submitted later is swallowed, as it is when a process dies.
    """

    def __init__(
        self, *, before_commit: Callable[[], None] | None = None, after_commit: Callable[[], None] | None = None
    ) -> None:
        self.dead = False
        self._before = before_commit
        self._after = after_commit
        self._collected: list[Job] = []
        self._writer: Writer | None = None
        self._closed = False

    def kill(self) -> None:
        """The process dies here."""
        self.dead = True

    def open(self, engine: Engine) -> None:
        """Called once, before any work."""
        self._writer = Writer(engine, self)

    def submit(self, job: Job) -> None:
        """Collect the job for the next turn."""
        if self._closed:
            raise StoreClosed("the store is closed")
        if self.dead:
            return
        self._collected.append(job)
        if len(self._collected) == 1:
            job.future.get_loop().call_soon(self._turn)

    async def close(self) -> None:
        """Finish what was taken."""
        if not self.dead:
            while self._collected:
                self._turn()
        self._closed = True
        if self._writer is not None:
            self._writer.close()

    def before_commit(self) -> bool:
        """Batch boundary: False when the process died."""
        if self._before is not None:
            self._before()
        return not self.dead

    def after_commit(self) -> bool:
        """Batch boundary: False when the process died."""
        if self._after is not None:
            self._after()
        return not self.dead

    def _turn(self) -> None:
        assert self._writer is not None
        backlog, self._collected = deque(self._collected), []
        while backlog and not self.dead:
            run_batch(self._writer, _next(backlog), self._hand_over)

    def _hand_over(self, jobs: Sequence[Job]) -> None:
        if not self.dead:
            for job in jobs:
                job.deliver()


def run_batch(writer: Writer, jobs: Sequence[Job], hand_over: Callable[[Sequence[Job]], Any]) -> None:
    """Reads first, told at once: they owe nothing to the disk. Then one transaction for everything else."""
    reads = [job for job in jobs if job.reading]
    if reads:
        writer.read(reads)
        hand_over(reads)
        jobs = [job for job in jobs if not job.reading]
    if jobs:
        writer.write(jobs)
        hand_over(jobs)


def _take(jobs: list[Job] | None, backlog: deque[Job]) -> bool:
    if jobs is None:
        return False
    backlog.extend(jobs)
    return True


def _next(backlog: deque[Job]) -> list[Job]:
    return [backlog.popleft() for _ in range(min(len(backlog), BATCH_MAX))]
