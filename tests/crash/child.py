"""The worker process of the crash tests: composed like the product's, with one trap at which it dies or stops.

Traps sit around the program, never in it: around the driver's COMMIT of the journal, around the one write of an
attempt, around the COMMIT of the customer's database. The process signals itself, so that the instant is exact.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from adapters.database import SqlPublications
from execution.core.definition import Prepared
from execution.core.failures import Answer
from execution.performer import Performer
from server.app import opened
from server.config import load_config
from server.outside import outside_of
from tests.stage.scene import new_worker


class Place(StrEnum):
    """Where a trap sits. Commit boundaries are counted two per commit: even before it, odd after it.

    FENCED: after the fence, before a byte of the write. ANSWERED: the answer is known, nothing of it is committed.
    """

    NOWHERE = "nowhere"
    COMMIT = "commit"
    FENCED = "fenced"
    ANSWERED = "answered"
    CUSTOMER_COMMIT = "customer commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """The number-th (from 0) time that the place is passed, the process gets the signal from itself."""

    place: Place = Place.NOWHERE
    number: int = 0
    by: signal.Signals = signal.SIGKILL

    def __str__(self) -> str:
        return f"{self.by.name} at {self.place} {self.number}"


def passages(home: Path, owner: str, place: Place) -> int:
    """How often that worker passed the place so far."""
    file = home / f"{owner}.passed"
    return file.read_text().splitlines().count(place) if file.exists() else 0


class Sprung:
    """Counts passages and springs once. Who is stopped, not killed, is stopped between two transactions of the writer:
    SQLite's lock would otherwise stay with the stopped process, and everybody else would stand still with it."""

    def __init__(self, trap: Trap, counted: Path, writing: threading.Lock) -> None:
        self._trap, self._passed, self._writing = trap, dict.fromkeys(Place, 0), writing
        self._counted = counted.open("ab", buffering=0)

    def passing(self, place: Place) -> None:
        self._counted.write(f"{place}\n".encode())
        number, self._passed[place] = self._passed[place], self._passed[place] + 1
        if (place, number) != (self._trap.place, self._trap.number):
            return
        with self._writing if self._trap.by is signal.SIGSTOP else nullcontext():
            os.kill(os.getpid(), self._trap.by)


def worker_main(home: str, owner: str, trap: Trap) -> None:
    """Work until killed."""
    logging.basicConfig(level=logging.INFO)
    asyncio.run(_work(Path(home), owner, trap))


async def _work(home: Path, owner: str, trap: Trap) -> None:
    async with opened(load_config(home)) as at:
        outside = outside_of(at)
        sprung = Sprung(trap, home / f"{owner}.passed", writing_alone(at.store.engine))
        around_commits(at.store.engine, lambda: sprung.passing(Place.COMMIT))
        table = outside.ports.publications
        if isinstance(table, SqlPublications):
            around_commits(table.database.engine, lambda: sprung.passing(Place.CUSTOMER_COMMIT))
        worker = new_worker(at, outside.ports, owner, lambda performer: _trapped(performer, sprung))
        await worker.run(asyncio.Event())


def writing_alone(engine: sa.Engine) -> threading.Lock:
    """Held from before each BEGIN to after its COMMIT or ROLLBACK."""
    held = threading.Lock()
    sa.event.listen(engine, "begin", lambda conn: held.acquire(), insert=True)
    for name in ("do_commit", "do_rollback"):
        setattr(engine.dialect, name, partial(_released, getattr(engine.dialect, name), held))
    return held


def _released(plain: Callable[[Any], None], held: threading.Lock, connection: Any) -> None:
    try:
        plain(connection)
    finally:
        if held.locked():  # a connection that goes back to its pool is rolled back once more
            held.release()


def around_commits(engine: sa.Engine, passing: Callable[[], None]) -> None:
    """Call it right before and right after each COMMIT that the driver is told."""
    plain = engine.dialect.do_commit

    def do_commit(connection: Any) -> None:
        passing()
        plain(connection)
        passing()

    setattr(engine.dialect, "do_commit", do_commit)  # noqa: B010 (an attribute of this engine alone)


def _trapped(performer: Performer, sprung: Sprung) -> Performer:
    class Trapped(Performer):
        async def send(self, prepared: Prepared, deadline_s: float) -> Answer:
            sprung.passing(Place.FENCED)
            answer = await Performer.send(self, prepared, deadline_s)
            sprung.passing(Place.ANSWERED)
            return answer

    return Trapped(ports=performer.ports, observe_deadline_s=performer.observe_deadline_s)
