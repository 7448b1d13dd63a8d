"""Group commit: order, losers, lost commits, overload, closing; and the executor without threads."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from execution.core.draft import Unit
from execution.core.states import CompensationState, Phase, State
from execution.store import executors, registry, statements
from execution.store.errors import StoreClosed, StoreUnavailable, StoreUnusable, UnknownCommit
from execution.store.executors import InlineExecutor, ThreadExecutor
from execution.store.opening import open_store
from execution.store.rows import COMMAND
from execution.store.units import apply_unit
from execution.store.writer import Store
from tests.unit.store.building import accept, command, draft_of, noted, opened, outcomes, run_sync, stored, together


class _Commits:
    """Counts commits, and breaks one before or after it reached the disk."""

    def __init__(self, store: Store) -> None:
        self.count = 0
        self.lose: str | None = None
        self._do_commit: Callable[[Any], None] = store.engine.dialect.do_commit
        store.engine.dialect.do_commit = self._commit  # type: ignore[assignment, method-assign]  # a driver that fails on purpose

    def _commit(self, dbapi: Any) -> None:
        self.count += 1
        lose, self.lose = self.lose, None
        if lose == "before":
            raise sqlite3.OperationalError("disk I/O error")
        self._do_commit(dbapi)
        if lose == "after":
            raise sqlite3.OperationalError("disk I/O error")


async def test_what_one_turn_of_the_loop_submits_is_one_commit(store: Store) -> None:
    commits = _Commits(store)
    await together(*(store.commit(opened(f"cmd_{number}")[0]) for number in range(32)))
    assert commits.count == 1


@pytest.mark.parametrize("lose", ["before", "after"])
async def test_a_commit_whose_answer_is_lost_is_unknown_to_every_member(store: Store, lose: str) -> None:
    saga = await accept(store, "cmd_a")
    commits = _Commits(store)
    commits.lose = lose
    unit, after = noted(saga)
    results = await together(store.commit(unit), store.transact(lambda _: 7), store.commit(opened("cmd_b")[0]))
    assert outcomes(results) == ["UnknownCommit"] * 3
    written = await stored(store, "cmd_a")
    assert written == (after if lose == "after" else saga)
    await store.commit(noted(written)[0])


async def test_a_loser_of_a_lost_commit_still_learns_that_it_lost(store: Store) -> None:
    saga = await accept(store, "cmd_a")
    await store.commit(noted(saga)[0])
    _Commits(store).lose = "after"
    results = await together(store.commit(noted(saga)[0]), store.commit(opened("cmd_b")[0]))
    assert outcomes(results) == ["Stale", "UnknownCommit"]


async def test_when_nobody_wrote_there_is_no_commit(store: Store) -> None:
    saga = await accept(store, "cmd_a")
    await store.commit(noted(saga)[0])
    commits = _Commits(store)
    assert outcomes(await together(store.commit(noted(saga)[0]))) == ["Stale"]
    assert commits.count == 0


async def test_a_statement_that_fails_undoes_its_batch_and_the_store_goes_on(store: Store) -> None:
    def full(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT 'full'"):
            raise sqlite3.OperationalError("database or disk is full")

    event.listen(store.engine, "before_cursor_execute", full)

    def breaking(conn: Connection) -> None:
        apply_unit(conn, opened("cmd_a")[0])
        conn.exec_driver_sql("SELECT 'full'")

    assert outcomes(await together(store.transact(breaking))) != [None]
    assert await store.hot(lambda conn: registry.find(conn, "cmd_a")) is None
    await accept(store, "cmd_a")


async def test_a_unit_that_cannot_be_written_fails_alone(store: Store) -> None:
    poison = Unit(root_id="cmd_p", new_commands=(command("cmd_p", params=object()),))
    good = [opened(f"cmd_{name}")[0] for name in "ab"]
    results = await together(store.commit(good[0]), store.commit(poison), store.commit(good[1]))
    assert outcomes(results)[::2] == [None, None]
    assert isinstance(results[1], Exception)


async def test_a_change_of_what_is_written_once_is_a_bug_and_never_silently_lost(store: Store) -> None:
    draft = draft_of(await accept(store, "cmd_a"))
    draft.set("cmd_a", workflow_id="wf_other")
    assert outcomes(await together(store.commit(draft.unit()))) == ["AssertionError"]


@pytest.mark.parametrize("kept", [0, 256])
async def test_every_column_that_may_change_is_stored(store: Store, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr(statements, "COLUMN_SETS_MAX", kept)
    monkeypatch.setattr(statements, "_COMPILED", {})
    saga = await accept(store, "cmd_a")
    values: dict[str, Any] = {"phase": Phase.UNWINDING, "state": State.FAILED, "human_review_required": True}
    values["compensation_state"] = CompensationState.DONE
    for place, name in enumerate(COMMAND.mutable):
        if name not in {"version", *values}:
            values[name] = place if name.endswith(("_ms", "_count", "_epoch", "_seq")) else f"v{place}"
    draft = draft_of(saga)
    draft.set("cmd_a", **values)
    await store.commit(draft.unit())
    assert await stored(store, "cmd_a") == draft.committed()


async def test_a_locked_database_is_unavailable_and_nothing_is_written(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("execution.store.engine.BUSY_TIMEOUT", "PRAGMA busy_timeout=1")
    store = open_store(database)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await store.commit(opened("cmd_a")[0])
    other.execute("ROLLBACK")
    other.close()
    await store.commit(opened("cmd_a")[0])
    await store.close()


async def test_a_bigger_load_than_a_batch_is_written_whole_and_in_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "BATCH_MAX", 7)
    saga = await accept(store, "cmd_a")
    units = []
    for _ in range(40):
        unit, saga = noted(saga)
        units.append(unit)
    assert outcomes(await together(*(store.commit(unit) for unit in units))) == [None] * 40
    assert await stored(store, "cmd_a") == saga


async def test_an_overload_is_refused_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "WAITING_MAX", 2)
    taken = [store.commit(opened(f"cmd_{number}")[0]) for number in range(2)]
    with pytest.raises(StoreUnavailable):
        store.commit(opened("cmd_2")[0])
    assert outcomes(await together(*taken)) == [None, None]


async def test_somebody_who_stopped_waiting_disturbs_nobody(store: Store) -> None:
    first = asyncio.ensure_future(store.commit(opened("cmd_a")[0]))
    second = store.commit(opened("cmd_b")[0])
    first.cancel()
    assert outcomes(await together(second)) == [None]
    assert await store.hot(lambda conn: registry.find(conn, "cmd_a")) is not None


@pytest.mark.parametrize("make", [ThreadExecutor, InlineExecutor])
async def test_closing_finishes_what_was_taken_and_takes_no_more(
    database: Path, make: Callable[[], ThreadExecutor | InlineExecutor]
) -> None:
    store = open_store(database, executor=make())
    taken = store.commit(opened("cmd_a")[0])
    await store.close()
    assert outcomes(await together(taken)) == [None]
    with pytest.raises(StoreClosed):
        store.commit(opened("cmd_b")[0])


async def test_reads_of_a_batch_see_what_was_acknowledged_and_need_no_commit(store: Store) -> None:
    await accept(store, "cmd_a")
    commits = _Commits(store)
    found = await together(*(store.hot(lambda conn: registry.find(conn, "cmd_a")) for _ in range(5)))
    assert len({row.command_id for row in found}) == 1
    assert commits.count == 0


async def test_a_read_cannot_write(store: Store) -> None:
    with pytest.raises((StoreUnavailable, StoreUnusable)):
        await store.read(lambda conn: apply_unit(conn, opened("cmd_a")[0]))


@pytest.mark.parametrize("boundary", ["before", "after"])
async def test_a_process_killed_at_a_commit_boundary_tells_nobody(boundary: str) -> None:
    armed: list[InlineExecutor] = []

    def die() -> None:
        for executor in armed:
            executor.kill()

    executor = InlineExecutor(**{f"{boundary}_commit": die})
    store = open_store(":memory:", executor=executor)
    await accept(store, "cmd_a")
    armed.append(executor)
    waiting = asyncio.ensure_future(store.commit(opened("cmd_b")[0]))
    later = asyncio.ensure_future(store.commit(opened("cmd_c")[0]))
    for _ in range(5):
        await asyncio.sleep(0)
    swallowed = asyncio.ensure_future(store.commit(opened("cmd_d")[0]))
    await asyncio.sleep(0)
    assert executor.dead
    assert not any(task.done() for task in (waiting, later, swallowed))
    written = run_sync(store, lambda conn: registry.find(conn, "cmd_b"))
    assert (written is not None) == (boundary == "after")
    for task in (waiting, later, swallowed):
        task.cancel()
    await store.close()


async def test_without_threads_the_same_load_makes_the_same_commits() -> None:
    assert await _traced() == await _traced()


async def _traced() -> list[Any]:
    trace: list[Any] = []
    executor = InlineExecutor(before_commit=lambda: trace.append("commit"))
    store = open_store(":memory:", executor=executor)

    async def client(name: str) -> None:
        saga = await accept(store, f"cmd_{name}")
        for _ in range(3):
            unit, saga = noted(saga)
            await store.commit(unit)
            trace.append(name)

    await together(*(client(name) for name in "abc"))
    await store.close()
    return trace


def test_a_lost_commit_has_a_stable_code() -> None:
    assert UnknownCommit.code == "unknown_commit"
