"""One batch of work in one transaction: group commit.

Everything here runs on the writer's thread (or, in a simulation, on the event loop) and on one connection. The order of
submission is the order of writing. Consecutive units form a *run* that is written with grouped statements; when a run
fails it is undone and its members are applied one by one, each in a savepoint, so that only the loser fails. A function
ends a run, has a savepoint of its own and fails alone. Nobody learns anything before the one COMMIT of all; when its
answer is lost, every member fails with `UnknownCommit`.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from types import TracebackType
from typing import Any, Final, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from execution.core.draft import Unit
from execution.store.engine import READING
from execution.store.errors import Duplicate, StoreError, UnknownCommit
from execution.store.failing import damaged, failure
from execution.store.statements import one
from execution.store.units import apply_unit, apply_wave, waves

BATCH_MAX: Final = 256
"""How many members one transaction has at most."""
SAVE: Final = "SAVEPOINT member"
UNDO: Final = "ROLLBACK TO SAVEPOINT member"
RELEASE: Final = "RELEASE SAVEPOINT member"

Function = Callable[[Connection], Any]


class Job:
    """One piece of submitted work, and what became of it."""

    __slots__ = ("error", "future", "reading", "result", "work")

    def __init__(self, work: Unit | Function, future: Future[Any], *, reading: bool = False) -> None:
        self.work = work
        self.future = future
        self.reading = reading
        self.result: Any = None
        self.error: Exception | None = None

    def deliver(self) -> None:
        """Tell whoever waits; somebody who was cancelled meanwhile does not wait any more."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Boundary(Protocol):
    """Where a simulation kills the process. False: dead from here on."""

    def before_commit(self) -> bool: ...

    def after_commit(self) -> bool: ...


class Caught:
    """Keeps what its body raised, to be handed to whoever submitted the work: it is theirs, whatever it is."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> Caught:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if isinstance(error, Exception):
            self.error = error
            return True
        return False


class Writer:
    """Runs batches on one lasting connection."""

    def __init__(self, engine: Engine, boundary: Boundary | None = None) -> None:
        self._engine = engine
        self._boundary = boundary
        self._writing: Connection | None = None

    def read(self, jobs: Sequence[Job]) -> None:
        """Run functions that only read, in one snapshot; they see whatever was acknowledged before."""
        with Caught() as broken, self._engine.connect() as plain:
            conn = plain.execution_options(**{READING: True})
            for job in jobs:
                _call(conn, job)
            conn.rollback()
        if broken.error is not None:
            _fail(jobs, _failure(broken.error))

    def write(self, jobs: Sequence[Job]) -> None:
        """Apply everything in one transaction and commit it."""
        with Caught() as broken:
            self._transaction(jobs)
        if broken.error is not None:
            self.discard()
            _fail(jobs, _failure(broken.error))

    def discard(self) -> None:
        """Give the connection up; the next batch opens another."""
        conn, self._writing = self._writing, None
        if conn is not None:
            with Caught():
                conn.invalidate()
            with Caught():
                conn.close()

    def close(self) -> None:
        """Close the connection in good order."""
        conn, self._writing = self._writing, None
        if conn is not None:
            conn.close()

    def _transaction(self, jobs: Sequence[Job]) -> None:
        conn = self._writing
        if conn is None:
            conn = self._writing = self._engine.connect()
        transaction = conn.begin()
        _apply(conn, jobs)
        if all(job.error is not None for job in jobs):
            transaction.rollback()
            return
        if self._boundary is not None and not self._boundary.before_commit():
            transaction.rollback()
            return
        with Caught() as lost:
            transaction.commit()
        if lost.error is not None:
            self.discard()
            _fail(jobs, UnknownCommit(str(lost.error)))
        elif self._boundary is not None:
            self._boundary.after_commit()


def _apply(conn: Connection, jobs: Sequence[Job]) -> None:
    alone = len(jobs) == 1
    for is_unit, group in groupby(jobs, key=_is_unit):
        members = list(group)
        if not is_unit:
            for job in members:
                _call(conn, job) if alone else _guarded(conn, job, _call)
            continue
        with Caught() as failed:
            if alone:
                _run(conn, members)
            else:
                one(conn, SAVE)
                _run(conn, members)
                one(conn, RELEASE)
        if failed.error is not None:
            if not alone:
                _undo(conn)
            _one_by_one(conn, members, failed.error)


def _is_unit(job: Job) -> bool:
    return isinstance(job.work, Unit)


def _run(conn: Connection, members: Sequence[Job]) -> None:
    """A whole run with grouped statements; raises when any guard failed."""
    for wave in _waves(members):
        refusals = apply_wave(conn, [unit for _, unit in wave])
        for (job, _), refusal in zip(wave, refusals, strict=True):
            job.error = refusal


def _waves(members: Sequence[Job]) -> Iterator[list[tuple[Job, Unit]]]:
    done = 0
    for wave in waves([job.work for job in members]):  # type: ignore[misc]  # a run holds units only
        yield list(zip(members[done : done + len(wave)], wave, strict=True))
        done += len(wave)


def _one_by_one(conn: Connection, members: Sequence[Job], error: Exception) -> None:
    """The run was undone: find whose fault it was."""
    if len(members) == 1:
        members[0].error = _own(error)
        return
    for job in members:
        job.error = None
        _guarded(conn, job, _apply_one)


def _guarded(conn: Connection, job: Job, apply: Callable[[Connection, Job], None]) -> None:
    """In a savepoint, undone when the job failed. A failing savepoint itself is the whole batch's failure."""
    one(conn, SAVE)
    apply(conn, job)
    if job.error is None:
        one(conn, RELEASE)
    else:
        _undo(conn)


def _undo(conn: Connection) -> None:
    one(conn, UNDO)
    one(conn, RELEASE)


def _apply_one(conn: Connection, job: Job) -> None:
    with Caught() as caught:
        apply_unit(conn, job.work)  # type: ignore[arg-type]  # a run holds units only
    job.error = None if caught.error is None else _own(caught.error)


def _call(conn: Connection, job: Job) -> None:
    with Caught() as caught:
        job.result = job.work(conn)  # type: ignore[operator]  # not a unit
    job.error = None if caught.error is None else _own(caught.error)


def _own(error: Exception) -> Exception:
    """A member's failure in the store's words."""
    match error:
        case IntegrityError():
            return Duplicate(str(error.orig))
        case DBAPIError() | UnicodeDecodeError():
            return _failure(error)
        case _:
            return error


def _failure(error: Exception) -> Exception:
    if isinstance(error, UnicodeDecodeError):
        return damaged("the database", "text that is none")
    if not isinstance(error, DBAPIError):
        return error
    failed = failure(error)
    failed.__cause__ = error
    return failed


def _fail(jobs: Sequence[Job], error: Exception) -> None:
    """Every member fails, except those whose own refusal is known: nothing of them was to be written."""
    for job in jobs:
        if not isinstance(job.error, StoreError):
            job.error = error
