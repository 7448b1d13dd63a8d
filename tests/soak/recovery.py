"""Recovery at size: thousands of open commands, each with a write whose answer nobody heard, found by a fresh worker.

Counted: how soon all of them are known, how much memory that takes, and whether anything is sent before it was looked
for. Nothing may be sent at all within the time in which those writes could still take effect.
"""

import asyncio
import resource
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from adapters.sandbox.faults import FaultKind
from execution.bus.memory import MemoryBus
from execution.core.quiescence import Bounds
from execution.core.states import State
from execution.settings import EngineSettings
from execution.store import schema
from execution.store.connection import Connection
from tests.integration.world import World, world_at
from tests.stage.clones import clone

KNOWN_MAX_S: Final = 5.0
"""Within this of a start every open command is known."""
LOOKED_S: Final = 20.0
"""For so long the worker is watched: shorter than the declared time in which the writes may take effect."""
UNHEARD: Final = Bounds(max_run_s=120.0, max_run_source="longer than it is watched", incomplete_s=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """known_s: from the start until all were announced. grew_mib: the process's peak beyond what it was before."""

    commands: int
    known: int
    known_s: float
    looked_at: int
    sent: int
    grew_mib: float

    @property
    def right(self) -> bool:
        return self.known == self.commands and self.known_s <= KNOWN_MAX_S and self.sent == 0 and self.looked_at > 0

    @property
    def text(self) -> str:
        return (
            f"{self.commands} open commands in doubt: {self.known} known after {self.known_s:.2f} s, "
            f"{self.looked_at} looked at within {LOOKED_S:.0f} s, {self.sent} sent again, "
            f"memory grew by {self.grew_mib:.0f} MiB"
        )


class Counting(MemoryBus):
    """Notes when each saga was first announced."""

    def __init__(self) -> None:
        super().__init__()
        self.first_s: dict[str, float] = {}

    def publish(self, root_id: str) -> None:
        self.first_s.setdefault(root_id, time.monotonic())
        super().publish(root_id)


async def recover(commands: int) -> Recovered:
    """Leave that many open, start a worker, and watch."""
    with tempfile.TemporaryDirectory(prefix="remit-recovery-") as folder:
        async with world_at(Path(folder), bounds=UNHEARD) as world:
            original = await _in_doubt(world)
            roots = {original, *await world.store.transact(partial(clone, root_id=original, count=commands - 1))}
            return await _watched(world, roots)


async def _in_doubt(world: World) -> str:
    """A draft whose answer was lost, and which never came."""
    world.arm("POST /wp-json/wp/v2/posts", FaultKind.DROP_BEFORE)
    command_id = await world.accepted()
    await world.turn(command_id)
    row = await world.step(command_id, "CREATE_WORDPRESS_DRAFT")
    assert row.state in (State.OUTCOME_UNKNOWN, State.RECONCILING), row.state
    world.sandbox.faults.clear()
    world.passage.sent.clear()
    return command_id


async def _watched(world: World, roots: set[str]) -> Recovered:
    await world.store.transact(partial(_due_now, now_ms=world.clock.now_ms()))
    worker, bus, stop = world.first.worker, Counting(), asyncio.Event()
    worker._bus, before, began = bus, _peak_mib(), time.monotonic()
    worker._settings = EngineSettings()
    running = asyncio.create_task(worker.run(stop))
    await asyncio.sleep(LOOKED_S)
    stop.set()
    await running
    known = {root_id: at for root_id, at in bus.first_s.items() if root_id in roots}
    return Recovered(
        commands=len(roots),
        known=len(known),
        known_s=max(known.values(), default=began + LOOKED_S) - began,
        looked_at=await world.store.read(_looked_at),
        sent=len(world.passage.sent),
        grew_mib=_peak_mib() - before,
    )


def _due_now(conn: Connection, *, now_ms: int) -> None:
    conn.execute(
        schema.COMMANDS.update()
        .where(schema.COMMANDS.c.parent_id.is_(None))
        .values(next_check_at_ms=now_ms, lease_owner=None, lease_until_ms=None)
    )


def _looked_at(conn: Connection) -> int:
    """Steps that have been looked for since."""
    events = schema.EVENTS.c
    seen = sa.select(sa.func.count(sa.distinct(events.command_id))).where(events.type == "OBSERVED")
    return int(conn.execute(seen).scalar_one())


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
