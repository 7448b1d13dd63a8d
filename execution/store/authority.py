"""What a fence is judged by: grants, token uses, restrictions, decisions.

Every freeze, unfreeze, revocation and extension of a grant first raises `authority.revision`, which
takes the one row that fences share: what permits an effect cannot change between a fence's judgement and its commit.

Scopes of restrictions: `freeze:all`, `freeze:tenant:T`, `freeze:system:S`, `freeze:site:X`, `freeze:command:C` (one
saga, by its root), `revoked:token:ISS JTI`, `revoked:decision:D`, `revoked:agent:A`, `revoked:client:C`,
`revoked:key:K`, `revoked:tenant:T`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, insert, literal, select, update

from capabilities.revocation import RevocationKind, RevocationScope
from execution.core.states import TERMINAL
from execution.store import schema, statements
from execution.store.registry import PAGE_MAX
from execution.store.statements import Query, insert_new, one


class RestrictionKind(StrEnum):
    """A freeze ends when it is lifted; a revocation is meant to stay."""

    FREEZE = "freeze"
    REVOCATION = "revocation"


FROZEN_ALL: Final = "freeze:all"
_GRANT: Final = Query(select(schema.GRANTS).where(schema.GRANTS.c.root_id == bindparam("root_")), "root_")
_DECISION: Final = Query(
    select(schema.DECISIONS).where(schema.DECISIONS.c.decision_id == bindparam("decision_")), "decision_"
)
_RESTRICTIONS: Final = Query(
    select(schema.RESTRICTIONS).order_by(schema.RESTRICTIONS.c.since_ms.desc(), schema.RESTRICTIONS.c.scope)
)
_SCOPES: Final = (
    "freeze:tenant:",
    "freeze:system:",
    "freeze:site:",
    "freeze:command:",
    *(f"revoked:{kind.value}:" for kind in RevocationKind),
)
_G: Final = schema.GRANTS.c
_HELD_AS: Final[Mapping[RevocationKind, ColumnElement[str]]] = MappingProxyType(
    {
        RevocationKind.TOKEN: _G.iss + literal(" ") + _G.jti,
        RevocationKind.DECISION: _G.decision_id,
        RevocationKind.AGENT: _G.sub,
        RevocationKind.CLIENT: _G.client_id,
        RevocationKind.KEY: _G.kid,
        RevocationKind.TENANT: _G.tenant,
    }
)
"""Where a grant holds what a revocation names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The authority recorded at acceptance. `details` is canonical JSON; `operator`: a person gave it, not a token.
    policy_hash: of the configuration that judged it; empty for what no configuration concerns."""

    root_id: str
    iss: str
    jti: str
    kid: str
    sub: str
    client_id: str
    decision_id: str
    tenant: str
    details: str
    details_hash: str
    policy_hash: str
    grant_until_ms: int
    operator: bool
    created_at_ms: int

    def revocable_by(self) -> tuple[str, ...]:
        """The scopes whose restriction takes this grant's power, whatever the step."""
        return (
            FROZEN_ALL,
            f"freeze:tenant:{self.tenant}",
            f"revoked:token:{self.iss} {self.jti}",
            f"revoked:decision:{self.decision_id}",
            f"revoked:agent:{self.sub}",
            f"revoked:client:{self.client_id}",
            f"revoked:key:{self.kid}",
            f"revoked:tenant:{self.tenant}",
        )


def put_grant(conn: Connection, grant: Grant) -> None:
    """Record the authority of a new root, in the transaction that accepts it."""
    one(conn, statements.of(conn).insert_grant, _grant_values(grant))


def find_grant(conn: Connection, root_id: str) -> Grant | None:
    """The authority of a root."""
    row = _GRANT.first(conn, root_id)
    if row is None:
        return None
    found = dict(zip(schema.GRANTS.columns.keys(), row, strict=True))
    return Grant(**{**found, "operator": bool(found["operator"])})


