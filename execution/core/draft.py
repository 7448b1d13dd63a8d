"""One commit in the making: what changes in a saga, as values, before the store writes it in one transaction.

A `Draft` starts from the saga as it was loaded, collects moves, facts, attempts, approvals and reviews, and ends in a
`Unit`: guarded rows (each by primary key and expected version), new rows, chained events. The root's version rises in
every unit, so that two owners, or an owner and a late answer, can never both commit on what they saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from execution.core.command import Approval, Attempt, Command, Review, Saga, blockers_text, evolved
from execution.core.events import GENESIS, Event, EventType, Fact, link
from execution.core.states import TERMINAL, Blocker, Phase
from execution.core.transitions import Trigger, move

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """The least distance of two scheduled publications on one site."""

    tenant: str
    site: str
    distance_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """What must hold in the transaction that writes the attempt, beside the guarded versions.

    scopes: restriction keys (freezes and revocations) any of which stops the effect; see `authority` in the store.
    finish_only: may complete after the pivot although the grant lapsed or was revoked. approval_id: must be APPROVED
    with this request digest and unexpired at `now_ms`; None when the step needs none. policy_hash: of the configuration
    as it is now; must be the one that the grant was judged by. action, resources: what is done and everything that it
    touches, as tokens spell them; a grant that came of a token must still cover all of it. spacing: whose turn on the
    site must have come; None when it need not wait for one.
    """

    root_id: str
    scopes: tuple[str, ...]
    finish_only: bool
    approval_id: str | None
    request_digest: str
    policy_hash: str
    now_ms: int
    action: str
    resources: tuple[str, ...]
    spacing: Spacing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Everything that one transaction writes, all or none.

    cas: (row as it will be, version that it must still have). changed: for each of `cas` the columns that may differ
    from what is stored; empty means all. outbox: (topic, root id) rows for the relay. locks_take: resources for the
    root, all or none. locks_free: whether all locks of the root are freed.
    """

    root_id: str
    cas: tuple[tuple[Command, int], ...] = ()
    changed: tuple[frozenset[str], ...] = ()
    new_commands: tuple[Command, ...] = ()
    events: tuple[Event, ...] = ()
    new_attempts: tuple[Attempt, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    new_approvals: tuple[Approval, ...] = ()
    approvals: tuple[Approval, ...] = ()
    new_reviews: tuple[Review, ...] = ()
    reviews: tuple[Review, ...] = ()
    outbox: tuple[str, ...] = ()
    locks_take: tuple[str, ...] = ()
    locks_free: bool = False
    fence: Fence | None = None


class Draft:
    """Collects the changes of one commit. Reading through it (`saga`, `row`) shows what was already changed.

    `opening`: none of the saga's rows is stored yet; the unit inserts them all.
    """

    def __init__(self, saga: Saga, *, actor: str, now_ms: int, opening: bool = False) -> None:
        self._before = {row.command_id: row for row in (saga.root, *saga.members)}
        self._rows = dict(self._before)
        self._changes: dict[str, dict[str, Any]] = {}
        self._touched: dict[str, set[str]] = {}
        self._order = [row.command_id for row in saga.members]
        self._root_id = saga.root.command_id
        self._actor = actor
        self.now_ms = now_ms
        self._events: list[Event] = []
        self._new: list[str] = [row.command_id for row in (saga.root, *saga.members)] if opening else []
        self._attempts = {attempt.attempt_id: attempt for attempt in saga.attempts}
        self._attempts_before = dict(self._attempts)
        self._approvals = {approval.approval_id: approval for approval in saga.approvals}
        self._approvals_before = dict(self._approvals)
        self._reviews = {review.review_id: review for review in saga.reviews}
        self._reviews_before = dict(self._reviews)
        self._outbox: list[str] = []
        self._locks_take: tuple[str, ...] = ()
        self._locks_free = False
        self._saga: Saga | None = None
        self.fence: Fence | None = None

    @property
    def saga(self) -> Saga:
        """The aggregate as it will be."""
        if self._saga is None:
            for command_id in tuple(self._changes):
                self.row(command_id)
            rows = self._rows
            self._saga = Saga(
                root=rows[self._root_id],
                members=tuple([rows[command_id] for command_id in self._order]),
                attempts=tuple(self._attempts.values()),
                approvals=tuple(self._approvals.values()),
                reviews=tuple(self._reviews.values()),
            )
        return self._saga

    @property
    def root(self) -> Command:
        """The root as it will be."""
        return self.row(self._root_id)

    @property
    def touched(self) -> bool:
        """Whether anything was journaled."""
        return bool(self._events)

    def row(self, command_id: str) -> Command:
        """One row as it will be."""
        changes = self._changes.pop(command_id, None)
        if changes is not None:
            self._touched.setdefault(command_id, set()).update(changes)
            self._rows[command_id] = evolved(self._rows[command_id], changes)
        return self._rows[command_id]

    def add_command(self, row: Command) -> None:
        """A new member (a compensation)."""
        self._rows[row.command_id] = row
        self._order.append(row.command_id)
        self._new.append(row.command_id)
        self._saga = None

    def set(self, command_id: str, **columns: Any) -> None:
        """Change columns of a row without an event (times, leases, counters)."""
        self._changes.setdefault(command_id, {}).update(columns)
        self._saga = None

    def note(self, command_id: str, type_: EventType, body: dict[str, Any] | None = None) -> None:
        """Append an event to the command's chain."""
        changes, row = self._changes.setdefault(command_id, {}), self._rows[command_id]
        event = link(
            prev_hash=changes.get("chain_head", row.chain_head) or GENESIS,
            command_id=command_id,
            seq=changes.get("chain_seq", row.chain_seq) + 1,
            type_=type_,
            actor=self._actor,
            at_ms=self.now_ms,
            body=body or {},
        )
        self._events.append(event)
        changes["chain_seq"], changes["chain_head"] = event.seq, event.hash
        self._saga = None

    def move(self, command_id: str, trigger: Trigger, body: dict[str, Any] | None = None, **columns: Any) -> None:
        """Move a command through the table and journal it; `columns` change with it."""
        changes, row = self._changes.setdefault(command_id, {}), self._rows[command_id]
        state = move(changes.get("state", row.state), trigger)
        if state in TERMINAL:
            columns.setdefault("completed_at_ms", self.now_ms)
        changes["state"] = state
        changes.update(columns)
        self.note(command_id, trigger, body)

    def phase(self, phase: Phase) -> None:
        """Turn the saga's phase, journaled on the root."""
        before = self.root.phase
        if before is not phase:
            self.set(self._root_id, phase=phase)
            self.note(self._root_id, Fact.PHASE_CHANGED, {"from": before, "to": phase})

    def block(self, blocker: Blocker, body: dict[str, Any] | None = None) -> None:
        """Raise a blocker on the root (idempotent)."""
        blocked = self.root.blocked_by
        if blocker not in blocked:
            self.set(self._root_id, blockers=blockers_text(blocked | {blocker}))
            self.note(self._root_id, Fact.BLOCKED, {"blocker": blocker, **(body or {})})

    def unblock(self, blocker: Blocker) -> None:
        """Lower a blocker on the root (idempotent)."""
        blocked = self.root.blocked_by
        if blocker in blocked:
            self.set(self._root_id, blockers=blockers_text(blocked - {blocker}))
            self.note(self._root_id, Fact.UNBLOCKED, {"blocker": blocker})

    def put_attempt(self, attempt: Attempt) -> None:
        """A new attempt, or one that was settled."""
        self._attempts[attempt.attempt_id] = attempt
        self._saga = None

    def put_approval(self, approval: Approval) -> None:
        """A new approval request, or a decided one."""
        self._approvals[approval.approval_id] = approval
        self._saga = None

    def put_review(self, review: Review) -> None:
        """A new review, or a closed one."""
        self._reviews[review.review_id] = review
        self._saga = None

    def announce(self, topic: str = "run") -> None:
        """An outbox row: somebody should look at this saga."""
        self._outbox.append(topic)

    def take_locks(self, resources: tuple[str, ...]) -> None:
        """Take semantic locks for the root, all or none, in canonical order."""
        self._locks_take = tuple(sorted(set(resources)))

    def free_locks(self) -> None:
        """Free every semantic lock of the root."""
        self._locks_free = True

    def unit(self) -> Unit:
        """The commit. Each changed row's version rises by one; the root's always does."""
        cas, changed = [], []
        for command_id in (self._root_id, *self._order):
            before = self._before.get(command_id)
            if command_id in self._new or before is None:
                continue
            if command_id == self._root_id or command_id in self._changes or self._rows[command_id] is not before:
                self.set(command_id, version=before.version + 1)
                cas.append((self.row(command_id), before.version))
                changed.append(frozenset(self._touched[command_id]))
        new_attempts, attempts = _split(self._attempts, self._attempts_before)
        new_approvals, approvals = _split(self._approvals, self._approvals_before)
        new_reviews, reviews = _split(self._reviews, self._reviews_before)
        return Unit(
            root_id=self._root_id,
            cas=tuple(cas),
            changed=tuple(changed),
            new_commands=tuple(self.row(command_id) for command_id in self._new),
            events=tuple(self._events),
            new_attempts=new_attempts,
            attempts=attempts,
            new_approvals=new_approvals,
            approvals=approvals,
            new_reviews=new_reviews,
            reviews=reviews,
            outbox=tuple(self._outbox),
            locks_take=self._locks_take,
            locks_free=self._locks_free,
            fence=self.fence,
        )

    def committed(self) -> Saga:
        """The aggregate after the unit was made and written: the same rows with their risen versions."""
        return self.saga


def _split(after: dict[str, T], before: dict[str, T]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    new = tuple([value for key, value in after.items() if key not in before])
    changed = tuple([value for key, value in after.items() if key in before and before[key] is not value])
    return new, changed
