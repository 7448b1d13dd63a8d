"""What carries a marker of ours in a system that can list it: how an audit finds what belongs to no command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from execution.core.failures import CannotTell


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """One object. marker: as `Context.marker` names it. state: the system's own word for it, in ours (`draft`)."""

    marker: str
    resource_id: str
    state: str


@runtime_checkable
class Lists(Protocol):
    """An adapter that can list what carries our markers. Markers of other installations are among them."""

    async def marked(self, limit: int) -> tuple[Marked, ...] | CannotTell:
        """At most so many, the newest first where the system can say so."""
        ...
