"""Events of the journal in a line each, for people: what was decided, sent, seen and ruled.

How a worker takes its work up is left out, and of each event the one thing that says most is shown. The documents that
`--json` prints leave nothing out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from execution.core.events import Event, EventType, Fact
from execution.core.transitions import Trigger

MACHINERY: Final[frozenset[EventType]] = frozenset(
    {
        Trigger.VALIDATION_STARTED,
        Trigger.COMMAND_AUTHORIZED,
        Trigger.ENQUEUED,
        Trigger.CLAIMED,
        Trigger.STARTED,
        Fact.PLANNED,
        Fact.COMPENSATION_PLANNED,
        Fact.COMPENSATION_STATE,
        Fact.UNBLOCKED,
    }
)
"""What only says that work was taken up, or repeats what the events of other steps say."""

GIST_CHARS_MAX: Final = 100
_SAYS: Final = ("verdict", "kind", "says", "code", "query", "cause", "blocker", "key", "reason", "note")
"""Members of an event's body that say something to a person, in the order in which they are read."""


def is_told(event: Event) -> bool:
    """Whether a person is shown it."""
    return event.type not in MACHINERY


def gist(event: Event) -> str:
    """What an event says, short enough for its line."""
    body: dict[str, Any] = json.loads(event.body)
    said = [str(body[name]) for name in _SAYS if isinstance(body.get(name), str) and body[name]]
    if event.type is Trigger.FENCED:
        said = [f"attempt {body['number']}", body["cause"]]
    if "to" in body:
        said.insert(0, f"{body['from']} → {body['to']}" if body.get("from") else str(body["to"]))
    if event.type is not Fact.VERIFIED and body.get("verdict") != "ABSENT":
        said += _named(body.get("receipt"))
    told = ", ".join(said)
    return told if len(told) <= GIST_CHARS_MAX else f"{told[: GIST_CHARS_MAX - 1]}…"


def _named(receipt: Mapping[str, Any] | None) -> list[str]:
    """What an external system calls its object."""
    name = (receipt.get("reference") or receipt.get("resource_id")) if receipt else None
    return [str(name)] if name else []
