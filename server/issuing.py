"""Decisions and the tokens issued under them, for operators.

The store keeps decisions; a token's text exists only in the file it is written to. What was issued is noted beside the
issuer's key (`issued.jsonl`: ids and times, no token), so that a token nobody issued can be told.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from capabilities.details import Intent
from capabilities.errors import IssueCode, IssueError
from capabilities.issuer import (
    Budget,
    DecisionRecord,
    Issuer,
    Outcome,
    Permission,
    RiskClass,
    TokenRequest,
)
from capabilities.keyfile import PRIVATE_MODE, replace_file
from capabilities.keys import load_signing_key
from capabilities.resources import AGENT_PREFIX, QueryScope, parse_query_scope
from capabilities.revocation import RevocationKind, RevocationScope
from capabilities.token import Claims
from execution.core.events import canonical
from execution.store import authority
from execution.store.connection import Connection
from server.app import Installation
from server.config import ConfigError, load_config
from server.publishing import policy_hash

DECISION_S_DEFAULT: Final = 7 * 86_400
TOKENS_DEFAULT: Final = 1_000
USES_DEFAULT: Final = 1_000
ISSUED_NAME: Final = "issued.jsonl"
ISSUED_LINES_MAX: Final = 5_000


class AskedTwice(Exception):
    """What proves who asks was used already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a decision allows, as an operator says it. `agent` is a name; `article` a segment or `*`."""

    agent: str
    intents: tuple[Intent, ...] = (Intent.PUBLISH,)
    site: str = "*"
    article: str = "*"
    any_query: bool = False
    evidence: str = ""
    risk: RiskClass = RiskClass.MEDIUM


async def open_decision(at: Installation, wanted: Wanted, *, by: str, tokens: int, uses: int, days: float) -> str:
    """Record who allowed what; the decision's id."""
    now_ms = at.clock.now_ms()
    resources = [f"command/by-agent/{wanted.agent}", *(["command/any"] if wanted.any_query else [])]
    decision = authority.Decision(
        decision_id=at.ids.new("dec"),
        tenant=at.tenant,
        opened_by=by,
        intents=canonical([intent.value for intent in wanted.intents]),
        resources=canonical([*resources, *(patterns(at, wanted) if wanted.intents else ())]),
        evidence=canonical([wanted.evidence] if wanted.evidence else []),
        risk_class=wanted.risk.value,
        policy_hash=policy_hash(at.config),
        outcome=Outcome.APPROVED.value,
        opened_at_ms=now_ms,
        valid_until_ms=now_ms + int(days * 86_400_000),
        tokens_max=tokens,
        uses_max=uses,
    )
    await at.store.transact(lambda conn: authority.open_decision(conn, decision))
    return decision.decision_id


def patterns(at: Installation, wanted: Wanted) -> tuple[str, ...]:
    """Resource patterns: a wildcard may only be the last segment, so that every site is spelt out."""
    known = sorted(at.config.settings.site)
    if wanted.site != "*" and known and wanted.site not in known:
        raise ConfigError(f"--site {wanted.site}", "there is no such site here", f"Use one of: {', '.join(known)}.")
    sites = known if wanted.site == "*" else [wanted.site]
    return tuple(f"site/{site}/{wanted.article}" for site in sites)


def record_of(decision: authority.Decision) -> DecisionRecord:
    """A stored decision as the issuer reads it. ValueError when its columns are not what `open_decision` writes."""
    listed = [str(resource) for resource in json.loads(decision.resources)]
    queries = tuple(scope for scope in map(parse_query_scope, listed) if scope is not None)
    agent = next((scope.agent for scope in queries if scope.agent is not None), None)
    if agent is None:
        raise ValueError("the decision names no agent")
    targets = tuple(resource for resource in listed if not resource.startswith("command/"))
    return DecisionRecord(
        dec=decision.decision_id,
        tenant=decision.tenant,
        who=decision.opened_by,
        agent=agent,
        permissions=tuple(Permission(intent=Intent(name), resources=targets) for name in json.loads(decision.intents)),
        evidence=tuple(json.loads(decision.evidence)),
        risk_class=RiskClass(decision.risk_class),
        policy_hash=decision.policy_hash,
        outcome=Outcome(decision.outcome),
        opened_at_s=decision.opened_at_ms // 1000,
        valid_until_s=decision.valid_until_ms // 1000,
        budget=Budget(tokens=decision.tokens_max, uses=decision.uses_max),
        spent=Budget(tokens=decision.tokens_issued, uses=decision.uses),
        queries=queries,
        closed_at_s=None if decision.closed_at_ms is None else decision.closed_at_ms // 1000,
    )


