"""States of a command, phases of a saga, and the small closed vocabularies beside them.

One lifecycle serves every command: the root of a saga, its steps, its gates and its compensations. `DISPATCHING` means
claimed with nothing sent, so a crash there costs a retry. `RUNNING` is committed *before* a byte may leave, so from
there on silence is doubt. Doubt is a state (`OUTCOME_UNKNOWN`), and the only way out of it is to look (`RECONCILING`).

What holds a command up without changing what is known of it (a freeze, a missing approval) is a *blocker*, a flag
beside the state and never instead of it: a flag that replaced OUTCOME_UNKNOWN would be forgotten doubt.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a command stands. The legal moves between states are in `transitions.TRANSITIONS`."""

    RECEIVED = "RECEIVED"
    VALIDATING = "VALIDATING"
    AUTHORIZED = "AUTHORIZED"
    QUEUED = "QUEUED"
    DISPATCHING = "DISPATCHING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    RETRY_PENDING = "RETRY_PENDING"
    FAILED = "FAILED"
    CONFLICT = "CONFLICT"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    RECONCILING = "RECONCILING"
    NEEDS_REVIEW = "NEEDS_REVIEW"
    COMPENSATING = "COMPENSATING"
    COMPENSATED = "COMPENSATED"


TERMINAL: Final = frozenset({State.SUCCESS, State.FAILED, State.COMPENSATED})
IN_DOUBT: Final = frozenset({State.OUTCOME_UNKNOWN, State.RECONCILING})


class Phase(StrEnum):
    """Which way a saga recovers. It turns to POST_PIVOT at the pivot's fence, not at its success."""

    PRE_PIVOT = "PRE_PIVOT"
    POST_PIVOT = "POST_PIVOT"
    COMPLETED = "COMPLETED"
    UNWINDING = "UNWINDING"
    UNWOUND = "UNWOUND"


class Blocker(StrEnum):
    """Why a command that could go on does not. Stored as a sorted, comma-separated list beside the state."""

    HELD = "HELD"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    AWAITING_AUTHORIZATION = "AWAITING_AUTHORIZATION"
    FINDING_OPEN = "FINDING_OPEN"
    LOCKED = "LOCKED"
    SCHEDULED = "SCHEDULED"


class CompensationState(StrEnum):
    """How far the undoing of a finished step has come. The step itself stays SUCCESS."""

    NOT_NEEDED = "NOT_NEEDED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    UNKNOWN = "UNKNOWN"
    DONE = "DONE"
    FAILED = "FAILED"


class Kind(StrEnum):
    """What sort of command a registry row is."""

    SAGA = "SAGA"
    STEP = "STEP"
    GATE = "GATE"
    COMPENSATION = "COMPENSATION"


class EffectClass(StrEnum):
    """What can be done about an effect once it exists.

    COMPENSABLE: a later action offsets it. PIVOT: after it recovery goes forward only. RETRYABLE: may be repeated until
    it succeeds. IRREVERSIBLE: cannot be taken back (a delivered e-mail). NONE: a gate.
    """

    NONE = "NONE"
    COMPENSABLE = "COMPENSABLE"
    RETRYABLE = "RETRYABLE"
    PIVOT = "PIVOT"
    IRREVERSIBLE = "IRREVERSIBLE"


class Repeat(StrEnum):
    """May a request in doubt be sent again under the same key before its absence is proven?

    NEVER: only after a conclusive ABSENT. BY_KEY: yes, the system honours our key. NATURAL: yes, doing it twice is the
    same as doing it once (a purge).
    """

    NEVER = "never"
    BY_KEY = "by_key"
    NATURAL = "natural"


class Settlement(StrEnum):
    """What is individually proven about one attempt. OPEN attempts stay on the watch list.

    QUIET: its quiescence passed, and the count of our objects after it showed none of this attempt's making.
    """

    OPEN = "OPEN"
    UNSENT = "UNSENT"
    REFUSED = "REFUSED"
    LANDED = "LANDED"
    QUIET = "QUIET"


class Cause(StrEnum):
    """Why an attempt was made."""

    FIRST = "FIRST"
    RETRY = "RETRY"
    RESEND_AFTER_ABSENT = "RESEND_AFTER_ABSENT"
    REPEAT_BY_KEY = "REPEAT_BY_KEY"
    OPERATOR = "OPERATOR"
    RECOVERY = "RECOVERY"


class ApprovalState(StrEnum):
    """Life of one approval request."""

    PENDING = "PENDING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    VOID = "VOID"
    CONSUMED = "CONSUMED"


class ReviewKind(StrEnum):
    """What a person is asked about."""

    VALIDATION_FINDINGS = "VALIDATION_FINDINGS"
    CONFLICT = "CONFLICT"
    DRIFT = "DRIFT"
    DUPLICATE = "DUPLICATE"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    PERMANENT_FAILURE = "PERMANENT_FAILURE"
    COMPENSATION_FAILED = "COMPENSATION_FAILED"
    POISON = "POISON"
    STUCK = "STUCK"
    LATE_FACT = "LATE_FACT"
    REVOKED_AFTER_PIVOT = "REVOKED_AFTER_PIVOT"


class Verdict(StrEnum):
    """What a person may rule in a review."""

    PRESENT = "present"
    ABSENT = "absent"
    ABANDON = "abandon"
    CONTINUE = "continue"
    COMPENSATE = "compensate"
    REBASE = "rebase"
