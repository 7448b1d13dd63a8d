"""First starts, migrations, and files that are not ours."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.dialects import postgresql

from execution.store import migrate, opening, statements
from execution.store.engine import database_url, writer_engine
from execution.store.errors import StoreTooNew, StoreTooOld, StoreUnusable
from execution.store.opening import open_store
from tests.unit.store.building import accept, stored


@pytest.mark.behaviour("threat.44")
async def test_a_new_database_is_its_owners_alone(database: Path) -> None:
    store = open_store(database)
    await accept(store, "cmd_a")
    files = sorted(database.parent.glob("journal.db*"))
    assert [file.name for file in files] == ["journal.db", "journal.db-shm", "journal.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    await store.close()


async def test_commits_are_durable_by_the_settings_of_the_connection(database: Path) -> None:
    store = open_store(database)

    def pragmas(conn: object) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return [conn.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]  # type: ignore[attr-defined]  # the driver's own connection

    assert await store.transact(pragmas) == ["wal", 2, 1, 30_000]
    await store.close()


async def test_a_store_in_memory_works_without_a_file() -> None:
    store = open_store(":memory:")
    saga = await accept(store, "cmd_a")
    assert await stored(store, "cmd_a") == saga
    await store.close()


def test_migrations_lead_to_the_same_schema_as_a_fresh_start(tmp_path: Path) -> None:
    assert migrate.migrate(tmp_path / "migrated.db") == (None, opening.HEAD)
    assert migrate.migrate(tmp_path / "migrated.db") == (opening.HEAD, opening.HEAD)
    _create(tmp_path / "created.db")
    assert _schema(tmp_path / "migrated.db") == _schema(tmp_path / "created.db")


def test_the_list_of_migrations_is_the_folder_of_migrations() -> None:
    files = sorted(path.name[:4] for path in (migrate.SCRIPTS / "versions").glob("0*.py"))
    assert tuple(files) == opening.REVISIONS


def test_alembic_is_loaded_by_migrate_alone() -> None:
    code = "import sys, execution.store.opening, execution.store.meta; sys.exit('alembic' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_database_of_a_later_release_is_refused_and_left_alone(database: Path) -> None:
    _create(database, "PRAGMA journal_mode=WAL", "UPDATE alembic_version SET version_num = '9999'")
    before = database.read_bytes()
    for action in (open_store, migrate.migrate):
        with pytest.raises(StoreTooNew, match="upgrade remit"):
            action(database)
    assert database.read_bytes() == before


async def test_a_database_of_an_earlier_release_waits_for_migrate_and_keeps_what_it_holds(database: Path) -> None:
    engine = writer_engine(database_url(database))
    with engine.begin() as conn:
        migrate.upgrade(conn, opening.REVISIONS[0])
    engine.dispose()
    with pytest.raises(StoreTooOld, match="remit migrate"):
        open_store(database)
    assert migrate.migrate(database) == (opening.REVISIONS[0], opening.HEAD)
    store = open_store(database)
    saga = await accept(store, "cmd_a")
    assert await stored(store, "cmd_a") == saga
    await store.close()


def test_the_database_of_something_else_is_refused_and_left_alone(database: Path) -> None:
    conn = sqlite3.connect(database)
    conn.execute("CREATE TABLE theirs (a)")
    conn.close()
    before = database.read_bytes()
    for action in (open_store, migrate.migrate):
        with pytest.raises(StoreUnusable, match="another database"):
            action(database)
    assert database.read_bytes() == before


@pytest.mark.parametrize("content", [b"hello, I am a text\n" * 50, b"SQLite format 3\0" + b"\xff" * 8000])
def test_a_file_that_is_no_database_is_refused_and_left_alone(database: Path, content: bytes) -> None:
    database.write_bytes(content)
    with pytest.raises(StoreUnusable):
        open_store(database)
    assert database.read_bytes() == content


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="missing"):
        open_store(tmp_path / "missing" / "journal.db")


@pytest.mark.parametrize("url", ["mysql://host/db", "nonsense://"])
def test_another_kind_of_database_is_refused(url: str) -> None:
    with pytest.raises(StoreUnusable):
        open_store(url)


def test_the_fixed_statements_compile_for_postgresql_with_its_locks() -> None:
    sql = statements.Statements(postgresql.psycopg.dialect())  # type: ignore[no-untyped-call]  # untyped in SQLAlchemy
    assert sql.share_authority.endswith("FOR SHARE")
    assert sql.guarded_update(frozenset()).text.endswith(
        "WHERE commands.command_id = %s::VARCHAR AND commands.version = %s::BIGINT"
    )


def _create(database: Path, *then: str) -> None:
    engine: Engine = create_engine(f"sqlite:///{database}")
    with engine.begin() as conn:
        opening.prepare(conn)
    engine.dispose()
    plain = sqlite3.connect(database, isolation_level=None)
    for statement in then:
        plain.execute(statement)
    plain.close()


def _schema(database: Path) -> list[tuple[str, str, list[str]]]:
    """Every table and index; the constraints of a table in any order."""
    conn = sqlite3.connect(database)
    rows = conn.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master").fetchall()
    conn.close()
    parts = {name: " ".join(sql.split()).rstrip(")").split("CONSTRAINT") for _, name, sql in rows}
    return sorted((type_, name, sorted(part.strip(" ,)") for part in parts[name])) for type_, name, _ in rows)


def test_a_history_whose_file_is_gone_is_missed_and_not_begun_anew(tmp_path: Path) -> None:
    database = tmp_path / "remit.db"
    side = tmp_path / "remit.db.incarnation"
    side.write_text('{"incarnation": "inc_1", "inode": 2, "position": 7, "written_ms": 0}')
    with pytest.raises(StoreUnusable, match="a journal was kept in it"):
        open_store(database)
    assert not database.exists()
    database.touch()  # what a mount that failed halfway leaves
    with pytest.raises(StoreUnusable, match="a journal was kept in it"):
        open_store(database)
    side.unlink()
    open_store(database)
    assert database.stat().st_size > 0
