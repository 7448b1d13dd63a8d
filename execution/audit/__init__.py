"""The audit: does reality still agree with what the journal calls done, and is anything forgotten?

A saga that ended is not looked at by the engine any more. The audit goes over a window of them, at a measured pace, and
asks each system the same questions that the engine asked: is our effect there as we left it, once (`effects`)? It lists
what carries our marker and belongs to no command (`orphans`), and finds in the journal alone what nobody works on any
more (`waiting`). It mends nothing. It reports, and when it is told to it opens typed reviews with the facts (`filing`):
SUCCESS stays, gets a finding, and is no longer called verified.

What a person has been asked about, or has answered, is not asked again while it is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from execution.audit.effects import Effects
from execution.audit.filing import Files, question_about
from execution.audit.orphans import orphans
from execution.audit.report import AuditReport, Finding, Kind, Wanted
from execution.audit.waiting import forgotten
from execution.catalog import Catalog
from execution.core.auditing import Oddity
from execution.core.states import TERMINAL, ReviewKind
from execution.looking import Looker
from execution.ports import Clock, Ports
from execution.store import registry
from execution.store.connection import Connection
from execution.store.writer import Store

__all__ = ["AuditReport", "Auditor", "Files", "Finding", "Wanted"]

_STANDING_STILL: Final = frozenset({Kind.STUCK, Kind.COMPENSATION_UNFINISHED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Whoever audits. `files` opens reviews; without it nothing is written."""

    store: Store
    catalog: Catalog
    ports: Ports
    looker: Looker
    clock: Clock
    files: Files | None = None

    async def audit(self, wanted: Wanted) -> AuditReport:
        """Go over it once."""
        began = self.clock.now_ms()
        root_ids, more = await self._roots(wanted)
        effects = Effects(store=self.store, catalog=self.catalog, looker=self.looker, wanted=wanted)
        findings = [finding for root_id in root_ids for finding in await self._effects(effects, root_id)]
        known, now = self.catalog.known, self.clock.now_ms()
        waiting = await self.store.read(lambda conn: forgotten(conn, wanted, now, known))
        findings += [await self._asked_about(finding) for finding in waiting]
        findings += effects.unreadable()
        if wanted.command_id is None:
            findings += await orphans(self.ports, self.store, self.catalog, self.looker.installation)
        return AuditReport(
            began_ms=began,
            ended_ms=self.clock.now_ms(),
            commands=len(root_ids),
            looks=effects.looks,
            in_motion=effects.in_motion,
            findings=tuple(findings),
            more=more,
        )

    async def _roots(self, wanted: Wanted) -> tuple[tuple[str, ...], bool]:
        if wanted.command_id is not None:
            return (wanted.command_id,), False
        since = registry.Filter(tenant=wanted.tenant, states=TERMINAL, since_ms=wanted.since_ms)

        def read(conn: Connection) -> tuple[tuple[str, ...], bool]:
            roots, after = registry.page(conn, since, limit=wanted.commands_max)
            return tuple(root.command_id for root in roots), after is not None

        return await self.store.read(read)

    async def _effects(self, effects: Effects, root_id: str) -> list[Finding]:
        found: list[Finding] = []
        async for odd in effects.oddities(root_id):
            known, command_id = odd.known, odd.look.command_id
            review_id = question_about(odd.saga, command_id, odd.oddity) if known else None
            if self.files is not None and not known:
                review_id = await self.files.ask(root_id, command_id, odd.oddity, odd.look)
            found.append(odd.finding(known=known, review_id=review_id))
        return found

    async def _asked_about(self, finding: Finding) -> Finding:
        """What stands still without anybody being asked becomes a question."""
        if self.files is None or finding.known or finding.command_id is None or finding.kind not in _STANDING_STILL:
            return finding
        oddity = Oddity(kind=ReviewKind.STUCK, facts={"code": finding.code})
        review_id = await self.files.ask(finding.command_id, finding.command_id, oddity)
        return replace(finding, review_id=review_id)
