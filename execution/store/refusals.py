"""What the gateway refused: who, which intent and target, which code. Never any content."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select

from execution.store import schema

FIELD_CHARS_MAX = 256
"""A refused caller writes these fields: they are cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """One refusal."""

    tenant: str
    who: str
    intent: str
    target: str
    code: str
    at_ms: int


def record(conn: Connection, refused: Refused) -> None:
    """Write it down."""
    values = asdict(refused)
    cut = {name: value[:FIELD_CHARS_MAX] if isinstance(value, str) else value for name, value in values.items()}
    conn.execute(insert(schema.REFUSALS).values(cut))


def recent(conn: Connection, *, tenant: str | None = None, limit: int = 50) -> tuple[Refused, ...]:
    """The newest refusals."""
    t = schema.REFUSALS.c
    wanted = select(t.tenant, t.who, t.intent, t.target, t.code, t.at_ms).order_by(t.refusal_id.desc()).limit(limit)
    if tenant is not None:
        wanted = wanted.where(t.tenant == tenant)
    return tuple(Refused(**row._mapping) for row in conn.execute(wanted))


def prune(conn: Connection, before_ms: int, limit: int) -> int:
    """Forget old ones; how many went."""
    t = schema.REFUSALS
    old = select(t.c.refusal_id).where(t.c.at_ms < before_ms).order_by(t.c.refusal_id).limit(limit)
    return conn.execute(delete(t).where(t.c.refusal_id.in_(old))).rowcount
