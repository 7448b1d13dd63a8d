"""The protocol for one key, small enough to be checked whole: every order of events, not some that a seed drew.

Two workers, crashes and pauses at any point, a lease that can be lost at any moment, several attempts, requests that
travel, wait in the server and take effect late. Time is counted in ticks; it cannot pass where a declared bound would
be broken. `check` visits every reachable state by breadth and answers with the shortest way to one that breaks a
promise: two effects, an effect after it was given up, a success without one.

Dropping a law shows what it is for. The bounds: W the send budget, P the pause between check and write, D the way to
the server, M the run time there, S the age of what a read shows, H how long the server waits for the whole of a request
on an open connection. A look is conclusive when it began at an attempt age above Q = W + P + D + M + S, or above
H + M + S where H is known, for any pause and any way; one tick is the model's granularity, so that "above" is exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class Drop(StrEnum):
    """Laws that a check can leave out."""

    WRITE_AHEAD = "send before the attempt is committed"
    DOUBT = "a time-out is a failure"
    LOOK = "send again without looking"
    QUIESCENCE = "believe an absence at once"
    TRANSIT = "quiescence without the way to the server"
    ALL_ATTEMPTS = "only the last attempt counts"
    EPOCH = "an owner that was replaced commits"
    TAKEOVER = "what a lost owner left running is sent again"
    BUDGET = "no look at the clock before the write"
    STAMP = "the clock is looked at from the commit's answer on"
    CONNECTION = "connect after the fence"
    ABANDON = "give up without quiescence"
    EVIDENCE = "a late receipt is not used"


class Promise(StrEnum):
    """What must hold in every state."""

    ONE_EFFECT = "at most one effect"
    NO_ORPHAN = "nothing takes effect that was given up"
    NO_FALSE_SUCCESS = "a success has its effect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """In ticks. pause None: a worker may be stopped between check and write for any time; then `idle` (H) must be
    known, and the way to the server has no bound either. unique: the server holds our key and makes no second effect
    under it, so that a request may be sent again without waiting; giving up waits all the same. early: ticks by which
    the worker's quiescence falls short of the inequality.
    """

    budget: int = 1
    pause: int | None = 0
    transit: int = 1
    run: int = 1
    stale: int = 0
    idle: int | None = None
    attempts: int = 2
    unique: bool = False
    early: int = 0

    def quiescence(self, dropped: frozenset[Drop]) -> int:
        """The age above which an attempt cannot land any more, as this checker's worker computes it."""
        transit = 0 if Drop.TRANSIT in dropped else self.transit
        by_budget = None if self.pause is None else self.budget + self.pause + transit + self.run + self.stale
        by_idle = None if self.idle is None else self.idle + self.run + self.stale
        known = [q for q in (by_budget, by_idle) if q is not None]
        if not known:
            raise ValueError("neither the pause nor the server's patience is bounded: a person decides")
        return max(known) - self.early


class _Pc(StrEnum):
    IDLE = "idle"
    OWNS = "owns"
    LOOKED = "looked"
    STAMPED = "stamped"
    COMMITTED = "committed"
    FENCED = "fenced"
    CHECKED = "checked"
    SENT = "sent"


class _Where(StrEnum):
    HELD = "held"
    WIRE = "wire"
    SERVER = "server"
    LANDED = "landed"
    GONE = "gone"


