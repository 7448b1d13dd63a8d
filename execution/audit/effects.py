"""Looking at what ended sagas left in the world, one object at a time, at a measured pace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from execution.audit.report import Finding, Kind, Wanted
from execution.catalog import Catalog
from execution.core.auditing import Oddity, asked_before, in_motion, odd, subjects
from execution.core.command import Saga
from execution.core.failures import CannotTell
from execution.looking import Look, Looker
from execution.store import registry
from execution.store.connection import Connection
from execution.store.writer import Store

SILENT_MAX: Final = 3
"""A system that did not answer so often in a row is left alone for the rest of the audit."""
RELATED_MAX: Final = 200
"""How many sagas of one object are read to know who wrote it last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """An oddity of one row, with the look that showed it."""

    saga: Saga
    look: Look
    oddity: Oddity

    def finding(self, *, known: bool, review_id: str | None) -> Finding:
        """As it is reported."""
        root = self.saga.root
        return Finding(
            kind=Kind(self.oddity.kind.value),
            code=self.oddity.code,
            command_id=root.command_id,
            step=self.look.step,
            about=about(self.saga),
            asked_at_ms=self.look.asked_at_ms,
            facts=self.oddity.facts,
            known=known,
            review_id=review_id,
        )

    @property
    def known(self) -> bool:
        """Whether a person is, or was, asked about exactly this."""
        return asked_before(self.saga, self.look.command_id, self.oddity)


def about(saga: Saga) -> str:
    """What a saga is about, for people."""
    root = saga.root
    return f"{root.object_id} v{root.object_version} on {root.site}"


@dataclass(slots=True, kw_only=True)
class Effects:
    """One going-over. `looks` and `in_motion` count; `silent`: how often in a row a system has not answered; `unread`:
    how often at all, by system and code."""

    store: Store
    catalog: Catalog
    looker: Looker
    wanted: Wanted
    looks: int = 0
    in_motion: int = 0
    silent: dict[str, int] = field(default_factory=dict)
    unread: dict[tuple[str, str], int] = field(default_factory=dict)
    _related: dict[str, tuple[Saga, ...]] = field(default_factory=dict)

    async def oddities(self, root_id: str) -> AsyncIterator[Odd]:
        """What is odd about the effects of one saga."""
        saga = await self.store.read(lambda conn: registry.load_saga(conn, root_id))
        named = saga.root.command_type, saga.root.definition_version
        related = await self._about_the_same(saga)
        if named not in self.catalog.known:
            return
        if in_motion(related):
            self.in_motion += 1
            return
        definition, plan = self.catalog.definition(*named), json.loads(saga.root.params)["plan"]
        for subject in subjects(saga, related):
            if self.silent.get(subject.row.target_system, 0) >= SILENT_MAX:
                continue
            look = await self.looker.look(saga, definition, subject.row.command_id, plan)
            if look is None:
                continue
            await self._looked(look)
            oddity = odd(subject, look.sighting)
            if oddity is not None:
                yield Odd(saga=saga, look=look, oddity=oddity)

    async def _looked(self, look: Look) -> None:
        self.looks += 1
        if isinstance(look.sighting, CannotTell):
            self.silent[look.system] = self.silent.get(look.system, 0) + 1
            failed = look.system, look.sighting.code
            self.unread[failed] = self.unread.get(failed, 0) + 1
        else:
            self.silent.pop(look.system, None)
        await asyncio.sleep(self.wanted.pace_s)

    async def _about_the_same(self, saga: Saga) -> tuple[Saga, ...]:
        """Every saga of the same object, read once for each object."""
        tenant, workflow_id = saga.root.tenant, saga.root.workflow_id

        def read(conn: Connection) -> tuple[Saga, ...]:
            roots = registry.workflow_roots(conn, tenant, workflow_id)
            newest = sorted(roots, key=lambda root: root.created_at_ms, reverse=True)[:RELATED_MAX]
            return tuple(registry.load_saga(conn, root.command_id) for root in newest)

        if workflow_id not in self._related:
            self._related[workflow_id] = await self.store.read(read)
        return self._related[workflow_id]

    def unreadable(self) -> tuple[Finding, ...]:
        """Systems about which nothing is known because they did not answer."""
        return tuple(
            Finding(kind=Kind.UNREADABLE, code=code, about=system, facts={"times": times})
            for (system, code), times in sorted(self.unread.items())
        )
