"""Retry arithmetic: never earlier than asked, never later than the bounds, whatever stood in Retry-After."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.core.retry import RETRY_AFTER_MAX_S, RetryPolicy, bounded_retry_after_s

POLICY = st.builds(
    RetryPolicy,
    attempts_max=st.integers(1, 1000),
    base_s=st.floats(0.001, 60),
    cap_s=st.floats(60, 3600),
)
JITTER = st.floats(0, 1, exclude_max=True)
ANY_NUMBER = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@given(POLICY, st.integers(-5, 10**6), JITTER, ANY_NUMBER)
def test_a_delay_is_finite_and_within_its_bounds(
    policy: RetryPolicy, made: int, jitter: float, asked: float | None
) -> None:
    delay = policy.delay_s(made, jitter, asked)
    assert math.isfinite(delay)
    assert 0 <= delay <= max(policy.cap_s, RETRY_AFTER_MAX_S)


@given(POLICY, st.integers(1, 100), JITTER, st.floats(0, RETRY_AFTER_MAX_S))
def test_a_retry_is_never_earlier_than_asked(policy: RetryPolicy, made: int, jitter: float, asked: float) -> None:
    assert policy.delay_s(made, jitter, asked) >= asked


@given(POLICY, st.integers(1, 100))
def test_backoff_doubles_until_its_cap_and_jitter_takes_all_of_it(policy: RetryPolicy, made: int) -> None:
    longest = policy.delay_s(made, math.nextafter(1, 0))
    assert longest == pytest.approx(min(policy.base_s * 2.0 ** min(made - 1, 32), policy.cap_s))
    assert policy.delay_s(made, 0.0) == 0.0


@given(POLICY, st.integers(1, 60), JITTER)
def test_later_retries_never_wait_less_under_the_same_jitter(policy: RetryPolicy, made: int, jitter: float) -> None:
    assert policy.delay_s(made + 1, jitter) >= policy.delay_s(made, jitter)


@pytest.mark.parametrize(
    ("asked", "bounded"),
    [
        (None, 0.0),
        (math.nan, 0.0),
        (-math.inf, 0.0),
        (-3.0, 0.0),
        (0.0, 0.0),
        (7.5, 7.5),
        (99_999.0, RETRY_AFTER_MAX_S),
        (math.inf, RETRY_AFTER_MAX_S),
    ],
)
def test_whatever_stood_in_retry_after_becomes_a_usable_number(asked: float | None, bounded: float) -> None:
    assert bounded_retry_after_s(asked) == bounded


@given(POLICY, st.integers(0, 2000))
def test_a_budget_counts_all_attempts_the_first_included(policy: RetryPolicy, made: int) -> None:
    assert policy.allows(made) == (made < policy.attempts_max)


def test_three_attempts_one_second_and_a_minute_are_the_default() -> None:
    policy = RetryPolicy()
    assert (policy.attempts_max, policy.base_s, policy.cap_s) == (3, 1.0, 60.0)
    assert [policy.allows(made) for made in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts_max": 0},
        {"attempts_max": 1001},
        {"base_s": 0.0},
        {"base_s": 61.0},
        {"cap_s": 3601.0},
        {"base_s": math.nan},
        {"cap_s": math.nan},
    ],
)
def test_a_policy_out_of_range_cannot_be_made(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="out of range"):
        RetryPolicy(**wrong)  # type: ignore[arg-type]  # attempts_max is a whole number in both cases
