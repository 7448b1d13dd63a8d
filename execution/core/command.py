"""The rows of the registry and what stands beside them, as values.

A *saga* is loaded and committed as one aggregate: its root command, the rows of its steps, gates and compensations,
their attempts and approvals. Every commit of an owner raises the root's `version`, so that whatever anybody else wrote
in the meantime (a late answer, an approval, a ruling) makes the commit fail and the owner load again.

Times are Unix milliseconds of the store's clock (`…_ms`), because they are compared across processes; None means never.

Rows have no slots: a row with a few columns changed is made at every step of every saga, and a dictionary is copied in
a tenth of the time that a constructor takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Final

from execution.core.failures import Receipt
from execution.core.states import (
    TERMINAL,
    ApprovalState,
    Blocker,
    Cause,
    CompensationState,
    EffectClass,
    Kind,
    Phase,
    ReviewKind,
    Settlement,
    State,
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """One row of the registry: a saga's root, a step, a gate or a compensation.

    `position` orders the rows of a saga (root 0, steps 1…, compensations after them). `params` of the root is the
    frozen JSON of everything forward functions may read. `next_check_at_ms` of a root is when the sweep must look at
    the saga; of a step it is when its retry or its next read-back is due. `chain_seq` and `chain_head` are the end of
    its journal chain. `look_count` counts the read-backs of the present doubt; `claim_count` counts claims apart from
    attempts, so that a payload that kills its worker is found.
    """

    command_id: str
    root_id: str
    parent_id: str | None
    position: int
    kind: Kind
    object_kind: str
    object_id: str
    object_version: int
    workflow_id: str
    saga_id: str
    tenant: str
    site: str
    decision_id: str
    capability_id: str
    principal: str
    command_type: str
    definition_version: int
    effect_class: EffectClass
    target_system: str
    target_resource: str
    expected_version: str | None = None
    idempotency_key: str
    request_fingerprint: str = ""
    payload_ref: str | None = None
    params: str = ""
    state: State
    phase: Phase | None = None
    attempt_count: int = 0
    claim_count: int = 0
    look_count: int = 0
    created_at_ms: int
    started_at_ms: int | None = None
    last_attempt_at_ms: int | None = None
    completed_at_ms: int | None = None
    deadline_at_ms: int | None = None
    not_before_ms: int | None = None
    external_resource_id: str | None = None
    external_version: str | None = None
    result_reference: str | None = None
    receipt: str | None = None
    verified_at_ms: int | None = None
    error_class: str | None = None
    error_code: str | None = None
    next_retry_at_ms: int | None = None
    lease_owner: str | None = None
    lease_epoch: int = 0
    lease_until_ms: int | None = None
    compensates: str | None = None
    compensation_command: str | None = None
    compensation_state: CompensationState = CompensationState.NOT_NEEDED
    human_review_required: bool = False
    next_check_at_ms: int | None = None
    blockers: str = ""
    ending: str | None = None
    repeat_of: str | None = None
    generation: str = ""
    correlation_id: str
    trace_id: str | None = None
    version: int = 1
    chain_seq: int = 0
    chain_head: str = ""

    @property
    def is_root(self) -> bool:
        """Whether this row is a saga's root."""
        return self.parent_id is None

    @property
    def is_terminal(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self.state in TERMINAL

    @property
    def blocked_by(self) -> frozenset[Blocker]:
        """The blockers beside the state."""
        return frozenset(Blocker(name) for name in self.blockers.split(",") if name)


_COLUMNS: Final = frozenset(column.name for column in fields(Command))


def evolved(row: Command, changes: Mapping[str, Any]) -> Command:
    """The row with those columns changed: `dataclasses.replace` without running the constructor, on the hot path.

    Raises TypeError for a column that a command does not have.
    """
    if not _COLUMNS.issuperset(changes):
        raise TypeError(f"not columns of a command: {sorted(set(changes) - _COLUMNS)}")
    new = object.__new__(Command)
    vars(new).update(vars(row), **changes)
    return new


def blockers_text(blockers: Iterable[Blocker]) -> str:
    """How blockers are stored."""
    return ",".join(sorted(blocker.value for blocker in set(blockers)))


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try of one step, written before a byte may leave.

    request_digest: SHA-256 of the exact bytes. terms: JSON of `Bounds.terms()`, so that its doubt can be computed by
    whoever finds it. quiescent_after_s: Q, None when unknown. incarnation: the store's, at the fence.
    """

    attempt_id: str
    command_id: str
    root_id: str
    number: int
    idempotency_key: str
    resource: str
    cause: Cause
    lease_epoch: int
    request_digest: str
    deadline_s: float
    fenced_at_ms: int
    terms: str
    quiescent_after_s: float | None
    incarnation: str
    settlement: Settlement = Settlement.OPEN
    settled_at_ms: int | None = None
    code: str | None = None
    receipt: str | None = None
    sent_late: bool = False


@dataclass(frozen=True, kw_only=True)
class Approval:
    """One request for a person's yes, bound to what exactly would be done.

    content_hash: what the person approves (hash of `subject`, canonical JSON). request_digest: of the exact bytes of
    the pivot's request, compared at its fence.
    """

    approval_id: str
    root_id: str
    command_id: str
    content_hash: str
    request_digest: str
    subject: str
    state: ApprovalState
    requested_at_ms: int
    expires_at_ms: int
    decided_at_ms: int | None = None
    decided_by: str | None = None
    signature: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Review:
    """A question for a person: facts, allowed verdicts, owner, age. `facts` is canonical JSON.

    answered_at_ms: when the verdict was asked for; whoever gave it had looked by then. signature: theirs, under it.
    """

    review_id: str
    root_id: str
    command_id: str
    kind: ReviewKind
    facts: str
    verdicts: str
    opened_at_ms: int
    owner: str
    closed_at_ms: int | None = None
    closed_by: str | None = None
    verdict: str | None = None
    reason: str | None = None
    answered_at_ms: int | None = None
    signature: str | None = None

    @property
    def cause(self) -> str:
        """The stable code of what led to it; of findings the first one's. Empty when the kind says everything."""
        facts = json.loads(self.facts)
        first = next(iter(facts.get("findings") or ()), facts)
        return str(first.get("code") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saga:
    """The aggregate: `root` plus `members` in position order, attempts and approvals in order of making."""

    root: Command
    members: tuple[Command, ...]
    attempts: tuple[Attempt, ...] = ()
    approvals: tuple[Approval, ...] = ()
    reviews: tuple[Review, ...] = ()

    def member(self, command_id: str) -> Command:
        """The row with that id (the root included); KeyError when it is not of this saga."""
        if command_id == self.root.command_id:
            return self.root
        for row in self.members:
            if row.command_id == command_id:
                return row
        raise KeyError(command_id)

    def named(self, command_type: str) -> Command | None:
        """The forward step or gate of that type, None when this saga does not have it."""
        for row in self.members:
            if row.command_type == command_type and row.compensates is None:
                return row
        return None

    def attempts_of(self, command_id: str) -> tuple[Attempt, ...]:
        """All attempts of one command."""
        return tuple(attempt for attempt in self.attempts if attempt.command_id == command_id)

    def open_attempts(self, command_id: str) -> tuple[Attempt, ...]:
        """Its attempts that are not individually proven unsent, refused or landed."""
        return tuple(a for a in self.attempts if a.command_id == command_id and a.settlement is Settlement.OPEN)

    def effective_attempts(self, command_id: str) -> tuple[Attempt, ...]:
        """Its attempts that took effect or may have."""
        may = (Settlement.OPEN, Settlement.LANDED)
        return tuple(a for a in self.attempts if a.command_id == command_id and a.settlement in may)

    def approval_pending_or_given(self) -> Approval | None:
        """The newest approval that is pending or approved."""
        alive = (ApprovalState.PENDING, ApprovalState.APPROVED)
        return next((a for a in reversed(self.approvals) if a.state in alive), None)


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """A receipt as it is journaled."""
    return {
        "resource_id": receipt.resource_id,
        "version": receipt.version,
        "reference": receipt.reference,
        "data": dict(receipt.data),
    }


@lru_cache(maxsize=1024)
def receipt_of(text: str) -> Receipt:
    """The receipt in a stored text. Receipts are read at every step and never change, so the last ones are kept."""
    return receipt_from(json.loads(text))


def receipt_from(body: Mapping[str, Any]) -> Receipt:
    """The receipt in a journaled form."""
    return Receipt(
        resource_id=body["resource_id"], version=body["version"], reference=body["reference"], data=body["data"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything that a forward, observe, verify or check function may read: frozen parameters and earlier receipts.

    `receipts` is keyed by command type; a compensation finds the receipt of the step that it undoes there too.
    `accepted_at_ms` is when the saga was accepted: the one time that is the same on every try.
    """

    installation: str
    tenant: str
    site: str
    key: str
    marker: str
    command_id: str
    root_id: str
    correlation_id: str
    params: Mapping[str, Any]
    accepted_at_ms: int = 0
    receipts: Mapping[str, Receipt] = field(default_factory=dict)
    expected_version: str | None = None
    attempt_number: int = 1
    unproven: int = 0
