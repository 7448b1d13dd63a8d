"""A store whose history may have gone back or split must not believe its own QUEUED and RUNNING.

When the incarnation changed (a restored backup, a copied home, a promoted stand-by), every unfinished effect step is
in doubt, because what was done after the copy was made is not in it. Each gets an attempt of unknown making: its
quiescence is unknown, so that only a PRESENT or a person ends the doubt, never a resend.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from execution.core.command import Attempt, Saga
from execution.core.draft import Draft
from execution.core.states import TERMINAL, Cause, EffectClass, Kind, Phase, State
from execution.core.transitions import TRANSITIONS, Trigger
from execution.ports import Clock, Ids
from execution.store import authority, registry
from execution.store.connection import Connection
from execution.store.errors import Stale
from execution.store.writer import Store

BATCH: Final = 200
TRIES: Final = 20


async def distrust(store: Store, clock: Clock, ids: Ids, incarnation: str) -> int:
    """Freeze everything and put what is unfinished in doubt, before anything runs on such a store; how many sagas.

    What was sent since is unknown, and so is whether another copy is at work: an operator says when it goes on.
    """
    reason, now_ms = "the journal is a copy or was restored", clock.now_ms()
    await store.transact(
        lambda conn: authority.restrict(conn, authority.FROZEN_ALL, reason=reason, by="remit", now_ms=now_ms)
    )
    return await doubt_everything(store, clock, ids, incarnation)


async def doubt_everything(store: Store, clock: Clock, ids: Ids, incarnation: str) -> int:
    """Put every unfinished saga in doubt; how many. Called once, before any worker of the new incarnation runs."""
    count = 0
    after: registry.Cursor | None = None
    while True:
        root_ids, after = await store.hot(partial(_page, after))
        for root_id in root_ids:
            await _doubt(store, clock, ids, incarnation, root_id)
        count += len(root_ids)
        if after is None:
            return count


def _page(after: registry.Cursor | None, conn: Connection) -> tuple[tuple[str, ...], registry.Cursor | None]:
    roots, following = registry.page(conn, registry.Filter(unfinished=True), limit=BATCH, after=after)
    return tuple(root.command_id for root in roots), following


async def _doubt(store: Store, clock: Clock, ids: Ids, incarnation: str, root_id: str) -> None:
    for _ in range(TRIES):
        saga = await store.hot(lambda conn: registry.load_saga(conn, root_id))
        draft = Draft(saga, actor="recovery", now_ms=clock.now_ms())
        doubt_saga(draft, saga, ids, incarnation)
        try:
            await store.commit(draft.unit())
        except Stale:
            continue
        return
    raise Stale(root_id)


def doubt_saga(draft: Draft, saga: Saga, ids: Ids, incarnation: str) -> None:
    """Every unfinished effect step of that saga becomes OUTCOME_UNKNOWN; leases of the old history end."""
    for row in saga.members:
        if row.kind is Kind.GATE or row.state in TERMINAL or row.state is State.NEEDS_REVIEW:
            continue
        if Trigger.INCARNATION_CHANGED in TRANSITIONS[row.state]:
            draft.move(row.command_id, Trigger.INCARNATION_CHANGED, {"incarnation": incarnation})
        if row.effect_class is EffectClass.PIVOT and draft.root.phase is Phase.PRE_PIVOT:
            draft.phase(Phase.POST_PIVOT)
        draft.set(row.command_id, next_check_at_ms=draft.now_ms, look_count=0)
        draft.put_attempt(
            Attempt(
                attempt_id=ids.new("att"),
                command_id=row.command_id,
                root_id=row.root_id,
                number=len(saga.attempts_of(row.command_id)) + 1,
                idempotency_key=row.idempotency_key,
                resource=row.target_resource,
                cause=Cause.RECOVERY,
                lease_epoch=saga.root.lease_epoch,
                request_digest="",
                deadline_s=0.0,
                fenced_at_ms=draft.now_ms,
                terms="{}",
                quiescent_after_s=None,
                incarnation=incarnation,
                code="incarnation_changed",
            )
        )
    draft.set(saga.root.command_id, lease_owner=None, lease_until_ms=None, next_check_at_ms=draft.now_ms)
