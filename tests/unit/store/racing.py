"""Many processes that do the same thing at the same moment, forked from one that has imported everything.

`python -m tests.unit.store.racing starts|counts DATABASE PROCESSES`: each process prints one line; the exit status is
the number of those that failed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from typing import Final

from execution.store import meta
from execution.store.errors import Stale
from execution.store.opening import open_store
from tests.unit.store.building import NOW, noted, stored

COMMITS: Final = 40
Work = Callable[[str, int], Coroutine[None, None, str]]


async def start(database: str, number: int) -> str:
    """A first start: who is this store?"""
    store = open_store(database)
    found = await meta.establish(store, installation=f"inst_{number}", incarnation=f"inc_{number}", now_ms=NOW)
    await store.close()
    return f"{found.installation} {found.incarnation} {found.created} {found.changed}"


async def count(database: str, _: int) -> str:
    """Commits on one shared saga, loaded again whenever another process was faster."""
    store = open_store(database)
    done = 0
    while done < COMMITS:
        unit, _after = noted(await stored(store, "cmd_a"))
        try:
            await store.commit(unit)
        except Stale:
            continue
        done += 1
    await store.close()
    return str(done)


def _runner(work: Work, database: str, number: int, gate: int) -> None:
    """What a forked process does: wait for the gate to be closed, work, say one line; its status says how that went."""
    os.read(gate, 1)
    status = 1
    try:
        line = asyncio.run(work(database, number))
        os.write(1, f"{line}\n".encode())
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)


def main(name: str, database: str, processes: str) -> int:
    """Fork, open the gate for all at once, wait."""
    work = {"starts": start, "counts": count}[name]
    gate, opener = os.pipe()
    children = []
    for number in range(int(processes)):
        child = os.fork()
        if child == 0:
            os.close(opener)
            _runner(work, database, number, gate)
        children.append(child)
    os.close(opener)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
