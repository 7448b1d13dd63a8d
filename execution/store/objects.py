"""The business objects that the registry's commands are about."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from execution.store.registry import ROOTS, C


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """One object; `newest_ms`: when the newest command about it was accepted."""

    site: str
    object_id: str
    newest_ms: int


def newest(conn: Connection, tenant: str, *, site: str | None = None, limit: int) -> tuple[Object, ...]:
    """Those that were worked on last, the newest first."""
    latest = func.max(C.created_at_ms).label("newest_ms")
    wanted = select(C.site, C.object_id, latest).where(ROOTS, C.tenant == tenant).group_by(C.site, C.object_id)
    if site is not None:
        wanted = wanted.where(C.site == site)
    ordered = wanted.order_by(latest.desc(), C.site, C.object_id).limit(limit)
    return tuple(Object(**row._mapping) for row in conn.execute(ordered))
