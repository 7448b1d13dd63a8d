"""The shared pace of each external system: how many exchanges are under way, and when none may begin.

Every exchange of a worker with a system takes a *turn*. A system has a limited number of turns at once and, where its
plan says so, per minute. One refusal for load (429, `Retry-After`) closes the system to every command, not only to the
one that heard it; so do several exchanges in a row without any answer (an open breaker). Once the pause is over a
single exchange tries (half-open); every answer doubles the number of turns until it is whole again (slow start).

Waiting costs nothing that a slow system could use up for others: a few commands of each system wait in memory for their
turn, finding out and undoing before new work and tenants in rotation; the rest are not claimed for it before its time.
What this process learns it tells the others through `news` and `share`.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from execution.core.failures import Answer, CannotTell, Lost, Refused, Sighting, Unsent
from execution.ports import Clock

RETRY_AFTER_MAX_S: Final = 3_600.0
_NEVER_LEFT: Final = frozenset({"send_budget", "no_connection"})
"""Codes of ours: nothing was asked of the system."""
_ANSWERED: Final = frozenset({"not_authorised", "not_permitted", "table_missing", "table_differs"})
"""It cannot tell, and says why: that is no silence, and waiting does not mend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The pace of one system.

    concurrent: exchanges under way at once. per_minute, burst: what its plan allows; None: nothing is known. waiting:
    commands that may wait in memory for a turn. silent: exchanges in a row without an answer that open the breaker.
    pause_s, pause_max_s: how long it stays closed when the system names no time; doubled each time it fails again.
    """

    concurrent: int = 8
    per_minute: float | None = None
    burst: int = 1
    waiting: int = 32
    silent: int = 5
    pause_s: float = 5.0
    pause_max_s: float = 60.0

    def __post_init__(self) -> None:
        if self.concurrent < 1 or self.burst < 1 or self.waiting < 1 or self.silent < 1:
            raise ValueError("a pace counts from one")
        if self.per_minute is not None and not 0 < self.per_minute < math.inf:
            raise ValueError("a pace per minute is positive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A system takes no new exchange until then (Unix milliseconds), because of `code`."""

    until_ms: int
    code: str


@dataclass(slots=True)
class _System:
    """What is known about one system in this process."""

    rules: Rules
    limit: int
    tokens: float
    refilled_s: float
    under_way: int = 0
    silent: int = 0
    pauses: int = 0
    closed: Closed | None = None
    urgent: deque[asyncio.Future[None]] = field(default_factory=deque)
    waiting: OrderedDict[str, deque[asyncio.Future[None]]] = field(default_factory=OrderedDict)

    @property
    def queued(self) -> int:
        waiting = sum(len(queue) for queue in self.waiting.values()) if self.waiting else 0
        return len(self.urgent) + waiting


