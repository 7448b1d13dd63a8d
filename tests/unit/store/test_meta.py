"""A restored backup, a copied home and a lost side file are noticed; an ordinary restart is not."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from execution.store import meta
from execution.store.executors import InlineExecutor
from execution.store.opening import open_store
from tests.unit.store.building import NOW, accept


async def _start(database: Path, number: int, *roots: str) -> meta.Identity:
    """One life of a process: it starts, accepts sagas, ticks and ends."""
    store = open_store(database)
    found = await meta.establish(store, installation=f"inst_{number}", incarnation=f"inc_{number}", now_ms=NOW + number)
    for root in roots:
        await accept(store, root)
    await meta.tick(store, NOW + number)
    await store.close()
    return found


async def test_an_ordinary_restart_keeps_the_incarnation(database: Path) -> None:
    first = await _start(database, 1, "cmd_a")
    again = await _start(database, 2, "cmd_b")
    assert first.created
    assert (again.incarnation, again.installation, again.changed) == ("inc_1", "inst_1", False)


async def test_a_moved_home_is_the_same_store(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    await _start(old / "journal.db", 1, "cmd_a")
    old.rename(new)
    assert not (await _start(new / "journal.db", 2)).changed


async def test_a_copied_home_is_a_new_incarnation_of_the_same_installation(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    await _start(old / "journal.db", 1, "cmd_a")
    shutil.copytree(old, new)
    copied = await _start(new / "journal.db", 2)
    assert (copied.changed, copied.incarnation, copied.installation) == (True, "inc_2", "inst_1")
    assert not (await _start(new / "journal.db", 3)).changed
    assert not (await _start(old / "journal.db", 4)).changed


async def test_a_backup_put_in_the_databases_place_is_noticed(database: Path, tmp_path: Path) -> None:
    await _start(database, 1, "cmd_a")
    backup = tmp_path / "backup"
    shutil.copy(database, backup)
    await _start(database, 2, "cmd_b")
    backup.replace(database)
    assert (await _start(database, 3)).changed


def test_a_backup_written_into_the_same_file_is_noticed(database: Path) -> None:
    asyncio.run(_start(database, 1, "cmd_a"))
    backup = database.read_bytes()
    asyncio.run(_start(database, 2, "cmd_b"))
    inode = database.stat().st_ino
    with database.open("r+b") as file:
        file.write(backup)
        file.truncate()
    assert database.stat().st_ino == inode
    assert asyncio.run(_start(database, 3)).changed


@pytest.mark.behaviour("threat.45")
def test_a_backup_of_both_files_put_back_over_them_is_noticed(database: Path) -> None:
    side = database.with_name("journal.db.incarnation")
    asyncio.run(_start(database, 1, "cmd_a"))
    held = json.loads(side.read_text())
    an_hour_old = json.dumps({**held, "written_ms": held["written_ms"] - 3_600_000})
    backup = database.read_bytes()
    asyncio.run(_start(database, 2, "cmd_b"))
    inodes = database.stat().st_ino, side.stat().st_ino
    database.write_bytes(backup)
    side.write_text(an_hour_old)
    assert (database.stat().st_ino, side.stat().st_ino) == inodes
    assert asyncio.run(_start(database, 3)).changed
    assert not asyncio.run(_start(database, 4)).changed


async def _start_and_mark(database: Path, root: str) -> None:
    store = open_store(database)
    await meta.establish(store, installation="inst_2", incarnation="inc_2", now_ms=NOW + 2)
    await accept(store, root)
    await meta.mark(store)
    await store.close()


def test_what_was_marked_is_missed_in_a_backup_from_before(database: Path) -> None:
    asyncio.run(_start(database, 1, "cmd_a"))
    backup = database.read_bytes()
    asyncio.run(_start_and_mark(database, "cmd_b"))
    database.write_bytes(backup)
    assert asyncio.run(_start(database, 3)).changed


async def test_a_lost_or_damaged_side_file_counts_as_changed(database: Path) -> None:
    await _start(database, 1, "cmd_a")
    side = database.with_name("journal.db.incarnation")
    side.unlink()
    assert (await _start(database, 2)).changed
    side.write_text("{")
    assert (await _start(database, 3)).changed
    assert side.stat().st_mode & 0o077 == 0
    assert not (await _start(database, 4)).changed


async def test_a_process_that_dies_between_the_side_file_and_its_commit_is_no_restored_backup(database: Path) -> None:
    await _start(database, 1)
    died = asyncio.Event()

    def die() -> None:
        dying.kill()
        died.set()

    dying = InlineExecutor(before_commit=die)
    store = open_store(database, executor=dying)
    batch = [asyncio.ensure_future(accept(store, "cmd_a")), asyncio.ensure_future(meta.tick(store, NOW + 2))]
    async with asyncio.timeout(10):
        await died.wait()
    for waiting in batch:
        waiting.cancel()
    await store.close()
    again = await _start(database, 3)
    assert (again.changed, again.incarnation) == (False, "inc_1")
