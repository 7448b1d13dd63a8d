"""What carries a marker of ours and belongs to no command: left by a journal that was lost, or by another installation.

A marker is a hash of installation and business key. It cannot be read backwards, so the markers of every step that our
journal knows are worked out and compared with what a system lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from execution.audit.report import Finding, Kind
from execution.catalog import Catalog
from execution.core.failures import CannotTell
from execution.core.identity import BusinessKey, marker
from execution.ports import Lists, Ports
from execution.store import registry
from execution.store.registry import Named
from execution.store.writer import Store

LISTED_MAX: Final = 2_000
KEYS_BATCH: Final = 5_000


async def orphans(ports: Ports, store: Store, catalog: Catalog, installation: str) -> tuple[Finding, ...]:
    """Of every adapter that can list; the others are not asked."""
    asked = [(name, await adapter.marked(LISTED_MAX)) for name, adapter in _listing(ports)]
    if not asked:
        return ()
    ours = await _markers(store, catalog, installation) if any(listed for _, listed in asked) else frozenset()
    found: list[Finding] = []
    for name, listed in asked:
        if isinstance(listed, CannotTell):
            found.append(Finding(kind=Kind.UNREADABLE, code=listed.code, about=name))
            continue
        found += [
            Finding(
                kind=Kind.ORPHAN,
                code="no_command_here",
                about=f"{name} {one.resource_id}",
                facts={"marker": one.marker, "state": one.state},
            )
            for one in listed
            if one.marker not in ours
        ]
    return tuple(found)


def _listing(ports: Ports) -> Iterator[tuple[str, Lists]]:
    for field in fields(ports):
        value: Any = getattr(ports, field.name)
        adapters = value.items() if isinstance(value, Mapping) else [("", value)]
        yield from ((f"{field.name} {key}".strip(), one) for key, one in adapters if isinstance(one, Lists))


async def _markers(store: Store, catalog: Catalog, installation: str) -> frozenset[str]:
    """Of every step of ours, whatever became of it."""
    named = {
        step.name: (step.action.system, step.action.operation)
        for name, version in catalog.known
        for step in catalog.definition(name, version).steps
    }
    found: set[str] = set()
    after = ""
    while True:
        start = after
        batch = await store.read(lambda conn, start=start: registry.named(conn, tuple(named), start, KEYS_BATCH))  # type: ignore[misc]  # a default argument binds the loop's value
        found |= {marker(installation, _key(row, *named[row.command_type])) for row in batch}
        if len(batch) < KEYS_BATCH:
            return frozenset(found)
        after = batch[-1].command_id


def _key(row: Named, system: str, operation: str) -> BusinessKey:
    return BusinessKey(
        tenant=row.tenant,
        system=system,
        operation=operation,
        site=row.site,
        object_id=row.object_id,
        version=row.object_version,
        generation=row.generation,
    )
