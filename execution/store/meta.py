"""Who this store is: the installation (part of every marker) and the incarnation (of this very history).

A store whose history may have gone back or split (a restored backup, a copied home, a promoted stand-by) must not
believe its own QUEUED and RUNNING. Such a store gets a new incarnation, and `establish` answers `changed=True`: every
command that is not terminal is in doubt, and quiescence starts anew.

How it is noticed. SQLite: a file beside the database, `<database>.incarnation`, holds the incarnation, the inode of the
database file, the newest position of the journal, and when it was written. It is written at every `tick`, and before
anything is sent that cannot be looked for afterwards (`mark`).

* copied home, or both files put back from a backup: the side file was changed at another time than it says (a file's
  time of change cannot be set);
* database replaced: another inode, or the backup's incarnation differs from the side file's;
* database written into the same file: the journal ends before the position in the side file;
* side file lost or unreadable: nothing can be said, so it counts as changed.

A whole volume that was cloned or set back, side file included, looks unchanged from inside: whoever does that says so
by removing the side file. PostgreSQL: the row itself holds the cluster's system identifier and timeline; a promotion
changes the timeline, a restore into a new cluster the identifier.

Safe order: the row is written first and the side file under the same write lock; a crash between the two shows as
changed once more, never as unchanged.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, insert, select, text, update

from capabilities.keyfile import sync
from execution.store import schema
from execution.store.engine import FILE_MODE, READING, database_path
from execution.store.errors import StoreUnavailable
from execution.store.journal import last_position
from execution.store.writer import Store

SIDE_BYTES_MAX: Final = 4096
WRITTEN_WITHIN_MS: Final = 60_000
"""How long after it was begun a side file may be in its place: a stalled machine is slow, a backup is older."""
M: Final = schema.STORE_META


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who this store is. created: this is its first start. changed: its history may have gone back or split."""

    installation: str
    incarnation: str
    incarnated_at_ms: int
    created: bool
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """What the side file holds. written_ms: when it was begun, by the clock of its file system."""

    incarnation: str
    inode: int
    position: int
    written_ms: int = 0


async def establish(store: Store, *, installation: str, incarnation: str, now_ms: int) -> Identity:
    """Find out who this store is, at start and before anything else. The two ids are fresh ones, used when needed."""
    return await store.transact(lambda conn: _establish(conn, installation, incarnation, now_ms))


async def has_changed(store: Store) -> bool:
    """Whether `establish` would answer `changed`: asked before it, so that the doubt is written down first."""
    return await store.hot(_has_changed)


async def tick(store: Store, now_ms: int) -> int:
    """Raise the clock's high-water mark and note how far the journal has come; the mark, never lower than before."""
    return await store.transact(lambda conn: _tick(conn, now_ms))


async def mark(store: Store) -> None:
    """Note how far the journal has come, before something is sent that cannot be looked for: a journal that is put back
    to before that would send it again. Raises StoreUnavailable when it cannot be noted."""
    if database_path(store.engine.url) is not None:
        await store.transact(_mark)


def last_tick(conn: Connection) -> int:
    """When a worker last showed a sign of life, in Unix milliseconds."""
    return conn.execute(select(M.c.clock_high_ms)).scalar() or 0


def ended_before_ms(conn: Connection) -> int:
    """When the history that this one may have forgotten a part of was left, 0 when there was none."""
    row = conn.execute(select(M.c.created_at_ms, M.c.incarnated_at_ms)).first()
    return row.incarnated_at_ms if row is not None and row.incarnated_at_ms > row.created_at_ms else 0


def identity(conn: Connection) -> Identity | None:
    """The identity as it is stored, None before the first `establish`."""
    row = conn.execute(select(M.c.installation, M.c.incarnation, M.c.incarnated_at_ms)).first()
    if row is None:
        return None
    installation, incarnation, since = tuple(row)
    return Identity(
        installation=installation, incarnation=incarnation, incarnated_at_ms=since, created=False, changed=False
    )


