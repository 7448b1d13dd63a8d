"""Several processes on one file, and processes that are killed."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from pathlib import Path

import pytest

from execution.store import journal, registry
from execution.store.opening import open_store
from tests.unit.store.building import WAIT_S, accept, child, noted, outcomes, stored, together
from tests.unit.store.racing import COMMITS

STARTS = 20
ROUNDS = 3
ACKNOWLEDGED_MIN = 40


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_racing_first_starts_all_find_the_same_store(database: Path, round_: int) -> None:
    said = [line.split() for line in _race("starts", database, STARTS)]
    assert len({tuple(words[:2]) for words in said}) == 1
    assert sorted(words[2] for words in said) == ["False"] * (STARTS - 1) + ["True"]
    assert {words[3] for words in said} == {"False"}


@pytest.mark.behaviour("law.one-transaction")
async def test_owners_in_two_processes_never_both_commit_on_what_they_saw(database: Path) -> None:
    store = open_store(database)
    before = await accept(store, "cmd_a")
    said = await asyncio.to_thread(_race, "counts", database, 2)
    assert said == [str(COMMITS)] * 2
    after = await stored(store, "cmd_a")
    assert after.root.version == before.root.version + 2 * COMMITS
    assert after.root.chain_seq == before.root.chain_seq + 2 * COMMITS
    assert await store.read(lambda conn: journal.verify_chain(conn, "cmd_a")) == ()
    await store.close()


async def test_two_stores_in_one_process_see_each_others_commits(database: Path) -> None:
    first, second = open_store(database), open_store(database)
    saga = await accept(first, "cmd_a")
    unit, after = noted(saga)
    await second.commit(unit)
    assert outcomes(await together(first.commit(noted(saga)[0]))) == ["Stale"]
    assert await stored(first, "cmd_a") == after
    await first.close()
    await second.close()


@pytest.mark.behaviour("law.durable")
async def test_what_was_acknowledged_before_a_kill_is_there_afterwards(tmp_path: Path) -> None:
    for round_ in range(ROUNDS):
        database = tmp_path / f"{round_}.db"
        acknowledged = _killed_in_the_middle(database, ACKNOWLEDGED_MIN + 17 * round_)
        store = open_store(database)
        found = await store.read(lambda conn: registry.page(conn, registry.Filter(), limit=500))
        assert set(acknowledged) <= {row.command_id for row in found[0]}
        batches = await store.read(lambda conn: list(journal.verify_all(conn)))
        assert [finding for batch in batches for finding in batch.findings] == []
        await store.close()


def _race(what: str, database: Path, processes: int) -> list[str]:
    """What each of the racing processes said."""
    racing = child("tests.unit.store.racing", what, database, str(processes))
    said = racing.communicate(timeout=WAIT_S)[0]
    assert racing.returncode == 0
    return said.splitlines()


def _killed_in_the_middle(database: Path, lines_min: int) -> list[str]:
    """Ids that a process acknowledged before it was killed while it went on committing."""
    process = child("tests.unit.store.acknowledging", database, "x")
    assert process.stdout is not None
    descriptor, said = process.stdout.fileno(), b""
    while said.count(b"\n") < lines_min:
        ready, _, _ = select.select([descriptor], [], [], WAIT_S)
        assert ready, "the process says nothing"
        said += os.read(descriptor, 65536)
    process.send_signal(signal.SIGKILL)
    while more := os.read(descriptor, 65536):
        said += more
    process.stdout.close()
    process.wait(WAIT_S)
    return [line.decode() for line in said.split(b"\n")[:-1]]
