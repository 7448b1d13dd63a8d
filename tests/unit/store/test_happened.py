"""What is counted since a position: every event once, and how long doubts and approvals took that ended."""

import pytest
from sqlalchemy import Connection, insert

from execution.core.events import Fact
from execution.core.states import State
from execution.core.transitions import Trigger
from execution.store import refusals, schema
from execution.store.happened import Happened, Position, figures, here, since
from execution.store.writer import Store
from tests.unit.store.building import NOW, accept

EVENTS = schema.EVENTS


def write(conn: Connection, command_id: str, seq: int, kind: str, at_ms: int) -> None:
    values = {"command_id": command_id, "seq": seq, "type": kind, "actor": "test", "at_ms": at_ms, "body": "{}"}
    conn.execute(insert(EVENTS).values(**values, prev_hash="", hash=f"{command_id}{seq}"))


async def happened(store: Store, position: Position) -> Happened:
    return await store.read(lambda conn: since(conn, position))


async def test_each_event_is_counted_once(store: Store) -> None:
    began = await store.read(here)
    assert began == Position(event=0, refusal=0)
    await accept(store, "cmd_a")
    first = await happened(store, began)
    assert first.events[Fact.COMMAND_RECEIVED] == first.events[Trigger.ENQUEUED] == 1
    assert (await happened(store, first.position)).events == {}
    await accept(store, "cmd_b")
    assert (await happened(store, first.position)).events == first.events


async def test_a_doubt_lasts_from_its_own_lost_answer(store: Store) -> None:
    await accept(store, "cmd_a")
    began = await store.read(here)

    def work(conn: Connection) -> None:
        for seq, kind, at_ms in (
            (100, Trigger.OUTCOME_LOST, 1_000),
            (101, Trigger.PROBING, 2_000),
            (102, Trigger.FOUND_PRESENT, 31_000),
            (103, Trigger.OUTCOME_LOST, 50_000),
            (104, Trigger.FOUND_ABSENT, 52_000),
            (105, Fact.APPROVAL_REQUESTED, 60_000),
            (106, Fact.APPROVED, 90_000),
        ):
            write(conn, "cmd_a", seq, kind, at_ms)

    await store.transact(work)
    found = await happened(store, began)
    assert found.doubts_s == (30.0, 2.0)
    assert found.approvals_s == (30.0,)


async def test_a_refusal_is_counted_by_its_code(store: Store) -> None:
    began = await store.read(here)
    for code in ("expired", "expired", "revoked"):
        row = refusals.Refused(tenant="acme", who="x", intent="i", target="t", code=code, at_ms=NOW)
        await store.transact(lambda conn, row=row: refusals.record(conn, row))  # type: ignore[misc]  # binds the loop's value
    found = await happened(store, began)
    assert found.refusals == {"expired": 2, "revoked": 1}
    assert (await happened(store, found.position)).refusals == {}


@pytest.mark.parametrize("limit", [1, 3])
async def test_what_is_not_read_at_once_is_read_next(store: Store, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    from execution.store import happened as module
    from execution.store.statements import Query

    began = await store.read(here)
    await accept(store, "cmd_a")
    whole = await happened(store, began)
    fewer = Query(module._NEW._statement.limit(limit), "after")  # type: ignore[attr-defined]  # a select, here
    monkeypatch.setattr(module, "_NEW", fewer)
    position, counted = began, 0
    while found := (await happened(store, position)).events:
        counted += sum(found.values())
        position = (await happened(store, position)).position
    assert counted == sum(whole.events.values())


async def test_only_what_is_unfinished_is_old_or_in_doubt(store: Store) -> None:
    await accept(store, "cmd_a")
    position = await store.read(here)
    read = await store.read(lambda conn: figures(conn, "acme", position, NOW))
    assert read.unfinished.oldest_ms == {State.QUEUED: NOW}
    assert read.unfinished.in_doubt == 0

    def lose(conn: Connection) -> None:
        t = schema.COMMANDS
        conn.execute(t.update().where(t.c.command_id == "cmd_a.1").values(state=State.OUTCOME_UNKNOWN.value))

    await store.transact(lose)
    read = await store.read(lambda conn: figures(conn, "acme", position, NOW))
    assert read.unfinished.in_doubt == 1
    assert (await store.read(lambda conn: figures(conn, "other", position, NOW))).unfinished.in_doubt == 0
