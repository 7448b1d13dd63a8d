"""The statements of the hot path: SQLAlchemy constructs, compiled once per dialect, executed by the driver with tuples.

Executing a construct costs a cache-key computation, a dictionary per row and a result object; measured: 40 µs a
statement against 5 µs for the driver's own cursor, and the commit of every command pays it ten times. So the few fixed
statements are compiled to text here, once, and handed to the driver's cursor with positional values; what the driver
raises leaves as SQLAlchemy's errors all the same. `IN` lists are compiled for a few sizes and padded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from sqlalchemy import Connection, Dialect, Executable, Table, bindparam, delete, insert, literal_column, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ColumnElement

from execution.core.command import Command
from execution.store import rows, schema

COLUMN_SETS_MAX: Final = 256
"""For how many sets of changed columns an update of their own is kept."""
IN_SIZES: Final = (1, 4, 16, 64, 256, 1024)
"""How many values an `IN` list holds; longer lists are asked for in several statements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A guarded update: its text, and what fetches its columns of a command; id and expected version come after."""

    text: str
    values: Callable[[Command], rows.Values]


class Statements:
    """All fixed statements for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        positional = "qmark" if dialect.name == "sqlite" else "format"
        self._dialect: Dialect = type(dialect)(paramstyle=positional)  # type: ignore[call-arg]  # untyped in the base
        command, attempt = rows.COMMAND, rows.ATTEMPT
        self.insert_command = self._insert(command.table, command.columns)
        self._guarded: dict[frozenset[str], Guarded] = {}
        self._guarded_whole = self._guarded_update(command.mutable)
        self.insert_event = self._insert(schema.EVENTS, rows.EVENT_COLUMNS)
        self.insert_attempt = self._insert(attempt.table, attempt.columns)
        self.update_attempt = self._update(attempt, attempt.mutable, ("attempt_id",))
        self.insert_approval = self._insert(schema.APPROVALS, rows.APPROVAL.columns)
        self.update_approval = self._update(rows.APPROVAL, rows.APPROVAL.mutable, ("approval_id",))
        self.insert_review = self._insert(schema.REVIEWS, rows.REVIEW.columns)
        self.update_review = self._update(rows.REVIEW, rows.REVIEW.mutable, ("review_id",))
        self.insert_outbox = self._insert(schema.OUTBOX, ("topic", "root_id"))
        self.insert_lock = self._insert(schema.LOCKS, ("tenant", "resource", "owner"))
        self.delete_locks = self._text(
            delete(schema.LOCKS).where(schema.LOCKS.c.owner == bindparam("owner_")), ("owner_",)
        )
        authority = schema.AUTHORITY.c
        self.share_authority = self._text(
            select(authority.revision).where(authority.id == 1).with_for_update(read=True),
            (),
            inline=True,
        )
        grants, approvals, locks = schema.GRANTS.c, schema.APPROVALS.c, schema.LOCKS.c
        self.restrictions = self._in(schema.RESTRICTIONS.c.scope, schema.RESTRICTIONS.c.scope)
        self.grants = self._in(
            grants.root_id, grants.root_id, grants.grant_until_ms, grants.policy_hash, grants.details
        )
        self.approvals = self._in(
            approvals.approval_id,
            approvals.approval_id,
            approvals.root_id,
            approvals.state,
            approvals.request_digest,
            approvals.expires_at_ms,
        )
        uses = schema.TOKEN_USES.c
        names = tuple(schema.ARTIFACTS.columns.keys())
        stored = _insert_of(dialect)(schema.ARTIFACTS).values({name: bindparam(name) for name in names})
        self.insert_artifact = self._text(stored.on_conflict_do_nothing(), names)
        self.insert_grant = self._insert(schema.GRANTS, tuple(schema.GRANTS.columns.keys()))
        names = tuple(schema.TOKEN_USES.columns.keys())
        fresh = _insert_of(dialect)(schema.TOKEN_USES).values({name: bindparam(name) for name in names})
        self.insert_token_use = self._text(fresh.on_conflict_do_nothing(), names)
        spent = (uses.iss == bindparam("iss_"), uses.jti == bindparam("jti_"), uses.used < uses.max_uses)
        counted = update(schema.TOKEN_USES).where(*spent, uses.used < bindparam("most_"))
        counted = counted.values(used=uses.used + literal_column("1"), last_use_at_ms=bindparam("last_use_at_ms"))
        self.count_token_use = self._text(counted, ("last_use_at_ms", "iss_", "jti_", "most_"))
        self.saga_commands = self._of_root(rows.COMMAND, "position")
        self.saga_attempts = self._of_root(rows.ATTEMPT, "fenced_at_ms", "attempt_id")
        self.saga_approvals = self._of_root(rows.APPROVAL, "requested_at_ms", "approval_id")
        self.saga_reviews = self._of_root(rows.REVIEW, "opened_at_ms", "review_id")
        self.command_by_key, self.workflow_roots = self._lookups(command.table)
        self.lock_owners = self._in(locks.resource, locks.tenant, locks.resource, locks.owner)

    def _lookups(self, table: Table) -> tuple[str, str]:
        """What acceptance asks: who holds a key, and which sagas are about an object."""
        c, tenant = table.c, table.c.tenant == bindparam("tenant_")
        by_key = select(table).where(tenant, c.idempotency_key == bindparam("key_"))
        roots = select(table).where(tenant, c.workflow_id == bindparam("workflow_"), c.parent_id.is_(None))
        return self._text(by_key, ("tenant_", "key_")), self._text(roots, ("tenant_", "workflow_"))

    def query(self, statement: Executable, names: Sequence[str]) -> tuple[str, rows.Values]:
        """The text for the driver, and constants of the statement that follow its parameters (an offset, say)."""
        compiled = statement.compile(dialect=self._dialect)  # type: ignore[attr-defined]  # every clause has it
        order = tuple(compiled.positiontup or ())
        if order[: len(names)] != tuple(names):
            raise AssertionError(f"compiled order {order} does not begin with {tuple(names)}")
        return str(compiled), tuple(compiled.params[name] for name in order[len(names) :])

    def _text(self, statement: Executable, names: Sequence[str], *, inline: bool = False) -> str:
        kwargs = {"literal_binds": True} if inline else {}
        compiled = statement.compile(dialect=self._dialect, compile_kwargs=kwargs)  # type: ignore[attr-defined]  # every clause has it
        order = tuple(compiled.positiontup or ())
        if order != tuple(names):
            raise AssertionError(f"compiled order {order} is not {tuple(names)}")
        return str(compiled)

    def _insert(self, table: Table, columns: Sequence[str]) -> str:
        return self._text(insert(table).inline().values({name: bindparam(name) for name in columns}), columns)

    def _update(self, mapped: rows.Mapped[Any], columns: Sequence[str], keys: Sequence[str]) -> str:
        table = mapped.table
        where = [table.c[key] == bindparam(f"{key}_") for key in keys]
        statement = update(table).where(*where).values({name: bindparam(name) for name in columns})
        return self._text(statement, [*columns, *(f"{key}_" for key in keys)])

    def guarded_update(self, changed: frozenset[str]) -> Guarded:
        """The update of one command by id and expected version that writes these columns (none named: all).

        An update costs by the columns it names and by the indexes they stand in, whether they differ or not. Owners
        change a few dozen different sets of columns; whatever exceeds the limit is written whole.
        """
        found = self._guarded.get(changed)
        if found is None:
            if changed & rows.IMMUTABLE:
                raise AssertionError(f"written once: {sorted(changed & rows.IMMUTABLE)}")
            if not changed or len(self._guarded) >= COLUMN_SETS_MAX:
                return self._guarded_whole
            columns = [name for name in rows.COMMAND.mutable if name in changed]
            found = self._guarded[changed] = self._guarded_update(columns)
        return found

    def _guarded_update(self, columns: Sequence[str]) -> Guarded:
        text = self._update(rows.COMMAND, columns, ("command_id", "version"))
        return Guarded(text=text, values=rows.COMMAND.getter(columns))

    def _of_root(self, mapped: rows.Mapped[Any], *order: str) -> str:
        table = mapped.table
        wanted = select(table).where(table.c.root_id == bindparam("root")).order_by(*(table.c[name] for name in order))
        return self._text(wanted, ("root",))

    def _in(self, key: ColumnElement[Any], *columns: ColumnElement[Any]) -> dict[int, str]:
        statements = {}
        for size in IN_SIZES:
            names = tuple(f"v{index}" for index in range(size))
            where = key.in_([bindparam(name) for name in names])
            statements[size] = self._text(select(*columns).where(where), names)
        return statements


