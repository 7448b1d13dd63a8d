"""Laws about how a schedule ends: everything came to an end or waits for somebody, within its budgets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from execution.core.apply import action_of
from execution.core.command import Command, Review, Saga
from execution.core.states import IN_DOUBT, Blocker, CompensationState, Kind, Phase, ReviewKind, Settlement, State
from execution.simulation.people import RULINGS_MAX
from execution.simulation.witness import Law
from execution.status import view_of
from execution.store import registry
from execution.store.connection import Connection

if TYPE_CHECKING:
    from execution.simulation.run import Schedule

FINDINGS: Final = frozenset({ReviewKind.DRIFT, ReviewKind.DUPLICATE, ReviewKind.LATE_FACT, ReviewKind.STUCK})
"""Questions beside the state: any of them may be closed, whatever the state is."""
BLOCKERS: Final = frozenset(Blocker) - {Blocker.FINDING_OPEN}
WAITS: Final = frozenset({Blocker.HELD, Blocker.AWAITING_APPROVAL, Blocker.AWAITING_AUTHORIZATION})
OVERDUE_MS: Final = 30_000
PIVOT: Final = "PUBLISH_WORDPRESS_POST"


def converged(conn: Connection, at: Schedule, saga: Saga) -> None:
    root = saga.root
    open_reviews = [review for review in saga.reviews if review.closed_at_ms is None]
    at.witness.expect(
        Law.CONVERGES,
        root.is_terminal or bool(open_reviews) or _waits(conn, saga),
        f"{root.state} {root.phase} {root.blockers!r} waits for nobody; steps {_steps(saga)}",
    )
    turning = root.ending is not None and root.state is State.RUNNING and root.phase is Phase.PRE_PIVOT
    at.witness.expect(
        Law.CONVERGES,
        not turning or bool(open_reviews),
        f"{root.ending}, and nobody turns it back, whatever {root.blockers!r} it waits for",
    )
    ruled = [review.kind for review in open_reviews if review.verdict is not None]
    at.witness.expect(Law.CONVERGES, not ruled, f"a person ruled about {ruled} and nobody carries it out")
    for row in saga.members:
        asked = any(review.command_id == row.command_id for review in open_reviews)
        at.witness.expect(
            Law.CONVERGES,
            row.state not in (State.NEEDS_REVIEW, State.CONFLICT) or asked or root.is_terminal,
            f"{row.command_type} is in review and nobody was asked",
        )
        at.witness.expect(
            Law.CONVERGES,
            row.is_terminal or row.kind is Kind.COMPENSATION or not root.is_terminal or row.state is State.NEEDS_REVIEW,
            f"{row.command_type} is {row.state} in a saga that ended {root.state} {root.ending}",
        )
        at.witness.expect(
            Law.CONVERGES,
            row.state not in IN_DOUBT or asked or not _overdue(at, row) or Blocker.LOCKED in root.blocked_by,
            f"{row.command_type} is in doubt and nobody looks, whatever {root.blockers!r} its saga waits for",
        )
    for review in open_reviews:
        row = saga.member(review.command_id)
        at.witness.expect(
            Law.CONVERGES,
            row.state is State.NEEDS_REVIEW or row.is_root or review.kind in FINDINGS or _untried(review, row),
            f"a person is asked about {row.command_type}, which is {row.state}, and no answer can be carried out",
        )
    at.witness.expect(
        Law.CONVERGES, not (root.is_terminal and root.blocked_by & BLOCKERS), f"{root.state} and still {root.blockers}"
    )
    pivot = saga.named(PIVOT)
    if pivot is not None and pivot.state is State.SUCCESS:
        forward = root.phase in (Phase.POST_PIVOT, Phase.COMPLETED)
        at.witness.expect(Law.FORWARD_ONLY, forward, f"the pivot succeeded and the phase is {root.phase}")
    if root.state is State.SUCCESS:
        left = [a for a in saga.attempts if a.settlement is Settlement.OPEN and a.quiescent_after_s is not None]
        at.witness.expect(Law.CONVERGES, not left, "an attempt is left on the watch list for good")


def _overdue(at: Schedule, row: Command) -> bool:
    """Finding out needs no leave: a look that was due half a minute ago is one that nobody takes."""
    return row.next_check_at_ms is not None and row.next_check_at_ms < at.clock.now_ms() - OVERDUE_MS


def _untried(review: Review, row: Command) -> bool:
    """A compensation that could not begin is asked about on the step that it would undo."""
    return review.kind is ReviewKind.COMPENSATION_FAILED and row.compensation_state is CompensationState.FAILED


def _waits(conn: Connection, saga: Saga) -> bool:
    """Blocked, with somebody who can end it."""
    blocked = saga.root.blocked_by
    if blocked & WAITS:
        view = view_of(saga)
        return view.waiting_for is not None and view.waiting_for.needs_person
    if Blocker.LOCKED in blocked:
        owners = (
            registry.lock_owner(conn, saga.root.tenant, resource)
            for resource in json.loads(saga.root.params)["resources"]
        )
        held = [registry.load_saga(conn, owner) for owner in owners if owner not in (None, saga.root.command_id)]
        return any(not other.root.is_terminal or _never_quiet(other) for other in held)
    return False


def _never_quiet(saga: Saga) -> bool:
    return any(a.settlement is Settlement.OPEN and a.quiescent_after_s is None for a in saga.attempts)


def _steps(saga: Saga) -> str:
    return ", ".join(f"{row.command_type}={row.state}/{row.compensation_state}" for row in saga.members)


def budgets(at: Schedule, saga: Saga) -> None:
    """Attempts that left or may have left, against what the definition allows; each ruling to go on gives it anew."""
    definition = at.catalog.definition(saga.root.command_type, saga.root.definition_version)
    for row in saga.members:
        if row.kind not in (Kind.STEP, Kind.COMPENSATION):
            continue
        tried = [a for a in at.witness.attempts.values() if a.command_id == row.command_id and a.code != "send_budget"]
        most = action_of(definition, saga, row).retry.attempts_max * (1 + at.witness.anew[row.command_id])
        at.witness.expect(
            Law.BUDGETS_HOLD, len(tried) <= most, f"{row.command_type} was tried {len(tried)} times of {most}"
        )


def quarantined(at: Schedule, saga: Saga) -> None:
    """Nobody is quarantined by the deaths of a few workers, and whatever ends each of them does not go on for ever."""
    asked = any(review.kind is ReviewKind.POISON for review in saga.reviews)
    enough = at.fleet.kills >= at.settings.claims_max
    at.witness.expect(Law.QUARANTINE, not asked or enough, f"quarantined after {at.fleet.kills} deaths")
    most = (at.settings.claims_max + 1) * (2 + len(saga.reviews) * (RULINGS_MAX + 1))
    endless = at.scenario.deadly is not None and at.fleet.kills > most
    at.witness.expect(Law.QUARANTINE, not endless, f"{at.fleet.kills} workers ended, {len(saga.reviews)} questions")
