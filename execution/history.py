"""What our own journal knows about a business object across its versions."""

from __future__ import annotations

import json
from dataclasses import dataclass

from execution.catalog import Previous
from execution.core.command import Command
from execution.core.identity import workflow_id
from execution.core.states import TERMINAL, EffectClass, State
from execution.store import registry
from execution.store.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The newest version that was published, and the newest that has not ended yet."""

    previous: Previous
    pending: Command | None


def history_of(conn: Connection, *, tenant: str, site: str, object_id: str) -> History:
    """Read both in one look."""
    roots = registry.workflow_roots(conn, tenant, workflow_id(tenant, site, object_id))
    unfinished = [root for root in roots if root.state not in TERMINAL]
    return History(
        previous=_newest_live(conn, roots),
        pending=max(unfinished, key=lambda root: root.object_version, default=None),
    )


def _newest_live(conn: Connection, roots: tuple[Command, ...]) -> Previous:
    """The newest version whose pivot succeeded, with the receipt of that write."""
    for root in sorted(roots, key=lambda root: (root.object_version, root.created_at_ms), reverse=True):
        pivot = _published(conn, root)
        if pivot is not None:
            return _previous(root, pivot)
    return Previous()


def _published(conn: Connection, root: Command) -> Command | None:
    if root.state not in (State.RUNNING, State.SUCCESS):
        return None
    members = registry.load_saga(conn, root.command_id).members
    return next((r for r in members if r.effect_class is EffectClass.PIVOT and r.state is State.SUCCESS), None)


def _previous(root: Command, pivot: Command) -> Previous:
    receipt = json.loads(pivot.receipt or "{}")
    return Previous(
        version=root.object_version,
        post_id=pivot.external_resource_id,
        external_version=pivot.external_version,
        url=receipt.get("reference") or None,
        slug=receipt.get("data", {}).get("slug") or None,
        live=True,
        command_id=root.command_id,
        plan=json.loads(root.params)["plan"],
    )
