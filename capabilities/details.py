"""Authorization details (RFC 9396): what one token lets its bearer propose.

The wire shape is a closed world. A token holds at most one detail per intent; a member, action or limit that is not
listed here makes the whole token invalid, because a constraint we do not understand is one we would not enforce.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NoReturn

from capabilities import strict_json
from capabilities.errors import CredentialCode, CredentialError
from capabilities.resources import is_pattern, parse_query_scope
from capabilities.strict_json import JsonValue

DETAILS_MAX: Final = 8
RESOURCES_MAX: Final = 16
LIMIT_MAX: Final = 1_000_000_000
APPROVERS_MAX: Final = 9

_MEMBERS: Final = frozenset({"type", "locations", "actions", "resources", "limits", "constraints"})
_WRITE_LIMITS: Final = frozenset({"max_uses", "max_bytes", "max_open_commands"})
_QUERY_LIMITS: Final = frozenset({"max_uses"})
_CONSTRAINTS: Final = frozenset({"approval", "effect_not_after", "repeat"})


class Intent(StrEnum):
    """What can be asked for. The value is the short name used by people and configuration."""

    PUBLISH = "publish"
    QUERY = "query"
    PROVISION = "provision"
    ORDER = "order"

    @property
    def urn(self) -> str:
        """The `type` of its authorization detail."""
        return f"urn:remit:intent:{self.value}:1"

    @property
    def action(self) -> str:
        """The one tool that carries this intent."""
        return _ACTIONS[self]


_ACTIONS: Final = {
    Intent.PUBLISH: "propose_publish",
    Intent.QUERY: "query_command_status",
    Intent.PROVISION: "propose_provisioning",
    Intent.ORDER: "propose_order",
}
_APPROVALS: Final = {f"human:{count}": count for count in range(1, APPROVERS_MAX + 1)}
_BY_URN: Final = {intent.urn: intent for intent in Intent}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`max_uses` proposals per token (for queries: a rate), `max_bytes` of content each, commands open at once.

    `max_bytes` and `max_open_commands` are None for queries and always set for intents with effects.
    """

    max_uses: int
    max_bytes: int | None = None
    max_open_commands: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """`approvals`: how many people must approve; `effect_not_after_s`: epoch seconds; `repeat`: may open generations.

    0 approvals means that the token demands none; policy may still demand some.
    """

    approvals: int = 0
    effect_not_after_s: int | None = None
    repeat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationDetail:
    """One intent on some resources within limits, at one gateway (`location`)."""

    intent: Intent
    location: str
    resources: tuple[str, ...]
    limits: Limits
    constraints: Constraints

    def to_json(self) -> dict[str, JsonValue]:
        """The wire form; `parse_details` reads it back to an equal value."""
        return {
            "type": self.intent.urn,
            "locations": [self.location],
            "actions": [self.intent.action],
            "resources": list(self.resources),
            "limits": _limits_json(self.limits),
            "constraints": _constraints_json(self.constraints),
        }


Details = tuple[AuthorizationDetail, ...]


def encode_details(details: Details) -> bytes:
    """The snapshot a grant keeps: canonical JSON (RFC 8785 for these values)."""
    return strict_json.canonical([detail.to_json() for detail in details])


def decode_details(snapshot: bytes, *, location: str) -> Details:
    """Read back `encode_details`, with the same strictness as a token. Raises CredentialError(invalid_details)."""
    try:
        value = strict_json.loads(snapshot)
    except strict_json.StrictJsonError:
        _refuse("authorization_details")
    return parse_details(value, location=location)


def hash_details(details: Details) -> str:
    """`sha256:` and the hex digest of the snapshot."""
    return "sha256:" + hashlib.sha256(encode_details(details)).hexdigest()


def parse_details(value: JsonValue, *, location: str) -> Details:
    """Read the claim `authorization_details`; every detail must be for `location` alone.

    Raises CredentialError: invalid_details, unknown_detail_member, or wrong_audience for another location.
    """
    if not isinstance(value, list) or not 0 < len(value) <= DETAILS_MAX:
        _refuse("authorization_details")
    details = tuple(_parse_detail(item, location) for item in value)
    if len({detail.intent for detail in details}) != len(details):
        _refuse("type")
    return details


