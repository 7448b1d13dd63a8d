"""Bringing an older database to this release's schema. The only module that imports Alembic.

Everything happens in one transaction: a migration that fails leaves the database as it was. Going back is a restore.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DatabaseError

from execution.store.engine import ANOTHER, OURS, database_url, writer_engine
from execution.store.errors import StoreTooNew, StoreUnusable
from execution.store.failing import failure
from execution.store.opening import HEAD, REVISIONS, stored_version

SCRIPTS: Final = Path(__file__).with_name("migrations")


def migrate(target: str | Path) -> tuple[str | None, str]:
    """Apply what is missing; the version before and after. Raises StoreTooNew, StoreUnusable, StoreUnavailable."""
    engine = writer_engine(database_url(target))
    try:
        with engine.begin() as conn:
            before = _before(conn)
            upgrade(conn)
    except DatabaseError as error:
        raise failure(error, str(target)) from error
    finally:
        engine.dispose()
    return before, HEAD


def upgrade(conn: Connection, revision: str = HEAD) -> None:
    """Apply the migrations up to that one, in the transaction of `conn`."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = conn
    command.upgrade(config, revision)


def _before(conn: Connection) -> str | None:
    tables = set(inspect(conn).get_table_names())
    if not tables:
        return None
    if not tables >= OURS:
        raise StoreUnusable("the database holds tables of something else", ANOTHER)
    version = stored_version(conn)
    if version not in REVISIONS:
        raise StoreTooNew(f"the database has schema {version}, which this release does not know: upgrade remit")
    return version
