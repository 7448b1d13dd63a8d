"""Content by hash."""

from __future__ import annotations

from typing import Protocol


class Artifacts(Protocol):
    """Content by hash."""

    async def get(self, ref: str) -> bytes:
        """The bytes of `artifact://sha256/<64 hex>`; raises `Unprepared` (PERMANENT, artifact_missing)."""
        ...
