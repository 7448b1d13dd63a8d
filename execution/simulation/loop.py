"""A seeded event loop on virtual time, in which several processes live, pause and die.

There is no selector and no thread: nothing becomes ready but by a callback or a timer, and time jumps to the next timer
when nothing is ready. Every callback belongs to a `Process`, told by the context it was made in. Within a process the
order of callbacks is asyncio's own (first in, first out); between processes the seed decides, as an operating system
would. A paused process runs none of its callbacks until it is resumed; a killed one never runs any again: no `finally`,
no `except`, nothing is told to anybody, as after `kill -9`.
"""

from __future__ import annotations

import asyncio
import heapq
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
STEPS_MAX: Final = 200_000
"""Callbacks that one schedule may run; a schedule that needs more runs in circles."""


CLOSES_MAX: Final = 20
"""How often a coroutine that is thrown away may wait in its clean-up."""


class Deadlock(AssertionError):
    """Nothing is ready and no timer is set, and the schedule has not ended."""


class TooManySteps(AssertionError):
    """The schedule ran in circles."""


class Process:
    """One operating-system process: its callbacks, its pauses, its death.

    asleep_s: for how long its machine was suspended; its awake clock does not count that.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.asleep_s = 0.0
        self.steps = 0
        self.ready: deque[asyncio.Handle] = deque()
        self.context: Context = copy_context()
        self.context.run(_PROCESS.set, self)


_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process whose callback runs."""
    return _PROCESS.get()


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module. `at_step` is called before each callback with the number of those that ran."""

    def __init__(self, rng: Random, *, steps_max: int = STEPS_MAX) -> None:
        self.steps = 0
        self.at_step: Callable[[int], None] | None = None
        self.broken: list[str] = []
        self.world = Process("world")
        self.last: Process = self.world
        self._rng = rng
        self._steps_max = steps_max
        self._now = 0.0
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle, Process]] = []
        self._made = 0
        self._processes: list[Process] = [self.world]
        self._tasks: list[asyncio.Task[Any]] = []
        self._runs = False
        self._ended = False
        super().__init__()

    # -- what asyncio asks of a loop -------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run the callback in the process that its context belongs to."""
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._owner(context).ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run the callback after that many virtual seconds."""
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run the callback at that virtual time; timers of the same instant come in the seed's order."""
        context = copy_context() if context is None else context
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._made += 1
        heapq.heappush(self._timers, (when, self._rng.random(), self._made, timer, self._owner(context)))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        """A task of this loop, kept until `dispose`: a process that was killed leaves no trace by being collected."""
        task = asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)
        self._tasks.append(task)
        return task

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are skipped when their time comes."""

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_running(self) -> bool:
        """Whether `run` is on its way."""
        return self._runs

    def is_closed(self) -> bool:
        """Whether `dispose` was called."""
        return self._ended

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What nobody caught is a fault of the program; it is kept for the laws."""
        error = context.get("exception")
        self.broken.append(f"{context.get('message')}: {type(error).__name__}: {error}")

    # -- processes -------------------------------------------------------------------------------------------------

    def process(self, name: str) -> Process:
        """A new process."""
        made = Process(name)
        self._processes.append(made)
        return made

    def spawn(self, process: Process, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run the coroutine as that process."""
        return self.create_task(coro, context=process.context)

    def in_world(self, delay: float, callback: Callable[[*Ts], object], *args: *Ts) -> asyncio.TimerHandle:
        """Let something happen outside every process of ours."""
        return self.call_later(delay, callback, *args, context=self.world.context)

    def kill(self, process: Process) -> None:
        """The process is gone, between two of its callbacks."""
        process.alive = False
        process.ready.clear()
        if process in self._processes:
            self._processes.remove(process)

    def pause(self, process: Process, seconds: float) -> None:
        """Stop running the process for a while."""
        process.paused = True
        self.in_world(seconds, self._resume, process)

    def _resume(self, process: Process) -> None:
        process.paused = False

    def _owner(self, context: Context) -> Process:
        return context.get(_PROCESS) or self.world

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, finished: asyncio.Future[T]) -> T:
        """Run until the future is done. Raises Deadlock or TooManySteps."""
        self._runs = True
        asyncio._set_running_loop(self)
        try:
            while not finished.done():
                self._one()
        finally:
            asyncio._set_running_loop(None)
            self._runs = False
        return finished.result()

    def _one(self) -> None:
        process = self._next_process()
        if process is None:
            self._to_next_timer()
            return
        self.steps += 1
        if self.steps > self._steps_max:
            raise TooManySteps(f"more than {self._steps_max} callbacks")
        process.steps += 1
        self.last = process
        handle = process.ready.popleft()
        if not handle.cancelled():
            handle._run()
            if self.at_step is not None:
                self.at_step(self.steps)

    def _next_process(self) -> Process | None:
        ready = [process for process in self._processes if process.ready and not process.paused]
        if len(ready) > 1:
            return ready[int(self._rng.random() * len(ready))]
        return ready[0] if ready else None

    def _to_next_timer(self) -> None:
        """Let time pass until something is due."""
        timers = self._timers
        while timers and (timers[0][3].cancelled() or not timers[0][4].alive):
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"nothing happens any more at {self._now:.3f} s")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            _, _, _, timer, process = heapq.heappop(timers)
            if process.alive and not timer.cancelled():
                process.ready.append(timer)

    def dispose(self) -> None:
        """End every task that is left, outside of time, so that none is noticed when it is collected."""
        self._ended = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # clean-up that would wait is never waited for
            self._dispose()

    def _dispose(self) -> None:
        for task in self._tasks:
            if task.done():
                if not task.cancelled():
                    task.exception()
                continue
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own way to silence it
            _close(task.get_coro())
        self._tasks.clear()


def _close(coro: Any) -> None:
    """Throw a coroutine away, and out of every wait of its clean-up."""
    for _ in range(CLOSES_MAX):
        try:
            coro.close()
        except RuntimeError:
            continue
        return
