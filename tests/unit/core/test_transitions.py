"""The transition table: total, closed, and with no way out of doubt but looking."""

import itertools
import re

import pytest

from execution.core.states import TERMINAL, Blocker, State
from execution.core.transitions import TRANSITIONS, IllegalMove, Trigger, diagram, move, replay


def reachable(start: State) -> set[State]:
    """Every state that a command in `start` can come to."""
    found, todo = {start}, [start]
    while todo:
        following = set(TRANSITIONS[todo.pop()].values()) - found
        found |= following
        todo += following
    return found


def test_every_state_has_its_row_and_every_trigger_its_use() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {trigger for moves in TRANSITIONS.values() for trigger in moves} == set(Trigger)


@pytest.mark.parametrize(("state", "trigger"), list(itertools.product(State, Trigger)))
def test_each_pair_is_in_the_table_or_raises(state: State, trigger: Trigger) -> None:
    if trigger in TRANSITIONS[state]:
        assert move(state, trigger) is TRANSITIONS[state][trigger]
    else:
        with pytest.raises(IllegalMove, match=f"{trigger} cannot happen in {state}"):
            move(state, trigger)


def test_every_state_can_be_reached_and_left_towards_an_ending() -> None:
    assert reachable(State.RECEIVED) == set(State)
    assert all(reachable(state) & TERMINAL for state in State)


def test_endings_stay_unless_a_failure_is_unwound_or_reviewed() -> None:
    assert TRANSITIONS[State.SUCCESS] == TRANSITIONS[State.COMPENSATED] == {}
    assert set(TRANSITIONS[State.FAILED].values()) == {State.NEEDS_REVIEW, State.COMPENSATING}


def test_running_is_left_only_by_what_became_of_its_attempt() -> None:
    assert dict(TRANSITIONS[State.RUNNING]) == {
        Trigger.SUCCEEDED: State.SUCCESS,
        Trigger.NOT_APPLIED: State.RETRY_PENDING,
        Trigger.REFUSED: State.FAILED,
        Trigger.VERSION_DIFFERS: State.CONFLICT,
        Trigger.OUTCOME_LOST: State.OUTCOME_UNKNOWN,
        Trigger.INCARNATION_CHANGED: State.OUTCOME_UNKNOWN,
    }


def test_the_only_way_out_of_an_unknown_outcome_is_to_look() -> None:
    assert dict(TRANSITIONS[State.OUTCOME_UNKNOWN]) == {Trigger.PROBING: State.RECONCILING}


def test_reconciling_is_left_only_by_what_was_found_or_by_a_person() -> None:
    assert dict(TRANSITIONS[State.RECONCILING]) == {
        Trigger.FOUND_PRESENT: State.SUCCESS,
        Trigger.FOUND_ABSENT: State.RETRY_PENDING,
        Trigger.REPEATABLE: State.RETRY_PENDING,
        Trigger.ABANDONED: State.FAILED,
        Trigger.FOUND_FOREIGN: State.CONFLICT,
        Trigger.VERSION_DIFFERS: State.CONFLICT,
        Trigger.STILL_UNKNOWN: State.OUTCOME_UNKNOWN,
        Trigger.PERSON_NEEDED: State.NEEDS_REVIEW,
        Trigger.INCARNATION_CHANGED: State.OUTCOME_UNKNOWN,
    }


def test_giving_up_never_happens_where_an_attempt_may_be_on_its_way() -> None:
    giving_up = {state for state, moves in TRANSITIONS.items() if Trigger.GIVEN_UP in moves}
    assert giving_up == {State.AUTHORIZED, State.QUEUED, State.RETRY_PENDING}


def test_a_new_incarnation_puts_every_unfinished_effect_in_doubt() -> None:
    doubting = {state for state, moves in TRANSITIONS.items() if Trigger.INCARNATION_CHANGED in moves}
    assert doubting >= {State.QUEUED, State.DISPATCHING, State.RUNNING, State.RETRY_PENDING, State.RECONCILING}
    assert all(TRANSITIONS[state][Trigger.INCARNATION_CHANGED] is State.OUTCOME_UNKNOWN for state in doubting)


def test_only_rulings_leave_a_review_and_rulings_leave_nothing_else() -> None:
    rulings = {trigger for trigger in Trigger if trigger.startswith("RULED_")}
    assert set(TRANSITIONS[State.NEEDS_REVIEW]) == rulings
    others = set(State) - {State.NEEDS_REVIEW}
    assert all(rulings.isdisjoint(TRANSITIONS[state]) for state in others)


def test_running_begins_only_from_a_claim() -> None:
    assert {state for state, moves in TRANSITIONS.items() if State.RUNNING in moves.values()} == {State.DISPATCHING}


def test_a_blocker_is_no_state() -> None:
    assert {blocker.value for blocker in Blocker}.isdisjoint(state.value for state in State)


def test_replaying_a_chain_ends_where_its_moves_lead() -> None:
    accepted = [Trigger.VALIDATION_STARTED, Trigger.COMMAND_AUTHORIZED, Trigger.ENQUEUED]
    assert replay([]) is State.RECEIVED
    assert replay([*accepted, Trigger.CLAIMED, Trigger.FENCED, Trigger.OUTCOME_LOST]) is State.OUTCOME_UNKNOWN
    with pytest.raises(IllegalMove):
        replay([*accepted, Trigger.FENCED])


def test_the_diagram_shows_the_table_and_nothing_else() -> None:
    first, begin, *lines = diagram().splitlines()
    assert (first, begin) == ("stateDiagram-v2", "    [*] --> RECEIVED")
    drawn: set[tuple[State, Trigger, State]] = set()
    ends: set[State] = set()
    for line in lines:
        arrow = re.fullmatch(r"    ([A-Z_]+) --> (\[\*\]|[A-Z_]+)(?:: ([a-z_, ]+))?", line)
        assert arrow is not None
        source, target, names = arrow.groups()
        if target == "[*]":
            ends.add(State(source))
        else:
            drawn |= {(State(source), Trigger(name.upper()), State(target)) for name in names.split(", ")}
    assert ends == TERMINAL
    assert drawn == {(s, trigger, target) for s, moves in TRANSITIONS.items() for trigger, target in moves.items()}
