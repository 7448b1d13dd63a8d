"""Any history of a saga: its chains verify, its registry is the projection of its journal, its versions only rise."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from execution.core.command import Saga
from execution.core.draft import Draft
from execution.core.events import GENESIS, Event, Fact, chain_hash
from execution.core.states import State
from execution.core.transitions import TRANSITIONS, Trigger, replay
from tests.unit.core.rows import row, saga

IDS = ("cmd_root", "cmd_1", "cmd_2")


def a_step_of_history(draft: Draft, data: st.DataObject) -> None:
    """One random legal change."""
    command_id = data.draw(st.sampled_from(IDS))
    possible = list(TRANSITIONS[draft.row(command_id).state])
    taken: Trigger | None = data.draw(st.sampled_from([*possible, None]))
    if taken is not None:
        draft.move(command_id, taken, {"n": data.draw(st.integers(0, 9))})
    else:
        draft.note(command_id, data.draw(st.sampled_from(sorted(Fact))), {"text": data.draw(st.text(max_size=5))})


def history(data: st.DataObject) -> tuple[list[Event], list[Saga]]:
    """Several commits of one saga: all events in order, and the saga after each."""
    current = Saga(root=row("cmd_root"), members=(row("cmd_1", 1), row("cmd_2", 2)))
    events: list[Event] = []
    states = [current]
    for commit in range(data.draw(st.integers(1, 4))):
        draft = Draft(current, actor=f"worker-{commit}", now_ms=commit)
        for _ in range(data.draw(st.integers(0, 5))):
            a_step_of_history(draft, data)
        events += draft.unit().events
        current = draft.committed()
        states.append(current)
    return events, states


@given(st.data())
def test_every_chain_verifies_from_its_first_event_to_its_head(data: st.DataObject) -> None:
    events, states = history(data)
    for command_id in IDS:
        chain = [event for event in events if event.command_id == command_id]
        head = GENESIS
        for seq, event in enumerate(chain, start=1):
            assert (event.seq, event.prev_hash) == (seq, head)
            body = (event.type.value, event.actor, event.at_ms, event.body)
            assert event.hash == chain_hash(head, command_id, seq, *body)
            head = event.hash
        last = states[-1].member(command_id)
        assert (last.chain_seq, last.chain_head or GENESIS) == (len(chain), head)


@given(st.data())
def test_the_registry_is_what_replaying_the_journal_gives(data: st.DataObject) -> None:
    events, states = history(data)
    for command_id in IDS:
        triggers = [e.type for e in events if e.command_id == command_id and isinstance(e.type, Trigger)]
        assert states[-1].member(command_id).state is replay(triggers)


@given(st.data())
def test_versions_rise_with_every_commit_that_touches_a_row_and_always_for_the_root(data: st.DataObject) -> None:
    events, states = history(data)
    for commit, (before, after) in enumerate(itertools.pairwise(states)):
        assert after.root.version == before.root.version + 1
        touched = {event.command_id for event in events if event.at_ms == commit}
        for command_id in IDS[1:]:
            risen = after.member(command_id).version - before.member(command_id).version
            assert risen == (command_id in touched)


@given(st.lists(st.sampled_from(list(Trigger)), max_size=12))
def test_no_history_ends_in_success_without_a_proof_of_it(triggers: list[Trigger]) -> None:
    state = State.RECEIVED
    taken: list[Trigger] = []
    for trigger in triggers:
        if trigger in TRANSITIONS[state]:
            state = TRANSITIONS[state][trigger]
            taken.append(trigger)
    proofs = {
        Trigger.SUCCEEDED,
        Trigger.ADOPTED,
        Trigger.FOUND_PRESENT,
        Trigger.RULED_PRESENT,
        Trigger.RULED_ACCEPT,
    }
    assert state is not State.SUCCESS or taken[-1] in proofs


def test_a_saga_of_many_steps_starts_with_nothing_touched() -> None:
    assert not Draft(saga(steps=5), actor="worker", now_ms=0).touched
