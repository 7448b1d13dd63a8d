"""Checks as rows of the customer's own database: the port `Monitoring` where no monitoring service is used.

One row per article, which whatever watches the pages reads. How a transaction is made, and what it proves, stands in
`adapters.database_link`.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from adapters.database_link import Database
from execution.core.definition import Prepared
from execution.core.failures import (
    Absent,
    Answer,
    CannotTell,
    FailureClass,
    Landed,
    Present,
    Receipt,
    Refused,
    Sighting,
)
from execution.core.quiescence import Bounds
from execution.ports import Check, Symptom

_METADATA: Final = sa.MetaData()
CHECKS: Final = sa.Table(
    "remit_checks",
    _METADATA,
    sa.Column("key", sa.String(100), primary_key=True),
    sa.Column("site", sa.String(128), nullable=False),
    sa.Column("article_id", sa.String(128), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("changed_at", sa.DateTime, nullable=False, server_default=sa.func.now()),
)

Row = sa.Row[Any]


class SqlMonitoring:
    """The table of checks in that database."""

    system: Final = "monitoring"

    def __init__(self, url: str, *, bounds: Bounds | None = None) -> None:
        self.database = Database(url, bounds=bounds)

    @property
    def bounds(self) -> Bounds:
        return self.database.bounds

    def create_table(self) -> None:
        """Make it where it is missing; for setting up. Raises Unprepared when the database does not let us."""
        self.database.create(CHECKS)

    def register(self, check: Check) -> Prepared:
        fields = _fields(check)
        return self.database.prepared("register", fields, lambda connection: _register(connection, fields))

    async def observe(self, check: Check) -> Sighting:
        row = await self.database.read(lambda connection: _row(connection, check.key))
        if isinstance(row, CannotTell):
            return row
        if row is None:
            return Absent()
        receipt = _receipt(row.key, row.revision)
        return Present(receipt=receipt) if _same(row, _fields(check)) else Absent(receipt=receipt)

    async def probe(self) -> tuple[Symptom, ...]:
        return await self.database.probe(CHECKS, "monitoring")

    async def aclose(self) -> None:
        """Let running transactions end."""
        await self.database.aclose()


def _fields(check: Check) -> dict[str, object]:
    return {
        "key": check.key,
        "site": check.site,
        "article_id": check.article_id,
        "version": check.version,
        "name": check.name,
        "url": check.url,
        "tags": " ".join(check.tags),
    }


def _register(connection: sa.Connection, fields: dict[str, object]) -> Answer:
    key = str(fields["key"])
    row = _row(connection, key, locked=True)
    if row is None:
        connection.execute(sa.insert(CHECKS).values(**fields, revision=1))
        return Landed(receipt=_receipt(key, 1))
    if _same(row, fields):
        return Landed(receipt=_receipt(key, row.revision))
    done = connection.execute(
        sa.update(CHECKS)
        .where(CHECKS.c.key == key, CHECKS.c.revision == row.revision)
        .values(**fields, revision=row.revision + 1, changed_at=sa.func.now())
    )
    if done.rowcount != 1:
        return Refused(failure=FailureClass.TRANSIENT, code="raced")
    return Landed(receipt=_receipt(key, row.revision + 1))


def _row(connection: sa.Connection, key: str, *, locked: bool = False) -> Row | None:
    query = sa.select(CHECKS).where(CHECKS.c.key == key)
    return connection.execute(query.with_for_update() if locked else query).one_or_none()


def _same(row: Row, fields: dict[str, object]) -> bool:
    return all(getattr(row, name) == value for name, value in fields.items())


def _receipt(key: str, revision: int) -> Receipt:
    return Receipt(resource_id=key, version=str(revision))
