"""The customer's own tables of publications and incidents: the port `Publications`.

A publication is one row per key, staged → published → withdrawn, or staged → cancelled; neither end ever comes back (a
deliberate repetition and a later version have keys of their own). An incident is written once and never changed. How a
transaction is made, and what it proves, stands in `adapters.database_link`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import sqlalchemy as sa

from adapters.database_link import Database
from execution.core.definition import Prepared
from execution.core.failures import (
    Absent,
    Answer,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Present,
    Receipt,
    Refused,
    Sighting,
)
from execution.core.quiescence import Bounds
from execution.ports import Incident, Marked, PublicationRecord, Symptom

STAGED: Final = "staged"
PUBLISHED: Final = "published"
CANCELLED: Final = "cancelled"
WITHDRAWN: Final = "withdrawn"
OPEN: Final = "open"
EARLIER: Final[Mapping[str, tuple[str, ...]]] = {
    STAGED: (),
    PUBLISHED: (STAGED,),
    CANCELLED: (STAGED,),
    WITHDRAWN: (STAGED, PUBLISHED),
}
"""From which statuses a row may still become that one."""

_METADATA: Final = sa.MetaData()
PUBLICATIONS: Final = sa.Table(
    "remit_publications",
    _METADATA,
    sa.Column("key", sa.String(512), primary_key=True),
    sa.Column("site", sa.String(128), nullable=False),
    sa.Column("article_id", sa.String(128), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("content_hash", sa.String(80), nullable=False),
    sa.Column("post_id", sa.String(64), nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("command_id", sa.String(64), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("changed_at", sa.DateTime, nullable=False, server_default=sa.func.now()),
)

INCIDENTS: Final = sa.Table(
    "remit_incidents",
    _METADATA,
    sa.Column("key", sa.String(512), primary_key=True),
    sa.Column("publication_key", sa.String(512), nullable=False),
    sa.Column("site", sa.String(128), nullable=False),
    sa.Column("article_id", sa.String(128), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("post_id", sa.String(64), nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("command_id", sa.String(64), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("opened_at", sa.DateTime, nullable=False, server_default=sa.func.now()),
)

Row = sa.Row[Any]


class SqlPublications:
    """The tables in that database."""

    system: Final = "publications"

    def __init__(self, url: str, *, bounds: Bounds | None = None) -> None:
        self.database = Database(url, bounds=bounds)

    @property
    def bounds(self) -> Bounds:
        return self.database.bounds

    def create_table(self) -> None:
        """Make them where they are missing; for setting up. Raises Unprepared when the database does not let us."""
        self.database.create(PUBLICATIONS)
        self.database.create(INCIDENTS)

    def stage(self, record: PublicationRecord) -> Prepared:
        return self.database.prepared("stage", asdict(record), lambda connection: _stage(connection, record))

    def cancel(self, *, key: str) -> Prepared:
        return self.database.prepared("cancel", {"key": key}, lambda connection: _cancel(connection, key))

    def record(self, record: PublicationRecord) -> Prepared:
        return self.database.prepared("record", asdict(record), lambda connection: _record(connection, record))

    def withdraw(self, *, key: str) -> Prepared:
        return self.database.prepared("withdraw", {"key": key}, lambda connection: _withdraw(connection, key))

    def open_incident(self, incident: Incident) -> Prepared:
        return self.database.prepared("incident", asdict(incident), lambda connection: _open(connection, incident))

    async def observe_incident(self, incident: Incident) -> Sighting:
        return await self.database.read(lambda connection: _incident(connection, incident))

    async def observe(self, *, key: str, status: str) -> Sighting:
        row = await self.database.read(lambda connection: _row(connection, key))
        return row if isinstance(row, CannotTell) else _sighting(row, status)

    async def marked(self, limit: int) -> tuple[Marked, ...] | CannotTell:
        """Every row carries a marker of ours: it is its key."""
        newest = sa.select(PUBLICATIONS).order_by(PUBLICATIONS.c.changed_at.desc()).limit(limit)
        rows = await self.database.read(lambda connection: list(connection.execute(newest)))
        if isinstance(rows, CannotTell):
            return rows
        return tuple(Marked(marker=row.key, resource_id=row.key, state=row.status) for row in rows)

    async def probe(self) -> tuple[Symptom, ...]:
        found = [await self.database.probe(table, "publications") for table in (PUBLICATIONS, INCIDENTS)]
        return tuple(dict.fromkeys(symptom for symptoms in found for symptom in symptoms))

    async def aclose(self) -> None:
        """Let running transactions end."""
        await self.database.aclose()


def _stage(connection: sa.Connection, record: PublicationRecord) -> Answer:
    row = _row(connection, record.key, locked=True)
    if row is not None and row.status != STAGED:
        return Refused(failure=FailureClass.CONFLICT, code=f"already_{row.status}")
    return _put(connection, row, record, STAGED)


def _record(connection: sa.Connection, record: PublicationRecord) -> Answer:
    row = _row(connection, record.key, locked=True)
    if row is not None and row.status in (CANCELLED, WITHDRAWN):
        return Refused(failure=FailureClass.CONFLICT, code=f"already_{row.status}")
    return _put(connection, row, record, PUBLISHED)


def _cancel(connection: sa.Connection, key: str) -> Answer:
    return _end(connection, key, STAGED, CANCELLED)


def _withdraw(connection: sa.Connection, key: str) -> Answer:
    return _end(connection, key, PUBLISHED, WITHDRAWN)


def _end(connection: sa.Connection, key: str, before: str, after: str) -> Answer:
    row = _row(connection, key, locked=True)
    if row is not None and row.status == after:
        return Landed(receipt=_receipt(key, after, row.revision))
    if row is None or row.status != before:
        return Refused(failure=FailureClass.CONFLICT, code=f"not_{before}")
    return _write(connection, row, {"status": after}, key, after)


def _open(connection: sa.Connection, incident: Incident) -> Answer:
    known = _incident(connection, incident)
    if isinstance(known, Foreign):
        return Refused(failure=FailureClass.CONFLICT, code=known.code)
    if isinstance(known, Absent):
        connection.execute(sa.insert(INCIDENTS).values(**asdict(incident), revision=1))
    return Landed(receipt=_receipt(incident.key, OPEN, 1))


def _incident(connection: sa.Connection, incident: Incident) -> Sighting:
    row = connection.execute(sa.select(INCIDENTS).where(INCIDENTS.c.key == incident.key)).one_or_none()
    if row is None:
        return Absent()
    same = all(getattr(row, name) == value for name, value in asdict(incident).items())
    receipt = _receipt(incident.key, OPEN, row.revision)
    return Present(receipt=receipt) if same else Foreign(code="incident_differs", receipt=receipt)


def _put(connection: sa.Connection, row: Row | None, record: PublicationRecord, status: str) -> Answer:
    fields = {**asdict(record), "status": status}
    if row is None:
        connection.execute(sa.insert(PUBLICATIONS).values(**fields, revision=1))
        return Landed(receipt=_receipt(record.key, status, 1))
    if all(getattr(row, name) == value for name, value in fields.items()):
        return Landed(receipt=_receipt(record.key, status, row.revision))
    return _write(connection, row, fields, record.key, status)


def _write(connection: sa.Connection, row: Row, fields: Mapping[str, object], key: str, status: str) -> Answer:
    done = connection.execute(
        sa.update(PUBLICATIONS)
        .where(PUBLICATIONS.c.key == key, PUBLICATIONS.c.revision == row.revision)
        .values(**fields, revision=row.revision + 1, changed_at=sa.func.now())
    )
    if done.rowcount != 1:
        return Refused(failure=FailureClass.TRANSIENT, code="raced")
    return Landed(receipt=_receipt(key, status, row.revision + 1))


def _row(connection: sa.Connection, key: str, *, locked: bool = False) -> Row | None:
    query = sa.select(PUBLICATIONS).where(PUBLICATIONS.c.key == key)
    return connection.execute(query.with_for_update() if locked else query).one_or_none()


def _receipt(key: str, status: str, revision: int) -> Receipt:
    return Receipt(resource_id=key, version=str(revision), data={"status": status})


def _sighting(row: Row | None, status: str) -> Sighting:
    if row is None:
        return Absent()
    receipt = _receipt(row.key, row.status, row.revision)
    if row.status == status:
        return Present(receipt=receipt)
    if row.status in EARLIER.get(status, ()):
        return Absent(receipt=receipt)
    return Foreign(code=f"already_{row.status}", receipt=receipt)
