"""The cache in front of a site."""

from __future__ import annotations

from typing import Protocol

from execution.core.definition import Prepared
from execution.core.failures import Receipt, Sighting
from execution.core.quiescence import Bounds


class Cache(Protocol):
    """What keeps copies of a site's pages, and can be told to forget them.

    A purge leaves no trace that could be asked for: one whose answer was lost is made again, which harms nothing.
    """

    @property
    def bounds(self) -> Bounds: ...

    def purge(self, addresses: tuple[str, ...]) -> Prepared:
        """Forget the copies of these pages. Landed means accepted; whether they are gone shows only in what is served.

        Raises `Unprepared` (PERMANENT) for what is no address, and for more addresses than one request may name.
        """
        ...

    async def observe(self, addresses: tuple[str, ...], purged: Receipt) -> Sighting:
        """What a reader without credentials is served: the first of these addresses, looked at after that purge.

        Present = nothing from before the purge; with `seen` false when that cannot be told from here. Absent(receipt) =
        a copy from before the purge. CannotTell = the pages could not be read just now.
        """
        ...
