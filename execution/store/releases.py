"""When each site last had a scheduled publication released: a backlog is let go one by one, by however many workers."""

from __future__ import annotations

from sqlalchemy import Connection, and_, select, update

from execution.core.draft import Spacing
from execution.store import schema
from execution.store.statements import insert_new


def take(conn: Connection, spacing: Spacing, now_ms: int) -> int | None:
    """Take the site's turn, in the transaction of the fence; None when it is taken, else when the next one is free."""
    table = schema.RELEASES
    insert_new(conn, table, {"tenant": spacing.tenant, "site": spacing.site, "last_ms": 0})
    own = and_(table.c.tenant == spacing.tenant, table.c.site == spacing.site)
    free = update(table).where(own, table.c.last_ms <= now_ms - spacing.distance_ms).values(last_ms=now_ms)
    if conn.execute(free).rowcount == 1:
        return None
    last_ms: int = conn.execute(select(table.c.last_ms).where(own)).scalar_one()
    return last_ms + spacing.distance_ms
