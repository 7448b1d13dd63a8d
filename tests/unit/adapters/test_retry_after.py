"""Retry-After: seconds or a date, and nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.answers import limit_over_s, retry_after_s

NOW = "Mon, 30 Nov 2026 16:00:00 GMT"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("99999", 99_999.0),
        ("Mon, 30 Nov 2026 16:01:30 GMT", 90.0),
        (None, None),
        ("", None),
        ("0", None),
        ("-5", None),
        ("NaN", None),
        ("Infinity", None),
        ("1e9", None),
        ("9" * 400, None),
        ("soon", None),
        ("Mon, 30 Nov 2026 15:00:00 GMT", None),
        ("Mon, 30 Nov 2026 16:01:30", None),
        ("Mon, 99 Nov 99999 16:01:30 GMT", None),
    ],
)
def test_only_a_usable_wait_is_taken_from_the_header(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOW) == seconds


def test_a_date_means_nothing_without_the_date_of_the_answer() -> None:
    assert retry_after_s("Mon, 30 Nov 2026 16:01:30 GMT", None) is None


@given(st.text(max_size=60), st.none() | st.text(max_size=40))
def test_no_header_makes_it_fail_or_answer_something_unusable(value: str, date: str | None) -> None:
    seconds = retry_after_s(value, date)
    assert seconds is None or (math.isfinite(seconds) and seconds > 0)


@pytest.mark.parametrize(
    ("remaining", "reset", "seconds"),
    [
        ("0", "1796053800", 1_740.0),
        (" 0 ", " 1796053800 ", 1_740.0),
        ("1", "1796053800", None),
        (None, "1796053800", None),
        ("0", None, None),
        ("0", "1796050000", None),
        ("0", "60", None),
        ("0", "1.8e9", None),
        ("0", "99999999999", None),
        ("0", "soon", None),
    ],
)
def test_a_used_up_limit_begins_anew_at_the_named_time_if_that_is_near(
    remaining: str | None, reset: str | None, seconds: float | None
) -> None:
    assert limit_over_s(remaining, reset, "Mon, 30 Nov 2026 15:21:00 GMT") == seconds


def test_the_time_of_a_limit_means_nothing_without_the_date_of_the_answer() -> None:
    assert limit_over_s("0", "1796053800", None) is None
