"""What our own journal knows about a business object across its versions."""

from __future__ import annotations

import json
from typing import Final

from execution.catalog import Previous
from execution.core.command import Command
from execution.core.states import TERMINAL, EffectClass, State
from execution.store import registry
from execution.store.connection import Connection

VERSIONS_MAX: Final = 500


def _roots(conn: Connection, tenant: str, site: str, object_id: str) -> tuple[Command, ...]:
    wanted = registry.Filter(tenant=tenant, site=site, object_id=object_id)
    return registry.page(conn, wanted, limit=VERSIONS_MAX)[0]


def newest_live(conn: Connection, *, tenant: str, site: str, object_id: str) -> Previous:
    """The newest version whose pivot succeeded, with the receipt of that write."""
    best: tuple[int, Command, Command] | None = None
    for root in _roots(conn, tenant, site, object_id):
        if best is not None and root.object_version <= best[0]:
            continue
        pivot = next(
            (
                row
                for row in registry.load_saga(conn, root.command_id).members
                if row.effect_class is EffectClass.PIVOT and row.state is State.SUCCESS
            ),
            None,
        )
        if pivot is not None:
            best = root.object_version, root, pivot
    if best is None:
        return Previous()
    version, root, pivot = best
    receipt = json.loads(pivot.receipt or "{}")
    return Previous(
        version=version,
        post_id=pivot.external_resource_id,
        external_version=pivot.external_version,
        url=receipt.get("reference") or None,
        slug=receipt.get("data", {}).get("slug") or None,
        live=True,
        command_id=root.command_id,
    )


def newest_pending(conn: Connection, *, tenant: str, site: str, object_id: str) -> Command | None:
    """The newest version that has not ended yet."""
    unfinished = [root for root in _roots(conn, tenant, site, object_id) if root.state not in TERMINAL]
    return max(unfinished, key=lambda root: root.object_version, default=None)
