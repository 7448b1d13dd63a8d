"""Journal events: a closed list of types, one canonical text, one hash over what is stored."""

from dataclasses import fields

import pytest

from execution.core.events import GENESIS, Event, Fact, canonical, chain_hash, event_type, link
from execution.core.transitions import Trigger

FIELDS = {"prev_hash": GENESIS, "command_id": "cmd_1", "seq": 1, "type_": "OBSERVED", "actor": "w", "at_ms": 5}


def test_an_event_hashes_what_it_stores() -> None:
    event = link(prev_hash=GENESIS, command_id="cmd_1", seq=1, type_=Fact.OBSERVED, actor="w", at_ms=5, body={"b": 1})
    assert event.body == '{"b":1}'
    assert event.hash == chain_hash(GENESIS, "cmd_1", 1, "OBSERVED", "w", 5, '{"b":1}')
    assert {field.name for field in fields(Event)} - {"hash"} == {
        "command_id", "seq", "type", "actor", "at_ms", "body", "prev_hash",
    }  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"prev_hash": "1" * 64},
        {"command_id": "cmd_2"},
        {"seq": 2},
        {"type_": "VERIFIED"},
        {"actor": "x"},
        {"at_ms": 6},
        {"body": "{} "},
    ],
)
def test_every_stored_field_is_under_the_hash(changed: dict[str, object]) -> None:
    given = {**FIELDS, "body": "{}"}
    assert chain_hash(**{**given, **changed}) != chain_hash(**given)  # type: ignore[arg-type]  # one field each


def test_a_character_that_moves_to_the_next_field_changes_the_hash() -> None:
    one = chain_hash(GENESIS, "cmd_1", 1, "OBSERVED", "ab", 5, "c")
    assert one != chain_hash(GENESIS, "cmd_1", 1, "OBSERVED", "a", 5, "bc")
    assert chain_hash(GENESIS, "cmd_1", 1, "X", "w", 15, "") != chain_hash(GENESIS, "cmd_11", 1, "X", "w", 5, "")


def test_canonical_text_sorts_keys_keeps_letters_and_refuses_what_is_not_json() -> None:
    assert canonical({"b": [1, 2.5, None], "a": "ü\n"}) == '{"a":"ü\\n","b":[1,2.5,null]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("inf"))


def test_stored_names_become_types_again_and_no_other_name_does() -> None:
    assert all(event_type(kind.value) is kind for kind in (*Trigger, *Fact))
    assert {t.value for t in Trigger}.isdisjoint(f.value for f in Fact)
    with pytest.raises(ValueError, match="SOMETHING"):
        event_type("SOMETHING")
