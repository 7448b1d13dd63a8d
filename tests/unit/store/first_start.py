"""A process that opens a store, says who it is, and ends: `python -m tests.unit.store.first_start DATABASE NUMBER`."""

from __future__ import annotations

import asyncio
import sys

from execution.store import meta
from execution.store.opening import open_store
from tests.unit.store.building import NOW


async def main(database: str, number: str) -> None:
    store = open_store(database)
    found = await meta.establish(store, installation=f"inst_{number}", incarnation=f"inc_{number}", now_ms=NOW)
    await store.close()
    print(found.installation, found.incarnation, found.created, found.changed)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
