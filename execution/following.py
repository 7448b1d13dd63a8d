"""Following the journal by position: what was written since, in order, without missing what was committed late.

Positions are given out before a transaction commits, so that on a database with several writers a smaller one may
become visible after a larger one. Whoever follows everything asks again for a position that was passed over, until it
is there or long overdue (a transaction that was rolled back leaves its positions empty for good). Within one saga this
cannot happen: its commits are guarded by the root's version and write their events after that guard.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from execution.ports import Clock
from execution.store import journal
from execution.store.journal import Entry
from execution.store.writer import Store

BATCH: Final = 500
"""How many entries are taken at once; a follower that is behind catches up batch by batch."""
LATE_S: Final = 30.0
"""No transaction of ours stays open this long."""
MISSING_MAX: Final = 1_000


class Follower:
    """Follows everything, or one saga. `after`: the position from which on; 0 is the beginning."""

    def __init__(self, store: Store, clock: Clock, *, root_id: str | None = None, after: int = 0) -> None:
        self._store = store
        self._clock = clock
        self._root_id = root_id
        self._after = after
        self._missing: dict[int, float] = {}

    async def take(self) -> tuple[Entry, ...]:
        """What is new; nothing when nothing is."""
        after, also = self._after, tuple(self._missing)
        found = await self._store.read(
            lambda conn: journal.entries(conn, after, BATCH, root_id=self._root_id, also=also)
        )
        self._note([entry.position for entry in found])
        return found

    def _note(self, positions: Iterable[int]) -> None:
        """Remember which positions were passed over, and forget those that came or never will."""
        seen = set(positions)
        highest = max(seen, default=self._after)
        if self._root_id is None:
            now_s = self._clock.awake_s()
            for position in range(max(self._after + 1, highest - MISSING_MAX), highest):
                self._missing.setdefault(position, now_s)
            self._missing = {p: since for p, since in self._missing.items() if p not in seen and now_s - since < LATE_S}
        self._after = max(self._after, highest)
