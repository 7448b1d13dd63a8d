"""Asking for less than one may have (RFC 9396 §5): what a client names can only take away."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from capabilities.details import AuthorizationDetail, Details, Intent
from capabilities.errors import IssueCode, IssueError
from capabilities.issuer import Permission, TokenRequest
from capabilities.resources import covers, parse_query_scope

_FIELD: Final = "authorization_details"


def narrowed(widest: TokenRequest, asked: Details) -> TokenRequest:
    """The request with nothing in it that `asked` does not name. Raises IssueError(outside_decision, invalid_request).

    Who asks only to propose may still ask about the agent's own commands, within the limits of `widest`: nobody should
    propose what they cannot follow. Whether the queries are allowed is the issuer's own question, as for every token.
    """
    writes = [detail for detail in asked if detail.intent is not Intent.QUERY]
    queries = next((detail for detail in asked if detail.intent is Intent.QUERY), None)
    request = replace(widest, permissions=tuple(_permission(widest, detail) for detail in writes))
    if writes:
        request = _limited(request, writes)
    if queries is None:
        return request
    if queries.limits.max_uses > widest.query_uses:
        raise IssueError(IssueCode.OUTSIDE_DECISION, field=_FIELD)
    scopes = tuple(scope for scope in map(parse_query_scope, queries.resources) if scope is not None)
    return replace(request, queries=scopes, query_uses=queries.limits.max_uses)


def _permission(widest: TokenRequest, detail: AuthorizationDetail) -> Permission:
    allowed = [have for item in widest.permissions if item.intent is detail.intent for have in item.resources]
    if not all(any(covers(have, wanted) for have in allowed) for wanted in detail.resources):
        raise IssueError(IssueCode.OUTSIDE_DECISION, field=_FIELD)
    return Permission(intent=detail.intent, resources=detail.resources)


def _limited(request: TokenRequest, writes: list[AuthorizationDetail]) -> TokenRequest:
    """One set of limits holds for everything that a token lets its bearer propose."""
    limits, constraints = writes[0].limits, writes[0].constraints
    if any((detail.limits, detail.constraints) != (limits, constraints) for detail in writes):
        raise IssueError(IssueCode.INVALID_REQUEST, field=_FIELD)
    assert limits.max_bytes is not None, "a detail that proposes names it"
    assert limits.max_open_commands is not None, "a detail that proposes names it"
    until = constraints.effect_not_after_s
    within = (
        limits.max_uses <= request.uses
        and limits.max_bytes <= request.content_bytes_max
        and limits.max_open_commands <= request.open_commands_max
        and constraints.approvals >= request.approvals
        and constraints.repeat <= request.repeat
        and (request.effect_not_after_s is None or (until is not None and until <= request.effect_not_after_s))
    )
    if not within:
        raise IssueError(IssueCode.OUTSIDE_DECISION, field=_FIELD)
    return replace(
        request,
        uses=limits.max_uses,
        content_bytes_max=limits.max_bytes,
        open_commands_max=limits.max_open_commands,
        approvals=constraints.approvals,
        effect_not_after_s=until,
        repeat=constraints.repeat,
    )
