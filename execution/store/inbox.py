"""What reached us from outside: each delivery once, for good. `execution.inbox` judges it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Select, literal_column, select

from execution.store import schema
from execution.store.statements import insert_new


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One fact. `digest`: SHA-256 of everything that it says. outcome: noted, contradicts or unmatched."""

    tenant: str
    source: str
    delivery_id: str
    digest: str
    says: str
    code: str
    system: str
    resource_id: str
    command_id: str | None
    root_id: str | None
    outcome: str
    review_id: str | None
    received_at_ms: int


def put(conn: Connection, delivery: Delivery) -> bool:
    """Keep it; False when that source has delivered something under that id before."""
    return insert_new(conn, schema.INBOX, asdict(delivery))


def find(conn: Connection, source: str, delivery_id: str) -> Delivery | None:
    """What that source delivered under that id."""
    t = schema.INBOX.c
    found = conn.execute(_columns().where(t.source == source, t.delivery_id == delivery_id)).one_or_none()
    return None if found is None else Delivery(**found._mapping)


def recent(conn: Connection, tenant: str, *, outcome: str | None = None, limit: int = 50) -> tuple[Delivery, ...]:
    """The newest."""
    t = schema.INBOX.c
    wanted = _columns().where(t.tenant == tenant).order_by(t.inbox_id.desc()).limit(limit)
    if outcome is not None:
        wanted = wanted.where(t.outcome == outcome)
    return tuple(Delivery(**row._mapping) for row in conn.execute(wanted))


def message(conn: Connection, tenant: str, system: str, resource_id: str) -> str | None:
    """The id of the command whose message that system knows under that name."""
    c = schema.COMMANDS.c
    mine = (c.tenant == tenant, c.target_system == system, c.external_resource_id == resource_id)
    wanted = select(c.command_id).where(*mine, c.effect_class == literal_column("'IRREVERSIBLE'"))
    return conn.execute(wanted.order_by(c.command_id).limit(1)).scalar_one_or_none()


def _columns() -> Select[Any]:
    return select(*[column for column in schema.INBOX.columns if column.name != "inbox_id"])
