"""The way between a worker and a modelled system: what may happen to a request, within bounds that are kept.

A request is *prepared* (its bytes are known), *connected*, *sent*, *received* after a transit of at most D, and takes
effect within the run time M after that, whether or not anybody still waits for the answer. A server that declares H
drops a request that is not complete H after its connection was opened. Everything declared in `Bounds` is a limit of
the model itself; only a `lying` wire exceeds it, and then the laws ask for no more than detection.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, Final, TypeVar

from execution.core.events import canonical
from execution.core.failures import Answer, CannotTell, FailureClass, Landed, Lost, Refused, Unsent
from execution.core.quiescence import Bounds
from execution.simulation.loop import Process, VirtualLoop, current_process

T = TypeVar("T")
SOURCE: Final = "the model ends it"
READ_GIVES_UP_S: Final = 4.0
HALVED: Final = "01234567"
"""First digits of the requests of which an error after the effect leaves half: no number is drawn for it."""
STALLS_S: Final = (0.4, 4.0, 12.0, 30.0)
"""How long a process stands still between fence and write."""
HASTE_S: Final = 0.2
"""Latency of an ordinary exchange, each way."""


class Fate(StrEnum):
    """What happens to one request after it was sent."""

    ORDINARY = "ordinary"
    SLOW = "slow"
    REQUEST_LOST = "request_lost"
    REPLY_LOST = "reply_lost"
    LINGERS = "lingers"
    ERROR_AFTER_EFFECT = "error_after_effect"
    ERROR_WITHOUT_EFFECT = "error_without_effect"
    THROTTLED = "throttled"
    RESET_BEFORE = "reset_before"
    REFUSED = "refused"


_WEIGHTS: Final[Mapping[Fate, float]] = {
    Fate.SLOW: 3.0,
    Fate.REQUEST_LOST: 2.0,
    Fate.REPLY_LOST: 4.0,
    Fate.LINGERS: 4.0,
    Fate.ERROR_AFTER_EFFECT: 2.0,
    Fate.ERROR_WITHOUT_EFFECT: 2.0,
    Fate.THROTTLED: 2.0,
    Fate.RESET_BEFORE: 1.0,
    Fate.REFUSED: 0.3,
}
_FATES: Final = tuple(_WEIGHTS)
_CHANCES: Final = tuple(_WEIGHTS.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The true limits of one system, in seconds, and whether its owner knows M and H."""

    transit_s: float = 4.0
    run_s: float = 5.0
    incomplete_s: float | None = 6.0
    stale_s: float = 0.0
    pause_s: float = 1.0
    run_known: bool = True

    def bounds(self) -> Bounds:
        """What an honest owner declares."""
        return Bounds(
            max_run_s=self.run_s if self.run_known else None,
            max_run_source=SOURCE if self.run_known else "",
            incomplete_s=self.incomplete_s,
            incomplete_source=SOURCE if self.incomplete_s is not None else "",
            transit_s=self.transit_s,
            pause_s=self.pause_s,
            stale_s=self.stale_s,
            clock_s=0.5,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """How often what goes wrong, as probabilities. duplicates: a front repeats requests. lying: bounds do not hold.
    stalls: a process stands still between fence and write, by SIGSTOP or a machine that sleeps.
    """

    write: float = 0.0
    read: float = 0.0
    connect: float = 0.0
    duplicates: float = 0.0
    lying: float = 0.0
    stalls: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Something that changed in an external system. was and now say what, for the laws. half: the system's process
    ended before it had written all that it was asked to."""

    at_s: float
    system: str
    operation: str
    key: str
    digest: str
    request: int
    by: str = "remit"
    was: str = ""
    now: str = ""
    half: bool = False


@dataclass(slots=True)
class Log:
    """The true history of all systems of one schedule. `in_flight` holds what may still take effect."""

    effects: list[Effect] = field(default_factory=list)
    sent: list[Request] = field(default_factory=list)
    in_flight: dict[int, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    on_send: Callable[[Request], None] = lambda request: None
    requests: int = 0


class Wire:
    """One system's connections. `trouble` is exchanged for none when the faults end."""

    def __init__(self, loop: VirtualLoop, rng: Random, log: Log, system: str, limits: Limits, trouble: Trouble) -> None:
        self.loop = loop
        self.rng = rng
        self.log = log
        self.system = system
        self.limits = limits
        self.trouble = trouble
        self.unwritten: dict[int, Process | None] = {}

    @property
    def bounds(self) -> Bounds:
        return self.limits.bounds()

    def request(self, operation: str, key: str, fields: Mapping[str, Any], work: Work) -> Request:
        """A prepared request. `work` does it at the server and answers what the server would."""
        self.log.requests += 1
        return Request(self, self.log.requests, operation, key, fields, work)

    def happens(self, chance: float) -> bool:
        """Whether something of that probability happens; one number is drawn in any case."""
        return self.rng.random() < chance

    async def read(self, history: Callable[[float], T], hopeless: bool = False) -> T | CannotTell:
        """A read: what stood there at some moment between its start less the staleness and its end."""
        started, worse = self.loop.time(), self.happens(self.trouble.read)
        latency = self.rng.random() * (READ_GIVES_UP_S if worse else HASTE_S)
        await asyncio.sleep(latency)
        if worse and self.rng.random() < 0.6:
            return CannotTell(code="no_answer_in_time")
        oldest = started - self.limits.stale_s
        return history(oldest + (self.loop.time() - oldest) * self.rng.random())


Work = Callable[["Request"], Answer]


class Request:
    """`execution.core.definition.Prepared` over a wire."""

    def __init__(
        self, wire: Wire, number: int, operation: str, key: str, fields: Mapping[str, Any], work: Work
    ) -> None:
        self.wire = wire
        self.number = number
        self.operation = operation
        self.key = key
        self.process = current_process()
        self.sent_at_s: float | None = None
        self.written: Callable[[], None] = _nobody_asks
        self.half = False
        self._work = work
        self._connected_at_s: float | None = None
        text = canonical([wire.system, operation, dict(fields)])
        self._digest = hashlib.sha256(text.encode()).hexdigest()

    @property
    def request_digest(self) -> str:
        return self._digest

    @property
    def bounds(self) -> Bounds:
        return self.wire.bounds

    async def connect(self) -> Answer | None:
        wire = self.wire
        await asyncio.sleep(wire.rng.random() * HASTE_S)
        if wire.happens(wire.trouble.connect):
            return Unsent(code="connect_refused")
        self._connected_at_s = wire.loop.time()
        wire.unwritten[self.number] = self.process
        return None

    async def send(self, deadline_s: float) -> Answer:
        wire = self.wire
        if wire.trouble.stalls:
            await self._stalls()
        if self._connected_at_s is None or self.number not in wire.unwritten:
            return Unsent(code="no_connection")
        del wire.unwritten[self.number]
        self.sent_at_s = wire.loop.time()
        wire.log.sent.append(self)
        self.written()
        wire.log.on_send(self)
        answer: asyncio.Future[Answer] = wire.loop.create_future()
        self._deliver(deadline_s, Lost(code="no_answer_in_time"), answer)
        self._travel(answer)
        return await answer

    async def close(self) -> None:
        self.wire.unwritten.pop(self.number, None)

    async def _stalls(self) -> None:
        """The process stands still after its look at the clock: for any time before a server whose patience is known,
        else for at most P."""
        wire = self.wire
        if self.process is None or not wire.happens(wire.trouble.stalls):
            return
        seconds = wire.rng.choice(STALLS_S)
        patient = wire.limits.incomplete_s is not None
        wire.loop.pause(self.process, seconds if patient else min(seconds, wire.limits.pause_s))
        await asyncio.sleep(0)

    def _travel(self, answer: asyncio.Future[Answer]) -> None:
        wire, rng = self.wire, self.wire.rng
        fate = self._fate()
        transit, run, back = (rng.random() * HASTE_S for _ in range(3))
        if fate in (Fate.SLOW, Fate.LINGERS):
            transit, run = rng.random() * wire.limits.transit_s, rng.random() * wire.limits.run_s
        if wire.happens(wire.trouble.lying):
            transit += rng.random() * 120.0
            fate = Fate.LINGERS
        match fate:
            case Fate.REQUEST_LOST:
                return
            case Fate.RESET_BEFORE:
                self._deliver(transit, Lost(code="connection_lost"), answer)
            case Fate.ERROR_WITHOUT_EFFECT:
                self._deliver(transit + run + back, Lost(code="undocumented_503"), answer)
            case Fate.THROTTLED:
                asked = rng.choices((None, 1.0, 5.0, float("nan"), -3.0, float("inf")), (4, 4, 4, 4, 4, 0.2))[0]
                refused = Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=asked)
                self._deliver(transit + back, refused, answer)
            case Fate.REFUSED:
                self._deliver(transit + back, Refused(failure=FailureClass.BUSINESS, code="content_refused"), answer)
            case _:
                self._arrive(fate, transit, run, back, answer)

    def _fate(self) -> Fate:
        wire = self.wire
        assert self._connected_at_s is not None
        if wire.limits.incomplete_s is not None:
            waited = wire.loop.time() - self._connected_at_s
            if waited > wire.limits.incomplete_s:
                return Fate.RESET_BEFORE
        if not wire.happens(wire.trouble.write):
            return Fate.ORDINARY
        return wire.rng.choices(_FATES, _CHANCES)[0]

    def _arrive(self, fate: Fate, transit: float, run: float, back: float, answer: asyncio.Future[Answer]) -> None:
        """The request reaches the server, unless it comes too late there to be complete."""
        wire = self.wire
        assert self._connected_at_s is not None
        received = wire.loop.time() + transit
        dropped = wire.limits.incomplete_s is not None and received > self._connected_at_s + wire.limits.incomplete_s
        if dropped and not wire.trouble.lying:
            self._deliver(transit, Lost(code="connection_lost"), answer)
            return
        if fate is Fate.LINGERS:
            self._deliver(wire.rng.random(), Lost(code="connection_reset"), answer)
        heard = fate in (Fate.ORDINARY, Fate.SLOW)
        again = wire.happens(wire.trouble.duplicates)
        self._later(transit + run, fate, back, answer if heard or fate is Fate.ERROR_AFTER_EFFECT else None)
        if again:
            self._later(transit + run + wire.rng.random() * 2.0, Fate.LINGERS, 0.0, None)
        if fate is Fate.REPLY_LOST and wire.rng.random() < 0.7:
            self._deliver(transit + run + back, Lost(code="connection_lost"), answer)

    def _later(self, delay: float, fate: Fate, back: float, answer: asyncio.Future[Answer] | None) -> None:
        flying = self.wire.log.in_flight
        flying[self.number] = flying.get(self.number, 0) + 1
        self.wire.loop.in_world(delay, self._take_effect, fate, back, answer)

    def _take_effect(self, fate: Fate, back: float, answer: asyncio.Future[Answer] | None) -> None:
        flying = self.wire.log.in_flight
        flying[self.number] -= 1
        if not flying[self.number]:
            del flying[self.number]
        self.half = fate is Fate.ERROR_AFTER_EFFECT and self._digest[0] in HALVED
        found = self._work(self)
        if answer is None:
            return
        if fate is Fate.ERROR_AFTER_EFFECT and isinstance(found, Landed):
            found = Lost(code="undocumented_500")
        self._deliver(back, found, answer)

    def _deliver(self, delay: float, value: Answer, answer: asyncio.Future[Answer]) -> None:
        self.wire.loop.in_world(delay, _settle, answer, value)


def _nobody_asks() -> None:
    """Until somebody wants to know when the bytes left."""


def _settle(answer: asyncio.Future[Answer], value: Answer) -> None:
    if not answer.done():
        answer.set_result(value)
