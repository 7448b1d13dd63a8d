"""Is this process alive, and can it do its work? For whoever restarts processes and spreads load.

Alive: the event loop answers. Ready: the journal can be read, its disk has room, nothing is ending, and a worker that
belongs to this process has shown a sign of life. What a worker elsewhere does is told and changes nothing: proposals
are accepted and kept while none runs.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from execution.ports import Clock
from execution.store.engine import database_path
from execution.store.errors import StoreError
from execution.store.meta import last_tick
from execution.store.writer import Store

WORKER_SEEN_S: Final = 30
"""Three ticks of a worker."""
READ_S_MAX: Final = 2.0
FREE_BYTES_MIN: Final = 16 * 1024 * 1024
"""Room for what a checkpoint of the write-ahead log takes, and for a few proposals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What the health addresses of a gateway tell."""

    store: Store
    clock: Clock
    with_worker: bool
    stop: asyncio.Event

    async def ready(self) -> tuple[bool, Mapping[str, str]]:
        """Whether to send work here, and why not."""
        try:
            async with asyncio.timeout(READ_S_MAX):
                ticked_ms = await self.store.read(last_tick)
        except (StoreError, TimeoutError):
            return False, {"journal": "unavailable"}
        path = database_path(self.store.engine.url)
        if path is not None and shutil.disk_usage(path.parent).free < FREE_BYTES_MIN:
            return False, {"journal": "disk_full"}
        age_ms = self.clock.now_ms() - ticked_ms
        seen = age_ms <= WORKER_SEEN_S * 1000
        told = {"journal": "open", "worker": "alive" if seen else "not_seen"}
        if self.stop.is_set():
            return False, told | {"process": "ending"}
        return seen or not self.with_worker, told
