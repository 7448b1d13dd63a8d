"""The other modelled systems: the customer's table of publications, the mail relay, the content store."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from execution.core.definition import Prepared
from execution.core.failures import (
    Absent,
    Answer,
    FailureClass,
    Foreign,
    Landed,
    Present,
    Receipt,
    Refused,
    Sighting,
    Unprepared,
)
from execution.core.quiescence import Bounds
from execution.ports import Incident, Message, PublicationRecord
from execution.simulation.wire import Effect, Request, Wire
from execution.store import artifacts
from execution.store.writer import Store

_REF: Final = "artifact://sha256/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table."""

    status: str
    revision: int
    post_id: str


class Table:
    """The port `Publications`: one row per key, staged → published → withdrawn, or staged → cancelled."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.rows: dict[str, Row] = {}
        self.incidents: dict[str, Incident] = {}
        self._times: list[float] = [0.0]
        self._states: list[dict[str, Row]] = [{}]

    @property
    def bounds(self) -> Bounds:
        return self.wire.bounds

    def stage(self, record: PublicationRecord) -> Prepared:
        return self.wire.request("stage", record.key, asdict(record), lambda r: self._put(r, record, "staged"))

    def record(self, record: PublicationRecord) -> Prepared:
        return self.wire.request("record", record.key, asdict(record), lambda r: self._put(r, record, "published"))

    def cancel(self, *, key: str) -> Prepared:
        return self.wire.request("cancel", key, {"key": key}, lambda request: self._cancel(request, key))

    def withdraw(self, *, key: str) -> Prepared:
        return self.wire.request("withdraw", key, {"key": key}, lambda request: self._withdraw(request, key))

    def open_incident(self, incident: Incident) -> Prepared:
        fields = asdict(incident)
        return self.wire.request("incident", incident.key, fields, lambda request: self._open(request, incident))

    async def observe_incident(self, incident: Incident) -> Sighting:
        def look(at_s: float) -> Sighting:
            known = self.incidents.get(incident.key)
            receipt = Receipt(resource_id=incident.key, data={"status": "open"})
            if known is None:
                return Absent()
            return Present(receipt=receipt) if known == incident else Foreign(code="incident_differs", receipt=receipt)

        return await self.wire.read(look)

    async def observe(self, *, key: str, status: str) -> Sighting:
        def look(at_s: float) -> Sighting:
            row = self._at(at_s).get(key)
            if row is None:
                return Absent()
            if row.status == status:
                return Present(receipt=_receipt(key, row))
            if row.status == "staged" or (row.status, status) == ("published", "withdrawn"):
                return Absent(receipt=_receipt(key, row))
            return Foreign(code=f"already_{row.status}", receipt=_receipt(key, row))

        return await self.wire.read(look)

    def _at(self, at_s: float) -> Mapping[str, Row]:
        return self._states[max(0, bisect_right(self._times, at_s) - 1)]

    def _put(self, request: Request, record: PublicationRecord, status: str) -> Answer:
        row = self.rows.get(record.key)
        ended = row is not None and row.status in ("cancelled", "withdrawn")
        if row is not None and (ended or (status == "staged" and row.status != "staged")):
            return Refused(failure=FailureClass.CONFLICT, code=f"already_{row.status}")
        if row is not None and row.status == status and row.post_id == record.post_id:
            return Landed(receipt=_receipt(record.key, row))
        return self._set(request, record.key, status, record.post_id)

    def _cancel(self, request: Request, key: str) -> Answer:
        row = self.rows.get(key)
        if row is not None and row.status == "cancelled":
            return Landed(receipt=_receipt(key, row))
        if row is None or row.status != "staged":
            return Refused(failure=FailureClass.CONFLICT, code="not_staged")
        return self._set(request, key, "cancelled", row.post_id)

    def _withdraw(self, request: Request, key: str) -> Answer:
        row = self.rows.get(key)
        if row is not None and row.status == "withdrawn":
            return Landed(receipt=_receipt(key, row))
        if row is None or row.status != "published":
            return Refused(failure=FailureClass.CONFLICT, code="not_published")
        return self._set(request, key, "withdrawn", row.post_id)

    def _open(self, request: Request, incident: Incident) -> Answer:
        if self.incidents.setdefault(incident.key, incident) != incident:
            return Refused(failure=FailureClass.CONFLICT, code="incident_differs")
        _note(self.wire, request, "", "open")
        return Landed(receipt=Receipt(resource_id=incident.key, data={"status": "open"}))

    def _set(self, request: Request, key: str, status: str, post_id: str) -> Answer:
        before = self.rows.get(key)
        row = Row(status=status, revision=1 if before is None else before.revision + 1, post_id=post_id)
        self.rows = {**self.rows, key: row}
        self._times.append(self.wire.loop.time())
        self._states.append(self.rows)
        _note(self.wire, request, before.status if before else "", status)
        return Landed(receipt=_receipt(key, row))


class Relay:
    """The port `Mail`: messages that were accepted, each with the time. It cannot be asked."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.accepted: list[str] = []

    @property
    def bounds(self) -> Bounds:
        return self.wire.bounds

    def send(self, message: Message) -> Prepared:
        return self.wire.request(
            "send", message.message_id, asdict(message), lambda request: self._accept(request, message)
        )

    def _accept(self, request: Request, message: Message) -> Answer:
        self.accepted.append(message.message_id)
        _note(self.wire, request, "", "accepted")
        return Landed(receipt=Receipt(resource_id=message.message_id, data={"accepted": len(message.recipients)}))


class Contents:
    """The port `Artifacts` over the journal's own store. `opening`: what happens to whoever reads."""

    def __init__(self, store: Store, opening: Callable[[], Awaitable[None]] | None = None) -> None:
        self._store = store
        self._opening = opening

    async def get(self, ref: str) -> bytes:
        digest = ref.removeprefix(_REF)
        found = await self._store.hot(lambda conn: artifacts.get(conn, digest))
        if found is None or found.content is None:
            raise Unprepared(FailureClass.PERMANENT, "artifact_missing")
        if self._opening is not None:
            await self._opening()
        return found.content


def _receipt(key: str, row: Row) -> Receipt:
    return Receipt(resource_id=key, version=str(row.revision), data={"status": row.status})


def _note(wire: Wire, request: Request, was: str, now: str) -> None:
    effect = Effect(
        at_s=wire.loop.time(),
        system=wire.system,
        operation=request.operation,
        key=request.key,
        digest=request.request_digest,
        request=request.number,
        was=was,
        now=now,
    )
    wire.log.effects.append(effect)
