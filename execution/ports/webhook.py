"""A receiver of signed HTTP notifications, and one notification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from execution.core.definition import Prepared
from execution.core.quiescence import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened, for programs. `event_id` names the notification and not its sending: every try carries the same.

    at: RFC 3339 in UTC, when the event happened; empty when nobody knows. data: texts and numbers.
    """

    event_id: str
    kind: str
    data: Mapping[str, str | int]
    at: str = ""


class Webhook(Protocol):
    """One receiver. It cannot be asked whether it took an event, so there is no observe."""

    @property
    def bounds(self) -> Bounds: ...

    def send(self, event: Event) -> Prepared: ...
