"""What comes next for a saga, as a closed union, and the few things that every direction of progress needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from execution.core.command import Command, Review, Saga
from execution.core.draft import Draft
from execution.core.events import Fact, canonical
from execution.core.states import Blocker, EffectClass, ReviewKind, State
from execution.core.transitions import Trigger

WAITING: Final = frozenset({State.NEEDS_REVIEW, State.CONFLICT})
UNSTARTED: Final = frozenset({State.AUTHORIZED, State.QUEUED, State.RETRY_PENDING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """DISPATCHING: look, connect, fence, send."""

    command_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReceipt:
    """RUNNING with a receipt on record: compare what was asked with what is there."""

    command_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconcile:
    """OUTCOME_UNKNOWN and due: find out."""

    command_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckNow:
    """A check gate is to be evaluated."""

    command_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskApproval:
    """An approval request is to be made for what the guarded step would send."""

    command_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The saga ended, and attempts that were in doubt are quiescent now: count our objects once more."""

    command_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do until then (Unix ms); None: until somebody else acts."""

    until_ms: int | None


Next = Execute | VerifyReceipt | Reconcile | CheckNow | AskApproval | Watch | Wait


def no_evidence(command_id: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """What the pure part must be told of time and the observer.

    quiet_at_ms: when every open attempt of a command is quiescent by the store's clock and the observer's awake time;
    absent from the mapping when it has none, None when nobody knows. closed: systems, by the name of their pace, that
    take nothing before that time; full: those for which nothing new need be begun before it. evidence: what a
    person looks for who is asked about a step, by its command id.
    """

    now_ms: int
    quiet_at_ms: dict[str, int | None]
    new_id: Callable[[str], str]
    approval_ttl_ms: int
    claims_max: int
    review_owner: str
    closed: Mapping[str, int] = field(default_factory=dict)
    full: Mapping[str, int] = field(default_factory=dict)
    evidence: Callable[[str], Mapping[str, str]] = no_evidence

    def paused_until(self, pace: str, *, new: bool) -> int | None:
        """Until when there is no turn to be had for something new, or for finding out; None when there is."""
        until = max(self.closed.get(pace, 0), self.full.get(pace, 0) if new else 0)
        return until if until > self.now_ms else None


def asking(now_ms: int, new_id: Callable[[str], str], review_owner: str) -> Horizon:
    """For whoever only asks a person and drives nothing."""
    return Horizon(
        now_ms=now_ms,
        quiet_at_ms={},
        new_id=new_id,
        approval_ttl_ms=0,
        claims_max=0,
        review_owner=review_owner,
    )


def begin(draft: Draft, command_id: str, at: Horizon, body: dict[str, Any] | None = None) -> bool:
    """Claim a step: … → DISPATCHING. False when it was claimed too often without progress and a person must look."""
    row = draft.row(command_id)
    if row.claim_count - row.attempt_count >= at.claims_max:
        return False
    if row.state is State.AUTHORIZED:
        draft.move(command_id, Trigger.ENQUEUED)
    elif row.state is State.RETRY_PENDING:
        draft.move(command_id, Trigger.DUE)
    draft.move(
        command_id,
        Trigger.CLAIMED,
        body,
        claim_count=row.claim_count + 1,
        started_at_ms=row.started_at_ms or at.now_ms,
        lease_epoch=draft.root.lease_epoch,
        next_retry_at_ms=None,
        next_check_at_ms=None,
    )
    return True


def ended(draft: Draft) -> None:
    """What held a saga up does not outlive it; only questions do."""
    for blocker in sorted(draft.root.blocked_by - {Blocker.FINDING_OPEN}):
        draft.unblock(blocker)


def open_review(draft: Draft, command_id: str, kind: ReviewKind, facts: dict[str, Any], at: Horizon) -> None:
    """Ask a person. Verdicts depend on what is asked; an identical open question is not asked twice."""
    if any(r.command_id == command_id and r.kind is kind and r.closed_at_ms is None for r in draft.saga.reviews):
        return
    facts = {**at.evidence(command_id), **facts} if kind is ReviewKind.OUTCOME_UNKNOWN else facts
    review = Review(
        review_id=at.new_id("rev"),
        root_id=draft.root.command_id,
        command_id=command_id,
        kind=kind,
        facts=canonical(facts),
        verdicts=",".join(VERDICTS[kind]),
        opened_at_ms=at.now_ms,
        owner=at.review_owner,
    )
    draft.put_review(review)
    draft.set(command_id, human_review_required=True)
    draft.set(draft.root.command_id, human_review_required=True)
    draft.note(command_id, Fact.REVIEW_OPENED, {"review_id": review.review_id, "kind": kind, "facts": facts})


VERDICTS: Final[dict[ReviewKind, tuple[str, ...]]] = {
    ReviewKind.VALIDATION_FINDINGS: ("continue", "abandon"),
    ReviewKind.CONFLICT: ("rebase", "continue", "abandon"),
    ReviewKind.OUTCOME_UNKNOWN: ("present", "absent", "abandon"),
    ReviewKind.PERMANENT_FAILURE: ("continue", "abandon"),
    ReviewKind.COMPENSATION_FAILED: ("present", "continue", "abandon"),
    ReviewKind.POISON: ("continue", "abandon"),
    ReviewKind.DRIFT: ("continue",),
    ReviewKind.DUPLICATE: ("continue",),
    ReviewKind.STUCK: ("continue", "abandon"),
    ReviewKind.LATE_FACT: ("continue",),
    ReviewKind.REVOKED_AFTER_PIVOT: ("continue", "abandon"),
}


def forward_rows(saga: Saga) -> tuple[Command, ...]:
    return tuple(row for row in saga.members if row.compensates is None)


def to_compensate(saga: Saga) -> tuple[Command, ...]:
    """Finished compensable steps, newest first."""
    done = [
        row for row in forward_rows(saga) if row.effect_class is EffectClass.COMPENSABLE and row.state is State.SUCCESS
    ]
    return tuple(reversed(done))


def given_up(row: Command) -> bool:
    return row.state is State.FAILED


def earliest(times: list[int | None]) -> int | None:
    known = [time for time in times if time is not None]
    return min(known) if known else None
