"""A customer's database, in anything that SQLAlchemy speaks: one transaction per write.

`connect` opens a connection, `send` is one transaction on it. Everything before the commit is provably nothing: an
error there is a refusal. Whatever goes wrong once the commit is on its way is `Lost`.

Calls run in threads. A thread cannot be cancelled, so the decision to commit is taken under a lock that a caller who
gives up takes first: an abandoned transaction never commits later.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import (
    ArgumentError,
    IntegrityError,
    NoSuchModuleError,
    NoSuchTableError,
    OperationalError,
    SQLAlchemyError,
)

from execution.core.definition import Prepared
from execution.core.failures import Answer, CannotTell, FailureClass, Landed, Lost, Refused, Unprepared, Unsent
from execution.core.quiescence import Bounds
from execution.ports import Severity, Symptom

STATEMENT_S: Final = 5
"""The longest that a statement may wait or run; the database enforces it (busy_timeout, statement_timeout)."""
CONNECT_S: Final = 5
READ_S: Final = 10.0
THREADS_MAX: Final = 4
_LASTING: Final = frozenset({"table_missing", "table_differs", "not_permitted"})
"""What waiting does not mend."""
_FIXES: Final = {
    "table_missing": "Run `remit migrate` with a user that may create tables, or create the table by hand.",
    "table_differs": "The table lacks a column of this release: compare it with what `remit migrate` creates.",
    "not_permitted": "Let the configured user read, insert into and update the table.",
    "database_busy": "Something else holds the table locked: end it, or wait.",
}

Work = Callable[[sa.Connection], Answer]
T = TypeVar("T")


def default_bounds(url: str) -> Bounds:
    """What holds for every database: a transaction ends with its connection, and a statement after STATEMENT_S."""
    local = sa.make_url(url).get_backend_name() == "sqlite"
    source = "busy_timeout of the connection" if local else "statement_timeout of the connection"
    transit_s = 0.0 if local else 60.0
    return Bounds(max_run_s=2.0 * STATEMENT_S, max_run_source=source, stale_s=0.0, transit_s=transit_s)


class Database:
    """See the module. `url` is SQLAlchemy's, with a synchronous driver (sqlite, postgresql+psycopg, …).

    Raises ValueError for anything else; its text repeats nothing of the URL.
    """

    def __init__(self, url: str, *, bounds: Bounds | None = None) -> None:
        try:
            self.bounds = bounds or default_bounds(url)
            self.engine = sa.create_engine(url, poolclass=sa.NullPool, connect_args=_connect_args(url))
        except (ArgumentError, NoSuchModuleError, ImportError, ValueError, TypeError):
            raise ValueError("not the address of a database that can be used here") from None
        self._threads = ThreadPoolExecutor(max_workers=THREADS_MAX, thread_name_prefix="database")

    def create(self, table: sa.Table) -> None:
        """Make the table where it is missing; for setting up. Raises Unprepared when the database does not let us."""
        try:
            table.create(self.engine, checkfirst=True)
        except SQLAlchemyError:
            raise Unprepared(FailureClass.PERMANENT, "database_unreachable") from None

    def prepared(self, operation: str, fields: Mapping[str, object], work: Work) -> Prepared:
        """A write; its digest is of what it means, because the statements depend on what stands there."""
        text = json.dumps([operation, fields], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return SqlWrite(self.engine, self._threads, self.bounds, hashlib.sha256(text.encode()).hexdigest(), work)

    async def read(self, query: Callable[[sa.Connection], T]) -> T | CannotTell:
        """What a query finds on a connection of its own."""

        def work() -> T:
            with self.engine.connect() as connection:
                return query(connection)

        try:
            async with asyncio.timeout(READ_S):
                return await asyncio.wrap_future(self._threads.submit(work))
        except TimeoutError:
            return CannotTell(code="no_answer_in_time")
        except SQLAlchemyError as error:
            return CannotTell(code=_code(error))

    async def probe(self, table: sa.Table, section: str) -> tuple[Symptom, ...]:
        """Reading and writing a table, with statements that touch no row and are rolled back."""
        try:
            async with asyncio.timeout(READ_S):
                await asyncio.wrap_future(self._threads.submit(self._rehearse, table))
        except TimeoutError:
            return (_broken("no_answer_in_time", section),)
        except SQLAlchemyError as error:
            return (_broken(_code(error), section),)
        return (Symptom(code="table_ready", detail=f"{table.name} on {self.engine.dialect.name}"),)

    async def aclose(self) -> None:
        """Let running transactions end."""
        await asyncio.to_thread(self._threads.shutdown)
        self.engine.dispose()

    def _rehearse(self, table: sa.Table) -> None:
        nothing = sa.false()
        if _file_missing(self.engine.url):
            raise NoSuchTableError(table.name)
        with self.engine.connect() as connection:
            _begin(connection)
            try:
                connection.execute(sa.select(table).where(nothing)).all()
                connection.execute(sa.insert(table).from_select(table.columns.keys(), sa.select(table).where(nothing)))
                connection.execute(sa.update(table).where(nothing).values(revision=0))
            finally:
                connection.rollback()


class SqlWrite:
    """One transaction (`execution.core.definition.Prepared`)."""

    def __init__(
        self, engine: sa.Engine, threads: ThreadPoolExecutor, bounds: Bounds, request_digest: str, work: Work
    ) -> None:
        self._engine, self._threads, self._work = engine, threads, work
        self._bounds, self._digest = bounds, request_digest
        self._connection: sa.Connection | None = None
        self._running: Future[Answer] | None = None
        self._commit = _CommitDecision()

    @property
    def request_digest(self) -> str:
        return self._digest

    @property
    def bounds(self) -> Bounds:
        return self._bounds

    async def connect(self) -> Answer | None:
        opening = self._threads.submit(self._engine.connect)
        try:
            async with asyncio.timeout(CONNECT_S):
                self._connection = await asyncio.wrap_future(opening)
        except TimeoutError:
            opening.add_done_callback(_close_late)
            return Unsent(code="connect_timeout")
        except SQLAlchemyError:
            return Unsent(code="connect_failed")
        return None

    async def send(self, deadline_s: float) -> Answer:
        connection, self._connection = self._connection, None
        if connection is None:
            return Unsent(code="no_connection")
        self._running = self._threads.submit(self._transact, connection)
        try:
            async with asyncio.timeout(deadline_s):
                return await asyncio.shield(asyncio.wrap_future(self._running))
        except TimeoutError:
            if self._commit.abandon():
                return Refused(failure=FailureClass.TRANSIENT, code="no_answer_in_time")
            return Lost(code="no_answer_in_time")

    async def close(self) -> None:
        self._commit.abandon()
        connection, self._connection = self._connection, None
        if connection is not None:
            await asyncio.wrap_future(self._threads.submit(connection.close))

    def _transact(self, connection: sa.Connection) -> Answer:
        with contextlib.closing(connection):
            try:
                _begin(connection)
                answer = self._work(connection)
            except SQLAlchemyError as error:
                return _before_commit(error)
            if not isinstance(answer, Landed):
                return answer
            if not self._commit.take():
                return Refused(failure=FailureClass.TRANSIENT, code="no_answer_in_time")
            try:
                connection.commit()
            except SQLAlchemyError:
                return Lost(code="commit_unknown")
            return answer


class _CommitDecision:
    """Taken once: to commit, or to give up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: str | None = None

    def take(self) -> bool:
        """Whether the commit may be submitted."""
        return self._decide("commit")

    def abandon(self) -> bool:
        """Whether it is certain that nothing is committed."""
        return self._decide("abandon")

    def _decide(self, what: str) -> bool:
        with self._lock:
            self._taken = self._taken or what
            return self._taken == what


