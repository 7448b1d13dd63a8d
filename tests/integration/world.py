"""A whole installation in one process: a real journal, the real engine and adapters, a sandbox whose effects count.

Nothing here sleeps to synchronise. `settle` drives a saga like a worker's sweep would, and moves the installation's
clock on to whatever is due next; the sandbox's own time goes on by itself. While a saga is driven, its status is read
all the time and compared with what is really there (`tests.integration.honesty`).
"""

import asyncio
import base64
import contextlib
import hashlib
import itertools
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from adapters.github import Archive as Place
from adapters.mail import Security
from adapters.sandbox import cloudflare, github, healthchecks
from adapters.sandbox.faults import Fault, FaultKind
from adapters.sandbox.running import Sandbox, SandboxSettings
from execution.catalog import Catalog
from execution.core.command import Approval, Command, Review, Saga
from execution.core.quiescence import Bounds
from execution.core.retry import RetryPolicy
from execution.core.states import State, Verdict
from execution.images import IMAGE_BYTES_MAX
from execution.intake import Intake
from execution.operations import Operations
from execution.orchestrator import drive_saga
from execution.pace import Pace, Rules
from execution.ports import Ports
from execution.proposal import Accepted, CommandView, Proposal, Proposer
from execution.recovery import doubt_everything
from execution.repeating import proposer_for, repetition_of
from execution.sagas import publish_article, withdraw_article
from execution.sagas.publish_plan import PublishSettings, SiteRules
from execution.sagas.withdraw_article import withdrawal_of
from execution.settings import EngineSettings
from execution.status import StatusReader
from execution.store import artifacts, authority
from execution.store.batch import Job
from execution.store.executors import ThreadExecutor
from execution.store.meta import establish
from execution.store.opening import open_store
from execution.store.writer import Store
from execution.worker import Worker
from server.outside import StoredArtifacts
from tests.integration.honesty import Reality, check_honest
from tests.integration.passage import Archive, Cache, Checks, Mail, Passage, Publications, Site
from tests.operators import Known, ruled, signed

INSTALLATION: Final = "inst_01kb9zq3m4n5p6q7r8s9t0v1w2"
ROUNDS_MAX: Final = 200
PATIENCE_S: Final = 120.0
"""`settle` jumps to whatever is due within this; what is due later is waited for by nobody."""
WAIT_MAX_S: Final = 20.0
POLL_S: Final = 0.005
PAUSE_S: Final = 0.2
"""How long a system that does not answer is left alone: somebody waits for it in real time."""
SETTINGS: Final = EngineSettings(
    lease_s=2.0,
    renew_s=0.5,
    sweep_s=0.05,
    relay_s=0.02,
    held_poll_s=0.2,
    lock_poll_s=0.2,
    looks=RetryPolicy(attempts_max=4, base_s=0.5, cap_s=2.0),
    observe_deadline_s=5.0,
)


class MovableClock:
    """The machine's clocks, and how far a test has moved them on."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + int(self.ahead_s * 1000)

    def awake_s(self) -> float:
        return time.monotonic() + self.ahead_s

    def boot_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) + self.ahead_s

    def move_on(self, seconds: float) -> None:
        self.ahead_s += seconds


class CountedIds:
    """Fresh names in order; `origin` keeps those of several processes apart."""

    def __init__(self, origin: str = "0") -> None:
        self._origin = origin
        self._count = itertools.count(1)

    def new(self, prefix: str) -> str:
        return f"{prefix}_{self._origin}{next(self._count):025d}"


class NoArtifacts:
    """Stands in `Ports` until a process puts those of its own journal there."""

    async def get(self, ref: str) -> bytes:
        raise KeyError(ref)


class NotedExecutor(ThreadExecutor):
    """The writer thread, and an event for whoever wants to look after each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.noticed = asyncio.Event()

    def submit(self, job: Job) -> None:
        super().submit(job)
        if not job.reading:
            job.future.add_done_callback(lambda _: self.noticed.set())


