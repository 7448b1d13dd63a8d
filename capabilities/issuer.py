"""From a decision to a token.

A person (or a policy acting for one) decides; the decision says who may propose what, how many tokens that is worth,
and until when. The issuer turns an open decision into one short-lived token, never beyond it. It alone holds the
private key. Recording the issued jti, in the same step that counts it against the decision, is the caller's part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from capabilities.details import AuthorizationDetail, Constraints, Details, Intent, Limits
from capabilities.errors import CredentialError, IssueCode, IssueError
from capabilities.jws import TOKEN_CHARS_MAX, sign
from capabilities.keys import Signer
from capabilities.resources import QueryScope, covers
from capabilities.token import LIFETIME_S_MAX, Claims, parse_claims

QUERY_USES_DEFAULT: Final = 500
CONTENT_BYTES_DEFAULT: Final = 262_144


class RiskClass(StrEnum):
    """How much harm a wrong decision can do; policy maps it to approvals and four-eyes."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Outcome(StrEnum):
    """What was decided."""

    APPROVED = "approved"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """One intent on some resource patterns."""

    intent: Intent
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Tokens, and uses over all of them."""

    tokens: int
    uses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """Who allowed what on which evidence. Times are epoch seconds; `closed_at_s` is None while it is open.

    `who` is the operator who decided, `agent` the subject it is for, `permissions` and `queries` the widest a token may
    be (asking about the decision's or the agent's own commands is always included). `spent` is counted by the store.
    """

    dec: str
    tenant: str
    who: str
    agent: str
    permissions: tuple[Permission, ...]
    evidence: tuple[str, ...]
    risk_class: RiskClass
    policy_hash: str
    outcome: Outcome
    opened_at_s: int
    valid_until_s: int
    budget: Budget
    spent: Budget
    queries: tuple[QueryScope, ...] = ()
    closed_at_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """What to put into one token.

    `queries` defaults to the decision's own commands. `uses`, `content_bytes_max`, `open_commands_max`, `approvals`,
    `effect_not_after_s` (epoch seconds) and `repeat` apply to each of `permissions`.
    """

    client_id: str
    permissions: tuple[Permission, ...]
    queries: tuple[QueryScope, ...] = ()
    ttl_s: int = LIFETIME_S_MAX
    uses: int = 1
    query_uses: int = QUERY_USES_DEFAULT
    content_bytes_max: int = CONTENT_BYTES_DEFAULT
    open_commands_max: int = 1
    approvals: int = 1
    effect_not_after_s: int | None = None
    repeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Signs tokens of one issuer for one gateway and tenant."""

    key: Signer
    issuer: str
    audience: str
    tenant: str

    def issue(
        self, decision: DecisionRecord, request: TokenRequest, *, now_s: int, new_id: Callable[[], str]
    ) -> tuple[str, Claims]:
        """Sign one token. `new_id` gives a fresh `tok_…` id.

        Raises IssueError when the decision does not allow it, the lifetime is over 900 s, or the token would be one
        that our own verifier refuses.
        """
        _check_decision(decision, request, self.tenant, now_s)
        if not 0 < request.ttl_s <= LIFETIME_S_MAX:
            raise IssueError(IssueCode.LIFETIME_TOO_LONG, field="ttl_s")
        claims = Claims(
            iss=self.issuer,
            sub=decision.agent,
            client_id=request.client_id,
            aud=self.audience,
            iat=now_s,
            nbf=now_s,
            exp=now_s + request.ttl_s,
            jti=new_id(),
            tenant=self.tenant,
            dec=decision.dec,
            details=_details(decision, request, self.audience),
        )
        raw = sign(self._checked(claims), self.key)
        if len(raw) > TOKEN_CHARS_MAX:
            raise IssueError(IssueCode.TOKEN_TOO_LONG)
        return raw, claims

    def _checked(self, claims: Claims) -> bytes:
        payload = claims.encode()
        try:
            parsed = parse_claims(payload, issuer=self.issuer, audience=self.audience, tenant=self.tenant)
        except CredentialError as error:
            raise IssueError(IssueCode.INVALID_REQUEST, field=error.field) from None
        assert parsed == claims, "a payload reads back as the claims it was made from"
        return payload


def _check_decision(decision: DecisionRecord, request: TokenRequest, tenant: str, now_s: int) -> None:
    if decision.tenant != tenant:
        raise IssueError(IssueCode.DECISION_OTHER_TENANT)
    if decision.outcome is not Outcome.APPROVED:
        raise IssueError(IssueCode.DECISION_NOT_APPROVED)
    if decision.closed_at_s is not None:
        raise IssueError(IssueCode.DECISION_CLOSED)
    if not decision.opened_at_s <= now_s < decision.valid_until_s:
        raise IssueError(IssueCode.DECISION_EXPIRED)
    if not all(_within(wanted, decision) for wanted in request.permissions):
        raise IssueError(IssueCode.OUTSIDE_DECISION, field="permissions")
    if not all(_may_ask(wanted, decision) for wanted in request.queries):
        raise IssueError(IssueCode.OUTSIDE_DECISION, field="queries")
    uses = request.uses * len(request.permissions)
    if decision.spent.tokens >= decision.budget.tokens or decision.spent.uses + uses > decision.budget.uses:
        raise IssueError(IssueCode.BUDGET_EXHAUSTED)


def _within(wanted: Permission, decision: DecisionRecord) -> bool:
    allowed = [have for item in decision.permissions if item.intent is wanted.intent for have in item.resources]
    return all(any(covers(have, resource) for have in allowed) for resource in wanted.resources)


def _may_ask(wanted: QueryScope, decision: DecisionRecord) -> bool:
    own = (QueryScope(dec=decision.dec), QueryScope(agent=decision.agent))
    return QueryScope() in decision.queries or wanted in own or wanted in decision.queries


def _details(decision: DecisionRecord, request: TokenRequest, audience: str) -> Details:
    limits = Limits(
        max_uses=request.uses, max_bytes=request.content_bytes_max, max_open_commands=request.open_commands_max
    )
    constraints = Constraints(
        approvals=request.approvals, effect_not_after_s=request.effect_not_after_s, repeat=request.repeat
    )
    writes = tuple(
        AuthorizationDetail(
            intent=item.intent, location=audience, resources=item.resources, limits=limits, constraints=constraints
        )
        for item in request.permissions
    )
    return (*writes, _query_detail(decision, request, audience))


def _query_detail(decision: DecisionRecord, request: TokenRequest, audience: str) -> AuthorizationDetail:
    scopes = request.queries or (QueryScope(dec=decision.dec),)
    return AuthorizationDetail(
        intent=Intent.QUERY,
        location=audience,
        resources=tuple(scope.resource for scope in scopes),
        limits=Limits(max_uses=request.query_uses),
        constraints=Constraints(),
    )
