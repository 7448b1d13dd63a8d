"""In what condition the journal's database is, for `remit doctor`: its file, its settings, and what waits in it.

`examine_file` looks at a SQLite file through a connection of its own, so that a journal that cannot be opened for work
can still be looked at. It changes nothing but what any reader does: it moves finished pages out of the write-ahead log
where nobody holds them back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, func, select

from execution.core.states import ApprovalState, Settlement, State
from execution.store import schema
from execution.store.engine import database_path
from execution.store.meta import last_tick
from execution.store.registry import counts_by_state

SQLITE_VERSION: Final = sqlite3.sqlite_version
LOCK_WAIT_S: Final = 0.5
"""How long the write lock is waited for before it counts as held."""
CHECKED_BYTES_MAX: Final = 4 * 1024**3
"""Up to this size the file's structure is read whole: some seconds at the most."""
_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "sqlite": {"journal_mode": "PRAGMA journal_mode", "synchronous": "PRAGMA synchronous"},
    "postgresql": {"synchronous_commit": "SHOW synchronous_commit", "fsync": "SHOW fsync"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCondition:
    """A SQLite file as it is.

    write_locked: somebody held the write lock for LOCK_WAIT_S. frames_kept: pages in the write-ahead log that could
    not be moved into the database because a reader still needs them.
    """

    sqlite_version: str
    journal_mode: str
    bytes: int
    wal_bytes: int
    frames_kept: int
    write_locked: bool


def examine_file(path: Path) -> FileCondition:
    """Raises sqlite3.Error and a damaged structure as `DatabaseBroken`, OSError when there is no such file."""
    size = path.stat().st_size
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=LOCK_WAIT_S)) as conn:
            conn.isolation_level = None
            mode = str(_one(conn, "PRAGMA journal_mode")[0])
            locked = _is_locked(conn)
            _, logged, moved = _one(conn, "PRAGMA wal_checkpoint(PASSIVE)")
            sound = str(_one(conn, "PRAGMA quick_check(1)")[0]) if size <= CHECKED_BYTES_MAX else "ok"
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise DatabaseBroken(str(error) if isinstance(error, sqlite3.Error) else "its schema is no text") from None
    if sound != "ok":
        raise DatabaseBroken(" ".join(sound.split()))
    return FileCondition(
        sqlite_version=SQLITE_VERSION,
        journal_mode=mode,
        bytes=size,
        wal_bytes=_size(path.with_name(path.name + "-wal")),
        frames_kept=max(0, int(logged) - int(moved)),
        write_locked=locked,
    )


def empty_log(path: Path) -> bool:
    """Move everything into the database and cut the write-ahead log to nothing; False when a reader holds it back."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=LOCK_WAIT_S)) as conn:
        busy, _, _ = _one(conn, "PRAGMA wal_checkpoint(TRUNCATE)")
        return not busy


class DatabaseBroken(Exception):
    """The file cannot be read as a database. Carries SQLite's reason."""


def _one(conn: sqlite3.Connection, statement: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] = conn.execute(statement).fetchone()
    return row


def _is_locked(conn: sqlite3.Connection) -> bool:
    try:
        conn.execute("BEGIN IMMEDIATE").close()
        conn.execute("ROLLBACK").close()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return True
    return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def wal_bytes(engine: Engine) -> int:
    """Size of the write-ahead log; 0 on PostgreSQL."""
    path = database_path(engine.url)
    return 0 if path is None else _size(path.with_name(path.name + "-wal"))


def settings(conn: Connection) -> Mapping[str, str]:
    """What decides whether an acknowledged commit is on disk, as this connection has it."""
    asked = _SETTINGS[conn.dialect.name]
    return {name: str(conn.exec_driver_sql(statement).scalar()) for name, statement in asked.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits, for whom, and since when (Unix ms; None when nothing does).

    clock_high_ms: the highest time a worker has noted. overdue: sagas that some worker should have looked at before
    `overdue_before_ms`. watched: attempts that are not individually settled.
    """

    clock_high_ms: int
    states: Mapping[State, int]
    unsent: int
    overdue: int
    overdue_since_ms: int | None
    reviews: int
    oldest_review_ms: int | None
    approvals: int
    oldest_approval_ms: int | None
    next_expiry_ms: int | None
    watched: int
    restrictions: int


def backlog(conn: Connection, tenant: str, overdue_before_ms: int) -> Backlog:
    """Counted in one snapshot."""
    c, r, a = schema.COMMANDS.c, schema.REVIEWS.c, schema.APPROVALS.c
    due = c.parent_id.is_(None) & (c.next_check_at_ms < overdue_before_ms)
    overdue, overdue_since = _counted(conn, c.next_check_at_ms, due)
    reviews, oldest_review = _counted(conn, r.opened_at_ms, r.closed_at_ms.is_(None))
    pending = a.state == ApprovalState.PENDING.value
    approvals, oldest_approval = _counted(conn, a.requested_at_ms, pending)
    return Backlog(
        clock_high_ms=last_tick(conn),
        states=counts_by_state(conn, tenant),
        unsent=_counted(conn, schema.OUTBOX.c.outbox_id, schema.OUTBOX.c.sent_at_ms.is_(None))[0],
        overdue=overdue,
        overdue_since_ms=overdue_since,
        reviews=reviews,
        oldest_review_ms=oldest_review,
        approvals=approvals,
        oldest_approval_ms=oldest_approval,
        next_expiry_ms=_counted(conn, a.expires_at_ms, pending)[1],
        watched=_counted(conn, schema.ATTEMPTS.c.number, schema.ATTEMPTS.c.settlement == Settlement.OPEN.value)[0],
        restrictions=conn.execute(select(func.count()).select_from(schema.RESTRICTIONS)).scalar() or 0,
    )


def _counted(conn: Connection, least: Any, where: Any) -> tuple[int, int | None]:
    count, minimum = conn.execute(select(func.count(), func.min(least)).where(where)).one()
    return count, minimum
