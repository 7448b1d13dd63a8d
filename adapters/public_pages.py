"""Public pages behind a cache, read as anybody reads them: is what is served older than a purge?

No credential is ever sent here, and only the origins that the configuration names are asked: an address that a site
reports about itself leads nowhere else. `CF-Cache-Status` says where a page came from:

    MISS, EXPIRED, REVALIDATED, BYPASS, DYNAMIC    from the site, or confirmed by it, just now
    HIT                                            a copy. It is Age seconds old by the cache's own clock (Date)
    STALE, UPDATING                                a copy that the cache itself calls old; its age is told likewise
    none                                           nobody caches, or somebody who does not say so

A copy from before the purge is compared with a read past the cache: the same bytes are no old page, whatever their age.
Nothing here needs a clock of ours.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final
from urllib.parse import urlsplit

from adapters.answers import NoReply, Reply, http_date
from adapters.http import CONNECT_S, READ_S, HttpSystem
from execution.core.failures import Absent, CannotTell, Present, Receipt, Sighting
from execution.core.quiescence import Bounds
from execution.sagas.purging import origin

LOOKED_AT_MAX: Final = 5
"""Of one purge; the article's own address comes first."""
NEAR: Final = timedelta(seconds=5)
"""Clocks of a cache have whole seconds, and a purge takes its time: this close to it nothing is said about a copy."""
_FROM_THE_SITE: Final = frozenset({"MISS", "EXPIRED", "REVALIDATED", "BYPASS", "DYNAMIC"})
_CALLED_OLD: Final = frozenset({"STALE", "UPDATING"})
_COPIES: Final = _CALLED_OLD | {"HIT"}
_NOT_SHOWN: Final = frozenset({401, 403})


class Served(Enum):
    """What was served: FRESH, OLD, or something that does not tell."""

    FRESH = auto()
    OLD = auto()
    UNTOLD = auto()


class PublicPages:
    """See the module. Only pages with the same scheme, host and port as one of these addresses are ever asked for."""

    def __init__(
        self,
        addresses: tuple[str, ...],
        *,
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        ca_file: str | None = None,
    ) -> None:
        self._systems = {
            named: HttpSystem(
                "://".join(named),
                bounds=Bounds(),
                headers={"Accept": "text/html,*/*"},
                connect_s=connect_s,
                read_s=read_s,
                plain_http=True,
                ca_file=ca_file,
            )
            for named in map(origin, addresses)
        }

    async def aclose(self) -> None:
        """Close the kept connections."""
        for system in self._systems.values():
            await system.aclose()

    async def since(self, addresses: tuple[str, ...], purged: Receipt) -> Sighting:
        """Whether the first of these addresses serve nothing from before that purge: `Cache.observe`."""
        looks = [self._look(address, purged) for address in addresses[:LOOKED_AT_MAX]]
        seen = await asyncio.gather(*looks)
        for found in seen:
            if isinstance(found, CannotTell):
                return found
        if Served.OLD in seen:
            return Absent(receipt=_with(purged, "old"))
        untold = Served.UNTOLD in seen
        return Present(receipt=_with(purged, "not_known" if untold else "fresh"), seen=not untold)

    async def _look(self, address: str, purged: Receipt) -> Served | CannotTell:
        system = self._systems.get(origin(address))
        if system is None:
            return Served.UNTOLD
        page = await system.get(_below(address))
        if isinstance(page, NoReply):
            return CannotTell(code=page.code)
        if page.status in _NOT_SHOWN:
            return Served.UNTOLD
        if page.status == 429 or page.status >= 500:
            return CannotTell(code=f"http_{page.status}", retry_after_s=page.retry_after_s)
        served = judged(page, purged)
        if served is Served.FRESH or _status(page) is None:
            return served
        same = await self._same_past_the_cache(system, address, page)
        return Served.FRESH if same else served

    async def _same_past_the_cache(self, system: HttpSystem, address: str, page: Reply) -> bool:
        """The site's own page has the same bytes. A query that no copy was kept under leads past the cache."""
        path = _below(address)
        past = await system.get(f"{path}{'&' if '?' in path else '?'}remit_at={secrets.token_hex(8)}")
        if isinstance(past, NoReply) or _status(past) not in _FROM_THE_SITE:
            return False
        return past.status == page.status and _hash(past) == _hash(page)


def judged(page: Reply, purged: Receipt) -> Served:
    """What the page's own headers tell."""
    status = _status(page)
    if status in _FROM_THE_SITE:
        return Served.FRESH
    kept, at = _kept_at(page), http_date(str(purged.data.get("purged_at", "")))
    if status not in _COPIES or kept is None or at is None:
        return Served.OLD if status in _CALLED_OLD else Served.UNTOLD
    if kept >= at:
        return Served.FRESH
    return Served.OLD if kept < at - NEAR else Served.UNTOLD


def _kept_at(page: Reply) -> datetime | None:
    """When the copy was made, by the cache's clock."""
    date, age = http_date(page.headers.get("date")), page.headers.get("age", "")
    if date is None or not (age.isascii() and age.isdigit() and len(age) <= 9):
        return None
    return date - timedelta(seconds=int(age))


def _status(page: Reply) -> str | None:
    return page.headers.get("cf-cache-status", "").strip().upper() or None


def _hash(page: Reply) -> bytes:
    return hashlib.sha256(page.body).digest()


def _below(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"


def _with(purged: Receipt, cache: str) -> Receipt:
    return replace(purged, data={**purged.data, "cache": cache})
