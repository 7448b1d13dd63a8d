"""Running a load at some concurrency and measuring it."""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

STEPS: Final = 5
COMMITS: Final = 2 + 2 * STEPS
WARM_UP_SAGAS: Final = 20
FSYNCS: Final = 200
WRITER_THREAD: Final = "remit-writer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one run cost. CPU is of the whole process; `writer_s` of it is the writer thread's."""

    sagas: int
    wall_s: float
    cpu_s: float
    writer_s: float

    @property
    def per_second(self) -> float:
        """Sagas a second."""
        return self.sagas / self.wall_s

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds per saga."""
        return self.cpu_s / self.sagas * 1000

    @property
    def writer_ms(self) -> float:
        """Of these, the writer thread's."""
        return self.writer_s / self.sagas * 1000


class Run(Protocol):
    """One way to do the load, on a fresh database."""

    def __call__(self, path: Path, *, sagas: int, concurrency: int) -> Coroutine[Any, Any, Measured]:
        """Do it and say what it cost."""
        ...


async def measure(saga: Callable[[int], Awaitable[None]], *, sagas: int, concurrency: int) -> Measured:
    """Run `sagas` sagas, at most `concurrency` at a time, after a warm-up. Each gets a number of its own."""
    numbers = iter(range(WARM_UP_SAGAS + sagas))

    async def client(until: int) -> None:
        for number in numbers:
            await saga(number)
            if number >= until:
                return

    await client(WARM_UP_SAGAS - 1)
    wall, cpu, writer = time.perf_counter(), time.process_time(), _writer_s()
    await asyncio.gather(*(client(WARM_UP_SAGAS + sagas) for _ in range(concurrency)))
    return Measured(
        sagas=sagas,
        wall_s=time.perf_counter() - wall,
        cpu_s=time.process_time() - cpu,
        writer_s=_writer_s() - writer,
    )


def _writer_s() -> float:
    """CPU seconds of the thread that writes."""
    threads = (thread.ident for thread in threading.enumerate() if thread.name == WRITER_THREAD)
    return sum(time.clock_gettime(time.pthread_getcpuclockid(ident)) for ident in threads if ident is not None)


def median(runs: list[Measured]) -> Measured:
    """The run with the median speed."""
    return sorted(runs, key=lambda run: run.per_second)[len(runs) // 2]


def fsync_ms(folder: Path) -> float:
    """The median time of one 4 KiB append with fdatasync, in milliseconds: the floor under every commit."""
    path = folder / "fsync"
    times = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(FSYNCS):
        start = time.perf_counter()
        os.write(descriptor, bytes(4096))
        os.fdatasync(descriptor)
        times.append(time.perf_counter() - start)
    os.close(descriptor)
    path.unlink()
    return statistics.median(times) * 1000
