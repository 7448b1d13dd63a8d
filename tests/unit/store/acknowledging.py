"""A process that accepts sagas for ever and prints each id once it is acknowledged, until somebody kills it."""

from __future__ import annotations

import asyncio
import itertools
import sys

from execution.store.opening import open_store
from tests.unit.store.building import accept

CLIENTS = 8


async def main(database: str, name: str) -> None:
    store = open_store(database)
    numbers = itertools.count()

    async def client() -> None:
        while True:
            root = f"cmd_{name}_{next(numbers)}"
            await accept(store, root)
            print(root, flush=True)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
