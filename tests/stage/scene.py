"""One installation on a stage: a home, its sandbox, a person with an operator's key, and workers that come and go.

Whoever tests looks from two sides: at the status, which is made from the journal, and at the outside, which the journal
never sees. `look` compares them: a status must never claim more than exists.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from adapters.sandbox.healthchecks import API_KEY
from capabilities.keyfile import create_private_file
from capabilities.keys import load_operator_key
from execution.bus.memory import MemoryBus
from execution.core.command import Review, Saga
from execution.core.states import ApprovalState, CompensationState, Verdict
from execution.images import IMAGE_BYTES_MAX
from execution.intake import Intake
from execution.performer import Performer
from execution.ports import Ports
from execution.proposal import CommandView, Proposal, Proposer
from execution.settings import EngineSettings
from execution.status import view_of
from execution.store import artifacts, journal
from execution.worker import Worker
from server import approving
from server.app import Installation, SystemClock, Ulids, opened
from server.config import CONFIG_NAME, Config, load_config
from server.home import create_home
from server.operators import approvers_of, rulers_of
from server.outside import outside_of
from server.publishing import catalog_of
from tests.operators import ruled
from tests.pictures import png
from tests.stage.sandbox import INCOMPLETE_S, MAX_RUN_S, Outside, SandboxProcess

OPERATOR: Final = "olivia"
LEASE_S: Final = 1.0
QUIET_MAX_S: Final = 120.0
"""How long the journal may stand still before what was to happen counts as stuck."""
LOOKED_MAX_S: Final = 1_800.0
"""However much the journal grows meanwhile."""
POLL_S: Final = 0.04
TITLE: Final = "How to brew coffee"
SLUG: Final = "how-to-brew-coffee"
TRANSIT_S: Final = 0.1
PAUSE_S: Final = 0.1
CLOCK_S: Final = 0.1
WITHIN_S: Final = 2.0
ARCHIVE: Final = "ARCHIVE_CONTENT_VERSION"
NUMBERS: Final = {
    "max_run_s = 5\n": f"max_run_s = {MAX_RUN_S}\n",
    "incomplete_s = 3\n": f"incomplete_s = {INCOMPLETE_S}\n",
    "transit_s = 1\n": f"transit_s = {TRANSIT_S}\n",
    "clock_s = 0.5\n": f"clock_s = {CLOCK_S}\n",
    "pause_s = 1\n": f"pause_s = {PAUSE_S}\n",
    "within_s = 2\n": f"within_s = {WITHIN_S}\n",
    'max_run_source = "the sandbox ends conversations after this"\n': (
        'max_run_source = "the sandbox ends conversations after this"\n'
        f"transit_s = {TRANSIT_S}\nclock_s = {CLOCK_S}\npause_s = {PAUSE_S}\nstale_s = 0\n"
    ),
    'max_run_source = "the sandbox ends deliveries after this"\n': (
        'max_run_source = "the sandbox ends deliveries after this"\n'
        f"transit_s = {TRANSIT_S}\nclock_s = {CLOCK_S}\npause_s = {PAUSE_S}\nstale_s = 0\n"
    ),
    '/sandbox/publications.db"\n': (
        f'/sandbox/publications.db"\nmax_run_s = {MAX_RUN_S}\nmax_run_source = "nobody else locks this file"\n'
        f"transit_s = 0\nclock_s = {CLOCK_S}\npause_s = {PAUSE_S}\nstale_s = 0\n"
    ),
}
"""Quiescence is 2.8 s with these: the send budget, transit, pause, run time and clock error."""
CHECKS: Final = 'kind = "sql"\nurl = "sqlite:///{home}/sandbox/monitoring.db"\n'
CHECKS_OF_A_SERVICE: Final = (
    'kind = "healthchecks"\nurl = "http://127.0.0.1:{port}/healthchecks"\napi_key_file = "secrets/monitoring.key"\n'
    f'max_run_s = {MAX_RUN_S}\nmax_run_source = "the sandbox ends requests after this"\n'
    f"transit_s = {TRANSIT_S}\nclock_s = {CLOCK_S}\npause_s = {PAUSE_S}\nstale_s = 0\n"
)


class SmallChance:
    """Jitter that makes waits short."""

    def uniform(self) -> float:
        return 0.05


def make_home(path: Path, changes: Mapping[str, str], approval_ttl_s: float | None) -> None:
    """A home against its own sandbox, with a short lease. `changes` replaces lines of the configuration."""
    create_home(path, clock=SystemClock(), ids=Ulids(), tenant="acme", operator=OPERATOR)
    file = path / CONFIG_NAME
    text = file.read_text()
    for old, new in {**NUMBERS, **changes}.items():
        assert old in text, old
        text = text.replace(old, new)
    create_private_file(path / "secrets" / "monitoring.key", API_KEY.encode())
    port = load_config(path).settings.sandbox.http_port
    text = text.replace(CHECKS, CHECKS_OF_A_SERVICE.format(port=port))
    ttl = "" if approval_ttl_s is None else f"approval_ttl_s = {approval_ttl_s}\n"
    engine = f"\n[engine]\nlease_s = {LEASE_S}\nrenew_s = {LEASE_S / 4}\nsweep_s = 0.1\n{ttl}"
    file.write_text(text + engine)


def new_worker(at: Installation, ports: Ports, owner: str, dress: Callable[[Performer], Performer]) -> Worker:
    """A worker as `server.app` composes it, but with short jitter; `dress` may put something around the performer."""
    engine: EngineSettings = at.engine
    worker = Worker(
        store=at.store,
        catalog=catalog_of(at.config),
        ports=ports,
        clock=at.clock,
        ids=at.ids,
        chance=SmallChance(),
        settings=engine,
        owner=owner,
        installation=at.identity.installation,
        incarnation=at.identity.incarnation,
        approvers=approvers_of(at.config.settings),
        rulers=rulers_of(at.config.settings),
        bus=MemoryBus(),
    )
    worker.env = replace(worker.env, performer=dress(worker.env.performer))
    return worker


def undressed(performer: Performer) -> Performer:
    return performer


@dataclass(slots=True)
class Scene:
    """An opened home with its sandbox."""

    at: Installation
    sandbox: SandboxProcess
    looks: int = 0
    lies: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.at.config.home

    async def propose(self, version: int = 1, article: str = "article-0028", **arguments: Any) -> str:
        """An agent's proposal, as the gateway hands it to intake, with an image that a person stored; its id.

        `repeat_of`: what it repeats.
        """
        repeat_of = arguments.pop("repeat_of", None)
        given = {"title": TITLE, "notify": ["team"], "featured_image": await self.picture(version), **arguments}
        text = given.pop("content", f"# How to brew coffee\n\nUse fresh water, version {version}.")
        proposal = Proposal(
            intent="propose_publish",
            site="blog",
            object_id=article,
            version=version,
            arguments=given | {"content_text": text},
            content=text.encode(),
            repeat_of=repeat_of,
        )
        intake = Intake(self.at.store, self.at.catalog, self.at.clock, self.at.ids, self.at.engine)
        return (await intake.propose(proposal, PROPOSER)).command_id

    async def picture(self, version: int) -> str:
        """The reference of that version's image."""
        content, now_ms = png(version), self.at.clock.now_ms()
        put = partial(artifacts.put, content=content, media_type="image/png", now_ms=now_ms, bytes_max=IMAGE_BYTES_MAX)
        return "artifact://sha256/" + await self.at.store.transact(put)

    async def saga(self, command_id: str) -> Saga:
        found = await self.at.status.saga(command_id)
        assert found is not None
        return found

    async def approve(self, command_id: str) -> None:
        """A person says yes, with a key, to what is asked now."""
        key = await asyncio.to_thread(load_operator_key, self.home / "operators" / f"{OPERATOR}.pem")
        shown = await approving.pending(self.at, command_id)
        await approving.approve(self.at, shown, shown.approval.content_hash, key)

    async def reject(self, command_id: str, reason: str = "not yet") -> None:
        await self.at.operations().reject(command_id, operator=f"operator:{OPERATOR}", reason=reason)

    async def rule(self, review: Review, verdict: Verdict, reason: str = "looked") -> None:
        key = await asyncio.to_thread(load_operator_key, self.home / "operators" / f"{OPERATOR}.pem")
        said = ruled(review.review_id, verdict, OPERATOR, reason, self.at.clock.now_ms(), key)
        await self.at.operations().request_ruling(review.review_id, **said)

    async def look(self, command_id: str) -> tuple[CommandView, Saga]:
        """One observation: first what is said, then what is."""
        saga = await self.saga(command_id)
        view = view_of(saga)
        outside = await asyncio.to_thread(self.sandbox.outside)
        self.looks += 1
        found = lies(view, saga, outside, await self.approved(saga))
        if any(lie.startswith(ARCHIVE) for lie in found):  # taken back between the two readings, or never there
            found = [lie for lie in found if not lie.startswith(ARCHIVE) or await self._is_kept(command_id)]
        self.lies += found
        if not self.words or self.words[-1] != view.state:
            self.words.append(view.state)
        return view, saga

    async def _is_kept(self, command_id: str) -> bool:
        """Whether the archived version is still claimed, and nobody takes it back."""
        saga = await self.saga(command_id)
        row = saga.named(ARCHIVE)
        return saga.root.ending is None and row is not None and row.compensation_state is CompensationState.NOT_NEEDED

    async def approved(self, saga: Saga) -> tuple[str, str]:
        """Title and content that were frozen at acceptance."""
        plan = plan_of(saga)
        found = await self.at.store.read(lambda conn: artifacts.get(conn, plan["content_sha256"]))
        assert found is not None
        assert found.content is not None
        return plan["title"], found.content.decode()

    async def until(
        self,
        command_id: str,
        reached: Callable[[CommandView, Saga], bool],
        *,
        approving_it: bool = True,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> tuple[CommandView, Saga]:
        """Look again and again until that is reached; a person approves what waits for approval.

        Patience is measured from when the journal last grew: a loaded machine is slow and not stuck.
        """
        begun = grown = time.monotonic()
        position = -1
        while True:
            view, saga = await self.look(command_id)
            if reached(view, saga):
                return view, saga
            now, newest = time.monotonic(), await self.at.store.read(journal.last_position)
            if newest > position:
                position, grown = newest, now
            if now > min(grown + QUIET_MAX_S, begun + LOOKED_MAX_S):
                stood = f"after {now - begun:.0f} s, the last {now - grown:.0f} without an event"
                raise AssertionError(f"still {view.state} {stood}: {told(view, saga)}")
            pending = any(approval.state is ApprovalState.PENDING for approval in saga.approvals)
            if approving_it and pending and view.state == "AWAITING_APPROVAL":
                await self.approve(command_id)
            meanwhile()
            await asyncio.sleep(POLL_S)

    async def verified(self) -> list[str]:
        """Findings of the journal's own verification."""
        batches = await self.at.store.read(lambda conn: list(journal.verify_all(conn)))
        return [f"{found.command_id} {found.kind}: {found.detail}" for batch in batches for found in batch.findings]

    @asynccontextmanager
    async def working(
        self, dress: Callable[[Performer], Performer] = undressed, owner: str = "in-process"
    ) -> AsyncIterator[Worker]:
        """A worker in this process, over the real adapters."""
        outside, stop = outside_of(self.at), asyncio.Event()
        worker = new_worker(self.at, outside.ports, owner, dress)
        running = asyncio.create_task(worker.run(stop, grace_s=5.0))
        try:
            yield worker
        finally:
            stop.set()
            await running
            await outside.aclose()


PROPOSER: Final = Proposer(
    principal="agent:writer",
    client_id="client:test",
    tenant="acme",
    issuer="https://issuer.remit.invalid/acme",
    token_id="tok_test",
    key_id="acme-1",
    decision_id="dec_test",
    chain=("agent:writer",),
    may_repeat=True,
)


@asynccontextmanager
async def staged(
    path: Path,
    *,
    changes: Mapping[str, str] = {},
    approval_ttl_s: float | None = None,
    real_max_run_s: float = MAX_RUN_S,
) -> AsyncIterator[Scene]:
    """A home at that path, its sandbox running. `real_max_run_s` beyond what is declared breaks the promise."""
    config = await asyncio.to_thread(_made, path, changes, approval_ttl_s)
    section = config.settings.sandbox
    folder = config.path(section.state).parent
    sandbox = await asyncio.to_thread(
        partial(SandboxProcess, folder, section.http_port, section.smtp_port, max_run_s=real_max_run_s)
    )
    try:
        async with opened(config) as at:
            yield Scene(at=at, sandbox=sandbox)
    finally:
        await asyncio.to_thread(sandbox.end)


def _made(path: Path, changes: Mapping[str, str], approval_ttl_s: float | None) -> Config:
    make_home(path, changes, approval_ttl_s)
    return load_config(path)


def plan_of(saga: Saga) -> dict[str, Any]:
    """The frozen parameters."""
    plan: dict[str, Any] = json.loads(saga.root.params)["plan"]
    return plan


def is_quiet(view: CommandView, saga: Saga) -> bool:
    """Nothing more happens by itself: ended with nothing on the watch list, or a person is asked and nothing is due."""
    if saga.root.lease_owner is not None or view.state == "AWAITING_APPROVAL":
        return False
    if saga.root.is_terminal:
        return saga.root.next_check_at_ms is None
    asked = any(review.closed_at_ms is None and review.verdict is None for review in saga.reviews)
    due = saga.root.next_check_at_ms
    return asked and (due is None or due == saga.root.deadline_at_ms)


def told(view: CommandView, saga: Saga) -> str:
    """A line about every row, for a failure message."""
    rows = ", ".join(f"{row.command_type}={row.state}/{row.error_code}" for row in saga.members)
    reviews = ", ".join(f"{r.kind}:{r.facts}" for r in saga.reviews if r.closed_at_ms is None)
    return f"{view.state} {view.phase} {view.ending} blockers={view.blockers} [{rows}] reviews=[{reviews}]"


def lies(view: CommandView, saga: Saga, outside: Outside, approved: tuple[str, str]) -> list[str]:
    """What the status claims and the outside, which was read later, does not show."""
    found: list[str] = []
    ids = {row.command_type: row.external_resource_id for row in saga.members}
    if view.live:
        post = outside.post(ids.get("PUBLISH_WORDPRESS_POST"))
        if post is None or post.status != "publish" or (post.title, post.content) != approved:
            found.append(f"{view.state}: live is claimed, the site shows {post}")
    if view.done and view.state == "SUCCESS" and not view.live:
        found.append("done and SUCCESS, but not live")
    for row in saga.members:
        standing = row.compensation_state is CompensationState.NOT_NEEDED  # else it may go between the two reads
        if row.state == "SUCCESS" and row.compensates is None and row.verified_at_ms is not None and standing:
            if row.command_type == ARCHIVE:
                branch = outside.branch(row.external_resource_id)
                kept = branch is not None and branch.commit == row.external_version
                found += [] if kept else [f"{ARCHIVE} is claimed: {branch}"]
            found += _missing(row.command_type, row.external_resource_id, outside)
        if row.compensation_state is CompensationState.DONE:
            found += _still_there(row.command_type, row.external_resource_id, outside)
    if view.state == "COMPENSATED" and outside.by_status().get("publish", 0) > 0 and saga.root.object_version == 1:
        found.append("COMPENSATED, but a post is public")
    if "SEND_NOTIFICATION" in view.answers.succeeded and not outside.mails:
        found.append("a message is claimed that nobody received")
    if "SEND_WEBHOOK" in view.answers.succeeded and not outside.webhooks:
        found.append("a webhook is claimed that nobody received")
    return found


def _missing(step: str, resource: str | None, outside: Outside) -> list[str]:
    post = outside.post(resource)
    match step:
        case "UPLOAD_FEATURED_IMAGE" if outside.image(resource) is None:
            return [f"{step} is claimed and {resource} does not exist"]
        case "CREATE_WORDPRESS_DRAFT" if post is None:
            return [f"{step} is claimed and {resource} does not exist"]
        case "PURGE_CLOUDFLARE_CACHE" if not outside.purges:
            return [f"{step} is claimed and nothing was purged"]
        case "REGISTER_MONITORING" if not outside.checks:
            return [f"{step} is claimed and there is no check"]
        case "STAGE_PUBLICATION_RECORD" if not any(row.key == resource for row in outside.rows):
            return [f"{step} is claimed and there is no row"]
        case "RECORD_PUBLICATION" if not any(row.key == resource and row.status == "published" for row in outside.rows):
            return [f"{step} is claimed and no row is published"]
        case "TRASH_STAGED_DRAFT" if post is not None and post.status != "trash":
            return [f"{step} is claimed and {resource} is {post.status}"]
        case _:
            return []


def _still_there(step: str, resource: str | None, outside: Outside) -> list[str]:
    post = outside.post(resource)
    if step == ARCHIVE and outside.branch(resource) is not None:
        return [f"{step} is said to be undone and {resource} stands"]
    if step == "UPLOAD_FEATURED_IMAGE" and outside.image(resource) is not None:
        return [f"{step} is said to be undone and {resource} exists"]
    if step == "CREATE_WORDPRESS_DRAFT" and post is not None and post.status != "trash":
        return [f"{step} is said to be undone and {resource} is {post.status}"]
    if step == "STAGE_PUBLICATION_RECORD" and any(r.key == resource and r.status != "cancelled" for r in outside.rows):
        return [f"{step} is said to be undone and the row is not cancelled"]
    return []
