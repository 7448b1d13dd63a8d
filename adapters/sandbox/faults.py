"""Fault switches: what goes wrong with which request, how often.

`PUT /__faults` arms one:

    {"match": "POST /wp-json/wp/v2/posts", "kind": "drop_after", "times": 1}

match: method and a prefix of the path; for mail `SMTP MAIL`, `SMTP RCPT someone@example.test`, `SMTP DATA`.
times: how often (0: until cleared). Further members by kind: seconds, status, headers, body, signal.

before anything is processed
    drop_before, reset_before   the connection ends
    status_before               the front answers `status`, `headers`, `body` by itself
    hang                        no answer, ever
while it is processed
    late_commit                 processed `seconds` later, whether or not the client still waits (killed at M)
    stale                       a read answers the state of `seconds` ago
    rename                      the slug silently gets a suffix
    ignore                      a purge is answered as accepted, and nothing is removed
    die                         the site's process ends right after it wrote the row; the answer is 200 and empty
    replay                      the front sends the request twice; the client sees the first answer
after it was processed
    drop_after, reset_after     the connection ends without a byte of the answer
    status_after                the answer is replaced by `status`, `headers`, `body`
    delay                       the answer comes `seconds` later
    hang_after                  no answer, ever
    stall                       half of the body, then silence
    truncate                    half of the body, then the end
    endless                     a body without end
    pause_after_commit          no answer until the faults are cleared; the file `signal` is created meanwhile
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from capabilities.strict_json import JsonValue, loads

LOG_MAX: Final = 1000
WAIT_MAX_S: Final = 60.0
SECONDS_MAX: Final = 3600.0


class FaultKind(StrEnum):
    """See the module."""

    DROP_BEFORE = "drop_before"
    RESET_BEFORE = "reset_before"
    STATUS_BEFORE = "status_before"
    HANG = "hang"
    LATE_COMMIT = "late_commit"
    STALE = "stale"
    RENAME = "rename"
    IGNORE = "ignore"
    DIE = "die"
    REPLAY = "replay"
    DROP_AFTER = "drop_after"
    RESET_AFTER = "reset_after"
    STATUS_AFTER = "status_after"
    DELAY = "delay"
    HANG_AFTER = "hang_after"
    STALL = "stall"
    TRUNCATE = "truncate"
    ENDLESS = "endless"
    PAUSE_AFTER_COMMIT = "pause_after_commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One armed fault. `left` counts down; 0 means until cleared."""

    match: str
    kind: FaultKind
    left: int = 1
    seconds: float = 1.0
    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    signal: str = ""


class MalformedFault(ValueError):
    """The control request names no fault of ours."""


def parse_fault(raw: bytes) -> Fault:
    """The fault in a control request; raises MalformedFault."""
    try:
        fields = loads(raw, allow_floats=True)
        if not isinstance(fields, dict):
            raise MalformedFault
        fault = Fault(
            match=_text(fields.pop("match", None)),
            kind=FaultKind(_text(fields.pop("kind", None))),
            left=_number(fields.pop("times", 1)),
            seconds=_seconds(fields.pop("seconds", 1)),
            status=_number(fields.pop("status", 503)),
            headers=_headers(fields.pop("headers", {})),
            body=_text(fields.pop("body", "")),
            signal=_text(fields.pop("signal", "")),
        )
    except ValueError:
        raise MalformedFault from None
    if fields:
        raise MalformedFault
    return fault


class FaultBook:
    """The armed faults, and a log of those that struck."""

    def __init__(self) -> None:
        self._armed: list[Fault] = []
        self._log: list[tuple[str, str]] = []
        self._struck = asyncio.Condition()
        self._cleared = asyncio.Event()

    def arm(self, fault: Fault) -> None:
        """Add a fault behind those already armed."""
        self._cleared.clear()
        self._armed.append(fault)

    def clear(self) -> None:
        """Disarm everything and release what is paused."""
        self._armed.clear()
        self._log.clear()
        self._cleared.set()

    async def take(self, line: str, *kinds: FaultKind) -> Fault | None:
        """The first armed fault of these kinds that matches `METHOD /path`; it is used up once."""
        for index, fault in enumerate(self._armed):
            if fault.kind in kinds and line.startswith(fault.match):
                self._use_up(index, fault)
                async with self._struck:
                    self._log.append((fault.kind.value, line))
                    del self._log[:-LOG_MAX]
                    self._struck.notify_all()
                return fault
        return None

    async def struck(self, kind: str, timeout_s: float) -> bool:
        """Wait until a fault of that kind has struck."""
        try:
            async with asyncio.timeout(min(timeout_s, WAIT_MAX_S)), self._struck:
                await self._struck.wait_for(lambda: any(seen == kind for seen, _ in self._log))
        except TimeoutError:
            return False
        return True

    async def wait_until_cleared(self) -> None:
        """For what is paused."""
        await self._cleared.wait()

    def shown(self) -> dict[str, JsonValue]:
        """For the control endpoint."""
        armed: list[JsonValue] = [
            {"match": fault.match, "kind": fault.kind.value, "times": fault.left} for fault in self._armed
        ]
        log: list[JsonValue] = [[kind, line] for kind, line in self._log]
        return {"faults": armed, "log": log}

    def _use_up(self, index: int, fault: Fault) -> None:
        if fault.left == 1:
            del self._armed[index]
        elif fault.left > 1:
            self._armed[index] = replace(fault, left=fault.left - 1)


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise MalformedFault
    return value


def _number(value: JsonValue) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise MalformedFault
    return value


def _seconds(value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= SECONDS_MAX:
        raise MalformedFault
    return float(value)


def _headers(value: JsonValue) -> dict[str, str]:
    if not isinstance(value, dict):
        raise MalformedFault
    return {name: _text(item) for name, item in value.items()}
