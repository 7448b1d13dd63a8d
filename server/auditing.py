"""The audit as configured: once for an operator, or from time to time in a worker, with alerts about what is new."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from execution.audit import Auditor, AuditReport, Files, Wanted
from execution.core.events import canonical
from execution.pace import Pace
from execution.ports import Ports
from execution.ports.notifying import Alert, Notifier
from execution.store import rounds
from execution.store.errors import StoreError
from server.app import Installation, paces
from server.config import Config, ConfigError
from server.sandbox_process import is_listening

ACTOR: Final = "audit"
TURN_S: Final = 60.0
"""How often a worker asks whether the next audit is due and its own."""
DAY_S: Final = 86_400.0

log = logging.getLogger("remit.audit")


async def run_audit(at: Installation, wanted: Wanted, *, actor: str | None) -> AuditReport:
    """Audit once, with adapters of its own. `actor`: who opens reviews; None opens none. Raises ConfigError."""
    from server.outside import adapters_of

    if at.config.settings.sandbox.start and not is_listening(at.config):
        fix = "Start it with `remit serve`, `remit worker` or `remit sandbox`: nothing can be compared without it."
        raise ConfigError(f"{at.config.home}, [sandbox]", "the sandbox is not running", fix)
    outside = adapters_of(at)
    try:
        return await auditor(at, outside.ports, Pace(at.clock, paces(at.config.settings)), actor).audit(wanted)
    finally:
        await outside.aclose()


def auditor(at: Installation, ports: Ports, pace: Pace, actor: str | None) -> Auditor:
    """Joined by hand; it keeps to the pace that it is given."""
    files = None if actor is None else Files(store=at.store, clock=at.clock, ids=at.ids, actor=actor)
    looker = at.looker(ports, pace)
    return Auditor(store=at.store, catalog=at.catalog, ports=ports, looker=looker, clock=at.clock, files=files)


async def audit_from_time_to_time(at: Installation, ports: Ports, pace: Pace, notifier: Notifier) -> None:
    """Until it is cancelled. One of all workers has each turn; the others find it taken."""
    every_h = at.config.settings.audit.every_h
    assert every_h is not None, "asked for only where it is configured"
    every_ms = int(every_h * 3_600_000)
    while True:
        try:
            if await _is_ours(at, every_ms):
                await _turn(at, ports, pace, notifier)
        except StoreError as error:
            log.warning("the audit was interrupted: %s", error.code)
        await asyncio.sleep(min(TURN_S, every_h * 900))


async def _is_ours(at: Installation, every_ms: int) -> bool:
    now_ms = at.clock.now_ms()
    return await at.store.transact(lambda conn: rounds.begin(conn, rounds.AUDIT, now_ms=now_ms, every_ms=every_ms))


async def _turn(at: Installation, ports: Ports, pace: Pace, notifier: Notifier) -> None:
    report = await auditor(at, ports, pace, ACTOR).audit(wanted_of(at.config, at.clock.now_ms()))
    result = canonical({"commands": report.commands, "findings": len(report.findings), "fresh": len(report.fresh)})
    now_ms = at.clock.now_ms()
    await at.store.transact(lambda conn: rounds.finish(conn, rounds.AUDIT, now_ms=now_ms, result=result))
    log.info("the audit looked at %d commands: %d findings", report.commands, len(report.findings))
    if report.fresh:
        await notifier.alert(alert_of(report))


def wanted_of(config: Config, now_ms: int) -> Wanted:
    """The window that is configured, back from now."""
    section = config.settings.audit
    return Wanted(
        tenant=config.settings.gateway.tenant,
        since_ms=now_ms - int(section.window_days * DAY_S * 1000),
        commands_max=section.commands_max,
        pace_s=section.pace_s,
        review_old_s=section.review_old_days * DAY_S,
        stuck_s=section.stuck_min * 60.0,
    )


def alert_of(report: AuditReport) -> Alert:
    """What nobody was asked about before."""
    told = [
        " ".join(part for part in (f.kind, f.code, f.about, f.step, f.command_id, f.review_id) if part)
        for f in report.fresh
    ]
    return Alert(kind="audit.findings", summary=f"{len(told)} new findings of the audit", lines=tuple(told))
