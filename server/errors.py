"""What a caller is told when something is refused: a stable code, and what to do about it.

    Refusal            the one shape of a refusal on the wire and in a refusal row
    GatewayRefused     raised by the gateway; carries a Refusal

Codes come from five places: arguments (here), credentials and scopes (`capabilities.errors`), token files
(`token_file_*`), messages and requests (`protocol`, `mcp_http`) and intake (`execution.proposal.IntakeRefused`). No
text repeats what came in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from capabilities.errors import CredentialError, KeyFileCode, KeyFileError, ScopeCode, ScopeError
from execution.proposal import IntakeRefused

_ASK_ANEW: Final = "Ask the person you work for to issue a new token (`remit token issue --out FILE`), then call again."
_OPERATOR: Final = "An operator must mend this on the server's machine. Tell the person you work for."
_NARROWER: Final = "The token does not cover this. Ask the person you work for; do not look for another way."

_FIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "expired": _ASK_ANEW,
        "clock_skew": "The clock of this gateway, or of whoever issued the token, is wrong. " + _OPERATOR,
        "revoked": "This authority was withdrawn. Stop, and tell the person you work for.",
        "no_token": "The call carries no token. Ask the person you work for to run `remit token issue --out FILE` and "
        "to configure that file (REMIT_TOKEN_FILE), or over HTTP the header `Authorization: Bearer TOKEN`.",
        "token_file_unreadable": "The token file cannot be opened. " + _ASK_ANEW,
        "token_file_open_permissions": "Others can read the token file: it must be mode 0600. " + _OPERATOR,
        "token_file_not_regular": "The token file is not a regular file. " + _OPERATOR,
        "token_file_foreign_owner": "The token file belongs to another user. " + _OPERATOR,
        "token_file_too_large": "The token file is larger than 4 KiB. " + _OPERATOR,
        "credential_in_arguments": "A token was found in the arguments. Never write tokens there; the server reads its "
        "own file. That token is treated as leaked. Call again without it.",
        "intent_not_granted": _NARROWER,
        "resource_not_granted": _NARROWER,
        "query_not_granted": _NARROWER,
        "repeat_not_granted": "The token does not allow repeating. Ask for one that does (`token issue --repeat`).",
        "limit_exceeded": "Send less than the limit.",
        "token_exhausted": "The token's uses are spent. " + _ASK_ANEW,
        "decision_closed": "The decision behind this token is over. Stop, and tell the person you work for.",
        "decision_exhausted": "The decision behind this token allows no more proposals. Tell the person you work for.",
        "too_many_open_commands": "Wait until an earlier command ends (query_command_status), then call again.",
        "rate_limited": "Ask less often: wait for `retry_after_s`.",
        "idempotency_conflict": "This article version was already proposed with other values. Use the next version "
        "number for a change, or send exactly the same values to get the same command.",
        "already_proposed": "Somebody else already proposed this article version. Use the next version number for a "
        "change, or ask the person you work for.",
        "stale_version": "This version is not newer than the live one. Use a higher version number.",
        "earlier_version_in_doubt": "It is not known yet whether the version before was published. Query its status "
        "and call again once it has ended.",
        "withdrawal_under_way": "An operator is taking this article down. Stop, and tell the person you work for.",
        "not_live": "What is to be taken down is not what is live.",
        "frozen": "Publishing is frozen by an operator. Nothing was accepted. Tell the person you work for.",
        "repeat_of_unknown": "`repeat_of` names no command of this article version. Leave it out, or query the status.",
        "repeat_of_not_newest": "`repeat_of` must name the newest command of this article version.",
        "not_repeatable_yet": "The command to repeat has not ended beyond doubt. Query its status and wait.",
        "payload_missing": "Nothing is stored under that reference. Send `content` instead of a `payload_ref`; ask the "
        "person you work for to store an image (`remit artifact put FILE`).",
        "not_an_image": "`featured_image` names something else than a PNG, JPEG, GIF or WebP file. Leave it out, or "
        "ask for another reference.",
        "unknown_site": "There is no such site here. Use one that the person you work for named.",
        "unknown_list": "`notify` names a list that does not exist here. Leave it out or ask for the list's name.",
        "schedule_missed": "`publish_at` is past. Leave it out to publish once it is approved, or give a later time.",
        "too_many_webhooks": "`notify` names more than one list that is a receiver of webhooks. Name one of them.",
        "schedule_beyond_grant": "`publish_at` is later than the token's authority lasts. Choose an earlier time.",
        "command_not_found": "There is no such command that this token may see. Check the id, or call without an id to "
        "list the latest commands.",
        "unknown_argument": "Use only the documented arguments.",
        "missing_argument": "Add this argument.",
        "unknown_tool": "There is no such tool here. List the tools.",
        "payload_too_large": "Send less than the limit.",
        "request_state_unknown": "This server never asks back, so there is nothing to resume. Call without it.",
        "credential_misplaced": "A token stood outside of the Authorization header. It is treated as leaked. Send "
        "tokens in that header only.",
        "host_not_allowed": "Use the address that the operator gave you, or ask them to list this host ([http] "
        "allowed_hosts).",
        "origin_not_allowed": "Pages of this origin may not call. An operator can list it ([http] allowed_origins).",
        "not_found": "Nothing is here. Use the address that the operator gave you.",
        "method_not_allowed": "Use the method that `Allow` names; this server keeps no session and pushes nothing.",
        "duplicate_header": "Send every header once.",
        "ambiguous_length": "Send Content-Length or Transfer-Encoding, not both.",
        "query_not_allowed": "Call the address without a query.",
        "content_type_not_supported": "Send Content-Type: application/json, not compressed.",
        "not_acceptable": "Accept application/json.",
        "session_unknown": "This server keeps no sessions. Initialize again and send no Mcp-Session-Id.",
        "not_json": "Send one JSON-RPC message as strict JSON.",
        "batch_not_supported": "Send one message at a time.",
        "not_a_message": "Send one JSON-RPC request or notification, with a text or whole number as its id.",
        "body_too_slow": "Send the body faster.",
        "busy": "Too much is under way. Call again in a moment with the same values.",
        "outcome_unknown": "No answer came: it is not known whether the proposal was recorded. Do not say that it "
        "failed. Call query_command_status without an id to see your latest commands. Proposing exactly the same "
        "values again is safe too: nothing happens twice.",
        "no_answer": "The gateway did not answer. Nothing was changed by asking. Call again in a moment.",
        "gateway_unreachable": "The gateway cannot be reached, so nothing was sent. Call again later; if it stays so, "
        "tell the person you work for.",
        "gateway_untrusted": "The gateway's certificate is not trusted here, so nothing was sent. " + _OPERATOR,
        "gateway_elsewhere": "What answers at the configured address is no gateway, or it moved. Nothing was accepted. "
        + _OPERATOR,
        "unavailable": "The server could not answer just now. Nothing is lost: call again with the same values.",
    }
)

KNOWN_CODES: Final = frozenset(_FIXES)
_RETRYABLE: Final = frozenset(
    {
        "rate_limited",
        "earlier_version_in_doubt",
        "withdrawal_under_way",
        "too_many_open_commands",
        "not_repeatable_yet",
        "unavailable",
        "busy",
        "body_too_slow",
        "outcome_unknown",
        "no_answer",
        "gateway_unreachable",
        "frozen",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why not, where, and what to do next. `limit` and `actual` are numbers that explain a limit."""

    code: str
    fix: str
    field: str | None = None
    limit: int | None = None
    actual: int | None = None
    retryable: bool = False
    retry_after_s: float | None = None
    differing: tuple[str, ...] = ()
    command_id: str | None = None


