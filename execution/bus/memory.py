"""The in-process command bus: root ids to be looked at. It may lose, duplicate and reorder; the sweep does not mind."""

from __future__ import annotations

import asyncio
from typing import Final

WAITING_MAX: Final = 20_000


class MemoryBus:
    """A bounded queue; what does not fit is dropped, because the sweep finds it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue(WAITING_MAX)

    def publish(self, root_id: str) -> None:
        """Say that somebody should look at that saga."""
        if not self._queue.full():
            self._queue.put_nowait(root_id)

    async def next(self) -> str:
        """The next one that was said."""
        return await self._queue.get()
