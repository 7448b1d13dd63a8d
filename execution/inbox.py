"""Taking in facts from outside: webhooks, bounces, receipts that come late, what operators saw.

A fact is kept once for each source and delivery id, written into the chain of the command that it is about, and changes
nothing else (`execution.core.inbound`). Whoever calls this has authenticated the source. A fact about nobody we know is
kept as unmatched. No text of a provider is kept: a stable code, and the hash of everything that was said.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from execution.core.command import Command, Saga
from execution.core.draft import Draft
from execution.core.events import Fact, canonical
from execution.core.horizon import asking, open_review
from execution.core.inbound import Says, concerned, contradicts
from execution.core.states import Blocker, EffectClass, ReviewKind
from execution.history import standing_of
from execution.ports import Clock, Ids
from execution.store import inbox, registry
from execution.store.connection import Connection
from execution.store.errors import Stale
from execution.store.inbox import Delivery
from execution.store.units import apply_unit
from execution.store.writer import Store

TRIES: Final = 20
OWNER: Final = "operators"
NOTED: Final = "noted"
CONTRADICTS: Final = "contradicts"
UNMATCHED: Final = "unmatched"
NOTE_CHARS_MAX: Final = 500
_SOURCE: Final = re.compile(r"[a-z0-9][a-z0-9:._@-]{0,99}")
_DELIVERY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_CODE: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


class InboxRefused(Exception):
    """Nothing was kept. Codes: invalid_fact (with field), unknown_command, unknown_step, delivery_conflict, busy."""

    def __init__(self, code: str, field: str = "") -> None:
        super().__init__(f"{code}: {field}" if field else code)
        self.code = code
        self.field = field


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """One fact. It is about the step of a command (without a name: its pivot), or about the message that a system knows
    under `resource_id`. `code`: what happened, in a stable word (`bounced`). `note`: an operator's own words."""

    source: str
    delivery_id: str
    says: Says
    code: str
    command_id: str = ""
    step: str = ""
    system: str = ""
    resource_id: str = ""
    note: str = ""

    def digest(self) -> str:
        """SHA-256 of everything that is said."""
        said = [self.says, self.code, self.command_id, self.step, self.system, self.resource_id, self.note]
        return hashlib.sha256(canonical(said).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What became of it. `again`: that delivery had been kept before."""

    delivery: Delivery
    again: bool


class Inbox:
    """Takes in facts for one tenant."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, tenant: str) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._tenant = tenant

    async def receive(self, fact: Inbound) -> Received:
        """Keep it and say what became of it. Raises InboxRefused."""
        _check(fact)
        for _ in range(TRIES):
            try:
                return await self._store.transact(partial(self._receive, fact=fact))
            except Stale:
                continue
        raise InboxRefused("busy")

    def _receive(self, conn: Connection, fact: Inbound) -> Received:
        known = inbox.find(conn, fact.source, fact.delivery_id)
        if known is not None:
            if known.digest != fact.digest():
                raise InboxRefused("delivery_conflict", "delivery_id")
            return Received(delivery=known, again=True)
        found = self._concerned(conn, fact)
        delivery = self._delivery(fact) if found is None else self._noted(conn, fact, *found)
        inbox.put(conn, delivery)
        return Received(delivery=delivery, again=False)

    def _concerned(self, conn: Connection, fact: Inbound) -> tuple[Saga, Command] | None:
        """Whom it is about; None when nobody is known under that name."""
        command_id = fact.command_id or inbox.message(conn, self._tenant, fact.system, fact.resource_id) or ""
        found = registry.find(conn, command_id)
        if found is None or found.tenant != self._tenant:
            if fact.command_id:
                raise InboxRefused("unknown_command", "command_id")
            return None
        saga = registry.load_saga(conn, found.root_id)
        row = concerned(saga, command_id, fact.step)
        if row is None:
            raise InboxRefused("unknown_step", "step")
        return saga, row

    def _noted(self, conn: Connection, fact: Inbound, saga: Saga, row: Command) -> Delivery:
        """Written into its chain; against what it says of an ending, a person is asked."""
        draft = Draft(saga, actor=fact.source, now_ms=self._clock.now_ms())
        told = {"source": fact.source, "delivery_id": fact.delivery_id, "says": fact.says, "reported": fact.code}
        body: dict[str, Any] = {**told, "digest": fact.digest()}
        draft.note(row.command_id, Fact.FACT_RECEIVED, body | ({"note": fact.note} if fact.note else {}))
        outcome, review_id = NOTED, None
        if contradicts(saga, row, fact.says, replaced=_is_replaced(conn, saga, row)):
            facts = {"code": f"reported_{fact.says}", **told}
            open_review(draft, row.command_id, ReviewKind.LATE_FACT, facts, asking(draft.now_ms, self._ids.new, OWNER))
            draft.block(Blocker.FINDING_OPEN)
            outcome, review_id = CONTRADICTS, _question(draft.saga, row.command_id)
        apply_unit(conn, draft.unit())
        return self._delivery(fact, row, outcome, review_id)

    def _delivery(
        self, fact: Inbound, row: Command | None = None, outcome: str = UNMATCHED, review_id: str | None = None
    ) -> Delivery:
        return Delivery(
            tenant=self._tenant,
            source=fact.source,
            delivery_id=fact.delivery_id,
            digest=fact.digest(),
            says=fact.says,
            code=fact.code,
            system=fact.system or (row.target_system if row else ""),
            resource_id=fact.resource_id,
            command_id=row.command_id if row else None,
            root_id=row.root_id if row else None,
            outcome=outcome,
            review_id=review_id,
            received_at_ms=self._clock.now_ms(),
        )


def _check(fact: Inbound) -> None:
    forms = (("source", _SOURCE), ("delivery_id", _DELIVERY), ("code", _CODE))
    for name, form in forms:
        if not form.fullmatch(getattr(fact, name)):
            raise InboxRefused("invalid_fact", name)
    if len(fact.note) > NOTE_CHARS_MAX:
        raise InboxRefused("invalid_fact", "note")
    if bool(fact.command_id) == bool(fact.system and fact.resource_id):
        raise InboxRefused("invalid_fact", "command_id")


def _is_replaced(conn: Connection, saga: Saga, row: Command) -> bool:
    """Whether another command has written there since. A message that was sent stays sent."""
    if row.effect_class is EffectClass.IRREVERSIBLE:
        return False
    standing = standing_of(conn, row.tenant, row.workflow_id)
    return standing is not None and standing.root_id != saga.root.command_id


def _question(saga: Saga, command_id: str) -> str | None:
    about = [r for r in saga.reviews if r.command_id == command_id and r.kind is ReviewKind.LATE_FACT]
    return next((review.review_id for review in about if review.closed_at_ms is None), None)
