"""Systems that take no requests for a while: written by the worker that heard it, read by all; a hint, no fence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from execution.pace import Closed
from execution.store import schema
from execution.store.statements import Query, insert_new

_P: Final = schema.PAUSES.c
_IN_FORCE: Final = Query(select(_P.system, _P.code, _P.until_ms).where(_P.until_ms > bindparam("now_")), "now_")


def note(conn: Connection, closed: Mapping[str, Closed]) -> None:
    """Remember each pause, unless a longer one is known."""
    for system, pause in sorted(closed.items()):
        values = {"code": pause.code, "until_ms": pause.until_ms}
        if not insert_new(conn, schema.PAUSES, {"system": system, **values}):
            shorter = update(schema.PAUSES).where(_P.system == system, _P.until_ms < pause.until_ms)
            conn.execute(shorter.values(**values))


def in_force(conn: Connection, now_ms: int) -> dict[str, Closed]:
    """The pauses that last."""
    return {system: Closed(until_ms=until, code=code) for system, code, until in _IN_FORCE.rows(conn, now_ms)}
