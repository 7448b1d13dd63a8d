"""Did our issuer sign every token that our gateway took? One that it never noted was signed by a stolen key."""

from __future__ import annotations

from typing import Final

from execution.ports import Severity, Symptom
from execution.store import authority
from server.app import Installation
from server.issuing import ISSUED_LINES_MAX, issued_file, read_issued

USED_MAX: Final = 10_000
"""How many used tokens are looked at, the newest."""
NAMED_MAX: Final = 5


async def symptoms(at: Installation) -> tuple[Symptom, ...]:
    """Nothing where tokens are issued elsewhere."""
    settings = at.config.settings
    if settings.issuer is None:
        return ()
    issued = read_issued(issued_file(at))
    known = {line["jti"] for line in issued}
    since_ms = issued[0]["iat"] * 1000 if len(issued) == ISSUED_LINES_MAX else 0
    used = await at.store.read(
        lambda conn: authority.tokens_used(conn, settings.gateway.issuer, since_ms=since_ms, limit=USED_MAX)
    )
    strange = [jti for jti in used if jti not in known]
    if not strange:
        return (Symptom(code="tokens_all_issued_here", detail=f"{len(used)} used, {len(issued)} issued"),)
    detail = f"{len(strange)} used that this issuer never noted: {', '.join(strange[:NAMED_MAX])}"
    fix = (
        "Somebody else signs with its key: `remit revoke key KID`, `remit keys rotate`, `remit keys retire KID --now`."
    )
    return (Symptom(code="token_never_issued", severity=Severity.PROBLEM, detail=detail, fix=fix),)