def _parse_detail(value: JsonValue, location: str) -> AuthorizationDetail:
    members = _closed(value, required=_MEMBERS, allowed=_MEMBERS, field="authorization_details")
    urn = members["type"]
    intent = _BY_URN.get(urn) if isinstance(urn, str) else None
    if intent is None:
        _refuse("type")
    if members["actions"] != [intent.action]:
        _refuse("actions")
    if members["locations"] != [location]:
        raise CredentialError(CredentialCode.WRONG_AUDIENCE, field="locations")
    return AuthorizationDetail(
        intent=intent,
        location=location,
        resources=_parse_resources(members["resources"], intent),
        limits=_parse_limits(members["limits"], intent),
        constraints=_parse_constraints(members["constraints"], intent),
    )


def _parse_resources(value: JsonValue, intent: Intent) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= RESOURCES_MAX:
        _refuse("resources")
    resources = tuple(item for item in value if isinstance(item, str) and _is_grantable(item, intent))
    if len(resources) != len(value) or len(set(resources)) != len(resources):
        _refuse("resources")
    return resources


def _is_grantable(resource: str, intent: Intent) -> bool:
    return parse_query_scope(resource) is not None if intent is Intent.QUERY else is_pattern(resource)


def _parse_limits(value: JsonValue, intent: Intent) -> Limits:
    names = _QUERY_LIMITS if intent is Intent.QUERY else _WRITE_LIMITS
    members = _closed(value, required=names, allowed=names, field="limits")
    return Limits(**{name: _bounded(members[name], 1, LIMIT_MAX, name) for name in sorted(names)})


def _parse_constraints(value: JsonValue, intent: Intent) -> Constraints:
    allowed = frozenset[str]() if intent is Intent.QUERY else _CONSTRAINTS
    members = _closed(value, required=frozenset(), allowed=allowed, field="constraints")
    until, repeat = members.get("effect_not_after"), members.get("repeat", False)
    if type(repeat) is not bool:
        _refuse("repeat")
    return Constraints(
        approvals=_parse_approval(members["approval"]) if "approval" in members else 0,
        effect_not_after_s=_bounded(until, 1, strict_json.INTEGER_MAX, "effect_not_after")
        if "effect_not_after" in members
        else None,
        repeat=repeat,
    )


def _parse_approval(value: JsonValue) -> int:
    approvals = _APPROVALS.get(value) if isinstance(value, str) else None
    if approvals is None:
        _refuse("approval")
    return approvals


def _closed(value: JsonValue, *, required: frozenset[str], allowed: frozenset[str], field: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict) or not required <= value.keys():
        _refuse(field)
    if not value.keys() <= allowed:
        raise CredentialError(CredentialCode.UNKNOWN_DETAIL_MEMBER, field=field)
    return value


def _bounded(value: JsonValue, low: int, high: int, field: str) -> int:
    if type(value) is not int or not low <= value <= high:
        _refuse(field)
    return value


def _limits_json(limits: Limits) -> dict[str, JsonValue]:
    pairs = (
        ("max_uses", limits.max_uses),
        ("max_bytes", limits.max_bytes),
        ("max_open_commands", limits.max_open_commands),
    )
    return {name: value for name, value in pairs if value is not None}


def _constraints_json(constraints: Constraints) -> dict[str, JsonValue]:
    members: dict[str, JsonValue] = {}
    if constraints.approvals:
        members["approval"] = f"human:{constraints.approvals}"
    if constraints.effect_not_after_s is not None:
        members["effect_not_after"] = constraints.effect_not_after_s
    if constraints.repeat:
        members["repeat"] = True
    return members


def _refuse(field: str) -> NoReturn:
    raise CredentialError(CredentialCode.INVALID_DETAILS, field=field)
