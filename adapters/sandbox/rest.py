"""What the REST controllers of the stand-in share: fields of a request, bodies of an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

from adapters.sandbox.accounts import RestError
from adapters.sandbox.wire import Request, Response
from capabilities.strict_json import JsonValue

API: Final = "/wp-json/wp/v2"
TRASHED: Final = "__trashed"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a fault does to one request: the age of what it reads, whether the slug gets a suffix, whether it is
    answered as done and not done, and whether the site's process ends right after it wrote the row."""

    stale_s: float = 0.0
    rename: bool = False
    ignore: bool = False
    dies: bool = False

    def as_of(self, now: float) -> float | None:
        """The time of the state that a read answers; None: as it is."""
        return now - self.stale_s if self.stale_s else None


def no_route() -> RestError:
    """There is no such endpoint."""
    return RestError(404, "rest_no_route", "No route was found matching the URL and request method.")


def invalid_id() -> RestError:
    """There is no such object."""
    return RestError(404, "rest_post_invalid_id", "Invalid post ID.")


def invalid(name: str) -> RestError:
    """A parameter has not the form that it must have."""
    return RestError(400, "rest_invalid_param", f"Invalid parameter(s): {name}")


def died() -> Response:
    """What a client gets of a PHP process that exits: 200 and nothing."""
    return Response(status=200, body=b"", headers={"Content-Type": "text/html; charset=UTF-8"})


def page_of(rows: Sequence[T], request: Request) -> Sequence[T]:
    """The rows that one answer shows."""
    start = int(request.query.get("offset", "0"))
    return rows[start : start + int(request.query.get("per_page", "10"))]


def fields_of(request: Request) -> dict[str, JsonValue]:
    """The JSON object of a body."""
    if not request.body:
        return {}
    try:
        fields = json.loads(request.body)
    except ValueError:
        raise RestError(400, "rest_invalid_json", "Invalid JSON body passed.") from None
    return fields if isinstance(fields, dict) else {}


def text_of(fields: Mapping[str, JsonValue], name: str, before: str) -> str:
    """A text, plain or as {raw}."""
    value = fields.get(name, before)
    value = value.get("raw") if isinstance(value, dict) else value
    if not isinstance(value, str):
        raise invalid(name)
    return value


def date_of(fields: Mapping[str, JsonValue], before: int | None) -> int | None:
    """Unix seconds."""
    given = fields.get("date_gmt", fields.get("date"))
    if not isinstance(given, str):
        return before
    try:
        return int(datetime.fromisoformat(given).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise invalid("date") from None


def iso(seconds: int) -> str:
    """As WordPress writes times."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def answer_json(status: int, value: JsonValue, headers: Mapping[str, str] | None = None) -> Response:
    """A whole JSON answer."""
    return Response(status=status, body=json.dumps(value).encode(), headers=headers or {})
