"""What is left to people once a saga has ended: read off its definition, by how it ended."""

from __future__ import annotations

from execution.core.command import Saga
from execution.core.definition import SagaDefinition
from execution.core.duty import After, FollowUp
from execution.core.states import CompensationState, Kind, State
from execution.ports import Ports


def follow_ups(saga: Saga, definition: SagaDefinition[Ports] | None) -> tuple[FollowUp, ...]:
    """The duties that its ending leaves; none before it has ended."""
    if definition is None or not saga.root.is_terminal:
        return ()
    ending = _ending(saga)
    return tuple(duty for duty in definition.follow_ups if ending in duty.after)


def left_behind(saga: Saga) -> tuple[str, ...]:
    """Steps whose effect was not undone, of a saga that did not come to its end."""
    if saga.root.state is State.SUCCESS:
        return ()
    return tuple(
        row.command_type
        for row in saga.members
        if row.compensates is None
        and row.kind is Kind.STEP
        and row.state is State.SUCCESS
        and row.compensation_state is not CompensationState.DONE
    )


def _ending(saga: Saga) -> After:
    if saga.root.state is not State.SUCCESS:
        return After.REMAINS if left_behind(saga) else After.NOTHING
    given_up = any(row.state is State.FAILED for row in saga.members if row.compensates is None)
    return After.GAPS if given_up else After.DONE
