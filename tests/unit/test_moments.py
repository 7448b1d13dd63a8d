"""What people write as a time is one instant, or is refused with what would be one."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.moments import NotAMoment, instant, shown_in, zone_named

BERLIN = "[Europe/Berlin]"
BETWEEN = tuple(datetime(year, 1, 1, tzinfo=UTC).replace(tzinfo=None) for year in (1990, 2035))


def refused(text: str) -> NotAMoment:
    with pytest.raises(NotAMoment) as caught:
        instant(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2027-06-01T09:00:00Z", "2027-06-01T09:00:00"),
        ("2027-06-01T09:00:00+05:45", "2027-06-01T03:15:00"),
        ("2027-06-01T09:00:00" + BERLIN, "2027-06-01T07:00:00"),
        ("2027-12-01T09:00:00" + BERLIN, "2027-12-01T08:00:00"),
        ("2027-06-01T09:00:00[Asia/Kathmandu]", "2027-06-01T03:15:00"),
        ("2027-06-01T09:00:00Z" + BERLIN, "2027-06-01T09:00:00"),
        ("2027-03-28T01:59:59" + BERLIN, "2027-03-28T00:59:59"),
        ("2027-03-28T03:00:00" + BERLIN, "2027-03-28T01:00:00"),
        ("2027-10-31T02:30:00+02:00" + BERLIN, "2027-10-31T00:30:00"),
        ("2027-10-31T02:30:00+01:00" + BERLIN, "2027-10-31T01:30:00"),
    ],
)
def test_a_time_with_its_offset_or_zone_is_an_instant(text: str, utc: str) -> None:
    assert instant(text) == datetime.fromisoformat(utc).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "last", "first"),
    [
        ("2027-03-28T02:30:00" + BERLIN, "2027-03-28T01:59:59+01:00" + BERLIN, "2027-03-28T03:00:00+02:00" + BERLIN),
        ("2027-03-28T02:00:00" + BERLIN, "2027-03-28T01:59:59+01:00" + BERLIN, "2027-03-28T03:00:00+02:00" + BERLIN),
        (
            "2011-12-30T12:00:00[Pacific/Apia]",
            "2011-12-29T23:59:59-10:00[Pacific/Apia]",
            "2011-12-31T00:00:00+14:00[Pacific/Apia]",
        ),
    ],
)
def test_a_time_that_the_clocks_jump_over_is_refused_with_the_two_nearest(text: str, last: str, first: str) -> None:
    error = refused(text)
    assert error.code == "time_does_not_exist"
    assert f"{last} and {first}" in str(error)
    assert instant(first) - instant(last) == timedelta(seconds=1)


def test_a_time_that_comes_twice_is_refused_with_both_spellings() -> None:
    error = refused("2027-10-31T02:30:00" + BERLIN)
    assert error.code == "time_is_ambiguous"
    assert "2027-10-31T02:30:00+02:00[Europe/Berlin] or 2027-10-31T02:30:00+01:00[Europe/Berlin]" in str(error)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("2027-06-01T09:00:00", "not_a_time"),
        ("tomorrow", "not_a_time"),
        ("2027-06-01T09:00:00[", "not_a_time"),
        ("[Europe/Berlin]", "not_a_time"),
        ("0001-01-01T00:00:00[Asia/Kathmandu]", "not_a_time"),
        ("2027-06-01T09:00:00" + " " * 80 + BERLIN, "not_a_time"),
        ("2027-06-01T09:00:00[Europe/Atlantis]", "unknown_zone"),
        ("2027-06-01T09:00:00[Europe]", "unknown_zone"),
        ("2027-06-01T09:00:00[localtime]", "unknown_zone"),
        ("2027-06-01T09:00:00[../../etc/passwd]", "unknown_zone"),
        ("2027-10-31T02:30:00+03:00" + BERLIN, "offset_differs"),
        ("2027-06-01T09:00:00+01:00" + BERLIN, "offset_differs"),
        ("2027-03-28T02:30:00+01:00" + BERLIN, "time_does_not_exist"),
    ],
)
def test_what_is_no_instant_is_refused_with_its_code(text: str, code: str) -> None:
    assert refused(text).code == code


@given(
    st.datetimes(*BETWEEN, timezones=st.just(UTC)),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"]),
)
def test_what_is_shown_is_read_back_as_the_same_instant(moment: datetime, name: str) -> None:
    assert instant(shown_in(moment, zone_named(name))) == moment


@given(
    st.datetimes(*BETWEEN),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]),
)
def test_a_local_time_is_exactly_one_instant_or_refused(clock: datetime, name: str) -> None:
    try:
        found = instant(f"{clock.isoformat()}[{name}]")
    except NotAMoment as error:
        assert error.code in ("time_does_not_exist", "time_is_ambiguous")  # noqa: PT017 (either is right)
        return
    assert found.astimezone(ZoneInfo(name)).replace(tzinfo=None, fold=0) == clock
