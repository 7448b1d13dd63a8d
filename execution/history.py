"""What our own journal knows about a business object across its versions: what stands there, and what is under way.

What stands there is what the newest pivot that succeeded left: a publication, or its withdrawal, which is a pivot of
its own and says so in its receipt. Nothing else is remembered about an object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from execution.catalog import Previous
from execution.core.command import Command
from execution.core.identity import workflow_id
from execution.core.states import TERMINAL, State
from execution.store import registry
from execution.store.connection import Connection

LIVE: Final = "publish"
NOT_THERE: Final = frozenset({"gone", "trash"})
"""Statuses of a post that is no place to publish to any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What stands there, and the sagas that have not ended, the highest version last."""

    previous: Previous
    unfinished: tuple[Command, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the newest pivot left, who made it and when; `live` is False after a withdrawal."""

    root_id: str
    version: int
    live: bool
    since_ms: int


def history_of(conn: Connection, *, tenant: str, site: str, object_id: str, whole: bool = False) -> History:
    """Read both in one look. `whole`: with the names of the steps that succeeded."""
    workflow = workflow_id(tenant, site, object_id)
    roots = registry.workflow_roots(conn, tenant, workflow)
    unfinished = [root for root in roots if root.state not in TERMINAL]
    previous = _previous(registry.landed_pivots(conn, tenant, workflow), roots)
    return History(
        previous=_whole(conn, previous) if whole and previous.command_id else previous,
        unfinished=tuple(sorted(unfinished, key=_order)),
    )


def standing_of(conn: Connection, tenant: str, workflow: str) -> Standing | None:
    """What stands there; None when nothing was ever published."""
    newest = max(registry.landed_pivots(conn, tenant, workflow), key=_order, default=None)
    if newest is None:
        return None
    return Standing(
        root_id=newest.root_id,
        version=newest.object_version,
        live=_is_live(newest),
        since_ms=newest.completed_at_ms or newest.created_at_ms,
    )


def _order(row: Command) -> tuple[int, int, str]:
    return row.object_version, row.created_at_ms, row.command_id


def _status(pivot: Command) -> str:
    receipt: dict[str, Any] = json.loads(pivot.receipt or "{}")
    return str(receipt.get("data", {}).get("status") or LIVE)


def _is_live(pivot: Command) -> bool:
    return _status(pivot) == LIVE


def _previous(pivots: Iterable[Command], roots: Iterable[Command]) -> Previous:
    """The newest publication; where it was withdrawn since, at what the withdrawal left of it."""
    ordered = sorted(pivots, key=_order)
    published = next((pivot for pivot in reversed(ordered) if _is_live(pivot)), None)
    if published is None:
        return Previous()
    newest = ordered[-1]
    receipt = json.loads(published.receipt or "{}")
    return Previous(
        version=published.object_version,
        generation=published.generation,
        post_id=None if _status(newest) in NOT_THERE else newest.external_resource_id,
        external_version=newest.external_version,
        url=receipt.get("reference") or None,
        slug=receipt.get("data", {}).get("slug") or None,
        live=newest is published,
        command_id=published.root_id,
        plan=next(json.loads(root.params)["plan"] for root in roots if root.command_id == published.root_id),
    )


def _whole(conn: Connection, previous: Previous) -> Previous:
    members = registry.load_saga(conn, previous.command_id or "").members
    done = tuple(row.command_type for row in members if row.state is State.SUCCESS and row.compensates is None)
    return replace(previous, steps=done)
