"""Healthchecks, by its management API version 3: the port `Monitoring`.

A check is created or updated by its slug, which is our key: `unique: ["slug"]`. The service looks and then writes, so
that two requests at once can leave two checks; they are counted whenever it is asked. Its filters cannot be relied on
(a server that does not know a parameter ignores it): every row is looked at here.

    201, 200 with our slug                   Landed
    401 with an error                        the key is wrong: refused for good
    400 with an error                        the request is: refused for good
    403 with an empty body                   the account may have no more checks: refused for good
    429                                      refused for now
    anything else                            Lost, and harmless: the same check is registered again
"""

from __future__ import annotations

import json
import re
from typing import Final

from adapters.answers import JsonObject, NoReply, Reply, Unreadable, parse_object, text, undocumented
from adapters.http import CONNECT_S, READ_S, HttpSystem
from execution.core.definition import Prepared
from execution.core.failures import (
    Absent,
    Answer,
    CannotTell,
    FailureClass,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Sighting,
    Unprepared,
)
from execution.core.quiescence import Bounds
from execution.ports import Check, Severity, Symptom

PATH: Final = "/api/v3/checks/"
NAME_CHARS_MAX: Final = 100
TAGS_CHARS_MAX: Final = 500
_SLUG: Final = re.compile(r"[a-z0-9_-]{1,100}")
_TAG: Final = re.compile(r"\S{1,100}")
_KEY: Final = "Make a read-write API key in the project's settings, and put it into the file."
_COMPARED: Final = ("name", "tags", "desc")


class Healthchecks:
    """See the module. `url` is the service's address, `api_key` a project's read-write key."""

    system: Final = "monitoring"

    def __init__(
        self,
        url: str,
        api_key: str,
        bounds: Bounds,
        *,
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        ca_file: str | None = None,
    ) -> None:
        self._system = HttpSystem(
            url, bounds=bounds, headers={"X-Api-Key": api_key}, connect_s=connect_s, read_s=read_s, ca_file=ca_file
        )

    @property
    def bounds(self) -> Bounds:
        return self._system.bounds

    async def probe(self) -> tuple[Symptom, ...]:
        """Whether the key opens the project. Whether it may write shows only in a write."""
        reply = await self._system.get(PATH, {"slug": "remit"})
        code = reply.code if isinstance(reply, NoReply) else _fault(reply)
        if code is None:
            return (Symptom(code="service_ready", detail="the key opens the project's checks"),)
        fix = (
            _KEY
            if code == "not_authorised"
            else "Look at url in [monitoring], and whether it can be reached from here."
        )
        return (Symptom(code=code, severity=Severity.PROBLEM, fix=fix),)

    async def aclose(self) -> None:
        """Close the kept connections."""
        await self._system.aclose()

    def register(self, check: Check) -> Prepared:
        """Raises Unprepared for what could be no check."""
        body = json.dumps({**wanted(check), "unique": ["slug"]}, separators=(",", ":")).encode()
        return self._system.write("POST", PATH, body, judge=lambda reply: judge(reply, check.key))

    async def observe(self, check: Check) -> Sighting:
        reply = await self._system.get(PATH, {"slug": check.key})
        if isinstance(reply, NoReply):
            return CannotTell(code=reply.code)
        if code := _fault(reply):
            return CannotTell(code=code, retry_after_s=reply.retry_after_s)
        try:
            rows = _rows(reply, check.key)
            return _sighting(rows, wanted(check))
        except Unreadable:
            return CannotTell(code="unreadable_answer")


def wanted(check: Check) -> JsonObject:
    """The check as the service is to store it. Raises Unprepared."""
    tags = " ".join(check.tags)
    if not _SLUG.fullmatch(check.key) or not all(_TAG.fullmatch(tag) for tag in check.tags) or not check.url:
        raise Unprepared(FailureClass.PERMANENT, "malformed_check")
    if len(tags) > TAGS_CHARS_MAX:
        raise Unprepared(FailureClass.PERMANENT, "too_many_tags")
    return {
        "slug": check.key,
        "name": check.name[:NAME_CHARS_MAX],
        "tags": tags,
        "desc": f"{check.url}\n{check.article_id}, version {check.version}, on {check.site}",
    }


def judge(reply: Reply, key: str) -> Answer:
    """What the answer to a registration proves."""
    match reply.status:
        case 200 | 201:
            stored = parse_object(reply.body)
            if text(stored, "slug") != key:
                return Lost(code="another_check")
            return Landed(receipt=_receipt(stored))
        case 403 if not reply.body:
            return Refused(failure=FailureClass.PERMANENT, code="no_more_checks")
        case 400 | 401 if _says_error(reply):
            code = "not_authenticated" if reply.status == 401 else "check_refused"
            return Refused(failure=FailureClass.PERMANENT, code=code)
        case _:
            return undocumented(reply)


def _fault(reply: Reply) -> str | None:
    """What keeps an answer from being a list of checks, by its status."""
    if reply.status == 200:
        return None
    return "not_authorised" if reply.status in (401, 403) else f"http_{reply.status}"


def _says_error(reply: Reply) -> bool:
    try:
        return isinstance(parse_object(reply.body).get("error"), str)
    except Unreadable:
        return False


def _rows(reply: Reply, key: str) -> list[JsonObject]:
    found = parse_object(reply.body).get("checks")
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise Unreadable
    return [row for row in found if isinstance(row, dict) and row.get("slug") == key]


def _sighting(rows: list[JsonObject], asked: JsonObject) -> Sighting:
    if not rows:
        return Absent()
    same = [row for row in rows if all(row.get(name) == asked[name] for name in _COMPARED)]
    if not same:
        return Absent(receipt=_receipt(rows[0]))
    return Present(receipt=_receipt(same[0]), rows=len(rows))


def _receipt(stored: JsonObject) -> Receipt:
    """Without the ping address: whoever knows it may ping."""
    name = stored.get("uuid", stored.get("unique_key"))
    if not isinstance(name, str) or not name:
        raise Unreadable
    return Receipt(resource_id=name, data={"slug": text(stored, "slug")})
