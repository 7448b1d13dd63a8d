"""What can be revoked, and what that stops.

A `RevocationScope` is a value; the store keeps those in force and asks, in the transaction of every fence, whether one
of a grant's six is among them. Nothing is cached, so a revocation takes effect at the next fence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from capabilities.token import Capability


class RevocationKind(StrEnum):
    """Six widths, from one token to everything."""

    TOKEN = "token"  # noqa: S105 (a kind of thing that is revoked)
    DECISION = "decision"
    AGENT = "agent"
    CLIENT = "client"
    KEY = "key"
    TENANT = "tenant"


class RevocationEffect(StrEnum):
    """What happens to commands under a revoked grant.

    STOP: before the pivot compensate under operator authority, after it finish-only steps and a review.
    HOLD: suspected compromise; nothing runs, not even compensation.
    """

    STOP = "stop"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationScope:
    """One thing to revoke within one tenant. Compare by value; (tenant, kind, value) is a primary key.

    `value` is the jti after its issuer and a space (an issuer has none), the decision id, the agent's subject, the
    client id, the kid, or the tenant.
    """

    tenant: str
    kind: RevocationKind
    value: str

    @property
    def effect(self) -> RevocationEffect:
        """How hard it stops."""
        match self.kind:
            case RevocationKind.KEY | RevocationKind.TENANT:
                return RevocationEffect.HOLD
            case RevocationKind.TOKEN | RevocationKind.DECISION | RevocationKind.AGENT | RevocationKind.CLIENT:
                return RevocationEffect.STOP
            case _:
                assert_never(self.kind)


def token_scope(*, tenant: str, iss: str, jti: str) -> RevocationScope:
    """The scope of one token. A token is its issuer and jti, never a hash of its text (signatures have variants)."""
    return RevocationScope(tenant=tenant, kind=RevocationKind.TOKEN, value=f"{iss} {jti}")


def scopes_of(holder: Capability) -> frozenset[RevocationScope]:
    """The six scopes of which any one, revoked, ends this capability and the grants under it."""
    held, tenant = holder.claims, holder.claims.tenant
    named = {
        RevocationKind.DECISION: held.dec,
        RevocationKind.AGENT: held.sub,
        RevocationKind.CLIENT: held.client_id,
        RevocationKind.KEY: holder.kid,
        RevocationKind.TENANT: tenant,
    }
    others = {RevocationScope(tenant=tenant, kind=kind, value=value) for kind, value in named.items()}
    return frozenset(others | {token_scope(tenant=tenant, iss=held.iss, jti=held.jti)})
