"""Opening a store: refuse what is not ours, create what is not there, and never change anything else.

The schema's version is Alembic's: the table `alembic_version` names the newest migration that was applied. A fresh
database is made in one transaction from the tables as they are declared, and stamped; a test proves that the migrations
lead to the same schema. An older database waits for `migrate`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, inspect, select, text
from sqlalchemy.exc import DatabaseError

from execution.store import schema
from execution.store.engine import ANOTHER, OURS, database_path, database_url, reader_engine, writer_engine
from execution.store.errors import StoreError, StoreTooNew, StoreTooOld, StoreUnusable
from execution.store.executors import Executor, ThreadExecutor
from execution.store.failing import failure
from execution.store.meta import is_lost
from execution.store.writer import Store

REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009")
"""All migrations, oldest first. A test compares them with the files."""
HEAD: Final = REVISIONS[-1]
VERSION_TABLE: Final = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_CREATION_LOCK: Final = 0x52454D49
"""Key of PostgreSQL's advisory lock that first starts take; SQLite's own write lock serves there."""
_LOST: Final = (
    "mount what is not mounted, or restore it from a backup together with the file `….incarnation` beside it; whoever "
    "really begins anew removes that file; nothing was changed"
)


def open_store(target: str | Path, *, executor: Executor | None = None, readers: bool = True) -> Store:
    """Open a database given as a path, a URL or ":memory:", creating it when there is none.

    Raises StoreTooNew, StoreTooOld, StoreUnusable or StoreUnavailable. In memory there are no other readers.
    """
    url = database_url(target)
    path = database_path(url)
    if path is not None and is_lost(path):
        raise StoreUnusable(f"{target} is missing, and a journal was kept in it", _LOST)
    engine = writer_engine(url)
    try:
        with engine.begin() as conn:
            prepare(conn)
    except DatabaseError as error:
        engine.dispose()
        raise failure(error, str(target)) from error
    except StoreError:
        engine.dispose()
        raise
    shared = url.get_backend_name() != "sqlite" or path is not None
    reader = reader_engine(url) if readers and shared else None
    return Store(engine, executor=executor or ThreadExecutor(), reader=reader)


def prepare(conn: Connection) -> None:
    """Create the tables in an empty database; check the version of any other."""
    if conn.dialect.name == "postgresql":
        conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATION_LOCK})
    tables = set(inspect(conn).get_table_names())
    if not tables:
        schema.METADATA.create_all(conn, checkfirst=False)
        VERSION_TABLE.create(conn, checkfirst=False)
        conn.execute(VERSION_TABLE.insert().values(version_num=HEAD))
        conn.execute(schema.AUTHORITY.insert().values(id=1, revision=0))
        return
    if not tables >= OURS:
        raise StoreUnusable("the database holds tables of something else", ANOTHER)
    _check_version(conn)


def stored_version(conn: Connection) -> str | None:
    """The newest migration that was applied."""
    return conn.execute(select(VERSION_TABLE.c.version_num)).scalar()


def _check_version(conn: Connection) -> None:
    version = stored_version(conn)
    if version == HEAD:
        return
    if version in REVISIONS:
        raise StoreTooOld(f"the database has schema {version}, this release needs {HEAD}: run `remit migrate`")
    raise StoreTooNew(f"the database has schema {version}, which this release does not know: upgrade remit")
