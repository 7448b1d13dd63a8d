"""Everybody who acts on a schedule from outside: agents, the operator, people at the site, and misfortune."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from execution.core.command import Saga
from execution.operations import OperationRefused
from execution.proposal import Accepted, IntakeRefused, Proposal, Proposer
from execution.simulation.chance import EPOCH_MS, seeded
from execution.simulation.fleet import Gateway
from execution.simulation.people import People
from execution.simulation.questions import Asked
from execution.simulation.scenario import BLOG, Act, Fault, Offer
from execution.status import view_of
from execution.store import authority, registry
from execution.store.errors import StoreError

if TYPE_CHECKING:
    from execution.simulation.run import Schedule

TENANT: Final = "acme"
ISSUER: Final = "https://issuer.example"
ARTICLE: Final = "article-0028"
ANSWER_S: Final = 15.0
"""How long anybody waits for the gateway."""
TRIES: Final = 8
SAMPLES_S: Final = 9.0
FREEZES: Final = (
    "freeze:all",
    f"freeze:tenant:{TENANT}",
    f"freeze:site:{BLOG}",
    "freeze:system:wordpress",
    "freeze:system:publications",
    "freeze:system:mail",
)
REVOCATIONS: Final = (
    f"revoked:token:{ISSUER} tok_writer",
    "revoked:agent:agent:writer",
    "revoked:decision:dec_1",
    "revoked:client:client_writer",
    "revoked:key:key_1",
)


class Actors:
    """See the module. accepted: what agents were told is durable. offered: every proposal that was made."""

    def __init__(self, schedule: Schedule) -> None:
        self._at = schedule
        self._rng = seeded(f"{schedule.scenario.seed} actors")
        self._faults = sorted(
            (fault for fault in schedule.scenario.faults if fault.at_step is not None),
            key=lambda fault: fault.at_step or 0,
        )
        self._busy = 0
        self._calm = False
        self.accepted: list[tuple[Accepted, Offer]] = []
        self.refused: list[str] = []
        self._asked_at = (0, 0)
        self.people = People(schedule, self)

    @property
    def roots(self) -> tuple[str, ...]:
        """Every command that an agent was told of."""
        return tuple(dict.fromkeys(accepted.command_id for accepted, _ in self.accepted))

    @property
    def idle(self) -> bool:
        """Whether nobody is about to do anything."""
        return self._busy == 0

    def start(self) -> None:
        """Begin."""
        loop = self._at.loop
        loop.at_step = self._step
        self.people.start()
        for offer in self._at.scenario.offers:
            self.do(offer.at_s, partial(self._offer, offer))
        for fault in self._at.scenario.faults:
            if fault.at_s is not None:
                loop.in_world(fault.at_s, self._happens, fault)
        loop.in_world(self._rng.random() * SAMPLES_S, self._sample)

    def calm(self) -> None:
        """No more misfortune; a restriction may be lifted, a grant renewed."""
        self._calm = True
        if self._rng.random() < 0.7:
            for scope in FREEZES:
                self.do(0.0, partial(self._transact, partial(authority.lift, scope=scope)))
        if self._at.scenario.grant_s is not None and self._rng.random() < 0.5:
            self.do(1.0, self._renew)

    def do(self, delay: float, work: Callable[[], Awaitable[Any]]) -> None:
        """Somebody does that, later."""
        self._busy += 1
        self._at.loop.in_world(delay, self._begin, work)

    def _begin(self, work: Callable[[], Awaitable[Any]]) -> None:
        self._at.loop.create_task(self._ends(work), context=self._at.loop.world.context)

    async def _ends(self, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            await work()
        finally:
            self._busy -= 1

    async def ask(self, make: Callable[[Gateway], Any]) -> Any:
        """What the gateway answers, a refusal as a value; None when it does not answer."""
        gateway = self._at.fleet.gateway
        task: asyncio.Task[Any] = self._at.loop.spawn(gateway.process, make(gateway))
        done, _ = await asyncio.wait({task}, timeout=ANSWER_S)
        if not done:
            return None
        try:
            return task.result()
        except (IntakeRefused, OperationRefused) as refused:
            return refused
        except StoreError:
            return None

    async def insist(self, make: Callable[[Gateway], Any]) -> Any:
        """Ask again until there is an answer."""
        for _ in range(TRIES):
            answer = await self.ask(make)
            if answer is not None:
                return answer
            await asyncio.sleep(2.0)
        return None

    # -- agents ----------------------------------------------------------------------------------------------------

    async def _offer(self, offer: Offer) -> None:
        proposal, proposer, history = self._proposal(offer), self._proposer(offer), self._at.fleet.incarnation
        for _ in range(TRIES):
            if history != self._at.fleet.incarnation:
                return  # tokens that are older than a journal's return are refused
            answer = await self.ask(lambda gateway: gateway.intake.propose(proposal, proposer))
            if isinstance(answer, Accepted):
                self.accepted.append((answer, offer))
                return
            if isinstance(answer, IntakeRefused):
                self.refused.append(answer.code)
                if not answer.retryable:
                    return
            await asyncio.sleep(3.0)

    def _proposal(self, offer: Offer) -> Proposal:
        content = f"<p>{offer.title}, version {offer.version}</p>".encode()
        arguments: dict[str, Any] = {
            "title": offer.title,
            "slug": "tea",
            "content_format": "html",
            "content_sha256": hashlib.sha256(content).hexdigest(),
        }
        if offer.notify and self._at.world.relay is not None:
            arguments["notify"] = ["team"]
        if offer.publish_after_s is not None:
            moment = datetime.fromtimestamp(EPOCH_MS / 1000 + offer.at_s + offer.publish_after_s, UTC)
            arguments["publish_at"] = moment.isoformat()
        return Proposal(
            intent="propose_publish",
            site=offer.site,
            object_id=ARTICLE,
            version=offer.version,
            arguments=arguments,
            content=content,
            content_media_type="text/html",
            repeat_of=self._first_of(offer) if offer.repeats else None,
        )

    def _first_of(self, offer: Offer) -> str | None:
        """The command that is to be repeated."""
        same = (known for known, made in self.accepted if (made.site, made.version) == (offer.site, offer.version))
        return next((known.command_id for known in same), None)

    def _proposer(self, offer: Offer) -> Proposer:
        grant_s = self._at.scenario.grant_s
        return Proposer(
            principal=f"agent:{offer.agent}",
            client_id=f"client_{offer.agent}",
            tenant=TENANT,
            issuer=ISSUER,
            token_id=f"tok_{offer.agent}",
            key_id="key_1",
            decision_id="dec_1",
            max_uses=self._at.scenario.max_uses,
            may_repeat=offer.repeats,
            details=({"actions": ["propose_publish"], "resources": [f"site/{offer.site}/*"]},),
            grant_until_s=None if grant_s is None else int(EPOCH_MS / 1000 + offer.at_s + grant_s),
        )

    # -- people who ask --------------------------------------------------------------------------------------------

    def _sample(self) -> None:
        self.ask_status()
        self._at.loop.in_world(self._rng.random() * SAMPLES_S, self._sample)

    def ask_status(self) -> None:
        """Ask about every command, now, unless nothing happened since it was asked last."""
        happened = (self._at.witness.commits, len(self._at.world.log.effects))
        if happened == self._asked_at or self._at.fleet.is_down:
            return
        self._asked_at = happened

        def sagas(conn: Any) -> list[Saga]:
            return [registry.load_saga(conn, root_id) for root_id in self.roots]

        for saga in self._at.bench.read(sagas):
            view, ruled, forgotten = view_of(saga), self.people.ruled, self._at.witness.forgotten.digests
            asked = Asked(view=view, saga=saga, world=self._at.world, ruled=ruled, forgotten=forgotten)
            self._at.witness.answered(asked)

    # -- misfortune ------------------------------------------------------------------------------------------------

    def _step(self, steps: int) -> None:
        while self._faults and steps >= (self._faults[0].at_step or 0):
            self._happens(self._faults.pop(0))

    def _happens(self, fault: Fault) -> None:
        if self._calm:
            return
        match fault.act:
            case Act.KILL | Act.PAUSE | Act.SUSPEND:
                self._strike(fault)
            case Act.KILL_GATEWAY:
                self._at.fleet.kill_gateway()
            case Act.WALL:
                self._at.wall.offset_s += fault.amount
            case Act.FREEZE:
                self._restrict(FREEZES, fault, lifted=fault.pick < 0.8)
            case Act.REVOKE:
                self._restrict(REVOCATIONS, fault, lifted=fault.pick < 0.2)
            case Act.CANCEL:
                self.do(0.0, partial(self.people.cancel, fault.pick))
            case Act.RESTORE:
                self._at.loop.in_world(fault.amount, self._put_back, self._at.bench.backup())
            case Act.EDIT | Act.TRASH | Act.SQUAT | Act.PUBLISH:
                self.people.at_site(fault)

    def _put_back(self, backup: bytes) -> None:
        """That backup takes the journal's place, and whatever was done since is done."""
        self._at.fleet.put_back(backup)
        roots = {row.root_id for row in self._at.witness.rows.values()}
        self.accepted = [one for one in self.accepted if one[0].command_id in roots]

    def _strike(self, fault: Fault) -> None:
        """The worker whose callback ran last, when there is one: that is where something is going on."""
        fleet, loop = self._at.fleet, self._at.loop
        member = next((m for m in fleet.members.values() if m.process is loop.last), None) or fleet.pick(fault.pick)
        if member is None:
            return
        if fault.act is Act.KILL:
            fleet.kill(member, back_s=min(fault.amount, 15.0))
            return
        longest = self._at.world.unbounded_pause(member.process)
        seconds = fault.amount if longest is None else min(fault.amount, longest)
        if fault.act is Act.SUSPEND:
            member.process.asleep_s += seconds
        loop.pause(member.process, seconds)

    def _restrict(self, scopes: tuple[str, ...], fault: Fault, *, lifted: bool) -> None:
        scope = scopes[int(self._rng.random() * len(scopes))]
        now_ms = self._at.clock.now_ms()
        put = partial(authority.restrict, scope=scope, reason="simulated", by="op:ann", now_ms=now_ms)
        self.do(0.0, partial(self._transact, put))
        if lifted:
            self.do(fault.amount, partial(self._transact, partial(authority.lift, scope=scope)))

    async def _transact(self, work: Callable[[Any], Any]) -> None:
        await self.insist(lambda gateway: _acknowledged(gateway, work))

    async def _renew(self) -> None:
        """An operator renews every grant."""

        def renew(conn: Any) -> None:
            until = self._at.clock.now_ms() + 3_600_000
            for root in registry.page(conn, registry.Filter(), limit=20)[0]:
                grant = authority.find_grant(conn, root.command_id)
                policy = grant.policy_hash if grant is not None else ""
                authority.extend_grant(conn, root.command_id, grant_until_ms=until, policy_hash=policy)

        await self._transact(renew)


async def _acknowledged(gateway: Gateway, work: Callable[[Any], Any]) -> bool:
    await gateway.store.transact(work)
    return True
