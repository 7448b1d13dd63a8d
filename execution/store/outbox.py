"""The outbox: what the relay must still say on the bus. Unsent is `sent_at_ms IS NULL`, never "later than the last id":

transactions commit out of the order of their ids, and a row that was skipped would never be said.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from execution.store import schema
from execution.store.statements import Query

_T: Final = schema.OUTBOX.c
_UNSENT: Final = Query(
    select(_T.outbox_id, _T.topic, _T.root_id)
    .where(_T.sent_at_ms.is_(None))
    .order_by(_T.outbox_id)
    .limit(bindparam("limit_")),
    "limit_",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One row: somebody should look at that saga."""

    outbox_id: int
    topic: str
    root_id: str


def unsent(conn: Connection, limit: int) -> tuple[Message, ...]:
    """What was not said yet, the oldest first."""
    found = _UNSENT.rows(conn, limit)
    return tuple(Message(outbox_id=number, topic=topic, root_id=root_id) for number, topic, root_id in found)


def mark_sent(conn: Connection, outbox_ids: Collection[int], now_ms: int) -> int:
    """Said (perhaps by another relay too: the bus may duplicate); how many were unsent until now."""
    table = schema.OUTBOX
    said = update(table).where(table.c.outbox_id.in_(sorted(outbox_ids)), table.c.sent_at_ms.is_(None))
    return conn.execute(said.values(sent_at_ms=now_ms)).rowcount


def announce(conn: Connection, topic: str, root_id: str) -> None:
    """A row outside a unit."""
    conn.execute(insert(schema.OUTBOX).values(topic=topic, root_id=root_id))


def prune(conn: Connection, before_ms: int, limit: int) -> int:
    """Forget what was said before then; how many rows went."""
    table = schema.OUTBOX
    old = select(table.c.outbox_id).where(table.c.sent_at_ms < before_ms).order_by(table.c.outbox_id).limit(limit)
    return conn.execute(delete(table).where(table.c.outbox_id.in_(old))).rowcount
