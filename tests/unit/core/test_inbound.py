"""A fact from outside against how an effect ended: what contradicts it, and what does not."""

from dataclasses import replace
from typing import Any

import pytest

from execution.core.command import Saga
from execution.core.inbound import Says, concerned, contradicts
from execution.core.states import CompensationState, EffectClass, State
from tests.unit.core.rows import row


def ended(state: State, undone: CompensationState = CompensationState.NOT_NEEDED, root: State = State.SUCCESS) -> Saga:
    members = (
        row("cmd_1", 1, command_type="DRAFT", state=state, compensation_state=undone),
        row("cmd_2", 2, command_type="TURN", effect_class=EffectClass.PIVOT, state=State.AUTHORIZED),
    )
    return Saga(root=row("cmd_root", state=root), members=members)


N = CompensationState


@pytest.mark.parametrize(
    ("state", "undone", "root", "says", "against"),
    [
        (State.SUCCESS, N.NOT_NEEDED, State.SUCCESS, Says.GONE, True),
        (State.SUCCESS, N.NOT_NEEDED, State.SUCCESS, Says.THERE, False),
        (State.SUCCESS, N.DONE, State.COMPENSATED, Says.THERE, True),
        (State.SUCCESS, N.DONE, State.COMPENSATED, Says.GONE, False),
        *((State.SUCCESS, undone, State.COMPENSATING, says, False)
          for undone in (N.PENDING, N.RUNNING, N.UNKNOWN, N.FAILED) for says in Says),
        (State.FAILED, N.NOT_NEEDED, State.FAILED, Says.THERE, True),
        (State.FAILED, N.NOT_NEEDED, State.FAILED, Says.GONE, False),
        (State.AUTHORIZED, N.NOT_NEEDED, State.FAILED, Says.THERE, True),
        (State.AUTHORIZED, N.NOT_NEEDED, State.RUNNING, Says.THERE, False),
        *((state, N.NOT_NEEDED, State.RUNNING, says, False)
          for state in (State.RUNNING, State.OUTCOME_UNKNOWN, State.RECONCILING, State.RETRY_PENDING,
                        State.NEEDS_REVIEW) for says in Says),
    ],
)  # fmt: skip
def test_only_an_ending_can_be_contradicted(
    state: State, undone: CompensationState, root: State, says: Says, against: bool
) -> None:
    saga = ended(state, undone, root)
    assert contradicts(saga, saga.members[0], says, replaced=False) is against


@pytest.mark.parametrize("says", list(Says))
@pytest.mark.parametrize("state", [State.SUCCESS, State.FAILED])
def test_what_others_have_written_over_is_nobodys_contradiction(state: State, says: Says) -> None:
    saga = ended(state)
    assert not contradicts(saga, saga.members[0], says, replaced=True)


def test_a_draft_that_became_the_publication_is_not_missed() -> None:
    saga = ended(State.SUCCESS)
    turned = replace(saga, members=(saga.members[0], replace(saga.members[1], state=State.SUCCESS)))
    assert not contradicts(turned, turned.members[0], Says.GONE, replaced=False)
    assert contradicts(turned, turned.members[1], Says.GONE, replaced=False)


@pytest.mark.parametrize(
    ("command_id", "step", "found"),
    [
        ("cmd_root", "", "TURN"),
        ("cmd_1", "", "DRAFT"),
        ("cmd_root", "DRAFT", "DRAFT"),
        ("cmd_1", "TURN", "TURN"),
        ("cmd_root", "OTHER", None),
    ],
)
def test_a_fact_is_about_the_named_step_else_the_pivot(command_id: str, step: str, found: str | None) -> None:
    about: Any = concerned(ended(State.SUCCESS), command_id, step)
    assert (about.command_type if about else None) == found