def extend_grant(conn: Connection, root_id: str, *, grant_until_ms: int, policy_hash: str) -> bool:
    """An operator's renewal; False when the root has no grant."""
    _raise_revision(conn)
    renewed = update(schema.GRANTS).where(schema.GRANTS.c.root_id == root_id)
    return conn.execute(renewed.values(grant_until_ms=grant_until_ms, policy_hash=policy_hash)).rowcount == 1


def use_token(conn: Connection, *, iss: str, jti: str, tenant: str, max_uses: int, now_ms: int) -> bool:
    """Count one use of a token; False when all its uses are spent. One row is changed, guarded by its count."""
    sql = statements.of(conn)
    one(conn, sql.insert_token_use, (iss, jti, 0, max_uses, tenant, now_ms, now_ms))
    return one(conn, sql.count_token_use, (now_ms, iss, jti, max_uses)) == 1


def token_uses(conn: Connection, iss: str, jti: str) -> int:
    """How often a token was used."""
    t = schema.TOKEN_USES.c
    return conn.execute(select(t.used).where(t.iss == iss, t.jti == jti)).scalar() or 0


def tokens_used(conn: Connection, iss: str, *, since_ms: int, limit: int) -> tuple[str, ...]:
    """Ids of an issuer's tokens that were used first since then, the newest first."""
    t = schema.TOKEN_USES.c
    wanted = select(t.jti).where(t.iss == iss, t.first_use_at_ms >= since_ms).order_by(t.first_use_at_ms.desc())
    return tuple(conn.execute(wanted.limit(limit)).scalars())


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """A freeze or revocation in force."""

    scope: str
    kind: RestrictionKind
    reason: str
    by: str
    since_ms: int


def scope_kind(scope: str) -> RestrictionKind:
    """The kind of a scope; ValueError for a scope that no fence would ever ask for."""
    if scope != FROZEN_ALL and not any(scope.startswith(p) and len(scope) > len(p) for p in _SCOPES):
        raise ValueError(f"not a scope of restrictions: {scope!r}")
    return RestrictionKind.FREEZE if scope.startswith("freeze:") else RestrictionKind.REVOCATION


def restrict(conn: Connection, scope: str, *, reason: str, by: str, now_ms: int) -> bool:
    """Freeze or revoke; in force at the next fence. False when it was in force already. ValueError: unknown scope."""
    kind = scope_kind(scope)
    _raise_revision(conn)
    values = {"scope": scope, "kind": kind.value, "reason": reason, "by": by, "since_ms": now_ms}
    return insert_new(conn, schema.RESTRICTIONS, values)


def revocation(scope: RevocationScope) -> str:
    """How a restriction spells it."""
    return f"revoked:{scope.kind.value}:{scope.value}"


def roots_under(conn: Connection, scope: RevocationScope) -> tuple[str, ...]:
    """Unfinished roots whose grant this revocation takes, the oldest first."""
    c = schema.COMMANDS.c
    held = select(c.command_id).join(schema.GRANTS, _G.root_id == c.command_id).where(*_taken_by(scope))
    unfinished = held.where(c.parent_id.is_(None), c.state.not_in([state.value for state in TERMINAL]))
    return tuple(conn.execute(unfinished.order_by(c.position)).scalars())


def is_known(conn: Connection, scope: RevocationScope) -> bool:
    """Whether anything here was ever accepted under it or, for agents and decisions, decided about it."""
    if conn.execute(select(_G.root_id).where(*_taken_by(scope)).limit(1)).first() is not None:
        return True
    d = schema.DECISIONS.c
    match scope.kind:
        case RevocationKind.DECISION:
            about = d.decision_id == scope.value
        case RevocationKind.AGENT:
            own = f'"command/by-agent/{scope.value.removeprefix("agent:")}"'
            about = d.resources.contains(own, autoescape=True)
        case _:
            return False
    return conn.execute(select(d.decision_id).where(d.tenant == scope.tenant, about).limit(1)).first() is not None


def _taken_by(scope: RevocationScope) -> tuple[ColumnElement[bool], ...]:
    return (_G.tenant == scope.tenant, _HELD_AS[scope.kind] == scope.value)


