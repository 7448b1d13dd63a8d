"""The protocol for one key, checked whole: with its laws every promise holds, without any one some promise breaks."""

import pytest

from execution.simulation.model import Bounds, Drop, Promise, check
from execution.simulation.proof import LAWFUL, PATIENT, TIGHT, without

SLOW = frozenset({Drop.ALL_ATTEMPTS})
"""Shown by `remit prove`; here it would cost a quarter of a minute."""


@pytest.mark.parametrize("name", sorted(LAWFUL))
def test_every_promise_holds_in_every_state_of_a_lawful_world(name: str) -> None:
    found = check(bounds=LAWFUL[name])
    assert found.broken is None, found.way
    assert found.states > 50_000


@pytest.mark.parametrize("name", sorted(TIGHT))
def test_the_inequality_is_exact_one_tick_less_is_too_little(name: str) -> None:
    assert check(bounds=TIGHT[name]).broken is not None


@pytest.mark.parametrize("law", sorted(set(Drop) - SLOW))
def test_each_law_is_needed(law: Drop) -> None:
    found = without(law)
    assert found.broken is not None
    assert len(found.way) >= 9


def test_a_timeout_that_is_taken_for_a_failure_is_followed_by_its_effect() -> None:
    found = check(frozenset({Drop.DOUBT}), promises=frozenset({Promise.NO_ORPHAN}))
    assert found.broken is Promise.NO_ORPHAN
    assert found.way[-1].endswith("takes effect")


def test_where_neither_pause_nor_patience_is_bounded_nothing_is_ever_conclusive() -> None:
    with pytest.raises(ValueError, match="a person decides"):
        Bounds(pause=None).quiescence(frozenset())


def test_a_search_that_grows_beyond_its_limit_says_so() -> None:
    with pytest.raises(MemoryError, match="more than 500"):
        check(bounds=PATIENT, states_max=500)