def _begin(connection: sa.Connection) -> None:
    """SQLite takes its lock now or not at all; elsewhere the first statement begins."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _file_missing(url: sa.URL) -> bool:
    """Asking SQLite for a file that is not there would make it."""
    named = url.database if url.get_backend_name() == "sqlite" else None
    return named not in (None, "", ":memory:") and not Path(str(named)).exists()


def _before_commit(error: SQLAlchemyError) -> Answer:
    """Nothing was committed, and the transaction ends with its connection."""
    transient = isinstance(error, (OperationalError, IntegrityError)) and _code(error) not in _LASTING
    return Refused(failure=FailureClass.TRANSIENT if transient else FailureClass.PERMANENT, code=_code(error))


def _code(error: SQLAlchemyError) -> str:
    text = str(getattr(error, "orig", "")).lower()
    if "readonly" in text or "read-only" in text or "denied" in text:
        return "not_permitted"
    if "column" in text:
        return "table_differs"
    if (
        isinstance(error, NoSuchTableError)
        or "no such table" in text
        or "does not exist" in text
        or "doesn't exist" in text
    ):
        return "table_missing"
    if isinstance(error, IntegrityError):
        return "raced"
    return "database_busy" if "locked" in text or "timeout" in text else "database_unavailable"


def _broken(code: str, section: str) -> Symptom:
    elsewhere = f"Look at the URL in [{section}], and whether the database can be reached from here."
    return Symptom(code=code, severity=Severity.PROBLEM, fix=_FIXES.get(code, elsewhere))


def _close_late(opening: Future[sa.Connection]) -> None:
    if opening.exception() is None:
        opening.result().close()


def _connect_args(url: str) -> dict[str, Any]:
    match sa.make_url(url).get_backend_name():
        case "sqlite":  # no implicit BEGIN: a transaction takes its lock at once or waits busy_timeout for it
            return {"timeout": STATEMENT_S, "isolation_level": None, "check_same_thread": False}
        case "postgresql":
            limit = f"-c statement_timeout={STATEMENT_S}s -c idle_in_transaction_session_timeout={2 * STATEMENT_S}s"
            return {"connect_timeout": CONNECT_S, "options": limit, "tcp_user_timeout": 30_000}
        case _:
            return {}