_COMPILED: Final[dict[str, Statements]] = {}


def of(conn: Connection) -> Statements:
    """The statements of this connection's dialect."""
    dialect = conn.dialect
    found = _COMPILED.get(dialect.name)
    if found is None:
        found = _COMPILED[dialect.name] = Statements(dialect)
    return found


class Query:
    """A fixed query: built once at import with its parameters by `names` in order, compiled once per dialect."""

    def __init__(self, statement: Executable, *names: str) -> None:
        self._statement = statement
        self._names = names
        self._compiled: dict[str, tuple[str, rows.Values]] = {}

    def rows(self, conn: Connection, *values: Any) -> Sequence[Any]:
        """All rows, as the driver gives them: plain tuples, booleans as numbers on SQLite."""
        found = self._compiled.get(conn.dialect.name)
        if found is None:
            found = self._compiled[conn.dialect.name] = of(conn).query(self._statement, self._names)
        text, constants = found
        return fetch(conn, text, (*values, *constants))

    def first(self, conn: Connection, *values: Any) -> Any:
        """The first row, None when there is none."""
        return next(iter(self.rows(conn, *values)), None)


def many(conn: Connection, statement: str, values: Sequence[rows.Values]) -> int:
    """Execute for every tuple of values; the number of rows changed in all."""
    if not values:
        return 0
    cursor = conn.connection.cursor()
    try:
        cursor.executemany(statement, values)
        return cursor.rowcount
    except _driver_error(conn) as error:
        raise _wrapped(conn, statement, error) from error
    finally:
        cursor.close()


