"""What an HTTP system answered, and how it is read: bounded, strict, without a clock."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeAlias

from capabilities.strict_json import JsonValue, StrictJsonError, loads
from execution.core.failures import Answer, FailureClass, Lost, Refused

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
JSON_DEPTH_MAX: Final = 32
JSON_VALUES_MAX: Final = 250_000
"""A page of a hundred posts with what plugins add to each holds a fifth of these."""
DAY_S: Final = 86_400.0
_UNIX_TIME: Final = re.compile(r"\d{9,11}")
_DELTA_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,6})?")

JsonObject: TypeAlias = dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete answer. `retry_after_s` is what the system asked for, None when it asked for nothing usable.

    headers: by lower-case name; repeated ones are joined with commas. last: the system ends the connection after it.
    """

    status: int
    body: bytes
    retry_after_s: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)
    last: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoReply:
    """No complete answer. `sent` is false only when provably no byte of the request left."""

    code: str
    sent: bool = True


class Unreadable(ValueError):
    """The body is not what the system documents. Carries no text of it."""


def undocumented(reply: Reply) -> Answer:
    """What an answer proves that the system's adapter does not know: 429 is a refusal everywhere, all else is doubt."""
    if reply.status == 429:
        return Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=reply.retry_after_s)
    return Lost(code=f"http_{reply.status}")


def parse(body: bytes) -> JsonValue:
    """Strict JSON; raises Unreadable."""
    try:
        return loads(
            body, bytes_max=BODY_BYTES_MAX, depth_max=JSON_DEPTH_MAX, values_max=JSON_VALUES_MAX, allow_floats=True
        )
    except StrictJsonError:
        raise Unreadable from None


def parse_object(body: bytes) -> JsonObject:
    """A JSON object; raises Unreadable."""
    value = parse(body)
    if not isinstance(value, dict):
        raise Unreadable
    return value


def text(source: JsonObject, *path: str) -> str:
    """The string at that path; raises Unreadable."""
    value: JsonValue = source
    for name in path:
        if not isinstance(value, dict):
            raise Unreadable
        value = value.get(name)
    if not isinstance(value, str):
        raise Unreadable
    return value


def integer(source: JsonObject, name: str) -> int:
    """The integer of that name; raises Unreadable."""
    value = source.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unreadable
    return value


def retry_after_s(value: str | None, date: str | None) -> float | None:
    """Seconds from a Retry-After header (RFC 9110 §10.2.3: seconds or a date).

    A date is measured against the answer's own Date header, so that no clock of ours is involved. Missing, NaN,
    infinite, past and malformed values are None; an absurdly long wait is cut by the retry arithmetic, not here.
    """
    if value is None:
        return None
    value = value.strip()
    if _DELTA_SECONDS.fullmatch(value):
        seconds = float(value)
    else:
        until, now = http_date(value), http_date(date)
        if until is None or now is None:
            return None
        seconds = (until - now).total_seconds()
    return seconds if math.isfinite(seconds) and seconds > 0 else None


def limit_over_s(remaining: str | None, reset: str | None, date: str | None) -> float | None:
    """Seconds until a limit that is used up begins anew: X-RateLimit-Remaining is 0, X-RateLimit-Reset a Unix time.

    Measured against the answer's own Date header. None unless that lies ahead, by a day at most.
    """
    now = http_date(date)
    if remaining is None or remaining.strip() != "0" or reset is None or now is None:
        return None
    if not _UNIX_TIME.fullmatch(reset.strip()):
        return None
    seconds = float(reset) - now.timestamp()
    return seconds if 0 < seconds <= DAY_S else None


def http_date(value: str | None) -> datetime | None:
    """The moment in a Date header (RFC 9110 §5.6.7); None when it is missing or malformed."""
    if value is None:
        return None
    try:
        parsed = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return parsed if parsed.tzinfo is not None else None
