"""The customer's own table of publications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from execution.core.definition import Prepared
from execution.core.failures import Sighting
from execution.core.quiescence import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRecord:
    """A row in the customer's own database about one version of one article."""

    key: str
    site: str
    article_id: str
    version: int
    title: str
    content_hash: str
    post_id: str = ""
    url: str = ""
    command_id: str = ""


class Publications(Protocol):
    """The customer's SQL table of publications, keyed by our key: staged → published | cancelled."""

    @property
    def bounds(self) -> Bounds: ...

    def stage(self, record: PublicationRecord) -> Prepared: ...

    def cancel(self, *, key: str) -> Prepared:
        """staged → cancelled; refused (CONFLICT `not_staged`) when it is published."""
        ...

    def record(self, record: PublicationRecord) -> Prepared:
        """→ published with post id and URL; upsert by key."""
        ...

    async def observe(self, *, key: str, status: str) -> Sighting:
        """Present = a row with that key and status; Absent = none, or an earlier status; Foreign = another status."""
        ...
