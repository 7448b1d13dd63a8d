"""What a token permits, and the grant that outlives it.

`permits` and `may_query` are the whole of authorization by scope: pure functions over details, comparing segment by
segment, without regular expressions. A `Grant` is the authority recorded when a command is accepted; the token may
expire the next second. It is checked again at every fence, and can only ever be narrowed.

Above: the gateway (`permits`, `may_query`), intake (`Grant.accept`) and the orchestrator's fence (`Grant.permits`).
Whether anything has been revoked is the store's knowledge; which scopes to ask it about is in `revocation`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from capabilities.details import AuthorizationDetail, Details, Intent, hash_details
from capabilities.errors import ScopeCode, ScopeError
from capabilities.resources import QueryScope, covers, is_resource, matches, parse_query_scope
from capabilities.token import Capability

GRANT_S_DEFAULT: Final = 86_400
GRANT_S_MAX: Final = 7 * 86_400


def permits(
    details: Details, intent: Intent, resource: str, *, content_bytes: int = 0, repeat: bool = False
) -> AuthorizationDetail:
    """The detail that lets `intent` act on this one `resource` with so much content, possibly as a repetition.

    Raises ScopeError: malformed_resource, intent_not_granted, resource_not_granted, limit_exceeded (bytes),
    repeat_not_granted. How often and how many at once (`limits.max_uses`, `limits.max_open_commands`) is counted in
    the store, against the limits of the detail returned.
    """
    if not is_resource(resource):
        raise ScopeError(ScopeCode.MALFORMED_RESOURCE)
    detail = find_detail(details, intent)
    if detail is None:
        raise ScopeError(ScopeCode.INTENT_NOT_GRANTED)
    if not any(matches(pattern, resource) for pattern in detail.resources):
        raise ScopeError(ScopeCode.RESOURCE_NOT_GRANTED)
    bytes_max = detail.limits.max_bytes or 0
    if content_bytes > bytes_max:
        raise ScopeError(ScopeCode.LIMIT_EXCEEDED, field="max_bytes", limit=bytes_max, actual=content_bytes)
    if repeat and not detail.constraints.repeat:
        raise ScopeError(ScopeCode.REPEAT_NOT_GRANTED)
    return detail


def check_uses(detail: AuthorizationDetail, used: int) -> None:
    """May the token be used once more after `used` uses? Raises ScopeError(uses_exhausted)."""
    if used >= detail.limits.max_uses:
        raise ScopeError(ScopeCode.USES_EXHAUSTED, field="max_uses", limit=detail.limits.max_uses, actual=used)


def check_open_commands(detail: AuthorizationDetail, open_commands: int) -> None:
    """May one more command be open beside `open_commands`? Raises ScopeError(open_commands_exceeded)."""
    limit = detail.limits.max_open_commands or 0
    if open_commands >= limit:
        code = ScopeCode.OPEN_COMMANDS_EXCEEDED
        raise ScopeError(code, field="max_open_commands", limit=limit, actual=open_commands)


def find_detail(details: Details, intent: Intent) -> AuthorizationDetail | None:
    """The one detail for this intent, or None."""
    return next((detail for detail in details if detail.intent is intent), None)


def query_scopes(details: Details) -> tuple[QueryScope, ...]:
    """All that these details let their bearer ask about; a store turns them into a filter (no scope, no rows)."""
    detail = find_detail(details, Intent.QUERY)
    parsed = map(parse_query_scope, detail.resources if detail else ())
    return tuple(scope for scope in parsed if scope is not None)


def may_query(details: Details, *, token_tenant: str, tenant: str, dec: str, agent: str) -> bool:
    """May the bearer learn about a command of this tenant, decision and agent (full subject)?

    A plain bool: to the caller, a command that may not be seen and one that does not exist are the same.
    """
    return tenant == token_tenant and any(scope.includes(dec=dec, agent=agent) for scope in query_scopes(details))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Authority of one command, as recorded at acceptance. Times are epoch seconds.

    `details_hash` must be the hash of `details`: a row that was edited in the database does not load (ValueError).
    """

    command_id: str
    dec: str
    iss: str
    jti: str
    kid: str
    sub: str
    client_id: str
    tenant: str
    details: Details
    details_hash: str
    policy_hash: str
    accepted_at_s: int
    grant_until_s: int
    revocation_epoch: int

    def __post_init__(self) -> None:
        if self.details_hash != hash_details(self.details):
            raise ValueError("the grant's details do not have the recorded hash")
        if self.grant_until_s > self.accepted_at_s + GRANT_S_MAX:
            raise ValueError("a grant lasts at most seven days")

    @classmethod
    def accept(
        cls,
        capability: Capability,
        detail: AuthorizationDetail,
        *,
        command_id: str,
        policy_hash: str,
        revocation_epoch: int,
        now_s: int,
    ) -> Grant:
        """The grant of a command accepted now under `detail` (which `permits` returned): that detail and no other."""
        claims = capability.claims
        if detail not in claims.details:
            raise ValueError("the detail is not of this capability")
        wanted_s = detail.constraints.effect_not_after_s
        until_s = now_s + GRANT_S_DEFAULT if wanted_s is None else min(wanted_s, now_s + GRANT_S_MAX)
        return cls(
            command_id=command_id,
            dec=claims.dec,
            iss=claims.iss,
            jti=claims.jti,
            kid=capability.kid,
            sub=claims.sub,
            client_id=claims.client_id,
            tenant=claims.tenant,
            details=(detail,),
            details_hash=hash_details((detail,)),
            policy_hash=policy_hash,
            accepted_at_s=now_s,
            grant_until_s=until_s,
            revocation_epoch=revocation_epoch,
        )

    def lapsed(self, now_s: int) -> bool:
        """Is its time over? The instant `grant_until_s` itself is outside."""
        return now_s >= self.grant_until_s

    def permits(
        self, intent: Intent, resource: str, *, now_s: int, content_bytes: int = 0, repeat: bool = False
    ) -> AuthorizationDetail:
        """As the function `permits`, and not lapsed. Raises ScopeError, also with grant_lapsed."""
        if self.lapsed(now_s):
            raise ScopeError(ScopeCode.GRANT_LAPSED, limit=self.grant_until_s, actual=now_s)
        return permits(self.details, intent, resource, content_bytes=content_bytes, repeat=repeat)

    def narrow(self, *, command_id: str, resources: Collection[str] | None = None, until_s: int | None = None) -> Grant:
        """The grant of a child command: the same authority on fewer resources, for no longer.

        `until_s` later than the parent's changes nothing. Raises ScopeError(resource_not_granted) for a resource
        that no pattern of the parent covers, or for none at all.
        """
        details = self.details if resources is None else tuple(_narrow(item, resources) for item in self.details)
        until = self.grant_until_s if until_s is None else min(until_s, self.grant_until_s)
        return replace(
            self, command_id=command_id, details=details, details_hash=hash_details(details), grant_until_s=until
        )


def _narrow(detail: AuthorizationDetail, resources: Collection[str]) -> AuthorizationDetail:
    if not resources or not all(any(covers(have, want) for have in detail.resources) for want in resources):
        raise ScopeError(ScopeCode.RESOURCE_NOT_GRANTED)
    return replace(detail, resources=tuple(sorted(set(resources))))
