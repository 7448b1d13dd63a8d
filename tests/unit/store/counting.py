"""A process that commits facts on one shared saga, loading it again whenever another process was faster."""

from __future__ import annotations

import asyncio
import sys

from execution.store.errors import Stale
from execution.store.opening import open_store
from tests.unit.store.building import noted, stored


async def main(database: str, root: str, times: str) -> None:
    store = open_store(database)
    done = lost = 0
    while done < int(times):
        unit, _ = noted(await stored(store, root))
        try:
            await store.commit(unit)
        except Stale:
            lost += 1
        else:
            done += 1
    await store.close()
    print(done, lost)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
