"""The inequality: after how long nothing of ours can land any more, and when a person must decide instead."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from execution.core.quiescence import Bounds, Doubt, remaining_s

SECONDS = st.floats(0, 3600)
BOUNDS = st.builds(
    Bounds,
    max_run_s=SECONDS,
    max_run_source=st.just("request_terminate_timeout"),
    incomplete_s=st.none() | SECONDS,
    incomplete_source=st.just("client_header_timeout"),
    transit_s=SECONDS,
    pause_s=SECONDS,
    stale_s=SECONDS,
    clock_s=SECONDS,
    budget_s=SECONDS,
)
DOUBT = st.builds(
    Doubt,
    fenced_ms=st.integers(0, 10**7),
    q_s=st.floats(0, 10**5),
    seen_awake_s=st.floats(0, 10**5),
)
TERMS = ("max_run_s", "incomplete_s", "transit_s", "pause_s", "stale_s", "clock_s", "budget_s")


@given(BOUNDS)
def test_q_is_the_larger_of_both_formulas_when_h_is_known(b: Bounds) -> None:
    assume(b.incomplete_s is not None)
    assert b.max_run_s is not None
    assert b.incomplete_s is not None
    by_transit = b.budget_s + b.pause_s + b.transit_s + b.max_run_s + b.clock_s + b.stale_s
    by_incomplete = b.incomplete_s + b.max_run_s + b.stale_s + b.clock_s
    assert b.quiescent_after_s() == pytest.approx(max(by_transit, by_incomplete))


@given(BOUNDS)
def test_q_rests_on_transit_alone_when_h_is_unknown(b: Bounds) -> None:
    assert b.max_run_s is not None
    q = replace(b, incomplete_s=None).quiescent_after_s()
    assert q == pytest.approx(b.budget_s + b.pause_s + b.transit_s + b.max_run_s + b.clock_s + b.stale_s)


@given(BOUNDS)
def test_without_a_maximum_run_time_there_is_no_q(b: Bounds) -> None:
    unknown = replace(b, max_run_s=None)
    assert unknown.quiescent_after_s() is None
    assert unknown.terms()["Q"] is None


@given(BOUNDS, st.sampled_from(TERMS), SECONDS)
def test_q_never_shrinks_when_a_term_grows(b: Bounds, term: str, more: float) -> None:
    before = getattr(b, term)
    assume(before is not None)
    q, grown = b.quiescent_after_s(), replace(b, **{term: before + more}).quiescent_after_s()
    assert q is not None
    assert grown is not None
    assert grown >= q


@given(BOUNDS, SECONDS)
def test_every_term_but_h_lengthens_q_by_all_of_itself_when_h_is_unknown(b: Bounds, more: float) -> None:
    without = replace(b, incomplete_s=None)
    q = without.quiescent_after_s()
    assert q is not None
    for term in TERMS:
        if term != "incomplete_s":
            grown = replace(without, **{term: getattr(b, term) + more}).quiescent_after_s()
            assert grown == pytest.approx(q + more)


def test_a_measured_server_behind_defaults_has_the_q_of_the_formula() -> None:
    bounds = Bounds(max_run_s=5, max_run_source="fpm", incomplete_s=3, incomplete_source="nginx", transit_s=1)
    assert bounds.quiescent_after_s() == 2 + 2 + 1 + 5 + 2 + 5
    assert replace(bounds, incomplete_s=100.0).quiescent_after_s() == 100 + 5 + 5 + 2


def test_the_record_of_an_attempt_holds_every_term() -> None:
    terms = Bounds(max_run_s=5, max_run_source="fpm").terms()
    assert {name: terms[name] for name in "BPDMHSJQ"} == {
        "B": 2.0, "P": 2.0, "D": 60.0, "M": 5, "H": None, "S": 5.0, "J": 2.0, "Q": 76.0,
    }  # fmt: skip
    assert (terms["M_source"], terms["H_source"]) == ("fpm", "")


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("value", [-1.0, 86_401.0, math.nan, math.inf])
def test_a_bound_is_a_number_of_seconds_within_a_day(term: str, value: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 86400"):
        Bounds(**{term: value})  # type: ignore[arg-type]  # every term is a number of seconds


@pytest.mark.parametrize("term", ["max_run_s", "incomplete_s"])
def test_a_limit_without_its_source_is_no_limit(term: str) -> None:
    with pytest.raises(ValueError, match="needs its source"):
        Bounds(**{term: 5.0})  # type: ignore[arg-type]  # both terms are seconds


def test_there_is_nothing_to_wait_for_without_doubts() -> None:
    assert remaining_s((), now_ms=0) == 0.0


@given(st.lists(DOUBT, max_size=4), st.integers(0, 10**8))
def test_one_doubt_that_never_ends_by_itself_is_for_a_person(doubts: list[Doubt], now: int) -> None:
    assert remaining_s([*doubts, Doubt(fenced_ms=0, q_s=None, seen_awake_s=1e9)], now) is None
    assert remaining_s(doubts, now) is not None


@given(st.lists(DOUBT, min_size=1, max_size=4), st.integers(0, 10**8))
def test_every_doubt_is_waited_for_by_both_clocks(doubts: list[Doubt], now: int) -> None:
    left = remaining_s(doubts, now)
    assert left is not None
    assert left >= 0
    for doubt in doubts:
        assert doubt.q_s is not None
        assert left >= doubt.q_s - doubt.seen_awake_s - 1e-6
        assert left >= doubt.q_s - (now - doubt.fenced_ms) / 1000 - 1e-6


@pytest.mark.parametrize(
    ("now_ms", "awake_s", "left"),
    [
        (0, 0.0, 10.0),
        (4_000, 4.0, 6.0),
        (3_600_000, 4.0, 6.0),  # the store's clock stepped forward
        (4_000, 3_600.0, 6.0),  # the observer has long been awake, the store's clock has not moved
        (-3_600_000, 20.0, 3_610.0),  # the store's clock stepped back
        (10_000, 10.0, 0.0),
    ],
)
def test_a_step_of_one_clock_does_not_end_the_wait(now_ms: int, awake_s: float, left: float) -> None:
    assert remaining_s((Doubt(fenced_ms=0, q_s=10.0, seen_awake_s=awake_s),), now_ms) == left
