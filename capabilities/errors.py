"""Every way in which this package says no.

    CapabilityError            code: a stable word, safe to show, log and journal
    ├── CredentialError        401: get another token        (CredentialCode)
    │   └── ClockSkewError     401: carries both clocks, so that a person sees which one is wrong
    ├── ScopeError             403: ask for less              (ScopeCode; limit and actual where they are numbers)
    ├── IssueError             the issuer refuses to sign     (IssueCode)
    ├── KeyFileError           an operator must mend a file   (KeyFileCode)
    ├── NoteError              a signed note proves nothing   (NoteCode)
    └── ApprovalSignatureError an approval is not signed by the key it names

Codes of CredentialError: malformed_token, malformed_header, unknown_header, wrong_token_type, unsupported_algorithm,
unknown_key, algorithm_mismatch, bad_signature, malformed_payload, missing_claim, unknown_claim, invalid_claim,
unsupported_version, invalid_details, unknown_detail_member, wrong_issuer, wrong_audience, wrong_tenant,
lifetime_too_long, clock_skew, not_yet_valid, expired, revoked, credential_in_arguments.

Codes of ScopeError: intent_not_granted, resource_not_granted, malformed_resource, limit_exceeded, uses_exhausted,
open_commands_exceeded, repeat_not_granted, query_not_granted, grant_lapsed, not_permitted.

Codes of IssueError: decision_closed, decision_expired, decision_not_approved, decision_other_tenant, outside_decision,
budget_exhausted, lifetime_too_long, token_too_long, invalid_request, revoked.

Codes of KeyFileError: unreadable, not_regular, foreign_owner, open_permissions, too_large, exists, malformed_key,
malformed_key_set, unsupported_key, private_member, duplicate_kid, weak_key.

Codes of NoteError: malformed_note, unsigned_note, bad_note_signature, malformed_note_key.

No message repeats what came in: no token text, no claim value, no path content. `field` is a name out of our own
vocabulary, never one an attacker wrote. Codes follow RFC 6750 §3.1 (401 invalid_token, 403 insufficient_scope).
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class CredentialCode(StrEnum):
    """Why a credential is refused. The value is part of the public contract."""

    MALFORMED_TOKEN = "malformed_token"  # noqa: S105 (an error code)
    MALFORMED_HEADER = "malformed_header"
    UNKNOWN_HEADER = "unknown_header"
    WRONG_TOKEN_TYPE = "wrong_token_type"  # noqa: S105 (an error code)
    UNSUPPORTED_ALGORITHM = "unsupported_algorithm"
    UNKNOWN_KEY = "unknown_key"
    ALGORITHM_MISMATCH = "algorithm_mismatch"
    BAD_SIGNATURE = "bad_signature"
    MALFORMED_PAYLOAD = "malformed_payload"
    MISSING_CLAIM = "missing_claim"
    UNKNOWN_CLAIM = "unknown_claim"
    INVALID_CLAIM = "invalid_claim"
    UNSUPPORTED_VERSION = "unsupported_version"
    INVALID_DETAILS = "invalid_details"
    UNKNOWN_DETAIL_MEMBER = "unknown_detail_member"
    WRONG_ISSUER = "wrong_issuer"
    WRONG_AUDIENCE = "wrong_audience"
    WRONG_TENANT = "wrong_tenant"
    LIFETIME_TOO_LONG = "lifetime_too_long"
    CLOCK_SKEW = "clock_skew"
    NOT_YET_VALID = "not_yet_valid"
    EXPIRED = "expired"
    REVOKED = "revoked"
    CREDENTIAL_IN_ARGUMENTS = "credential_in_arguments"


class ScopeCode(StrEnum):
    """Why a valid credential or grant does not reach. The value is part of the public contract."""

    INTENT_NOT_GRANTED = "intent_not_granted"
    RESOURCE_NOT_GRANTED = "resource_not_granted"
    MALFORMED_RESOURCE = "malformed_resource"
    LIMIT_EXCEEDED = "limit_exceeded"
    USES_EXHAUSTED = "uses_exhausted"
    OPEN_COMMANDS_EXCEEDED = "open_commands_exceeded"
    REPEAT_NOT_GRANTED = "repeat_not_granted"
    QUERY_NOT_GRANTED = "query_not_granted"
    GRANT_LAPSED = "grant_lapsed"
    NOT_PERMITTED = "not_permitted"


class IssueCode(StrEnum):
    """Why the issuer does not sign."""

    DECISION_CLOSED = "decision_closed"
    DECISION_EXPIRED = "decision_expired"
    DECISION_NOT_APPROVED = "decision_not_approved"
    DECISION_OTHER_TENANT = "decision_other_tenant"
    OUTSIDE_DECISION = "outside_decision"
    BUDGET_EXHAUSTED = "budget_exhausted"
    LIFETIME_TOO_LONG = "lifetime_too_long"
    TOKEN_TOO_LONG = "token_too_long"  # noqa: S105 (an error code)
    INVALID_REQUEST = "invalid_request"
    REVOKED = "revoked"


class KeyFileCode(StrEnum):
    """What is wrong with a file of keys."""

    UNREADABLE = "unreadable"
    NOT_REGULAR = "not_regular"
    FOREIGN_OWNER = "foreign_owner"
    OPEN_PERMISSIONS = "open_permissions"
    TOO_LARGE = "too_large"
    EXISTS = "exists"
    MALFORMED_KEY = "malformed_key"
    MALFORMED_KEY_SET = "malformed_key_set"
    UNSUPPORTED_KEY = "unsupported_key"
    PRIVATE_MEMBER = "private_member"
    DUPLICATE_KID = "duplicate_kid"
    WEAK_KEY = "weak_key"


class NoteCode(StrEnum):
    """Why a signed note is not believed."""

    MALFORMED_NOTE = "malformed_note"
    UNSIGNED_NOTE = "unsigned_note"
    BAD_NOTE_SIGNATURE = "bad_note_signature"
    MALFORMED_NOTE_KEY = "malformed_note_key"


class CapabilityError(Exception):
    """Root of the tree. `code` says what happened, `field` (ours, never the caller's) where."""

    code: StrEnum
    field: str | None

    def __init__(self, code: StrEnum, *, field: str | None = None) -> None:
        self.code = code
        self.field = field
        super().__init__(f"{code}: {field}" if field else str(code))


class CredentialError(CapabilityError):
    """The token does not authenticate anyone here. Another token is needed (RFC 6750 `invalid_token`)."""

    http_status: ClassVar[int] = 401
    code: CredentialCode

    def __init__(self, code: CredentialCode, *, field: str | None = None) -> None:
        super().__init__(code, field=field)


class ClockSkewError(CredentialError):
    """The token was issued in what is our future. Both times are epoch seconds."""

    def __init__(self, *, token_time_s: int, our_time_s: int) -> None:
        self.token_time_s = token_time_s
        self.our_time_s = our_time_s
        super().__init__(CredentialCode.CLOCK_SKEW, field="iat")

    def __str__(self) -> str:
        return f"clock_skew: issuer clock {self.token_time_s}, our clock {self.our_time_s}"


class ScopeError(CapabilityError):
    """The credential is good and does not reach this far (RFC 6750 `insufficient_scope`)."""

    http_status: ClassVar[int] = 403
    code: ScopeCode

    def __init__(
        self, code: ScopeCode, *, field: str | None = None, limit: int | None = None, actual: int | None = None
    ) -> None:
        self.limit = limit
        self.actual = actual
        super().__init__(code, field=field)


class IssueError(CapabilityError):
    """The issuer does not sign this; what the decision allows is in the decision."""

    code: IssueCode

    def __init__(self, code: IssueCode, *, field: str | None = None) -> None:
        super().__init__(code, field=field)


class KeyFileError(CapabilityError):
    """A key file is unusable until an operator mends it. `path` is the file's name as we were given it."""

    code: KeyFileCode

    def __init__(self, code: KeyFileCode, path: str, *, field: str | None = None) -> None:
        self.path = path
        super().__init__(code, field=field)

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.path})"


class NoteError(CapabilityError):
    """A note, or the key to check it with, cannot be believed."""

    code: NoteCode

    def __init__(self, code: NoteCode) -> None:
        super().__init__(code)


class ApprovalSignatureError(CapabilityError):
    """An approval statement does not carry a signature of the operator key it was checked against."""

    code: CredentialCode

    def __init__(self) -> None:
        super().__init__(CredentialCode.BAD_SIGNATURE, field="approval")
