"""What operators did, each with the signature of whoever did it. Rows are only ever added."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, insert, select

from execution.store import schema
from execution.store.registry import PAGE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One thing that an operator asked for. `act_id` makes it this one and no other; what: canonical JSON of the verb's
    own particulars; signature: base64url over `execution.acts.statement`."""

    act_id: str
    verb: str
    subject: str
    by: str
    at_ms: int
    what: str
    signature: str = ""


def record(conn: Connection, act: Act) -> None:
    """Keep it."""
    conn.execute(insert(schema.ACTS).values(asdict(act)))


def recent(conn: Connection, limit: int = PAGE_MAX) -> tuple[Act, ...]:
    """The newest first."""
    table = schema.ACTS
    wanted = select(table).order_by(table.c.at_ms.desc(), table.c.act_id.desc()).limit(limit)
    return tuple(Act(**row._mapping) for row in conn.execute(wanted))
