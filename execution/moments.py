"""Times that people write, as instants. Pure, but for the rules of time zones.

A naive time would mean another instant on every site, so a time needs its offset from UTC or its zone, in the form of
RFC 9557: `2027-03-28T09:00:00+02:00`, `2027-03-28T09:00:00[Europe/Berlin]`, or both. What a zone's clock never shows is
refused and the nearest times that it does show are named; what it shows twice is refused unless the offset says which
of the two is meant; an offset that the zone does not have then is refused. Nothing is ever guessed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

TEXT_CHARS_MAX: Final = 80
_FORM: Final = re.compile(r"(?P<moment>[^\[\]]+)(?:\[(?P<zone>[^\[\]]+)\])?")
_ZONE: Final = re.compile(r"UTC|[A-Za-z_]+(?:/[A-Za-z0-9_+-]+){1,2}")
_SECOND: Final = timedelta(seconds=1)


class NotAMoment(ValueError):
    """The text names no instant, or more than one. `code` is stable; the message says what would be one.

    Codes: not_a_time, unknown_zone, time_does_not_exist, time_is_ambiguous, offset_differs.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def spelt(at_ms: int) -> str:
    """Unix milliseconds as RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).isoformat().replace("+00:00", "Z")


def zone_named(name: str) -> ZoneInfo:
    """The time zone with that name of the IANA database (Europe/Berlin, UTC). Raises NotAMoment."""
    try:
        if not _ZONE.fullmatch(name):
            raise ValueError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise NotAMoment("unknown_zone", "there is no such time zone; use a name like Europe/Berlin") from None


def instant(text: str) -> datetime:
    """The instant in UTC. Raises NotAMoment."""
    form = _FORM.fullmatch(text)
    try:
        moment = datetime.fromisoformat(form["moment"]) if form and len(text) <= TEXT_CHARS_MAX else None
    except ValueError:
        moment = None
    if form is None or moment is None:
        raise NotAMoment("not_a_time", "not an ISO 8601 time")
    try:
        if form["zone"]:
            return _in_zone(moment, zone_named(form["zone"]), is_utc=form["moment"].endswith(("Z", "z")))
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except OverflowError:
        raise NotAMoment("not_a_time", "not a time of this calendar") from None
    example = "2026-12-01T09:00:00Z or 2026-12-01T09:00:00[Europe/Berlin]"
    raise NotAMoment("not_a_time", f"a time needs its offset from UTC or its zone, for example {example}")


def shown_in(moment: datetime, zone: ZoneInfo) -> str:
    """The instant as that zone's clock shows it, with offset and zone."""
    return f"{moment.astimezone(zone).isoformat()}[{zone.key}]"


def age(seconds: float) -> str:
    """How long, in the largest unit that says something."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _in_zone(moment: datetime, zone: ZoneInfo, *, is_utc: bool) -> datetime:
    if is_utc:
        return moment.astimezone(UTC)
    clock = moment.replace(tzinfo=None)
    readings = [clock.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    real = {reading.astimezone(UTC) for reading in readings if _shows(zone, reading.astimezone(UTC), clock)}
    if not real:
        last, first = _around_gap(zone, clock)
        message = f"the clocks there never show that time; nearest are {last} and {first}"
        raise NotAMoment("time_does_not_exist", message)
    if moment.tzinfo is not None:
        meant = moment.astimezone(UTC)
        if meant not in real:
            raise NotAMoment("offset_differs", "the zone has another offset from UTC at that time")
        return meant
    if len(real) > 1:
        first, second = (shown_in(one, zone) for one in sorted(real))
        message = f"the clocks there show that time twice; write {first} or {second}"
        raise NotAMoment("time_is_ambiguous", message)
    return real.pop()


def _shows(zone: ZoneInfo, moment: datetime, clock: datetime) -> bool:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0) == clock.replace(fold=0)


def _around_gap(zone: ZoneInfo, clock: datetime) -> tuple[str, str]:
    """The last second before the clocks jump over that time and the first after it."""
    early = clock.replace(tzinfo=zone, fold=1).astimezone(UTC)
    late = clock.replace(tzinfo=zone, fold=0).astimezone(UTC)
    before = early.astimezone(zone).utcoffset()
    while late - early > _SECOND:
        middle = early + (late - early) // _SECOND // 2 * _SECOND
        if middle.astimezone(zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    first = late.replace(microsecond=0)
    return shown_in(first - _SECOND, zone), shown_in(first, zone)
