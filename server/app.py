"""The composition root: the one place where time, identity and chance enter, and where parts are joined by hand.

`opened` joins what every process needs (configuration, clock, journal, catalog, services without credentials);
`outside` adds the ports, which read production credentials; `tools` adds the gateway. What a process does not do is
not imported: commands and workers never import MCP.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from capabilities.jwks import KeySource
from capabilities.token import Verifier
from execution.catalog import Catalog
from execution.pace import Pace, Rules
from execution.ports import Ports
from execution.settings import EngineSettings
from execution.status import StatusReader
from execution.store.errors import StoreUnusable
from execution.store.meta import Identity, establish, has_changed
from execution.store.meta import identity as stored_identity
from execution.store.opening import open_store
from execution.store.writer import Store
from server.config import CONFIG_NAME, Config, ConfigError
from server.settings import Paced, Settings

if TYPE_CHECKING:
    from execution.bus.memory import MemoryBus
    from execution.inbox import Inbox
    from execution.intake import Intake
    from execution.looking import Looker
    from execution.operations import Operations
    from execution.worker import Worker
    from server.callers import TokenFile
    from server.tools import Tools

log = logging.getLogger("remit.app")

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_MS_PER_S: Final = 1000


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def awake_s(self) -> float:
        return time.monotonic()

    def boot_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class Ulids:
    """Prefixed lower-case ULIDs: 48 bits of time, 80 of the system's randomness (github.com/ulid/spec)."""

    def new(self, prefix: str) -> str:
        number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
        return f"{prefix}_{''.join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))}"


class SystemChance:
    """Randomness for jitter; nothing secret depends on it."""

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 (jitter)

    def uniform(self) -> float:
        return self._random.random()