class _Row(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    UNKNOWN = "UNKNOWN"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"


class _Worker(NamedTuple):
    """attempt: the one it makes; stamp: ticks since it looked at the clock; checked: ticks since it checked."""

    pc: _Pc = _Pc.IDLE
    epoch: int = 0
    attempt: int = -1
    stamp: int = 0
    checked: int = 0


class _Attempt(NamedTuple):
    """age: ticks since its fence; where and since when the request is; open: not individually proven harmless."""

    age: int
    where: _Where
    there: int
    open: bool
    landed: bool = False


class State(NamedTuple):
    """Journal, workers and world. evidence: the journal holds a receipt; fresh: ticks since the last effect."""

    row: _Row
    epoch: int
    attempts: tuple[_Attempt, ...]
    workers: tuple[_Worker, _Worker]
    evidence: bool
    effects: int
    fresh: int


START: Final = State(_Row.QUEUED, 0, (), (_Worker(), _Worker()), False, 0, 0)
EPOCHS_MAX: Final = 4
STATES_MAX: Final = 3_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check found. `way`: the shortest list of events to the broken promise, empty when none was broken."""

    states: int
    broken: Promise | None
    way: tuple[str, ...]


def check(
    dropped: frozenset[Drop] = frozenset(),
    bounds: Bounds | None = None,
    *,
    promises: frozenset[Promise] = frozenset(Promise),
    states_max: int = STATES_MAX,
) -> Checked:
    """Visit every state until one of the promises is broken. Raises MemoryError beyond `states_max` states."""
    model = _Model(dropped, bounds or Bounds())
    before: dict[State, tuple[State, str] | None] = {START: None}
    waiting = deque([START])
    while waiting:
        state = waiting.popleft()
        broken = _broken(state)
        if broken in promises:
            return Checked(states=len(before), broken=broken, way=_way(before, state))
        for event, following in model.following(state):
            if following not in before:
                before[following] = (state, event)
                waiting.append(following)
        if len(before) > states_max:
            raise MemoryError(f"more than {states_max} states")
    return Checked(states=len(before), broken=None, way=())


def _broken(state: State) -> Promise | None:
    if state.effects > 1:
        return Promise.ONE_EFFECT
    if state.row is _Row.FAILED and state.effects:
        return Promise.NO_ORPHAN
    if state.row is _Row.SUCCESS and not state.effects:
        return Promise.NO_FALSE_SUCCESS
    return None


def _way(before: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    events: list[str] = []
    step = before[state]
    while step is not None:
        events.append(step[1])
        step = before[step[0]]
    return tuple(reversed(events))


class _Model:
    def __init__(self, dropped: frozenset[Drop], bounds: Bounds) -> None:
        self._dropped, self._bounds = dropped, bounds
        self._q = bounds.quiescence(dropped)
        self._oldest = bounds.quiescence(frozenset()) + bounds.early + 1
        self._stamp_max = max(bounds.budget, bounds.idle or 0) + 1

    def _keeps(self, law: Drop) -> bool:
        return law not in self._dropped

    def following(self, state: State) -> Iterator[tuple[str, State]]:
        """Every event that can happen now, with the state after it."""
        for number in (0, 1):
            yield from self._worker(state, number)
        for number in range(len(state.attempts)):
            yield from self._world(state, number)
        later = self._tick(state)
        if later is not None:
            yield "a tick passes", later

    # -- a worker ------------------------------------------------------------------------------------------------------

    def _worker(self, state: State, number: int) -> Iterator[tuple[str, State]]:
        worker, name = state.workers[number], f"worker {number + 1}"
        if worker.pc is not _Pc.IDLE:
            yield f"{name} dies", self._dies(state, number)
        elif state.row in (_Row.QUEUED, _Row.RUNNING, _Row.UNKNOWN) and state.epoch < EPOCHS_MAX:
            yield f"{name} takes over", self._claims(state, number)
        match worker.pc:
            case _Pc.OWNS:
                yield from self._looks(state, number, name)
            case _Pc.LOOKED if len(state.attempts) < self._bounds.attempts:
                yield (
                    f"{name} opens a connection and stamps",
                    _with(state, number, worker._replace(pc=_Pc.STAMPED, stamp=0)),
                )
            case _Pc.STAMPED:
                yield from self._fences(state, number, name)
            case _Pc.COMMITTED:
                stamp = worker.stamp if self._keeps(Drop.STAMP) else 0
                told = worker._replace(pc=_Pc.FENCED, stamp=stamp)
                yield f"{name} is told of its commit", _with(state, number, told)
            case _Pc.FENCED:
                yield from self._looks_at_clock(state, number, name)
            case _Pc.CHECKED:
                yield from self._writes(state, number, name)
            case _Pc.SENT:
                yield from self._hears(state, number, name)
            case _:
                pass

    def _owns(self, state: State, worker: _Worker) -> bool:
        return worker.epoch == state.epoch or not self._keeps(Drop.EPOCH)

    def _claims(self, state: State, number: int) -> State:
        row, made = state.row, state.attempts
        if row is _Row.RUNNING:
            row = _Row.UNKNOWN
            if not self._keeps(Drop.TAKEOVER):
                row, made = _Row.QUEUED, tuple(attempt._replace(open=False) for attempt in made)
        epoch = state.epoch + 1
        return _with(state._replace(row=row, epoch=epoch, attempts=made), number, _Worker(pc=_Pc.OWNS, epoch=epoch))

    def _dies(self, state: State, number: int) -> State:
        """What it held is never sent."""
        worker = state.workers[number]
        made = state.attempts
        if worker.pc in (_Pc.COMMITTED, _Pc.FENCED, _Pc.CHECKED) and made and made[worker.attempt].where is _Where.HELD:
            made = _put(made, worker.attempt, made[worker.attempt]._replace(where=_Where.GONE))
        return _with(state._replace(attempts=made), number, _Worker())

    def _looks(self, state: State, number: int, name: str) -> Iterator[tuple[str, State]]:
        worker = state.workers[number]
        if not self._owns(state, worker) or state.row not in (_Row.QUEUED, _Row.UNKNOWN):
            return
        resting = worker._replace(pc=_Pc.LOOKED)
        if state.attempts and (self._bounds.unique or not self._keeps(Drop.LOOK)):
            yield f"{name} does not look", _with(state._replace(row=_Row.QUEUED), number, resting)
        if state.evidence and self._keeps(Drop.EVIDENCE):
            yield f"{name} uses the receipt on record", _with(state._replace(row=_Row.SUCCESS), number, _Worker())
            return
        if state.effects:
            yield f"{name} looks: present", _with(state._replace(row=_Row.SUCCESS), number, _Worker())
            if state.fresh >= self._bounds.stale:
                return
        if self._quiet(state, Drop.QUIESCENCE):
            queued = state._replace(row=_Row.QUEUED)
            yield f"{name} looks: absent", _with(queued, number, resting)
        if self._quiet(state, Drop.ABANDON) and state.attempts:
            yield f"{name} gives up", _with(state._replace(row=_Row.FAILED), number, _Worker())

    def _quiet(self, state: State, law: Drop) -> bool:
        """Whether no open attempt can land any more, as far as this worker knows."""
        if not self._keeps(law):
            return True
        counted = state.attempts if self._keeps(Drop.ALL_ATTEMPTS) else state.attempts[-1:]
        return all(not attempt.open or attempt.age > self._q for attempt in counted)

    def _fences(self, state: State, number: int, name: str) -> Iterator[tuple[str, State]]:
        worker = state.workers[number]
        queued = state.row is _Row.QUEUED or (not self._keeps(Drop.EPOCH) and state.row is not _Row.FAILED)
        if not self._owns(state, worker) or not queued or len(state.attempts) >= self._bounds.attempts:
            return
        made = (*state.attempts, _Attempt(age=0, where=_Where.HELD, there=worker.stamp, open=True))
        fenced = worker._replace(pc=_Pc.COMMITTED, attempt=len(made) - 1)
        if self._keeps(Drop.WRITE_AHEAD):
            yield f"{name} commits the attempt", _with(state._replace(row=_Row.RUNNING, attempts=made), number, fenced)
            return
        unwritten = _put(made, len(made) - 1, made[-1]._replace(open=False))
        yield f"{name} commits nothing", _with(state._replace(attempts=unwritten), number, fenced)

    def _looks_at_clock(self, state: State, number: int, name: str) -> Iterator[tuple[str, State]]:
        worker = state.workers[number]
        if worker.stamp <= self._bounds.budget or not self._keeps(Drop.BUDGET):
            yield f"{name} is in time", _with(state, number, worker._replace(pc=_Pc.CHECKED, checked=0))
            return
        yield f"{name} is too late and sends nothing", self._unsent(state, number)

    def _unsent(self, state: State, number: int) -> State:
        worker = state.workers[number]
        gone = state.attempts[worker.attempt]._replace(where=_Where.GONE, open=False)
        made = _put(state.attempts, worker.attempt, gone)
        row = _Row.QUEUED if self._owns(state, worker) and state.row is _Row.RUNNING else state.row
        return _with(state._replace(attempts=made, row=row), number, _Worker())

    def _writes(self, state: State, number: int, name: str) -> Iterator[tuple[str, State]]:
        worker = state.workers[number]
        attempt = state.attempts[worker.attempt]
        if self._bounds.idle is not None and attempt.there > self._bounds.idle and self._keeps(Drop.CONNECTION):
            yield f"{name} finds its connection closed", self._unsent(state, number)
            return
        since = 0 if self._bounds.idle is None or not self._keeps(Drop.CONNECTION) else attempt.there
        sent = _put(state.attempts, worker.attempt, attempt._replace(where=_Where.WIRE, there=since))
        yield f"{name} writes", _with(state._replace(attempts=sent), number, worker._replace(pc=_Pc.SENT))

    def _hears(self, state: State, number: int, name: str) -> Iterator[tuple[str, State]]:
        worker = state.workers[number]
        attempt = state.attempts[worker.attempt]
        mine = self._owns(state, worker) and state.row in (_Row.RUNNING, _Row.QUEUED)
        if attempt.where is _Where.LANDED:
            settled = _put(state.attempts, worker.attempt, attempt._replace(open=False, landed=True))
            row = _Row.SUCCESS if mine else state.row
            heard = state._replace(attempts=settled, row=row, evidence=True)
            yield f"{name} hears the answer", _with(heard, number, _Worker())
        if mine:
            doubt = _Row.UNKNOWN if self._keeps(Drop.DOUBT) else _Row.FAILED
            waits = worker._replace(pc=_Pc.OWNS) if doubt is _Row.UNKNOWN else _Worker()
            yield f"{name} hears nothing in time", _with(state._replace(row=doubt), number, waits)

    # -- the world -----------------------------------------------------------------------------------------------------

    def _world(self, state: State, number: int) -> Iterator[tuple[str, State]]:
        attempt, name = state.attempts[number], f"request {number + 1}"

        def at(where: _Where, effects: int = 0) -> State:
            moved = _put(state.attempts, number, attempt._replace(where=where, there=0))
            fresh = 0 if effects else state.fresh
            return state._replace(attempts=moved, effects=min(2, state.effects + effects), fresh=fresh)

        if attempt.where is _Where.WIRE:
            yield f"{name} is lost", at(_Where.GONE)
            if self._bounds.idle is None or attempt.there <= self._bounds.idle:
                yield f"{name} arrives", at(_Where.SERVER)
        if attempt.where is _Where.SERVER:
            yield f"{name} fails in the server", at(_Where.GONE)
            if not (self._bounds.unique and state.effects):
                yield f"{name} takes effect", at(_Where.LANDED, effects=1)

    def _tick(self, state: State) -> State | None:
        """Everything grows older; None where a bound forbids that time passes."""
        bounds = self._bounds
        for attempt in state.attempts:
            if attempt.where is _Where.WIRE and bounds.idle is None and attempt.there >= bounds.transit:
                return None
            if attempt.where is _Where.SERVER and attempt.there >= bounds.run:
                return None
        for worker in state.workers:
            if worker.pc is _Pc.CHECKED and bounds.pause is not None and worker.checked >= bounds.pause:
                return None
        made = tuple(self._older(attempt) for attempt in state.attempts)
        one, other = (self._waits(worker) for worker in state.workers)
        fresh = min(bounds.stale, state.fresh + 1) if state.effects else 0
        return state._replace(attempts=made, workers=(one, other), fresh=fresh)

    def _older(self, attempt: _Attempt) -> _Attempt:
        moving = attempt.where in (_Where.HELD, _Where.WIRE, _Where.SERVER)
        there = min(self._oldest, attempt.there + 1) if moving else 0
        age = min(self._oldest, attempt.age + 1) if attempt.open else 0
        return attempt._replace(age=age, there=there)

    def _waits(self, worker: _Worker) -> _Worker:
        stamped = worker.pc in (_Pc.STAMPED, _Pc.COMMITTED, _Pc.FENCED)
        checked = worker.pc is _Pc.CHECKED
        stamp = min(self._stamp_max, worker.stamp + 1) if stamped else 0
        return worker._replace(stamp=stamp, checked=min(self._oldest, worker.checked + 1) if checked else 0)


def _with(state: State, number: int, worker: _Worker) -> State:
    one, other = state.workers
    return state._replace(workers=(worker, other) if number == 0 else (one, worker))


def _put(made: tuple[_Attempt, ...], number: int, attempt: _Attempt) -> tuple[_Attempt, ...]:
    return (*made[:number], attempt, *made[number + 1 :])
