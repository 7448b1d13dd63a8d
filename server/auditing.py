"""The audit as configured: once for an operator, or from time to time in a worker, with alerts about what is new."""

from __future__ import annotations

from execution.audit import Auditor, AuditReport, Files, Wanted
from execution.ports import Ports
from server.app import Installation
from server.config import ConfigError
from server.sandbox_process import is_listening


async def run_audit(at: Installation, wanted: Wanted, *, actor: str | None) -> AuditReport:
    """Audit once, with adapters of its own. `actor`: who opens reviews; None opens none. Raises ConfigError."""
    from server.outside import adapters_of

    if at.config.settings.sandbox.start and not is_listening(at.config):
        fix = "Start it with `remit serve`, `remit worker` or `remit sandbox`: nothing can be compared without it."
        raise ConfigError(f"{at.config.home}, [sandbox]", "the sandbox is not running", fix)
    outside = adapters_of(at)
    try:
        return await auditor(at, outside.ports, actor).audit(wanted)
    finally:
        await outside.aclose()


def auditor(at: Installation, ports: Ports, actor: str | None) -> Auditor:
    """Joined by hand."""
    files = None if actor is None else Files(store=at.store, clock=at.clock, ids=at.ids, actor=actor)
    return Auditor(
        store=at.store, catalog=at.catalog, ports=ports, looker=at.looker(ports), clock=at.clock, files=files
    )
