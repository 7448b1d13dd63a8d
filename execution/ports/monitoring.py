"""Whatever watches published pages, and a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from execution.core.definition import Prepared
from execution.core.failures import Sighting
from execution.core.quiescence import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """That an article is to be watched at its address.

    key: one per article, the same for all its versions; lower case, digits and hyphens. tags contain no spaces.
    """

    key: str
    name: str
    url: str
    tags: tuple[str, ...]
    site: str
    article_id: str
    version: int


class Monitoring(Protocol):
    """Checks by key. Registering is an upsert: a later version's check takes the place of the one before."""

    @property
    def bounds(self) -> Bounds: ...

    def register(self, check: Check) -> Prepared: ...

    async def observe(self, check: Check) -> Sighting:
        """Present = a check with that key says exactly this; several with that key are counted in `rows`.
        Absent(receipt) = one says something else, as an earlier version's does; Absent = none."""
        ...
