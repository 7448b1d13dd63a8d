"""One ownership of one saga: what every action on it shares.

A `Drive` owns a saga by lease and epoch. Every change is a function over a `Draft`; `commit` applies it, folds in what
needs only the journal, and writes one unit. When somebody else wrote in between (a late answer, an approval), the
commit is `Stale`: the saga is loaded again and the change applied to what is true now. When the epoch moved on, this
owner is out: what it still learns is filed as evidence and nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from execution.approvers import Approvers
from execution.catalog import Catalog
from execution.core.apply import action_of, standing, step_of
from execution.core.command import Command, Context, Saga
from execution.core.decide import Standing
from execution.core.definition import Action, SagaDefinition
from execution.core.draft import Draft
from execution.core.failures import Answer, Sighting
from execution.core.horizon import Horizon, Next, Wait, no_evidence
from execution.core.progress import advance
from execution.core.states import Kind
from execution.doubts import Doubts
from execution.looking import context_of
from execution.pace import Pace
from execution.performer import Performer
from execution.ports import Chance, Clock, Ids, Ports
from execution.settings import EngineSettings
from execution.store.errors import Stale, StoreError
from execution.store.registry import load_saga
from execution.store.writer import Store

T = TypeVar("T")
Change = Callable[[Draft], None]
COMMIT_TRIES: Final = 20
"""How often one change is applied anew because somebody else wrote first."""


class LeaseLost(Exception):
    """Another owner drives this saga now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Env:
    """What every drive of a worker shares."""

    store: Store
    catalog: Catalog
    performer: Performer
    clock: Clock
    ids: Ids
    chance: Chance
    settings: EngineSettings
    doubts: Doubts
    pace: Pace
    owner: str
    installation: str
    incarnation: str
    approvers: Approvers
    rulers: Approvers

    def horizon(
        self, saga: Saga, definition: SagaDefinition[Ports], evidence: Callable[[str], Mapping[str, str]] = no_evidence
    ) -> Horizon:
        """Time and observer, as the pure part is told them; `evidence`: what a person would look for, by command id."""
        return Horizon(
            now_ms=self.clock.now_ms(),
            quiet_at_ms=self.doubts.quiet_at_ms(saga),
            new_id=self.ids.new,
            approval_ttl_ms=int(definition.approval_ttl_s * 1000),
            claims_max=self.settings.claims_max,
            review_owner=self.settings.review_owner,
            closed=self._spread(self.pace.closed()),
            full=self._spread(self.pace.full()),
            evidence=evidence,
        )

    def _spread(self, paused: dict[str, int]) -> dict[str, int]:
        """Not all who wait for a system come back in the same moment."""
        if not paused:
            return paused
        later_ms = int(self.chance.uniform() * self.settings.spread_s * 1000)
        return {system: until + later_ms for system, until in paused.items()}