class Pace:
    """The systems of one worker. `rules` by name of the system; others have `common`."""

    def __init__(self, clock: Clock, rules: Mapping[str, Rules] | None = None, common: Rules | None = None) -> None:
        self._clock = clock
        self._rules = dict(rules or {})
        self._common = common or Rules()
        self._systems: dict[str, _System] = {}
        self._news: dict[str, Closed] = {}

    # -- turns -----------------------------------------------------------------------------------------------------

    def enter(self, system: str) -> bool:
        """Take a turn at once: one exchange with the system, or several in a row for one purpose. Whoever has one must
        `leave`. False when there is no room, or others wait for it."""
        at = self._system(system)
        if at.queued or not self._room(at):
            return False
        self._take(at)
        return True

    def leave(self, system: str) -> None:
        """Give a turn back."""
        at = self._system(system)
        at.under_way -= 1
        self._admit(at)

    async def wait(self, system: str, *, tenant: str, urgent: bool) -> None:
        """Take a turn as soon as there is room."""
        at = self._system(system)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = at.urgent if urgent else at.waiting.setdefault(tenant, deque())
        queue.append(place)
        self._admit(at)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                at.under_way -= 1
            self._forget(at, place)
            self._admit(at)
            raise

    def _admit(self, at: _System) -> None:
        """Let in whoever is next while there is room; come back when time alone will make room."""
        while at.queued and self._room(at):
            place = self._next(at)
            if not place.cancelled():
                self._take(at)
                place.set_result(None)
        if at.queued and at.under_way < at.limit:
            asyncio.get_running_loop().call_later(max(0.01, self._until_room_s(at)), self._admit, at)

    def _next(self, at: _System) -> asyncio.Future[None]:
        if at.urgent:
            return at.urgent.popleft()
        tenant, queue = next(iter(at.waiting.items()))
        place = queue.popleft()
        at.waiting.move_to_end(tenant)
        if not queue:
            del at.waiting[tenant]
        return place

    def _forget(self, at: _System, place: asyncio.Future[None]) -> None:
        if place in at.urgent:
            at.urgent.remove(place)
        for tenant, queue in tuple(at.waiting.items()):
            if place in queue:
                queue.remove(place)
            if not queue:
                del at.waiting[tenant]

    def _room(self, at: _System) -> bool:
        self._refill(at)
        return at.under_way < at.limit and at.tokens >= 1.0 and self._closed_for_s(at) <= 0.0

    def _take(self, at: _System) -> None:
        at.under_way += 1
        if at.rules.per_minute is not None:
            at.tokens -= 1.0

    def _refill(self, at: _System) -> None:
        if at.rules.per_minute is None:
            return
        now = self._clock.awake_s()
        gained = (now - at.refilled_s) * at.rules.per_minute / 60.0
        at.tokens, at.refilled_s = min(float(at.rules.burst), at.tokens + gained), now

    def _until_room_s(self, at: _System) -> float:
        missing = 0.0 if at.rules.per_minute is None else max(0.0, 1.0 - at.tokens) * 60.0 / at.rules.per_minute
        return max(missing, self._closed_for_s(at))

    # -- what answers say ------------------------------------------------------------------------------------------

    def learn(self, system: str, seen: Answer | Sighting | None) -> None:
        """What an exchange shows about the system's load, whatever it says about the effect."""
        at = self._system(system)
        match seen:
            case Refused(code="rate_limited", retry_after_s=wait) | CannotTell(code="rate_limited", retry_after_s=wait):
                self._close(at, system, "rate_limited", wait)
            case Refused(retry_after_s=float(wait)) | CannotTell(retry_after_s=float(wait)):
                self._close(at, system, "busy", wait)
            case Unsent(code=code) if code in _NEVER_LEFT:
                pass
            case Unsent() | Lost():
                self._silent(at, system)
            case CannotTell(code=code, hopeless=False) if code not in _ANSWERED:
                self._silent(at, system)
            case None:
                pass
            case _:
                self._answered(at)

    def _answered(self, at: _System) -> None:
        at.silent, at.pauses = 0, 0
        if at.limit < at.rules.concurrent:
            at.limit = min(at.rules.concurrent, at.limit * 2)
            self._admit(at)

    def _silent(self, at: _System, system: str) -> None:
        at.silent += 1
        if at.silent >= at.rules.silent:
            self._close(at, system, "no_answer", None)

    def _close(self, at: _System, system: str, code: str, asked_s: float | None) -> None:
        """Closed for as long as the system asked, or longer each time; afterwards one exchange tries."""
        own = min(at.rules.pause_max_s, at.rules.pause_s * 2.0**at.pauses)
        usable = asked_s is not None and math.isfinite(asked_s) and asked_s > 0
        wait_s = min(asked_s, RETRY_AFTER_MAX_S) if usable and asked_s is not None else own
        at.pauses, at.limit = min(at.pauses + 1, 16), 1
        until = self._clock.now_ms() + int(wait_s * 1000)
        if at.closed is None or until > at.closed.until_ms:
            at.closed = self._news[system] = Closed(until_ms=until, code=code)

    def _closed_for_s(self, at: _System) -> float:
        return 0.0 if at.closed is None else (at.closed.until_ms - self._clock.now_ms()) / 1000.0

    # -- what others are told --------------------------------------------------------------------------------------

    def closed(self) -> dict[str, int]:
        """Systems that take nothing before then (Unix milliseconds)."""
        found = {name: at.closed.until_ms for name, at in self._systems.items() if at.closed is not None}
        now = self._clock.now_ms() if found else 0
        return {name: until for name, until in found.items() if until > now}

    def full(self) -> dict[str, int]:
        """Systems for which enough commands wait here: nothing new need be begun before then."""
        crowded = {name: at for name, at in self._systems.items() if at.queued >= at.rules.waiting}
        now = self._clock.now_ms() if crowded else 0
        return {name: now + int(max(1.0, self._until_room_s(at)) * 1000) for name, at in crowded.items()}

    def news(self) -> dict[str, Closed]:
        """Closures that were not shared yet; they are told once."""
        news, self._news = self._news, {}
        return news

    def share(self, closed: Mapping[str, Closed]) -> None:
        """Closures that other processes learnt of."""
        for name, found in closed.items():
            at = self._system(name)
            if at.closed is None or found.until_ms > at.closed.until_ms:
                at.closed, at.limit = found, 1

    def _system(self, name: str) -> _System:
        at = self._systems.get(name)
        if at is None:
            rules = self._rules.get(name) or self._rules.get(name.partition("/")[0]) or self._common
            at = self._systems[name] = _System(rules, rules.concurrent, float(rules.burst), self._clock.awake_s())
        return at
