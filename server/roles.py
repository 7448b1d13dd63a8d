"""Who may do what: each verb of the command line that changes something needs one role of the operator who acts.

issue: give authority. approve: say yes or no to what would be done. repair: stop it, mend it, answer its questions.
audit: hold the journal against reality. Taking authority away stops things, so it is repair; giving it back is issue.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Role(StrEnum):
    """What operators may do."""

    ISSUE = "issue"
    APPROVE = "approve"
    REPAIR = "repair"
    AUDIT = "audit"


class Verb(StrEnum):
    """What operators do, as it is typed."""

    TOKEN_ISSUE = "token issue"  # noqa: S105 (a verb)
    TOKEN_REVOKE = "token revoke"  # noqa: S105 (a verb)
    DECISION_OPEN = "decision open"
    DECISION_CLOSE = "decision close"
    KEYS_ROTATE = "keys rotate"
    KEYS_RETIRE = "keys retire"
    REAUTHORIZE = "reauthorize"
    REVOKE = "revoke"
    REINSTATE = "reinstate"
    APPROVE = "approve"
    REJECT = "reject"
    CANCEL = "cancel"
    HOLD = "hold"
    RESUME = "resume"
    FREEZE_ON = "freeze on"
    FREEZE_OFF = "freeze off"
    WITHDRAW = "withdraw"
    REPEAT = "repeat"
    REVIEW_TAKE = "review take"
    REVIEW_ASSIGN = "review assign"
    REVIEW_RULE = "review rule"
    INBOX_ADD = "inbox add"
    ARTIFACT_PUT = "artifact put"
    ARTIFACT_ERASE = "artifact erase"
    AUDIT = "audit"
    CHECKPOINT = "checkpoint"


ROLES: Final[Mapping[Verb, Role]] = MappingProxyType(
    {
        Verb.TOKEN_ISSUE: Role.ISSUE,
        Verb.TOKEN_REVOKE: Role.REPAIR,
        Verb.DECISION_OPEN: Role.ISSUE,
        Verb.DECISION_CLOSE: Role.ISSUE,
        Verb.KEYS_ROTATE: Role.ISSUE,
        Verb.KEYS_RETIRE: Role.ISSUE,
        Verb.REAUTHORIZE: Role.ISSUE,
        Verb.REVOKE: Role.REPAIR,
        Verb.REINSTATE: Role.ISSUE,
        Verb.APPROVE: Role.APPROVE,
        Verb.REJECT: Role.APPROVE,
        Verb.CANCEL: Role.REPAIR,
        Verb.HOLD: Role.REPAIR,
        Verb.RESUME: Role.REPAIR,
        Verb.FREEZE_ON: Role.REPAIR,
        Verb.FREEZE_OFF: Role.REPAIR,
        Verb.WITHDRAW: Role.REPAIR,
        Verb.REPEAT: Role.REPAIR,
        Verb.REVIEW_TAKE: Role.REPAIR,
        Verb.REVIEW_ASSIGN: Role.REPAIR,
        Verb.REVIEW_RULE: Role.REPAIR,
        Verb.INBOX_ADD: Role.REPAIR,
        Verb.ARTIFACT_PUT: Role.ISSUE,
        Verb.ARTIFACT_ERASE: Role.REPAIR,
        Verb.AUDIT: Role.AUDIT,
        Verb.CHECKPOINT: Role.AUDIT,
    }
)
"""The one place that says it."""