class Drive:
    """See the module. `saga` is what was last loaded or committed."""

    def __init__(self, env: Env, saga: Saga, definition: SagaDefinition[Ports]) -> None:
        self.env = env
        self.saga = saga
        self.definition = definition
        self.epoch = saga.root.lease_epoch
        self.params: dict[str, Any] = json.loads(saga.root.params)
        self._renewing: asyncio.Task[None] | None = None

    @property
    def plan(self) -> dict[str, Any]:
        """The frozen parameters that functions of definitions read."""
        plan: dict[str, Any] = self.params["plan"]
        return plan

    async def commit(self, change: Change, *, fold: bool = True) -> Next:
        """Apply the change to what is true now and write it; `LeaseLost` when the saga is no longer ours.

        With `fold`, everything that needs only the journal follows in the same commit, and the saga is released in it
        when nothing is left to do but wait.
        """
        for _ in range(COMMIT_TRIES):
            draft = Draft(self.saga, actor=self.env.owner, now_ms=self.env.clock.now_ms())
            change(draft)
            following = advance(draft, self.definition, self.horizon(draft.saga)) if fold else None
            set_lease(draft, following, self.env)
            try:
                await self.env.store.commit(draft.unit())
            except Stale:
                await self._reload()
                continue
            self.saga = draft.committed()
            return following or Wait(until_ms=None)
        raise LeaseLost(self.saga.root.command_id)

    async def _reload(self) -> None:
        """What is true now, if it is still ours. Another owner's saga is never kept here: the next commit would fit."""
        root_id = self.saga.root.command_id
        saga = await self.env.store.hot(lambda conn: load_saga(conn, root_id))
        if saga.root.lease_epoch != self.epoch or saga.root.lease_owner != self.env.owner:
            raise LeaseLost(root_id)
        self.saga = saga

    async def keeping(self, work: Awaitable[T]) -> T:
        """Await something slow while the lease is renewed; what happens to the lease never cuts the work short.

        Nothing else of this drive commits meanwhile, so that a renewal has only strangers to race with. One that is cut
        off may have been written all the same; the next commit is then stale and loads what is true.
        """
        timer = asyncio.get_running_loop().call_later(self.env.settings.renew_s, self._start_renewing)
        try:
            return await work
        finally:
            timer.cancel()
            renewing, self._renewing = self._renewing, None
            if renewing is not None:
                renewing.cancel()
                await asyncio.wait({renewing})

    def _start_renewing(self) -> None:
        self._renewing = asyncio.create_task(self._renew(), name="remit-renew")

    async def _renew(self) -> None:
        """Renew again and again until the work is done or the saga is no longer ours."""
        try:
            while True:
                await self.commit(lambda draft: None, fold=False)
                await asyncio.sleep(self.env.settings.renew_s)
        except (LeaseLost, StoreError):
            return

    @asynccontextmanager
    async def turn(self, command_id: str, *, urgent: bool = True) -> AsyncIterator[None]:
        """Hold a turn of the system that the row works on; what finds out or undoes goes before what is new."""
        row, pace = self.saga.member(command_id), self.env.pace
        system = self._paced_as(row)
        if not pace.enter(system):
            urgent = urgent or row.compensates is not None
            await self.keeping(pace.wait(system, tenant=row.tenant, urgent=urgent))
        try:
            yield
        finally:
            pace.leave(system)

    async def observe(self, command_id: str) -> Sighting | None:
        """Read back; None when the system cannot be asked."""
        seen = await self.keeping(self.env.performer.observe(self.action(command_id), self.context(command_id)))
        self.learn(command_id, seen)
        return seen

    def learn(self, command_id: str, seen: Answer | Sighting | None) -> None:
        """What an exchange shows about the system's load."""
        self.env.pace.learn(self._paced_as(self.saga.member(command_id)), seen)

    def _paced_as(self, row: Command) -> str:
        return action_of(self.definition, self.saga, row).paced_as(row.site)

    def horizon(self, saga: Saga) -> Horizon:
        """Time and observer for that state of the saga."""
        return self.env.horizon(saga, self.definition, self.evidence)

    def evidence(self, command_id: str) -> Mapping[str, str]:
        """What a person looks for who is asked whether that step happened."""
        row = self.saga.member(command_id)
        if row.kind is not Kind.STEP:
            return {}
        return step_of(self.definition, self.saga, row).evidence(self.context(command_id))

    def action(self, command_id: str) -> Action[Ports]:
        """What is executed for that row."""
        return action_of(self.definition, self.saga, self.saga.member(command_id))

    def jitter(self) -> float:
        """A number in [0, 1)."""
        return self.env.chance.uniform()

    def context(self, command_id: str) -> Context:
        """What the functions of that row's definition may read."""
        return context_of(self.saga, self.definition, command_id, installation=self.env.installation, plan=self.plan)

    def standing(
        self,
        saga: Saga,
        command_id: str,
        *,
        looks: int = 0,
        quiet_in_s: float | None = 0.0,
        shown_in_s: float | None = 0.0,
        but: str | None = None,
    ) -> Standing:
        """Where a row stands in that state of the saga."""
        return standing(
            self.definition,
            saga,
            saga.member(command_id),
            looks_policy=self.env.settings.looks,
            looks=looks,
            quiet_in_s=quiet_in_s,
            shown_in_s=shown_in_s,
            but=but,
        )


def set_lease(draft: Draft, following: Next | None, env: Env) -> None:
    """Renew the lease when something is to be done, release it when the saga only waits."""
    root_id, now = draft.root.command_id, draft.now_ms
    if not isinstance(following, Wait):
        until = now + int(env.settings.lease_s * 1000)
        draft.set(root_id, lease_owner=env.owner, lease_until_ms=until, next_check_at_ms=until)
        return
    due = following.until_ms
    if not draft.root.is_terminal and draft.root.deadline_at_ms is not None and draft.root.deadline_at_ms > now:
        due = draft.root.deadline_at_ms if due is None else min(due, draft.root.deadline_at_ms)
    if any(review.verdict is not None and review.closed_at_ms is None for review in draft.saga.reviews):
        soon = now + int(env.settings.held_poll_s * 1000)  # a person ruled while this was written
        due = soon if due is None else min(due, soon)
    draft.set(root_id, lease_owner=None, lease_until_ms=None, next_check_at_ms=due)
