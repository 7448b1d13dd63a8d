"""A worker: the relay, the sweep and the slots in which sagas are driven.

Recovery is level-triggered: the sweep finds whatever is due (expired leases, retries, doubts, approvals, schedules), at
start and always, in bounded batches, from any worker. Local wake-ups and the bus only make it quicker; correctness
never depends on them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from execution.approvers import Approvers
from execution.bus.memory import MemoryBus
from execution.catalog import Catalog
from execution.doubts import Doubts
from execution.drive import Env
from execution.orchestrator import drive_saga
from execution.pace import Closed, Pace
from execution.performer import Performer
from execution.ports import Chance, Clock, Ids, Ports
from execution.settings import EngineSettings
from execution.store import outbox, pauses
from execution.store.connection import Connection
from execution.store.errors import StoreError
from execution.store.registry import due_roots
from execution.store.writer import Store

_LOG: Final = logging.getLogger("remit.worker")
RELAY_BATCH: Final = 500
TIMER_MAX_S: Final = 60.0
"""A local wake-up is set for what is due within this; what is later is found by the sweep."""


class Worker:
    """Runs sagas until it is told to stop."""

    def __init__(
        self,
        *,
        store: Store,
        catalog: Catalog,
        ports: Ports,
        clock: Clock,
        ids: Ids,
        chance: Chance,
        settings: EngineSettings,
        owner: str,
        installation: str,
        incarnation: str,
        approvers: Approvers,
        rulers: Approvers,
        bus: MemoryBus | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._store = store
        self._bus = bus or MemoryBus()
        self._slots = asyncio.Semaphore(settings.slots)
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._announced: dict[str, float] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.env = Env(
            store=store,
            catalog=catalog,
            performer=Performer(ports=ports, observe_deadline_s=settings.observe_deadline_s),
            clock=clock,
            ids=ids,
            chance=chance,
            settings=settings,
            doubts=Doubts(clock),
            pace=pace or Pace(clock),
            owner=owner,
            installation=installation,
            incarnation=incarnation,
            approvers=approvers,
            rulers=rulers,
        )

    def wake(self, root_id: str) -> None:
        """Look at that saga soon."""
        self._bus.publish(root_id)

    async def run(self, stop: asyncio.Event, *, grace_s: float = 10.0) -> None:
        """Work until `stop`; then finish what is being driven, at most `grace_s` longer."""
        loops = [
            asyncio.create_task(self._consume(), name="remit-consume"),
            asyncio.create_task(self._every(self._settings.relay_s, self.relay), name="remit-relay"),
            asyncio.create_task(self._every(self._settings.sweep_s, self.sweep), name="remit-sweep"),
        ]
        stopping = asyncio.create_task(stop.wait(), name="remit-stop")
        try:
            await asyncio.wait([*loops, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._wind_down([*loops, stopping], grace_s)
        for task in loops:
            if not task.cancelled() and task.exception() is not None:
                raise task.exception() or RuntimeError("a worker loop ended")

    async def _wind_down(self, loops: list[asyncio.Task[None] | asyncio.Task[bool]], grace_s: float) -> None:
        for task in loops:
            task.cancel()
        for timer in self._timers.values():
            timer.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        driving = list(self._driving.values())
        if driving:
            await asyncio.wait(driving, timeout=grace_s)
        for drive in driving:
            drive.cancel()
        await asyncio.gather(*driving, return_exceptions=True)

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except StoreError as error:
                _LOG.warning("store_unavailable", extra={"code": error.code})
            await asyncio.sleep(seconds)

    async def _consume(self) -> None:
        while True:
            root_id = await self._bus.next()
            self._announced.pop(root_id, None)
            if root_id in self._driving:
                self._again.add(root_id)
                continue
            await self._slots.acquire()
            task = asyncio.create_task(self._drive(root_id), name=f"remit-{root_id}")
            self._driving[root_id] = task

    async def _drive(self, root_id: str) -> None:
        due: int | None = None
        try:
            due = await drive_saga(self.env, root_id)
        except StoreError as error:
            _LOG.warning("drive_interrupted", extra={"root_id": root_id, "code": error.code})
        finally:
            self._slots.release()
            del self._driving[root_id]
        if root_id in self._again:
            self._again.discard(root_id)
            self.wake(root_id)
        self._set_timer(root_id, due)

    def _set_timer(self, root_id: str, due_ms: int | None) -> None:
        timer = self._timers.pop(root_id, None)
        if timer is not None:
            timer.cancel()
        if due_ms is None:
            return
        delay_s = max(0.0, (due_ms - self._clock.now_ms()) / 1000.0)
        if delay_s <= TIMER_MAX_S:
            loop = asyncio.get_running_loop()
            self._timers[root_id] = loop.call_later(delay_s + 0.001, self._timer_due, root_id)

    def _timer_due(self, root_id: str) -> None:
        self._timers.pop(root_id, None)
        self.wake(root_id)

    async def relay(self) -> None:
        """Say on the bus what the outbox holds unsent."""
        messages = await self._store.hot(lambda conn: outbox.unsent(conn, RELAY_BATCH))
        if not messages:
            return
        for message in messages:
            self._bus.publish(message.root_id)
        numbers = [message.outbox_id for message in messages]
        await self._store.transact(lambda conn: outbox.mark_sent(conn, numbers, self._clock.now_ms()))

    async def sweep(self) -> None:
        """Find whatever is due, all of it after a start, and share which systems take no requests now.

        What was announced and waits for a slot is not announced again before the bus may be taken to have lost it, and
        while many wait nothing more is looked for: a backlog is worked off at the pace of the slots.
        """
        lost_at = self._clock.awake_s() - self._settings.lease_s
        self._announced = {root_id: at for root_id, at in self._announced.items() if at > lost_at}
        batch = 0 if len(self._announced) > self._settings.sweep_batch // 2 else self._settings.sweep_batch
        now, known = self._clock.now_ms(), self.env.catalog.known
        news = self.env.pace.news()
        if news:
            await self._store.transact(lambda conn: pauses.note(conn, news))

        def look(conn: Connection) -> tuple[tuple[str, ...], dict[str, Closed]]:
            return due_roots(conn, now, batch, known), pauses.in_force(conn, now)

        due, closed = await self._store.hot(look)
        self.env.pace.share(closed)
        for root_id in due:
            if root_id not in self._driving and root_id not in self._announced:
                self._announced[root_id] = self._clock.awake_s()
                self._bus.publish(root_id)