def lift(conn: Connection, scope: str) -> bool:
    """Unfreeze, or take a revocation back. False when it was not in force."""
    _raise_revision(conn)
    return conn.execute(delete(schema.RESTRICTIONS).where(schema.RESTRICTIONS.c.scope == scope)).rowcount == 1


def restrictions(conn: Connection) -> tuple[Restriction, ...]:
    """Everything in force, the newest first."""
    names = tuple(schema.RESTRICTIONS.columns.keys())
    found = (dict(zip(names, row, strict=True)) for row in _RESTRICTIONS.rows(conn))
    return tuple(Restriction(**{**row, "kind": RestrictionKind(row["kind"])}) for row in found)


def in_force(conn: Connection, scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Which of these scopes are restricted (outside a fence: only a hint)."""
    found = statements.fetch_in(conn, statements.of(conn).restrictions, scopes)
    return tuple(sorted({row[0] for row in found}))


def _raise_revision(conn: Connection) -> None:
    """The update locks the row against every fence until we commit."""
    table = schema.AUTHORITY
    conn.execute(update(table).where(table.c.id == 1).values(revision=table.c.revision + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Who allowed what, on which evidence, until when and how often.

    intents, resources, evidence: canonical JSON lists (resources are the token's patterns: site/blog/*). outcome: what
    was decided, `allowed` or `refused`. Budgets count issued tokens and accepted proposals.
    """

    decision_id: str
    tenant: str
    opened_by: str
    intents: str
    resources: str
    evidence: str
    risk_class: str
    policy_hash: str
    outcome: str
    opened_at_ms: int
    valid_until_ms: int
    tokens_max: int
    tokens_issued: int = 0
    uses_max: int
    uses: int = 0
    closed_at_ms: int | None = None
    closed_by: str | None = None


def open_decision(conn: Connection, decision: Decision) -> None:
    """Record a decision."""
    conn.execute(insert(schema.DECISIONS).values(dict(zip(_DECISION_COLUMNS, astuple(decision), strict=True))))


def find_decision(conn: Connection, decision_id: str) -> Decision | None:
    """The decision with that id."""
    row = _DECISION.first(conn, decision_id)
    return None if row is None else Decision(**dict(zip(schema.DECISIONS.columns.keys(), row, strict=True)))


def decisions(conn: Connection, tenant: str, limit: int = PAGE_MAX) -> tuple[Decision, ...]:
    """A tenant's decisions, the newest first."""
    table = schema.DECISIONS
    wanted = select(table).where(table.c.tenant == tenant).order_by(table.c.opened_at_ms.desc()).limit(limit)
    return tuple(Decision(**row._mapping) for row in conn.execute(wanted))


def close_decision(conn: Connection, decision_id: str, *, by: str, now_ms: int) -> bool:
    """No token is issued and no proposal accepted under it any more; False when it is not open."""
    d = schema.DECISIONS
    still = and_(d.c.decision_id == decision_id, d.c.closed_at_ms.is_(None))
    return conn.execute(update(d).where(still).values(closed_at_ms=now_ms, closed_by=by)).rowcount == 1


def spend_token(conn: Connection, decision_id: str, now_ms: int) -> bool:
    """Count one issued token; False when the decision is closed, over or spent."""
    d = schema.DECISIONS.c
    return _spend(conn, decision_id, now_ms, d.tokens_issued, d.tokens_max)


def spend_use(conn: Connection, decision_id: str, now_ms: int) -> bool:
    """Count one accepted proposal; False when the decision is closed, over or spent."""
    d = schema.DECISIONS.c
    return _spend(conn, decision_id, now_ms, d.uses, d.uses_max)


def _spend(conn: Connection, decision_id: str, now_ms: int, count: Any, most: Any) -> bool:
    d = schema.DECISIONS
    alive = and_(d.c.decision_id == decision_id, d.c.closed_at_ms.is_(None), d.c.valid_until_ms > now_ms, count < most)
    return conn.execute(update(d).where(alive).values({count.name: count + 1})).rowcount == 1


_grant_values: Final = attrgetter(*schema.GRANTS.columns.keys())
_DECISION_COLUMNS: Final = tuple(field.name for field in fields(Decision))
