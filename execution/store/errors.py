"""What the store raises, classed by what the caller may do next.

StoreError
├── Stale             somebody else committed first: load again and decide again
├── FenceRefused      the effect is not permitted now; `reason` says why; nothing may be sent
├── LocksHeld         another root owns a resource; `owner` names it
├── Duplicate         a row of that identity exists: look it up
├── UnknownCommit     the commit's answer was lost: it may be on disk or not; nothing may be sent; load and look
├── StoreUnavailable  nothing was written; try again later
├── StoreClosed       nothing was written; the store is shutting down
├── StoreTooNew       the database was written by a later release: upgrade this one
├── StoreTooOld       the database waits for `remit migrate`
├── StoreUnusable     the file is not a journal of ours, or is damaged; `fix` says what to do
├── ArtifactTooLarge  the content exceeds its limit
└── NameTaken         the artifact's name is bound to other bytes
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class StoreError(Exception):
    """Any refusal of the store. `code` is stable."""

    code: ClassVar[str] = "store_error"


class Stale(StoreError):
    """A guarded row no longer has the expected version."""

    code = "stale"


class Refusal(StrEnum):
    """Why a fence refuses.

    HELD: a freeze, or a revoked key or tenant; holds everything, even what may finish after the pivot. REVOKED: the
    token, decision, agent or client. APPROVAL_INVALID: nobody who may approve signed it. GRANT_LAPSED: the grant
    ended, or there is none. OUT_OF_SCOPE: what it touches is not what the token was for. NOT_ITS_TURN: the site had
    another scheduled publication too shortly before.
    """

    HELD = "HELD"
    REVOKED = "REVOKED"
    GRANT_LAPSED = "GRANT_LAPSED"
    APPROVAL_MISSING = "APPROVAL_MISSING"
    APPROVAL_INVALID = "APPROVAL_INVALID"
    APPROVAL_DIFFERS = "APPROVAL_DIFFERS"
    POLICY_CHANGED = "POLICY_CHANGED"
    NOT_ITS_TURN = "NOT_ITS_TURN"
    OUT_OF_SCOPE = "OUT_OF_SCOPE"


class FenceRefused(StoreError):
    """The fence did not hold; nothing of the unit was written. `scopes`: the restrictions that stopped it. `until_ms`:
    when it may hold, if that is known."""

    code = "fence_refused"

    def __init__(self, reason: Refusal, scopes: tuple[str, ...] = (), until_ms: int | None = None) -> None:
        super().__init__(f"{reason}{': ' if scopes else ''}{', '.join(scopes)}")
        self.reason = reason
        self.scopes = scopes
        self.until_ms = until_ms


class LocksHeld(StoreError):
    """A semantic lock is another root's (`owner`, empty when unknown); none of the unit's locks was taken."""

    code = "locks_held"

    def __init__(self, owner: str, resource: str) -> None:
        super().__init__(f"{resource} is locked by {owner or 'somebody else'}")
        self.owner = owner
        self.resource = resource


class Duplicate(StoreError):
    """A row with that identity (id, idempotency key, place in a chain) exists already."""

    code = "duplicate"


class UnknownCommit(StoreError):
    """The commit was asked for and its answer was lost."""

    code = "unknown_commit"


class StoreUnavailable(StoreError):
    """The database cannot be used now; nothing was written."""

    code = "store_unavailable"


class StoreClosed(StoreError):
    """The store was closed before the work was begun."""

    code = "store_closed"


class StoreTooNew(StoreError):
    """The database's schema is of a later release."""

    code = "store_too_new"


class StoreTooOld(StoreError):
    """The database's schema is of an earlier release."""

    code = "store_too_old"


class StoreUnusable(StoreError):
    """Not a journal of ours, damaged, or not to be written. Nothing was changed. `fix` says what to do."""

    code = "store_unusable"

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}: {fix}")
        self.what = what
        self.fix = fix


class ArtifactTooLarge(StoreError):
    """The content exceeds its limit."""

    code = "artifact_too_large"


class NameTaken(StoreError):
    """The name is bound to other bytes for good."""

    code = "name_taken"
