"""A mail relay, and a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from execution.core.definition import Prepared
from execution.core.quiescence import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A notification. `recipients` are addresses resolved from configured lists, unique; text is plain UTF-8.

    message_id: `<local@domain>`. date_ms: Unix milliseconds of its Date header, taken from the journal so that the
    bytes are the same on every try; None: the relay sets it.
    """

    message_id: str
    recipients: tuple[str, ...]
    subject: str
    text: str
    date_ms: int | None = None


class Mail(Protocol):
    """An SMTP relay. It cannot be asked whether a message was accepted, so there is no observe."""

    @property
    def bounds(self) -> Bounds: ...

    def send(self, message: Message) -> Prepared: ...
