"""Telling operators that something needs them. An alert is no business effect: it is sent at most once, and a lost one
is found again by whoever looks (`remit review ls`, `remit audit`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """kind: stable, lower case (`audit.findings`). summary: one line. lines: what was found, in our own words."""

    kind: str
    summary: str
    lines: tuple[str, ...] = ()


class Notifier(Protocol):
    """Never raises for what the world does; what could not be told is logged with a code."""

    async def alert(self, alert: Alert) -> None: ...