class NoJitter:
    """Backoff without its random part: retries are due at once, unless a system asked for a pause."""

    def uniform(self) -> float:
        return 0.0


PROPOSER: Final = Proposer(
    principal="agent:writer",
    client_id="mcp-host:desk",
    tenant="acme",
    issuer="https://issuer.example",
    token_id="tok_1",
    key_id="acme-2026",
    decision_id="dec_1",
    chain=("agent:writer", "mcp-host:desk"),
)
CONTENT: Final = "# How to brew coffee\n\nUse fresh water."


def proposal(
    *,
    content: str = CONTENT,
    article: str = "article-0028",
    version: int = 1,
    site: str = "blog",
    repeat_of: str | None = None,
    **arguments: Any,
) -> Proposal:
    """A proposal in the normal form that the gateway hands over."""
    digest = hashlib.sha256(content.encode()).hexdigest()
    meaning = {"title": "How to brew coffee", "content_format": "markdown", **arguments, "content_sha256": digest}
    return Proposal(
        intent="propose_publish",
        site=site,
        object_id=article,
        version=version,
        arguments=meaning,
        content=content.encode(),
        repeat_of=repeat_of,
    )


@dataclass
class Process:
    """What one process of the installation has: its own connection to the journal, its own engine."""

    store: Store
    worker: Worker
    intake: Intake
    operations: Operations
    status: StatusReader
    changed: bool


