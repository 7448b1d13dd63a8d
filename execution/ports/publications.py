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


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Why a publication was taken down, for the customer's own records. `publication_key`: of the row it is about."""

    key: str
    publication_key: str
    site: str
    article_id: str
    version: int
    post_id: str
    url: str
    reason: str
    command_id: str


class Publications(Protocol):
    """The customer's SQL tables of publications and incidents.

    A publication, keyed by our key, goes staged → published → withdrawn, or staged → cancelled. An incident is written
    once, under a key of its own.
    """

    @property
    def bounds(self) -> Bounds: ...

    def stage(self, record: PublicationRecord) -> Prepared: ...

    def cancel(self, *, key: str) -> Prepared:
        """staged → cancelled; refused (CONFLICT `not_staged`) when it is published."""
        ...

    def record(self, record: PublicationRecord) -> Prepared:
        """→ published with post id and URL; upsert by key."""
        ...

    def withdraw(self, *, key: str) -> Prepared:
        """published → withdrawn; refused (CONFLICT `not_published`) when it is anything else."""
        ...

    async def observe(self, *, key: str, status: str) -> Sighting:
        """Present = a row with that key and status; Absent = none, or an earlier status; Foreign = another status."""
        ...

    def open_incident(self, incident: Incident) -> Prepared:
        """Insert it; the same again changes nothing, another under its key is refused (CONFLICT `incident_differs`)."""
        ...

    async def observe_incident(self, incident: Incident) -> Sighting:
        """Present = a row with that key that says the same; Absent = none; Foreign = it says something else."""
        ...
