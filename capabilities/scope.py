"""What a token permits.

`permits` and `may_query` are the whole of authorization by scope: pure functions over details, comparing segment by
segment, without regular expressions. What a command keeps of it (its grant) is recorded when it is accepted, and judged
at every fence, by the store; which revocations end it is in `revocation`.
"""

from __future__ import annotations

from capabilities import strict_json
from capabilities.details import AuthorizationDetail, Details, Intent
from capabilities.errors import ScopeCode, ScopeError
from capabilities.resources import QueryScope, is_resource, matches, parse_query_scope
from capabilities.strict_json import JsonValue


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


def still_permits(snapshot: str, action: str, resources: tuple[str, ...]) -> bool:
    """Do the details that a grant kept let `action` touch every one of these resources?

    Asked again whenever something is about to be sent: what is sent follows the stored command, and not what a token
    was shown for. False for anything that is no snapshot.
    """
    try:
        details = strict_json.loads(snapshot.encode())
    except strict_json.StrictJsonError:
        return False
    granted = [
        pattern for detail in _objects(details) if detail.get("actions") == [action] for pattern in _texts(detail)
    ]
    return bool(resources) and all(any(matches(pattern, each) for pattern in granted) for each in resources)


def _objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _texts(detail: dict[str, JsonValue]) -> list[str]:
    found = detail.get("resources")
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


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
