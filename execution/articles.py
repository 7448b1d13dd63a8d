"""What has become of an article, whatever command did it: derived from the journal, kept nowhere.

What stands there is what the newest landed pivot left (`execution.history`). Only while nothing ever stood there is an
article called by what is being prepared for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from execution.catalog import Catalog
from execution.core.command import Command, Saga
from execution.core.identity import workflow_id
from execution.core.states import TERMINAL, Blocker
from execution.folding import fold
from execution.history import Standing, standing_of
from execution.sentences import CACHE_UNKNOWN, gaps
from execution.store import objects, registry
from execution.store.connection import Connection


class Content(StrEnum):
    """The state of an article. STALE: published, and readers may be served something else than what was approved: what
    stands there was seen to differ, or an old copy may still be in the cache."""

    DRAFTED = "DRAFTED"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    SCHEDULED = "SCHEDULED"
    LIVE = "PUBLISHED (live)"
    STALE = "PUBLISHED (stale)"
    WITHDRAWN = "WITHDRAWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """A command on the article that has not ended."""

    command_id: str
    version: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """One article. content None: nothing came of it, and nothing is under way. version, command_id, since_ms: of what
    stands there, or of its withdrawal."""

    site: str
    object_id: str
    content: Content | None
    version: int | None
    command_id: str | None
    since_ms: int | None
    reference: str | None
    under_way: tuple[UnderWay, ...]


def articles(conn: Connection, catalog: Catalog, tenant: str, *, site: str | None, limit: int) -> tuple[Article, ...]:
    """Those that were worked on last, the newest first."""
    return tuple(
        _article(conn, catalog, tenant, found.site, found.object_id)
        for found in objects.newest(conn, tenant, site=site, limit=limit)
    )


def content_of(conn: Connection, known: Saga, standing: Standing | None) -> Content | None:
    """The state of the article that this saga is about."""
    if standing is None:
        return _prepared(registry.workflow_roots(conn, known.root.tenant, known.root.workflow_id))
    same = standing.root_id == known.root.command_id
    return _standing(standing, known if same else registry.load_saga(conn, standing.root_id))


def _article(conn: Connection, catalog: Catalog, tenant: str, site: str, object_id: str) -> Article:
    workflow = workflow_id(tenant, site, object_id)
    roots = registry.workflow_roots(conn, tenant, workflow)
    standing = standing_of(conn, tenant, workflow)
    saga = None if standing is None else registry.load_saga(conn, standing.root_id)
    pivot = None if saga is None else fold(saga, None, standing).pivot
    return Article(
        site=site,
        object_id=object_id,
        content=_prepared(roots) if standing is None or saga is None else _standing(standing, saga),
        version=standing.version if standing else None,
        command_id=standing.root_id if standing else None,
        since_ms=standing.since_ms if standing else None,
        reference=pivot.result_reference if pivot is not None and standing is not None and standing.live else None,
        under_way=tuple(_under_way(conn, catalog, root) for root in roots if root.state not in TERMINAL),
    )


def _under_way(conn: Connection, catalog: Catalog, root: Command) -> UnderWay:
    saga = registry.load_saga(conn, root.command_id)
    word = fold(saga, catalog.find(root.command_type, root.definition_version), None).word
    return UnderWay(command_id=root.command_id, version=root.object_version, state=word)


def _standing(standing: Standing, saga: Saga) -> Content:
    if not standing.live:
        return Content.WITHDRAWN
    seen = fold(saga, None, standing).proven and CACHE_UNKNOWN not in gaps(saga)
    return Content.LIVE if seen else Content.STALE


def _prepared(roots: Iterable[Command]) -> Content | None:
    """By what is under way for the first time, the highest version of it."""
    under_way = [root for root in roots if root.state not in TERMINAL]
    if not under_way:
        return None
    blockers = max(under_way, key=lambda root: root.object_version).blocked_by
    if Blocker.AWAITING_APPROVAL in blockers:
        return Content.AWAITING_APPROVAL
    return Content.SCHEDULED if Blocker.SCHEDULED in blockers else Content.DRAFTED