def _establish(conn: Connection, installation: str, incarnation: str, now_ms: int) -> Identity:
    found = identity(conn)
    if found is not None and _unchanged(conn, found):
        return found
    if found is not None:
        _renew(conn, incarnation, now_ms)
        installation = found.installation
    else:
        row = {"installation": installation, "incarnation": incarnation, "witness": _cluster(conn)}
        times = {"incarnated_at_ms": now_ms, "created_at_ms": now_ms, "clock_high_ms": now_ms}
        conn.execute(insert(M).values(id=1, **row, **times))
        _note(conn, incarnation)
    return Identity(
        installation=installation,
        incarnation=incarnation,
        incarnated_at_ms=now_ms,
        created=found is None,
        changed=found is not None,
    )


def _has_changed(conn: Connection) -> bool:
    found = identity(conn)
    return found is not None and not _unchanged(conn, found)


def _renew(conn: Connection, incarnation: str, now_ms: int) -> None:
    conn.execute(
        update(M).where(M.c.id == 1).values(incarnation=incarnation, incarnated_at_ms=now_ms, witness=_cluster(conn))
    )
    _note(conn, incarnation)


def _tick(conn: Connection, now_ms: int) -> int:
    conn.execute(update(M).where(M.c.id == 1, M.c.clock_high_ms < now_ms).values(clock_high_ms=now_ms))
    _mark(conn)
    return last_tick(conn)


def _mark(conn: Connection) -> None:
    """Under the write lock, so that no process notes less than another did before."""
    _note(conn, conn.execute(select(M.c.incarnation)).scalar_one())


def _unchanged(conn: Connection, found: Identity) -> bool:
    if conn.dialect.name == "postgresql":
        return conn.execute(select(M.c.witness)).scalar() == _cluster(conn)
    path = database_path(conn.engine.url)
    if path is None:
        return True
    side = _read_side(path)
    now = _side_now(conn, path, found.incarnation)
    return (
        side is not None
        and (side.incarnation, side.inode) == (now.incarnation, now.inode)
        and side.position <= now.position
        and _in_its_place(path, side)
    )


def _in_its_place(database: Path, side: _Side) -> bool:
    """Whether nobody put that side file there later than it was written."""
    changed_ms = _side_path(database).stat().st_ctime_ns // 1_000_000
    return abs(changed_ms - side.written_ms) <= WRITTEN_WITHIN_MS


def _cluster(conn: Connection) -> str:
    """PostgreSQL's own name for this history; empty on SQLite."""
    if conn.dialect.name != "postgresql":
        return ""
    system = "SELECT s.system_identifier || ':' || c.timeline_id FROM pg_control_system() s, pg_control_checkpoint() c"
    return str(conn.execute(text(system)).scalar_one())


def is_lost(database: Path) -> bool:
    """Whether a history was kept in that file, as the one beside it says, and the file is gone or empty."""
    side = _read_side(database)
    return side is not None and side.position > 0 and not (database.exists() and database.stat().st_size)


def _side_path(database: Path) -> Path:
    return database.with_name(database.name + ".incarnation")


def _side_now(conn: Connection, path: Path, incarnation: str) -> _Side:
    return _Side(incarnation=incarnation, inode=path.stat().st_ino, position=_committed_position(conn))


def _committed_position(conn: Connection) -> int:
    """Without what this transaction writes: were it lost, the journal would end before what is noted."""
    with conn.engine.connect() as beside:
        return last_position(beside.execution_options(**{READING: True}))


def _note(conn: Connection, incarnation: str) -> None:
    path = database_path(conn.engine.url)
    if path is None:
        return
    try:
        _write_side(path, _side_now(conn, path, incarnation))
    except OSError as error:
        raise StoreUnavailable(f"the file beside the journal: {errno.errorcode.get(error.errno or 0, 'EIO')}") from None


def _read_side(database: Path) -> _Side | None:
    path = _side_path(database)
    try:
        with path.open("rb") as file:
            held = json.loads(file.read(SIDE_BYTES_MAX))
        return _Side(**held)
    except (OSError, ValueError, TypeError):
        return None


def _write_side(database: Path, side: _Side) -> None:
    """Whole or not at all, and on disk."""
    path = _side_path(database)
    fresh = path.with_name(path.name + ".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        begun = replace(side, written_ms=os.fstat(descriptor).st_mtime_ns // 1_000_000)
        file.write(json.dumps(asdict(begun)).encode())
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync(path.parent)