@dataclass
class World:
    """One installation. `store`, `intake` … are those of its first process."""

    path: Path
    sandbox: Sandbox
    passage: Passage
    clock: MovableClock
    ports: Ports
    publish: PublishSettings
    settings: EngineSettings
    first: Process
    changes: "NotedExecutor"
    table: sqlite3.Connection
    opened: list[Process] = field(default_factory=list)
    watched: set[str] = field(default_factory=set)
    observed: int = 0

    @property
    def store(self) -> Store:
        return self.first.store

    @property
    def operations(self) -> Operations:
        return self.first.operations

    @property
    def database(self) -> Path:
        return self.path / "remit.db"

    # -- proposing and driving ------------------------------------------------------------------------------------

    async def propose(self, offered: Proposal | None = None, proposer: Proposer = PROPOSER) -> Accepted:
        return await self.first.intake.propose(offered or proposal(), proposer)

    async def accepted(self, offered: Proposal | None = None, proposer: Proposer = PROPOSER) -> str:
        """The id of the command that this proposal becomes."""
        return (await self.propose(offered, proposer)).command_id

    async def turn(self, command_id: str, process: Process | None = None) -> None:
        """Drive it as far as it goes now."""
        with self.watching(command_id):
            await drive_saga((process or self.first).worker.env, command_id)
        await self.check(command_id)

    async def settle(self, command_id: str, process: Process | None = None) -> CommandView:
        """Drive it until nothing is due within the installation's patience."""
        for _ in range(ROUNDS_MAX):
            await self.turn(command_id, process)
            root = (await self.saga(command_id)).root
            due, now = root.next_check_at_ms, self.clock.now_ms()
            if due is None or due - now > PATIENCE_S * 1000:
                return await self.view(command_id)
            if due > now:
                self.clock.move_on((due - now + 1) / 1000)
        raise AssertionError(f"{command_id} never comes to rest")

    async def until_approval(self, offered: Proposal | None = None, proposer: Proposer = PROPOSER) -> str:
        """The id of a command that waits for its approval."""
        command_id = await self.accepted(offered, proposer)
        view = await self.settle(command_id)
        assert view.state == "AWAITING_APPROVAL", view
        return command_id

    async def repeated(self, command_id: str, operator: str = "operator:olivia") -> str:
        """The id of an operator's repetition of that command."""
        catalog = self.first.worker.env.catalog
        saga = await self.saga(command_id)
        now_ms = self.clock.now_ms()
        again = repetition_of(saga, catalog, operator=operator, reason="once more", now_ms=now_ms)
        return await self.accepted(*again)

    async def withdrawal(self, command_id: str, operator: str = "operator:olivia", **proposer: Any) -> str:
        """The id of an operator's withdrawal of what that command published."""
        now_ms = self.clock.now_ms()
        by = proposer_for(
            operator, tenant="acme", principal=operator, decision_id="dec_down", now_ms=now_ms, **proposer
        )
        return await self.accepted(withdrawal_of(await self.saga(command_id), reason="a wrong name"), by)

    async def approve(self, command_id: str, operator: str = "operator:olivia") -> Approval:
        _, approval = await self.operations.pending(command_id)
        return await self.operations.approve(
            command_id,
            content_hash=approval.content_hash,
            operator=operator,
            signature=signed(approval, operator),
        )

    async def published(self, offered: Proposal | None = None, proposer: Proposer = PROPOSER) -> str:
        """The id of a command that ran to its end."""
        command_id = await self.until_approval(offered, proposer)
        await self.approve(command_id)
        view = await self.settle(command_id)
        assert (view.state, view.done, view.live) == ("SUCCESS", True, True), view
        return command_id

    async def rule(self, command_id: str, verdict: Verdict, reason: str = "looked it up") -> CommandView:
        """Request a ruling on the only open review, and drive on."""
        review = await self.review(command_id)
        await self.operations.request_ruling(
            review.review_id, **ruled(review.review_id, verdict, "olivia", reason, self.clock.now_ms())
        )
        return await self.settle(command_id)

    # -- what the journal says --------------------------------------------------------------------------------------

    async def saga(self, command_id: str) -> Saga:
        found = await self.first.status.saga(command_id)
        assert found is not None
        return found

    async def view(self, command_id: str) -> CommandView:
        found = await self.first.status.view(command_id)
        assert found is not None
        return found

    async def step(self, command_id: str, name: str) -> Command:
        saga = await self.saga(command_id)
        return next(row for row in saga.members if row.command_type == name)

    async def review(self, command_id: str) -> Review:
        (found,) = [review for review in (await self.saga(command_id)).reviews if review.closed_at_ms is None]
        return found

    async def facts(self, command_id: str) -> list[str]:
        """The types of its journal's events, in order."""
        return [str(event.type) for event in await self.first.status.journal(command_id)]

    async def restrict(self, scope: str) -> None:
        """From a connection of its own, as another process would."""
        async with self.another() as other:
            await other.store.transact(
                lambda conn: authority.restrict(conn, scope, reason="test", by="olivia", now_ms=self.clock.now_ms())
            )

    async def lift(self, scope: str) -> None:
        async with self.another() as other:
            await other.store.transact(lambda conn: authority.lift(conn, scope))

    async def stored(self, content: bytes) -> str:
        """The reference under which a person stores an image."""
        now_ms = self.clock.now_ms()
        put = partial(artifacts.put, content=content, media_type="image/png", now_ms=now_ms, bytes_max=IMAGE_BYTES_MAX)
        return "artifact://sha256/" + await self.store.transact(put)

    # -- what is really there -----------------------------------------------------------------------------------------

    def reality(self) -> Reality:
        return Reality.of(self.sandbox.effects(), self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """The customer's table of publications."""
        return [dict(row) for row in self.table.execute("SELECT * FROM remit_publications ORDER BY version")]

    def arm(self, match: str, kind: FaultKind, **more: Any) -> None:
        self.sandbox.faults.arm(Fault(match=match, kind=kind, **more))

    async def struck(self, kind: FaultKind) -> None:
        assert await self.sandbox.faults.struck(kind.value, WAIT_MAX_S)

    async def edit(self, post_id: int, **fields: Any) -> None:
        """A person edits a post in the site itself."""
        await person(self.sandbox.url, post_id, fields)

    # -- honesty ------------------------------------------------------------------------------------------------------

    async def check(self, command_id: str) -> CommandView:
        """Compare what is told with what is there: what it denies must not have been there before it was asked, and
        what it claims must still be there afterwards."""
        before = self.reality()
        saga = await self.saga(command_id)
        view = await self.view(command_id)
        check_honest(view, saga, before, self.reality())
        self.observed += 1
        return view

    @contextlib.contextmanager
    def watching(self, command_id: str) -> Iterator[None]:
        """Check after each commit, and when an effect is there but not yet recorded, while the block runs."""
        if command_id in self.watched:
            yield
            return
        self.watched.add(command_id)
        self.passage.observers[command_id] = lambda: self.check(command_id)
        task = asyncio.create_task(self._watch(command_id), name="honesty")
        try:
            yield
        finally:
            self.watched.discard(command_id)
            del self.passage.observers[command_id]
            task.cancel()
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _watch(self, command_id: str) -> None:
        while True:
            await self.changes.noticed.wait()
            self.changes.noticed.clear()
            await self.check(command_id)

    # -- processes ----------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def another(self, origin: str = "b", database: Path | None = None, **changed: Any) -> AsyncIterator[Process]:
        """Another process of the same installation; `changed` are fields of its engine's settings."""
        made = await open_process(self, f"{origin}{len(self.opened)}", database, **changed)
        self.opened.append(made)
        try:
            yield made
        finally:
            await made.store.close()


async def decided(world: World, **changed: Any) -> authority.Decision:
    """The decision behind PROPOSER's token, on record."""
    now_ms = world.clock.now_ms()
    record: dict[str, Any] = {
        "decision_id": PROPOSER.decision_id,
        "tenant": PROPOSER.tenant,
        "opened_by": "operator:olivia",
        "intents": '["publish"]',
        "resources": '["command/by-agent/writer","site/blog/*"]',
        "evidence": "[]",
        "risk_class": "medium",
        "policy_hash": "",
        "outcome": "approved",
        "opened_at_ms": now_ms,
        "valid_until_ms": now_ms + 3_600_000,
        "tokens_max": 10,
        "uses_max": 10,
    }
    decision = authority.Decision(**{**record, **changed})
    await world.store.transact(lambda conn: authority.open_decision(conn, decision))
    return decision


async def open_process(world: World, origin: str, database: Path | None = None, **changed: Any) -> Process:
    settings = replace(world.settings, **changed)
    return await _process(
        database or world.database, world.clock, world.ports, world.publish, settings, CountedIds(origin), origin
    )


async def _process(
    database: Path,
    clock: MovableClock,
    ports: Ports,
    publish: PublishSettings,
    settings: EngineSettings,
    ids: CountedIds,
    owner: str,
    executor: ThreadExecutor | None = None,
) -> Process:
    store = open_store(database, executor=executor)
    identity = await establish(store, installation=INSTALLATION, incarnation=ids.new("inc"), now_ms=clock.now_ms())
    if identity.changed:
        await doubt_everything(store, clock, ids, identity.incarnation)
    catalog = Catalog([publish_article.intent(publish), withdraw_article.intent(publish)])
    own = replace(ports, artifacts=StoredArtifacts(store))
    worker = Worker(
        store=store,
        catalog=catalog,
        ports=own,
        clock=clock,
        ids=ids,
        chance=NoJitter(),
        settings=settings,
        pace=Pace(clock, common=Rules(pause_s=PAUSE_S, pause_max_s=PAUSE_S)),
        owner=owner,
        installation=identity.installation,
        incarnation=identity.incarnation,
        approvers=Known(),
        rulers=Known(),
    )
    return Process(
        store=store,
        worker=worker,
        intake=Intake(store, catalog, clock, ids, settings, wake=worker.wake),
        operations=Operations(store, clock, wake=worker.wake),
        status=StatusReader(store, catalog, clock),
        changed=identity.changed,
    )


@contextlib.asynccontextmanager
async def world_at(
    path: Path,
    *,
    bounds: Bounds | None = None,
    mail_bounds: Bounds | None = None,
    settings: EngineSettings = SETTINGS,
    plugin: bool = False,
    purge: tuple[str, ...] = (),
    **publish: Any,
) -> AsyncIterator[World]:
    """An installation in that folder, until the block ends. `publish` are fields of its publishing settings.

    plugin: the site has ours. purge: what the cache in front of it is to forget.
    """
    sandbox = Sandbox(path / "sandbox.db", time.time, SandboxSettings(plugin=plugin))
    await sandbox.start()
    declared = sandbox.settings.bounds()
    passage = Passage()
    site = Site(sandbox.url, "editor1", "sandbox-editor1", bounds or declared, plugin=plugin, passage=passage)
    place = Place(owner=github.OWNER, repo=github.REPO)
    archive = Archive(f"{sandbox.url}/github", github.TOKEN, place, declared, passage=passage)
    cache = Cache(cloudflare.ZONE, cloudflare.TOKEN, declared, url=f"{sandbox.url}/cloudflare", passage=passage)
    checks = Checks(f"{sandbox.url}/healthchecks", healthchecks.API_KEY, declared, passage=passage)
    publications = Publications(f"sqlite:///{path}/publications.db", passage=passage)
    publications.create_table()
    mail = Mail(
        "127.0.0.1",
        sandbox.smtp_port,
        "remit@remit.invalid",
        bounds=mail_bounds or declared,
        security=Security.NONE,
        passage=passage,
    )
    clock = MovableClock()
    rules = PublishSettings(
        sites={
            "blog": SiteRules(system=sandbox.url, url=sandbox.url + "/{slug}/", purge=purge),
            "shop": SiteRules(system=sandbox.url),
        },
        lists={"team": ("team@remit.invalid",), "board": ("board@remit.invalid",)},
        publications=True,
        mail=True,
        **publish,
    )
    ports = Ports(
        artifacts=NoArtifacts(),
        wordpress={"blog": site, "shop": site},
        media={"blog": site.media, "shop": site.media},
        caches={"blog": cache},
        repository=archive,
        monitoring=checks,
        publications=publications,
        mail=mail,
        recipients=rules.lists,
    )
    changes = NotedExecutor()
    process = await _process(path / "remit.db", clock, ports, rules, settings, CountedIds(), "worker-1", changes)
    table = sqlite3.connect(path / "publications.db", isolation_level=None)
    table.row_factory = sqlite3.Row
    world = World(
        path=path,
        sandbox=sandbox,
        passage=passage,
        clock=clock,
        ports=ports,
        publish=rules,
        settings=settings,
        first=process,
        changes=changes,
        table=table,
    )
    try:
        yield world
    finally:
        table.close()
        await process.store.close()
        for adapter in (site, archive, cache, checks, publications):
            await adapter.aclose()
        await sandbox.stop()


async def person(url: str, post_id: int | None, fields: dict[str, Any] | None, method: str = "POST") -> None:
    """An administrator saves a post in the browser, makes one or throws one away: a request Remit knows nothing of."""
    host, port = url.removeprefix("http://").split(":")
    body = b"" if fields is None else json.dumps(fields).encode()
    login = base64.b64encode(b"admin:sandbox-admin").decode()
    place = "" if post_id is None else f"/{post_id}"
    head = (
        f"{method} /wp-json/wp/v2/posts{place} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Basic {login}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + body)
    await writer.drain()
    status = await reader.readline()
    writer.close()
    with contextlib.suppress(ConnectionResetError):
        await writer.wait_closed()
    assert b" 200 " in status or b" 201 " in status, status


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Bounded waiting for what another task or process does."""
    for _ in range(int(WAIT_MAX_S / POLL_S)):
        if await condition():
            return
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"not in time: {what}")


__all__ = ["CONTENT", "PROPOSER", "MovableClock", "Process", "State", "World", "eventually", "proposal", "world_at"]
