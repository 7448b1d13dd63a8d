"""The store as the rest of the program sees it: four ways to a database, none of which blocks the event loop.

`commit` writes a unit. `transact` runs a function in the writer's transaction (acceptance, operators). `hot` reads on
the writer's thread, for what the orchestrator needs at once. `read` uses the asynchronous reader, for people and tools.
Nothing here takes time, ids or chance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from execution.core.draft import Unit
from execution.store.batch import Job
from execution.store.executors import Executor
from execution.store.failing import damaged, failure

T = TypeVar("T")


class Store:
    """One process's way to the journal. Without a `reader` every read goes through the writer (simulations)."""

    def __init__(self, engine: Engine, *, executor: Executor, reader: AsyncEngine | None = None) -> None:
        self.engine = engine
        self._executor = executor
        self._reader = reader
        executor.open(engine)

    def commit(self, unit: Unit) -> Awaitable[None]:
        """Write the unit; returns when it is on disk.

        Raises Stale, FenceRefused, LocksHeld, Duplicate or StoreUnavailable (nothing was written), or UnknownCommit.
        """
        return self._submit(unit, reading=False)

    def transact(self, work: Callable[[Connection], T]) -> Awaitable[T]:
        """Run the function in the writer's transaction; its value is returned when that is on disk.

        What it raises undoes what it wrote and is raised here. It must not commit, and must be quick: others wait.
        """
        return self._submit(work, reading=False)

    def hot(self, work: Callable[[Connection], T]) -> Awaitable[T]:
        """Read on the writer's thread: sees every commit that was acknowledged before."""
        return self._submit(work, reading=True)

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Read in one snapshot, beside the writer."""
        if self._reader is None:
            return await self.hot(work)
        try:
            async with self._reader.connect() as conn:
                return await conn.run_sync(work)
        except DBAPIError as error:
            raise failure(error) from error
        except UnicodeDecodeError as error:
            raise damaged("the database", "text that is none") from error

    async def close(self) -> None:
        """Finish what was submitted, then let the database go."""
        await self._executor.close()
        if self._reader is not None:
            await self._reader.dispose()
        self.engine.dispose()

    def _submit(self, work: Unit | Callable[[Connection], Any], *, reading: bool) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._executor.submit(Job(work, future, reading=reading))
        return future