class GatewayRefused(Exception):
    """The call was refused at the gateway and changed nothing."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


def refusal(
    code: str,
    *,
    field: str | None = None,
    fix: str | None = None,
    limit: int | None = None,
    actual: int | None = None,
    retry_after_s: float | None = None,
) -> Refusal:
    """A refusal with the standard advice for its code."""
    return Refusal(
        code=code,
        fix=fix or _FIXES.get(code, _ASK_ANEW),
        field=field,
        limit=limit,
        actual=actual,
        retryable=code in _RETRYABLE,
        retry_after_s=retry_after_s,
    )


def refused(
    code: str, *, field: str | None = None, limit: int | None = None, actual: int | None = None
) -> GatewayRefused:
    """The same as an exception."""
    return GatewayRefused(refusal(code, field=field, limit=limit, actual=actual))


def from_credential(error: CredentialError) -> Refusal:
    """A token that authenticates nobody."""
    return refusal(str(error.code))


def from_scope(error: ScopeError, beyond: str | None = None) -> Refusal:
    """A token that does not reach so far. `beyond`: the argument that it does not cover."""
    field = {"max_bytes": "content"}.get(error.field or "", error.field)
    field = beyond if error.code is ScopeCode.RESOURCE_NOT_GRANTED else field
    return refusal(str(error.code), field=field, limit=error.limit, actual=error.actual)


def from_token_file(error: KeyFileError) -> Refusal:
    """A token file that may not be used. The path stays on our side."""
    known = error.code if error.code in _TOKEN_FILE_CODES else KeyFileCode.UNREADABLE
    return refusal(f"token_file_{known}")


_TOKEN_FILE_CODES: Final = frozenset(
    {
        KeyFileCode.UNREADABLE,
        KeyFileCode.NOT_REGULAR,
        KeyFileCode.FOREIGN_OWNER,
        KeyFileCode.OPEN_PERMISSIONS,
        KeyFileCode.TOO_LARGE,
    }
)


def from_intake(error: IntakeRefused, command_id: str | None = None) -> Refusal:
    """What the acceptance transaction refused. `command_id`: only when the caller may see that command."""
    fix = _FIXES.get(error.code, "Correct the field that is named, or ask the person you work for.")
    return Refusal(
        code=error.code,
        fix=fix,
        field=error.field,
        limit=error.limit,
        actual=error.actual,
        retryable=error.retryable or error.code in _RETRYABLE,
        retry_after_s=30.0 if error.retryable or error.code in _RETRYABLE else None,
        differing=error.differing,
        command_id=command_id,
    )