def one(conn: Connection, statement: str, values: rows.Values = ()) -> int:
    """Execute once; the number of rows changed."""
    cursor = conn.connection.cursor()
    try:
        cursor.execute(statement, values)
        return cursor.rowcount
    except _driver_error(conn) as error:
        raise _wrapped(conn, statement, error) from error
    finally:
        cursor.close()


def fetch(conn: Connection, statement: str, values: Sequence[Any] = ()) -> Sequence[Any]:
    """All rows of a query, as plain tuples."""
    cursor = conn.connection.cursor()
    try:
        cursor.execute(statement, values)
        return cursor.fetchall()
    except _driver_error(conn) as error:
        raise _wrapped(conn, statement, error) from error
    finally:
        cursor.close()


def _driver_error(conn: Connection) -> type[Exception]:
    return conn.dialect.loaded_dbapi.Error


def _wrapped(conn: Connection, statement: str, error: Exception) -> BaseException:
    wrapped: BaseException = DBAPIError.instance(statement, None, error, _driver_error(conn), dialect=conn.dialect)
    return wrapped


def fetch_in(conn: Connection, statements: dict[int, str], wanted: Sequence[str]) -> Iterator[Any]:
    """The rows whose key is one of `wanted`."""
    most = IN_SIZES[-1]
    for start in range(0, len(wanted), most):
        chunk = wanted[start : start + most]
        size = next(size for size in IN_SIZES if size >= len(chunk))
        padded = (*chunk, *((chunk[-1],) * (size - len(chunk))))
        yield from fetch(conn, statements[size], padded)


def insert_new(conn: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless one of that identity is there; whether it was inserted."""
    return conn.execute(_insert_of(conn.dialect)(table).values(**values).on_conflict_do_nothing()).rowcount == 1


def _insert_of(dialect: Dialect) -> Any:
    """The dialect's INSERT, which knows ON CONFLICT. Only the dialect in use is loaded: the other costs every start."""
    return import_module(f"sqlalchemy.dialects.{dialect.name}").insert