async def issue(
    at: Installation,
    decision: authority.Decision,
    request: TokenRequest,
    *,
    once: Callable[[Connection], bool] = lambda _: True,
) -> tuple[str, Claims]:
    """Sign one token and count it. `once` says in the same transaction whether whoever asks may have one.

    Raises IssueError, ConfigError, KeyFileError; AskedTwice when `once` says no.
    """
    issuer = _issuer(at)
    now_ms = at.clock.now_ms()
    await _check_revoked(at, decision, request, issuer.key.kid)
    raw, claims = issuer.issue(record_of(decision), request, now_s=now_ms // 1000, new_id=lambda: at.ids.new("tok"))

    def count(conn: Connection) -> bool | None:
        return authority.spend_token(conn, decision.decision_id, now_ms) if once(conn) else None

    spent = await at.store.transact(count)
    if spent is None:
        raise AskedTwice
    if not spent:
        raise IssueError(IssueCode.BUDGET_EXHAUSTED)  # somebody else took the last one, or closed it, meanwhile
    note_issued(issued_file(at), claims, issuer.key.kid)
    return raw, claims


def queries_of(record: DecisionRecord) -> tuple[QueryScope, ...]:
    """What a token of this decision may ask about: everything when the decision says so, else the agent's own."""
    return (QueryScope(),) if QueryScope() in record.queries else (QueryScope(agent=record.agent),)


def agent_subject(name: str) -> str:
    """`agent:NAME`; a name that already says what it is stays."""
    return name if name.startswith(AGENT_PREFIX) else AGENT_PREFIX + name


def write_token(path: Path, raw: str) -> None:
    """Replace the token file in one step, for its owner alone."""
    replace_file(path, raw.encode() + b"\n", mode=PRIVATE_MODE)


def issued_file(at: Installation) -> Path:
    """Where the issuer notes what it signed."""
    section = at.config.settings.issuer
    return at.config.path(section.key_file if section else "keys/none").parent / ISSUED_NAME


def note_issued(path: Path, claims: Claims, kid: str) -> None:
    """Append one line."""
    line = {
        "jti": claims.jti,
        "sub": claims.sub,
        "client_id": claims.client_id,
        "kid": kid,
        "dec": claims.dec,
        "iat": claims.iat,
        "exp": claims.exp,
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE_MODE)
    with os.fdopen(descriptor, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_issued(path: Path) -> list[dict[str, Any]]:
    """What was issued, oldest first; the newest ISSUED_LINES_MAX."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[-ISSUED_LINES_MAX:]]


async def _check_revoked(at: Installation, decision: authority.Decision, request: TokenRequest, kid: str) -> None:
    """What is revoked gets no new token: every gateway would refuse it."""
    named = {
        RevocationKind.DECISION: decision.decision_id,
        RevocationKind.AGENT: record_of(decision).agent,
        RevocationKind.CLIENT: request.client_id,
        RevocationKind.KEY: kid,
        RevocationKind.TENANT: at.tenant,
    }
    for kind, value in named.items():
        name = authority.revocation(RevocationScope(tenant=at.tenant, kind=kind, value=value))
        if await at.store.read(lambda conn, name=name: authority.in_force(conn, (name,))):  # type: ignore[misc]  # a default argument binds the loop's value
            raise IssueError(IssueCode.REVOKED, field=kind.value)


def _issuer(at: Installation) -> Issuer:
    """The configuration is read anew: a key that was rotated meanwhile signs from now on (`token issue --watch`)."""
    section, gateway = load_config(at.config.home).settings.issuer, at.config.settings.gateway
    if section is None:
        fix = "Issue tokens where the issuer's key is, or add [issuer] key_file."
        raise ConfigError(str(at.config.home), "this home has no issuer key", fix)
    key = load_signing_key(at.config.path(section.key_file))
    return Issuer(key=key, issuer=gateway.issuer, audience=gateway.audience, tenant=gateway.tenant)
