"""The management API of Healthchecks, version 3, as far as checks are made and listed.

`unique` looks for a check with the same values and updates it; without it every request makes another one. A parameter
that the server does not know is ignored, and one of another type is refused.
"""

from __future__ import annotations

import json
import uuid
from typing import Final

from adapters.sandbox.rest import Circumstances
from adapters.sandbox.state import SandboxState
from adapters.sandbox.wire import Request, Response
from capabilities.strict_json import JsonValue

PREFIX: Final = "/healthchecks/"
PATH: Final = "/healthchecks/api/v3/checks/"
API_KEY: Final = "sandbox-healthchecks"
CHECKS_MAX: Final = 1000
NAME_CHARS_MAX: Final = 100
_TEXTS: Final = ("name", "slug", "tags", "desc")
_UNIQUE: Final = frozenset({"name", "slug", "tags"})

Fields = dict[str, JsonValue]


class Api:
    """One project's checks."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def answer(self, request: Request, at: Circumstances) -> Response:
        """One request."""
        if request.path != PATH:
            return Response(status=404, body=b"")
        if request.headers.get("x-api-key") != API_KEY:
            return _json(401, {"error": "wrong api key"})
        if request.method == "GET":
            wanted = request.query.get("slug")
            rows = [row for row in self._state.monitors() if wanted is None or row["slug"] == wanted]
            return _json(200, {"checks": list(rows)})
        if request.method != "POST":
            return Response(status=405, body=b"")
        fields = _fields(request.body)
        if isinstance(fields, str):
            return _json(400, {"error": fields})
        return self._put(fields)

    def _put(self, fields: Fields) -> Response:
        unique = fields.get("unique")
        names = [name for name in unique if isinstance(name, str)] if isinstance(unique, list) else []
        before = next((row for row in self._state.monitors() if _same(row, fields, names)), None) if names else None
        if before is None and len(self._state.monitors()) >= CHECKS_MAX:
            return Response(status=403, body=b"")
        blank: Fields = {"uuid": str(uuid.uuid4()), "status": "new", "name": "", "slug": "", "tags": "", "desc": ""}
        given: Fields = {name: fields[name] for name in _TEXTS if name in fields}
        stored: Fields = {**(before or blank), **given}
        with self._state.transaction():
            self._state.put_monitor(str(stored["uuid"]), stored)
        shown = {**stored, "ping_url": f"http://127.0.0.1/ping/{stored['uuid']}"}
        return _json(201 if before is None else 200, shown)


def _same(row: Fields, fields: Fields, names: list[str]) -> bool:
    return all(row.get(name) == fields.get(name) for name in names)


def _fields(body: bytes) -> Fields | str:
    """The fields of a request, or what the service says is wrong with them."""
    try:
        fields = json.loads(body)
    except ValueError:
        return "could not parse request body"
    if not isinstance(fields, dict):
        return "json validation error: value is not an object"
    for name in _TEXTS:
        if name in fields and not isinstance(fields[name], str):
            return f"json validation error: {name} is not a string"
    if len(str(fields.get("name", ""))) > NAME_CHARS_MAX:
        return "json validation error: name is too long"
    unique = fields.get("unique", [])
    if not isinstance(unique, list) or not set(map(str, unique)) <= _UNIQUE:
        return "json validation error: unique has an unexpected value"
    return fields


def _json(status: int, value: Fields) -> Response:
    return Response(status=status, body=json.dumps(value).encode())
