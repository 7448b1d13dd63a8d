"""Retry-After: seconds or a date, and nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.answers import retry_after_s

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