def new_secret() -> str:
    """A password nobody has to remember."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """One home, opened."""

    config: Config
    clock: SystemClock
    ids: Ulids
    store: Store
    catalog: Catalog
    status: StatusReader
    engine: EngineSettings
    identity: Identity

    @property
    def tenant(self) -> str:
        """The one tenant of this installation."""
        return self.config.settings.gateway.tenant

    def operations(self) -> Operations:
        """What operators do. Workers notice within a sweep."""
        from execution.operations import Operations

        return Operations(self.store, self.clock)

    def intake(self, wake: Callable[[str], None] | None = None) -> Intake:
        """Acceptance. `wake` tells a worker in this process of what was accepted."""
        from execution.intake import Intake

        return Intake(self.store, self.catalog, self.clock, self.ids, self.engine, wake=wake, offload=asyncio.to_thread)

    def inbox(self) -> Inbox:
        """Facts from outside. Whoever hands one over has authenticated its source."""
        from execution.inbox import Inbox

        return Inbox(self.store, self.clock, self.ids, self.tenant)

    def worker(self, ports: Ports, bus: MemoryBus) -> Worker:
        """A worker of this process; `bus` is where this process says what was accepted."""
        from execution.worker import Worker
        from server.operators import approvers_of, rulers_of

        return Worker(
            store=self.store,
            catalog=self.catalog,
            ports=ports,
            clock=self.clock,
            ids=self.ids,
            chance=SystemChance(),
            settings=self.engine,
            owner=f"{socket.gethostname()}:{os.getpid()}",
            installation=self.identity.installation,
            incarnation=self.identity.incarnation,
            approvers=approvers_of(self.config.settings),
            rulers=rulers_of(self.config.settings),
            bus=bus,
            pace=Pace(self.clock, paces(self.config.settings)),
        )

    def looker(self, ports: Ports, pace: Pace) -> Looker:
        """Whoever looks at reality without owning anything."""
        from execution.looking import Looker
        from execution.performer import Performer

        performer = Performer(ports=ports, observe_deadline_s=self.engine.observe_deadline_s)
        return Looker(performer=performer, clock=self.clock, pace=pace, installation=self.identity.installation)

    def verifier(self) -> Verifier:
        """Whom the gateway believes. Raises KeyFileError."""
        gateway = self.config.settings.gateway
        keys = KeySource(self.config.path(gateway.jwks))
        return Verifier(keys=keys, issuer=gateway.issuer, audience=gateway.audience, tenant=gateway.tenant)

    def token_file(self) -> TokenFile:
        """The caller of a gateway on stdin and stdout. Raises KeyFileError."""
        from server.callers import TokenFile

        return TokenFile(path=self.config.token_file, verifier=self.verifier(), clock=self.clock)

    def tools(self, wake: Callable[[str], None] | None = None, stop: asyncio.Event | None = None) -> Tools:
        """The agent's tools behind their gateway. `wake` tells a worker in this process of what was accepted; `stop`
        ends all waiting."""
        from server.gateway import Gateway
        from server.preview import PlanPreview
        from server.records import StoreRecords
        from server.tools import Tools

        settings, intake = self.config.settings, self.intake(wake)
        gateway = Gateway(
            verifier=self.verifier(),
            proposals=intake,
            statuses=self.status,
            records=StoreRecords(self.store, self.clock),
            clock=self.clock,
            lists=frozenset(settings.notify),
            sites=frozenset(settings.site),
        )
        return Tools(
            gateway=gateway, previewer=PlanPreview(intake, self.catalog), clock=self.clock, ids=self.ids, stop=stop
        )


Identify = Callable[[Config, Store, SystemClock, Ulids], Awaitable[Identity]]


@asynccontextmanager
async def opened(config: Config) -> AsyncIterator[Installation]:
    """Open the journal of a home and join the services over it. Raises StoreError."""
    async with _joined(config, _identity) as at:
        yield at


@asynccontextmanager
async def looked_into(config: Config) -> AsyncIterator[Installation]:
    """The same for looking alone: a journal that was copied or restored is left as it is. Raises StoreError."""
    async with _joined(config, _identity_as_stored) as at:
        yield at


@asynccontextmanager
async def _joined(config: Config, identify: Identify) -> AsyncIterator[Installation]:
    from server.publishing import catalog_of

    clock, ids = SystemClock(), Ulids()
    store = open_store(config.database)
    try:
        identity = await identify(config, store, clock, ids)
        catalog = catalog_of(config)
        yield Installation(
            config=config,
            clock=clock,
            ids=ids,
            store=store,
            catalog=catalog,
            status=StatusReader(store, catalog, clock),
            engine=engine_settings(config.settings),
            identity=identity,
        )
    finally:
        await store.close()


async def _identity(config: Config, store: Store, clock: SystemClock, ids: Ulids) -> Identity:
    """Who this journal is. A history that may have gone back or split is frozen and put in doubt before anything runs
    on it; the new incarnation is written last, so that a start that was cut off does it again."""
    known = await store.hot(stored_identity)
    if known is not None:
        _check_identity(config, known)
    incarnation = ids.new("inc")
    if await has_changed(store):
        from execution.recovery import distrust

        log.warning(
            "this journal is a copy or was restored: %d unfinished commands are in doubt, older tokens are refused, "
            "and nothing is sent until `remit freeze off`",
            await distrust(store, clock, ids, incarnation),
        )
    identity = await establish(
        store, installation=config.settings.installation.id, incarnation=incarnation, now_ms=clock.now_ms()
    )
    _check_identity(config, identity)
    return identity


async def _identity_as_stored(config: Config, store: Store, clock: SystemClock, ids: Ulids) -> Identity:
    known = await store.hot(stored_identity)
    if known is None:
        raise StoreUnusable("the journal was never started", "run any other command on this home first")
    return known


def _check_identity(config: Config, identity: Identity) -> None:
    if identity.installation != config.settings.installation.id:
        fix = f'The journal here is of installation "{identity.installation}": put that id back, or name another home.'
        raise ConfigError(f"{config.home / CONFIG_NAME}, installation.id", "not the id of this journal", fix)


def paces(settings: Settings) -> dict[str, Rules]:
    """How much each system may be asked, by the name of its pace."""
    systems: dict[str, Paced | None] = {f"wordpress/{name}": site for name, site in settings.site.items()}
    systems |= {
        "github": settings.github,
        "publications": settings.publications,
        "monitoring": settings.monitoring,
        "mail": settings.mail,
    }
    shared: dict[str, Sequence[Paced]] = {
        "cloudflare": [site.cloudflare for site in settings.site.values() if site.cloudflare is not None],
        "webhook": [found for found in settings.notify.values() if found.url is not None],
    }
    paces = {name: _pace(section) for name, section in systems.items() if section is not None}
    return paces | {name: _slowest(sections) for name, sections in shared.items() if sections}


def _slowest(sections: Sequence[Paced]) -> Rules:
    """Of several that share one pace: Cloudflare counts by account, and receivers are one system to us."""
    limits = [section.per_minute for section in sections if section.per_minute is not None]
    return Rules(
        concurrent=min(section.concurrent for section in sections),
        per_minute=min(limits, default=None),
        burst=min(section.burst for section in sections),
    )


def _pace(section: Paced) -> Rules:
    return Rules(concurrent=section.concurrent, per_minute=section.per_minute, burst=section.burst)


def engine_settings(settings: Settings) -> EngineSettings:
    """The engine's numbers as configured, hurried by `time_scale`."""
    section, scale = settings.engine, settings.engine.time_scale
    return EngineSettings(
        lease_s=section.lease_s * scale,
        renew_s=section.renew_s * scale,
        sweep_s=section.sweep_s * scale,
        spacing_s={name: site.spacing_s * scale for name, site in settings.site.items()},
    )
