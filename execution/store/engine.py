"""Opening a database: a synchronous engine for the writer thread, an asynchronous one for readers.

SQLite: transactions are begun by us and always IMMEDIATE for writing, because a deferred one that turns into a writer
fails at once when somebody else wrote; `busy_timeout` comes before `journal_mode`, because switching to WAL itself may
have to wait; WAL with `synchronous=FULL`, because NORMAL loses acknowledged rows when the power goes.
Switching to WAL writes to the file, so somebody else's database is refused before.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from execution.store import statements
from execution.store.errors import StoreUnavailable, StoreUnusable
from execution.store.failing import damaged

BUSY_TIMEOUT: Final = "PRAGMA busy_timeout=30000"
"""How long a process waits for another one's write; the worst wait measured with four writers was 1.2 s."""
READERS_MAX: Final = 4
SWITCHES_MAX: Final = 100
"""How often a first start that races with others tries to switch to WAL."""
READING: Final = "remit_reading"
"""Execution option of a connection that only reads: its transactions begin DEFERRED and take no lock."""
FILE_MODE: Final = 0o600
OURS: Final = frozenset({"alembic_version", "store_meta"})
"""Tables by which a database of ours is known."""
ANOTHER: Final = "name another database; nothing was changed"


def database_url(target: str | Path) -> URL:
    """The URL of a database given as a path, a SQLite URL, a PostgreSQL URL or ":memory:"."""
    text = str(target)
    if text == ":memory:":
        return URL.create("sqlite+pysqlite", database=":memory:")
    if isinstance(target, Path) or "://" not in text:
        return URL.create("sqlite+pysqlite", database=str(Path(text).absolute()))
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise StoreUnusable("the database URL cannot be read", "use postgresql://… or a file's path") from error
    match url.get_backend_name():
        case "sqlite":
            return url.set(drivername="sqlite+pysqlite")
        case "postgresql":
            return url.set(drivername="postgresql+psycopg")
        case other:
            raise StoreUnusable(f"{other} is not supported", "use SQLite or PostgreSQL")


def database_path(url: URL) -> Path | None:
    """The file of a SQLite database, None for any other and in memory."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def writer_engine(url: URL) -> Engine:
    """The engine of the writer thread. A new file is readable by its owner alone before anything is in it."""
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_size=2, max_overflow=0, isolation_level="READ COMMITTED")
    path = database_path(url)
    if path is None:
        engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        _create_file(path)
        engine = create_engine(url, connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _writer_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def reader_engine(url: URL) -> AsyncEngine:
    """The engine that people's and tools' reads use; each read is one short snapshot."""
    if url.get_backend_name() != "sqlite":
        return create_async_engine(url, pool_size=READERS_MAX, max_overflow=0, isolation_level="REPEATABLE READ")
    engine = create_async_engine(url.set(drivername="sqlite+aiosqlite"), pool_size=READERS_MAX, max_overflow=0)
    event.listen(engine.sync_engine, "connect", _reader_pragmas)
    event.listen(engine.sync_engine, "begin", _begin_reading)
    return engine


def _create_file(path: Path) -> None:
    """An existing file is not even opened here: closing it would drop the locks of this process's other connections."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreUnusable(f"{path} cannot be created ({error.strerror})", "check the folder and its mode") from error


def _writer_pragmas(dbapi: sqlite3.Connection, _: Any) -> None:
    dbapi.isolation_level = None
    dbapi.execute(BUSY_TIMEOUT).close()
    try:
        tables = {name for (name,) in dbapi.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except UnicodeDecodeError:  # even SQLite's complaint about it holds what it read
        raise damaged("the database", "its schema is no text") from None
    if tables and not tables >= OURS:
        raise StoreUnusable("the database holds tables of something else", ANOTHER)
    _switch_to_wal(dbapi)
    for pragma in ("PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON", "PRAGMA trusted_schema=OFF"):
        dbapi.execute(pragma).close()


def _switch_to_wal(dbapi: sqlite3.Connection) -> None:
    """The switch needs the file for itself and may fail at once, whatever the time-out, when first starts race.

    Whoever fails waits for the write lock, which does obey the time-out; by then somebody has switched.
    """
    for _ in range(SWITCHES_MAX):
        try:
            dbapi.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            dbapi.execute("BEGIN IMMEDIATE").close()
            dbapi.execute("ROLLBACK").close()
        else:
            return
    raise StoreUnavailable("the database stays locked by others")


def _reader_pragmas(dbapi: Any, _: Any) -> None:
    dbapi.isolation_level = None
    cursor = dbapi.cursor()
    for pragma in (BUSY_TIMEOUT, "PRAGMA query_only=ON", "PRAGMA trusted_schema=OFF"):
        cursor.execute(pragma)
    cursor.close()


def _begin(conn: Connection) -> None:
    reading = conn.get_execution_options().get(READING, False)
    statements.one(conn, "BEGIN" if reading else "BEGIN IMMEDIATE")


def _begin_reading(conn: Connection) -> None:
    conn.exec_driver_sql("BEGIN")
