"""What is done from time to time, by one of all workers: when it was begun last, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select, update

from execution.store import schema
from execution.store.statements import insert_new

AUDIT: Final = "audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """ended_ms None: it runs, or its worker ended in the middle of it. result: canonical JSON."""

    name: str
    began_ms: int
    ended_ms: int | None
    result: str


def begin(conn: Connection, name: str, *, now_ms: int, every_ms: int) -> bool:
    """Whether it is this worker's turn: nobody began it within `every_ms`. Whoever asks first has it."""
    if insert_new(conn, schema.ROUNDS, {"name": name, "began_ms": now_ms, "ended_ms": None, "result": "{}"}):
        return True
    r = schema.ROUNDS
    due = update(r).where(r.c.name == name, r.c.began_ms <= now_ms - every_ms)
    return conn.execute(due.values(began_ms=now_ms, ended_ms=None, result="{}")).rowcount == 1


def finish(conn: Connection, name: str, *, now_ms: int, result: str) -> None:
    """Say what came of it."""
    r = schema.ROUNDS
    conn.execute(update(r).where(r.c.name == name).values(ended_ms=now_ms, result=result))


def last(conn: Connection, name: str) -> Round | None:
    """The newest one, None when there never was one."""
    row = conn.execute(select(schema.ROUNDS).where(schema.ROUNDS.c.name == name)).first()
    return None if row is None else Round(**row._mapping)
