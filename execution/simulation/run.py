"""One schedule: composed from its scenario, run to quiet, judged by the laws.

This is a composition root of its own: it joins the real intake, worker, operations and store with modelled systems,
virtual time and seeded chance. A `Bench` keeps the database between schedules, because making one costs more than a
schedule.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from execution.catalog import Catalog
from execution.core.command import Command
from execution.core.retry import RetryPolicy
from execution.core.states import Blocker, Kind
from execution.sagas.publish_article import intent
from execution.sagas.publish_plan import PublishSettings, SiteRules
from execution.settings import EngineSettings
from execution.simulation.actors import Actors
from execution.simulation.chance import SeededIds, VirtualClock, Wall, seeded
from execution.simulation.disk import DiskTrouble
from execution.simulation.fleet import Fleet
from execution.simulation.laws import judge
from execution.simulation.loop import Deadlock, TooManySteps, VirtualLoop
from execution.simulation.scenario import BLOG, SHOP, Scenario
from execution.simulation.site import Site
from execution.simulation.systems import Relay, Table
from execution.simulation.wire import Limits, Log, Trouble, Wire
from execution.simulation.witness import Law, Violation, Witness
from execution.simulation.world import World
from execution.store import authority, journal, schema
from execution.store.connection import Connection
from execution.store.engine import READING
from execution.store.opening import open_store

T = TypeVar("T")
SETTINGS: Final = EngineSettings(
    lease_s=10.0,
    renew_s=3.0,
    sweep_s=12.0,
    relay_s=20.0,
    held_poll_s=5.0,
    lock_poll_s=2.0,
    observe_deadline_s=6.0,
    looks=RetryPolicy(attempts_max=12, base_s=0.5, cap_s=20.0),
)
LOOK_S: Final = 5.0
"""How often a schedule is asked whether it is quiet."""
SHOP_IDS: Final = 1_000
"""Where the numbers of the second site's posts begin."""
FAR_MS: Final = 1_000_000
STILL_S: Final = 30.0
"""A blocked command whose journal did not grow for this long is polled in vain."""
POLLED: Final = frozenset({Blocker.HELD, Blocker.AWAITING_AUTHORIZATION, Blocker.LOCKED})
END_S: Final = 4_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one schedule. `trace` hashes everything that was written and everything that took effect."""

    seed: str
    violations: tuple[Violation, ...]
    checked: Counter[Law]
    commits: int
    kills: int
    steps: int
    ended_at_s: float
    trace: str
    endings: tuple[str, ...]


class Bench:
    """The database that schedules share, one after the other."""

    def __init__(self) -> None:
        self.store = open_store(":memory:")
        self._tables = tuple(reversed(schema.METADATA.sorted_tables))
        self._looking = self.store.engine.connect().execution_options(**{READING: True})

    def empty(self) -> None:
        """Everything that the last schedule wrote is forgotten."""
        with self.store.engine.begin() as conn:
            for table in self._tables:
                conn.execute(table.delete())
            conn.execute(schema.AUTHORITY.insert().values(id=1, revision=0))

    def backup(self) -> bytes:
        """The database as it stands."""
        whole: bytes = self._driver.serialize()
        return whole

    def put_back(self, held: bytes) -> None:
        """That backup takes the place of the database."""
        self._driver.deserialize(held)

    @property
    def _driver(self) -> Any:
        return self._looking.connection.driver_connection

    def read(self, work: Callable[[Connection], T]) -> T:
        """Look at the database as it stands, from outside of every process."""
        try:
            return work(self._looking)
        finally:
            self._looking.rollback()


class Schedule:
    """One run of one scenario."""

    def __init__(self, bench: Bench, scenario: Scenario) -> None:
        self.bench = bench
        self.scenario = scenario
        self.loop = VirtualLoop(seeded(f"{scenario.seed} loop"))
        self.wall = Wall()
        self.disk_trouble = DiskTrouble(slow=scenario.disk_slow, lost=scenario.disk_lost, away=scenario.disk_away)
        self.world = self._world()
        self.witness = Witness(self.world, self._restrictions, self._grant_until, honest=scenario.kind.honest)
        self.world.log.on_send = self.witness.sends
        self.ids = SeededIds(seeded(f"{scenario.seed} ids"))
        self.clock = VirtualClock(self.loop, self.wall, self.loop.world)
        self.catalog = Catalog([intent(_settings(scenario))])
        self.settings = SETTINGS
        self.fleet = Fleet(self)
        self.actors = Actors(self)

    @property
    def _twins(self) -> bool:
        return any(offer.site == SHOP for offer in self.scenario.offers)

    def _world(self) -> World:
        log = Log()

        def wire(system: str, limits: Limits) -> Wire:
            rng = seeded(f"{self.scenario.seed} {system}")
            troubled = self.scenario.focus in (None, system)
            return Wire(self.loop, rng, log, system, limits, self.scenario.trouble if troubled else Trouble())

        def site(system: str, first_id: int) -> Site:
            made = wire(system, self.scenario.site)
            return Site(made, plugin=self.scenario.plugin, alters=self.scenario.alters, first_id=first_id)

        table, relay = self.scenario.table, self.scenario.relay
        return World(
            loop=self.loop,
            log=log,
            sites={BLOG: site("wordpress", 1), **({SHOP: site("wordpress/shop", SHOP_IDS)} if self._twins else {})},
            table=None if table is None else Table(wire("publications", table)),
            relay=None if relay is None else Relay(wire("mail", relay)),
        )

    def _restrictions(self) -> frozenset[str]:
        return self.bench.read(lambda conn: frozenset(found.scope for found in authority.restrictions(conn)))

    def _grant_until(self, root_id: str) -> int | None:
        grant = self.bench.read(lambda conn: authority.find_grant(conn, root_id))
        return None if grant is None else grant.grant_until_ms

    def run(self) -> Result:
        """Run it and judge it."""
        self.bench.empty()
        ended = self.loop.create_future()
        self.fleet.start()
        self.actors.start()
        watching = self.loop.create_task(self._until_quiet(ended), context=self.loop.world.context)
        try:
            self.loop.run(ended)
        except (Deadlock, TooManySteps) as error:
            self.witness.broken(Law.CONVERGES, f"{type(error).__name__}: {error}")
        if watching.done() and not watching.cancelled() and watching.exception() is not None:
            raise watching.exception() or AssertionError
        try:
            return self._judged()
        finally:
            self.loop.dispose()

    def _judged(self) -> Result:
        broken = (*self.loop.broken, *self.fleet.broken())
        self.witness.expect(Law.NOTHING_BREAKS, not broken, "; ".join(broken))
        self.actors.ask_status()
        endings = self.bench.read(lambda conn: judge(conn, self))
        return Result(
            seed=self.scenario.seed,
            violations=tuple(self.witness.violations),
            checked=self.witness.checked,
            commits=self.witness.commits,
            kills=self.fleet.kills,
            steps=self.loop.steps,
            ended_at_s=self.loop.time(),
            trace=self._trace(),
            endings=endings,
        )

    def _trace(self) -> str:
        def read(conn: Connection) -> list[str]:
            return [leaf.hash for leaf in journal.hashes(conn, 0, 100_000, journal.last_position(conn))]

        leaves = self.bench.read(read)
        text = repr((leaves, self.world.log.effects, self.loop.steps, self.loop.time()))
        return hashlib.sha256(text.encode()).hexdigest()

    # -- the end ---------------------------------------------------------------------------------------------------

    async def _until_quiet(self, ended: asyncio.Future[Any]) -> None:
        try:
            await asyncio.sleep(self.scenario.faults_until_s)
            self._calm()
            while self.loop.time() < END_S:
                await asyncio.sleep(LOOK_S)
                if self._quiet():
                    break
        finally:
            if not ended.done():
                ended.set_result(None)

    def _calm(self) -> None:
        """Faults end; what they left has to be put right now."""
        self.world.calm()
        self.disk_trouble.slow = self.disk_trouble.lost = self.disk_trouble.away = 0.0
        self.fleet.calm()
        self.actors.calm()
        self._grew_at_s, self._position = self.loop.time(), 0

    def _quiet(self) -> bool:
        position = self.bench.read(journal.last_position)
        if position != self._position:
            self._position, self._grew_at_s = position, self.loop.time()
            return False
        if self.world.log.in_flight or not self.actors.idle:
            return False
        rows = self.witness.rows
        roots = [row for row in rows.values() if row.kind is Kind.SAGA]  # also one whose agent never heard of it
        return rows.keys() >= set(self.actors.roots) and all(self._rests(root) for root in roots)

    def _rests(self, root: Command) -> bool:
        """Nobody works on it and its timers are far away, or it only asks again whether what blocks it is gone."""
        if root.blocked_by & POLLED and self.loop.time() - self._grew_at_s >= STILL_S:
            return True
        far = self.clock.now_ms() + FAR_MS
        return root.lease_owner is None and (root.next_check_at_ms is None or root.next_check_at_ms > far)


def _settings(scenario: Scenario) -> PublishSettings:
    return PublishSettings(
        sites={name: SiteRules(url=f"https://{name}.example/{{slug}}/") for name in (BLOG, SHOP)},
        lists={"team": ("team@blog.example",)},
        publications=scenario.table is not None,
        mail=scenario.relay is not None,
        mail_domain="remit.example",
        approval_ttl_s=scenario.approval_ttl_s,
        deadline_s=scenario.deadline_s,
    )


def run(scenario: Scenario, bench: Bench | None = None) -> Result:
    """Run one scenario, without the log lines of the faults in it."""
    log = logging.getLogger("remit")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        return Schedule(bench or Bench(), scenario).run()
    finally:
        log.setLevel(level)
