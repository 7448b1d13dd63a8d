"""The processes of a schedule: workers and a gateway on one store, the bus between them, and their deaths."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from execution.bus.memory import MemoryBus
from execution.core.command import Saga
from execution.intake import Intake
from execution.operations import Operations
from execution.recovery import distrust
from execution.simulation.chance import SeededChance, VirtualClock, seeded
from execution.simulation.disk import Disk, Side, store_of
from execution.simulation.loop import Process, VirtualLoop
from execution.simulation.people import APPROVERS
from execution.simulation.wire import STALLS_S
from execution.status import StatusReader
from execution.store import registry
from execution.store.connection import Connection
from execution.store.writer import Store
from execution.worker import Worker

if TYPE_CHECKING:
    from execution.simulation.run import Schedule

BACK_S: Final = 1.0
"""After this long a supervisor has started a dead process again."""
CUT_OFF: Final = 0.3
CUT_OFF_S: Final = 0.5
"""How often, and how soon, the first start on a journal that was put back is cut off."""
BUS_S: Final = 2.0
"""The longest that a bus delays a message."""


class Bus(MemoryBus):
    """One worker's end of a bus that loses, doubles and delays."""

    def __init__(self, loop: VirtualLoop, rng: Random, fleet: Fleet) -> None:
        super().__init__()
        self._loop = loop
        self._rng = rng
        self._fleet = fleet

    def publish(self, root_id: str) -> None:
        """Say it to somebody, perhaps."""
        if self._rng.random() < self._fleet.bus_loses:
            return
        self._deliver(root_id)
        if self._rng.random() < self._fleet.bus_doubles:
            self._deliver(root_id)

    def _deliver(self, root_id: str) -> None:
        delay = self._rng.random() * BUS_S if self._rng.random() < self._fleet.bus_doubles else 0.0
        self._loop.in_world(delay, self._fleet.say, self._rng.random(), root_id)

    def hear(self, root_id: str) -> None:
        """It was delivered here."""
        super().publish(root_id)


class Member:
    """A worker process and its parts."""

    def __init__(self, number: int, process: Process, worker: Worker, bus: Bus, task: asyncio.Task[None]) -> None:
        self.number = number
        self.process = process
        self.worker = worker
        self.bus = bus
        self.task = task


class Gateway:
    """The process in which agents propose, people ask and operators decide."""

    def __init__(self, process: Process, intake: Intake, operations: Operations, status: StatusReader, store: Store):
        self.process = process
        self.intake = intake
        self.operations = operations
        self.status = status
        self.store = store


