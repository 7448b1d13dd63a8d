"""A saga's rows folded into the words that every answer is made of: the most doubtful first, then its blockers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from execution.core.apply import landed_receipt
from execution.core.command import Command, Saga
from execution.core.definition import SagaDefinition
from execution.core.states import IN_DOUBT, ApprovalState, Blocker, EffectClass, Kind, State
from execution.history import Standing
from execution.ports import Ports

_BLOCKING: Final = (
    Blocker.HELD,
    Blocker.AWAITING_APPROVAL,
    Blocker.AWAITING_AUTHORIZATION,
    Blocker.LOCKED,
    Blocker.SCHEDULED,
)

NOT_RUN: Final = "NOT_RUN"
"""What a step is called that the saga's end has overtaken: nothing of it was ever sent. The registry says FAILED."""
CANCELLED: Final = "CANCELLED"
"""What a gate is called whose question nobody answers any more."""
_CALLED_OFF: Final = frozenset({"cancelled", "superseded", "withdrawn", "revoked"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A saga in the words that answers are made of.

    proven: the pivot's effect was read back. live: it is what stands there, as far as our journal knows. unproven: the
    pivot may have happened, and nothing proves it. ruled: people have answered every open question, and the worker has
    yet to carry that out.
    """

    word: str
    proven: bool
    live: bool
    done: bool
    unknown: tuple[str, ...]
    review: tuple[str, ...]
    succeeded: tuple[str, ...]
    remaining: tuple[str, ...]
    given_up: tuple[str, ...]
    pivot: Command | None
    unproven: bool
    ruled: bool


def fold(saga: Saga, definition: SagaDefinition[Ports] | None, standing: Standing | None) -> Folded:
    """The one word, and the lists behind it."""
    forward = [row for row in saga.members if row.compensates is None]
    pivot = next((row for row in forward if row.effect_class is EffectClass.PIVOT), None)
    open_reviews = [review for review in saga.reviews if review.closed_at_ms is None]
    unfinished = [row for row in forward if not row.is_terminal and row.state is not State.NEEDS_REVIEW]
    proven = pivot is not None and pivot.state is State.SUCCESS and pivot.verified_at_ms is not None
    takes_down = definition is not None and definition.takes_down
    return Folded(
        word=_word(saga),
        proven=proven,
        live=proven and not takes_down and not is_replaced(saga, standing),
        done=saga.root.is_terminal and not open_reviews,
        unknown=_names(saga.members, lambda row: row.state in IN_DOUBT),
        review=_names(saga.members, lambda row: row.state in (State.NEEDS_REVIEW, State.CONFLICT)),
        succeeded=_names(forward, lambda row: row.state is State.SUCCESS),
        remaining=() if saga.root.is_terminal else _names(unfinished, lambda row: True),
        given_up=_names(forward, lambda row: row.state is State.FAILED),
        pivot=pivot,
        unproven=pivot is not None and _unproven(saga, pivot),
        ruled=bool(open_reviews) and all(review.verdict is not None for review in open_reviews),
    )


def shown_state(root: Command, row: Command) -> str:
    """The state of a step or gate as people and agents are told it: nothing failed that was never begun."""
    if row.state is not State.FAILED or row.error_code is not None or row.attempt_count:
        return row.state
    if row.kind is Kind.GATE and row.started_at_ms is not None:
        return CANCELLED if root.ending in _CALLED_OFF else row.state
    return NOT_RUN


def is_replaced(saga: Saga, standing: Standing | None) -> bool:
    """Whether another command has written at the object's place since."""
    return standing is not None and standing.root_id != saga.root.command_id


def later(saga: Saga, standing: Standing | None) -> str | None:
    """What another command has made of the object since."""
    if standing is None or not is_replaced(saga, standing):
        return None
    if not standing.live:
        return "It was withdrawn since."
    again = standing.version == saga.root.object_version
    return "It was published again since." if again else f"Version {standing.version} was published since."


def _unproven(saga: Saga, row: Command) -> bool:
    """Past its fence, or with an attempt that could still have landed."""
    if row.is_terminal:
        return False
    landed = landed_receipt(saga, row) is not None
    return row.state in IN_DOUBT or row.state is State.RUNNING or landed or bool(saga.open_attempts(row.command_id))


def _names(rows: list[Command] | tuple[Command, ...], wanted: Callable[[Command], bool]) -> tuple[str, ...]:
    return tuple(row.command_type for row in rows if wanted(row))


def _word(saga: Saga) -> str:
    """The most doubtful first."""
    root, states = saga.root, {row.state for row in saga.members}
    if root.is_terminal:
        return root.state
    if State.RECONCILING in states:
        return State.RECONCILING
    if State.OUTCOME_UNKNOWN in states:
        return State.OUTCOME_UNKNOWN
    if root.state is State.NEEDS_REVIEW or states & {State.NEEDS_REVIEW, State.CONFLICT}:
        return State.NEEDS_REVIEW
    if root.state is State.COMPENSATING:
        return Blocker.HELD if Blocker.HELD in root.blocked_by else State.COMPENSATING
    for blocker in _BLOCKING:
        if blocker in root.blocked_by and not (blocker is Blocker.AWAITING_APPROVAL and _decided(saga)):
            return blocker
    if State.RETRY_PENDING in states:
        return State.RETRY_PENDING
    return Blocker.FINDING_OPEN if Blocker.FINDING_OPEN in root.blocked_by else root.state


def _decided(saga: Saga) -> bool:
    """A person has answered; the worker has only not taken it up yet."""
    answered = bool(saga.approvals) and saga.approvals[-1].state is not ApprovalState.PENDING
    return answered or saga.root.ending is not None