class Fleet:
    """All processes. `kills` counts those that died."""

    def __init__(self, schedule: Schedule) -> None:
        self._at = schedule
        self._rng = seeded(f"{schedule.scenario.seed} fleet")
        self.bus_loses = schedule.scenario.bus_loses
        self.bus_doubles = schedule.scenario.bus_doubles
        self._stalls = schedule.scenario.trouble.stalls
        self.members: dict[int, Member] = {}
        self.kills = 0
        self._returns = 0
        self._started = 0
        self._openings = 0
        self._boundaries = {Side.BEFORE: 0, Side.AFTER: 0}
        self._deaths = {(death.commit, death.side) for death in schedule.scenario.deaths}
        self._ended: list[str] = []
        schedule.witness.on_boundary = self._boundary
        self.gateway = self._gateway()

    def start(self) -> None:
        """Bring every worker up."""
        for number in range(self._at.scenario.workers):
            self._start(number)

    def calm(self) -> None:
        """No more losses on the bus, and nobody stands still."""
        self.bus_loses = self.bus_doubles = self._stalls = 0.0

    def say(self, where: float, root_id: str) -> None:
        """The bus delivers to one of those that are up."""
        members = list(self.members.values())
        if members:
            members[int(where * len(members))].bus.hear(root_id)

    def broken(self) -> list[str]:
        """Workers whose loops ended by themselves."""
        for member in self.members.values():
            self._note_end(member)
        return self._ended

    def pick(self, where: float) -> Member | None:
        """One of the workers that are up."""
        members = list(self.members.values())
        return members[int(where * len(members))] if members else None

    def kill(self, member: Member, back_s: float = BACK_S) -> None:
        """`kill -9`, and a supervisor that starts it again."""
        if self.members.get(member.number) is not member:
            return
        self._note_end(member)
        del self.members[member.number]
        self.kills += 1
        self._at.loop.kill(member.process)
        self._at.loop.in_world(back_s, self._start, member.number)

    def kill_gateway(self) -> None:
        """The gateway dies and is back at once; who waited for its answer gets none."""
        self.kills += 1
        self._at.loop.kill(self.gateway.process)
        self.gateway = self._gateway()

    @property
    def is_down(self) -> bool:
        """Whether no process runs that anybody could ask."""
        return not self.gateway.process.alive

    def put_back(self, backup: bytes) -> None:
        """Everything ends, the journal is what it was at that instant, and whoever starts first distrusts it."""
        for member in list(self.members.values()):
            self.kill(member)
        self._at.loop.kill(self.gateway.process)
        self.kills += 1
        self._at.bench.put_back(backup)
        sagas = self._at.bench.read(_all_sagas)
        self._at.witness.went_back(sagas)
        self._at.actors.people.went_back(sagas)
        self._returns += 1
        self._distrust(self._rng.random() < CUT_OFF)

    @property
    def incarnation(self) -> str:
        """Of the journal as it is."""
        return f"inc_{1 + self._returns}"

    def _distrust(self, is_cut_off: bool) -> None:
        """The start of the first process; one that is cut off does it again."""
        process = self._process("start")
        store, at = self._store(process), self._at
        clock = VirtualClock(at.loop, at.wall, process)
        starting = at.loop.spawn(process, distrust(store, clock, at.ids, self.incarnation))
        if is_cut_off:
            at.loop.in_world(self._rng.random() * CUT_OFF_S, self._cut_off, process)
        starting.add_done_callback(lambda _: self._trusted(process), context=at.loop.world.context)

    def _cut_off(self, process: Process) -> None:
        if self.is_down:
            self._at.loop.kill(process)
            self._distrust(is_cut_off=False)

    def _trusted(self, process: Process) -> None:
        self._at.loop.kill(process)
        self.gateway = self._gateway()

    def _note_end(self, member: Member) -> None:
        if member.task.done() and not member.task.cancelled():
            self._ended.append(f"a worker ended: {member.task.exception()!r}")

    def _boundary(self, process: Process, side: Side) -> None:
        self._boundaries[side] += 1
        if side is Side.AFTER and self._stalls and self._fenced(process) and self._rng.random() < self._stalls:
            self._at.loop.pause(process, self._rng.choice(STALLS_S))
        if (self._boundaries[side], side) not in self._deaths:
            return
        if process is self.gateway.process:
            self.kill_gateway()
        for member in list(self.members.values()):
            if member.process is process:
                self.kill(member)

    async def _dies(self, process: Process) -> None:
        """Opening the content ends that worker, from some time on."""
        self._openings += 1
        if self._openings <= (self._at.scenario.deadly or 0):
            return
        for member in list(self.members.values()):
            if member.process is process:
                self.kill(member)
        await self._at.loop.create_future()

    def _fenced(self, process: Process) -> bool:
        """Whether it holds a connection, and the commit that was just made may be the fence of what it will write."""
        return any(process in wire.unwritten.values() for wire in self._at.world.wires)

    def _store(self, process: Process) -> Store:
        rng = seeded(f"{self._at.scenario.seed} {process.name}")
        disk = Disk(self._at.loop, process, rng, self._at.disk_trouble, self._at.witness)
        return store_of(self._at.bench.store.engine, disk)

    def _process(self, kind: str) -> Process:
        self._started += 1
        return self._at.loop.process(f"{kind}-{self._started}")

    def _start(self, number: int) -> None:
        if self.is_down:
            self._at.loop.in_world(BACK_S, self._start, number)
            return
        at, process = self._at, self._process("worker")
        store = self._store(process)
        rng = seeded(f"{at.scenario.seed} {process.name} bus")
        bus = Bus(at.loop, rng, self)
        worker = Worker(
            store=store,
            catalog=at.catalog,
            ports=at.world.ports(store, partial(self._dies, process) if at.scenario.deadly is not None else None),
            clock=VirtualClock(at.loop, at.wall, process, skew_s=(number - 1) * 0.1),
            ids=at.ids,
            chance=SeededChance(seeded(f"{at.scenario.seed} {process.name} chance")),
            settings=at.settings,
            owner=process.name,
            installation="inst_simulation",
            incarnation=self.incarnation,
            approvers=APPROVERS,
            rulers=APPROVERS,
            bus=bus,
        )
        task = at.loop.spawn(process, _run(worker))
        self.members[number] = Member(number, process, worker, bus, task)

    def _gateway(self) -> Gateway:
        at, process = self._at, self._process("gateway")
        store, clock = self._store(process), VirtualClock(self._at.loop, self._at.wall, process)
        wake: Callable[[str], None] = Bus(at.loop, self._rng, self).publish
        return Gateway(
            process,
            Intake(store, at.catalog, clock, at.ids, at.settings, wake=wake),
            Operations(store, clock, wake=wake),
            StatusReader(store, at.catalog, clock),
            store,
        )


def _all_sagas(conn: Connection) -> list[Saga]:
    roots, _ = registry.page(conn, registry.Filter(), limit=50)
    return [registry.load_saga(conn, root.command_id) for root in roots]


async def _run(worker: Worker) -> None:
    await worker.run(asyncio.Event())
