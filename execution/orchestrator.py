"""Takes a saga and drives it: load → claim → act until nothing is left but to wait.

The claim is one guarded commit that raises the epoch. What the previous owner left half done is judged in it:
DISPATCHING sent nothing and is queued again; RUNNING without a receipt and RECONCILING are doubt; RUNNING with a
receipt goes on to be verified. The same commit folds in whatever the journal alone allows, the first step's claim
included.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final, assert_never

from execution.attempting import execute
from execution.authority import scopes_of
from execution.core.apply import landed_receipt
from execution.core.command import Command, Saga
from execution.core.draft import Draft
from execution.core.events import Fact
from execution.core.horizon import (
    AskApproval,
    CheckNow,
    Execute,
    Next,
    Reconcile,
    VerifyReceipt,
    Wait,
    Watch,
    open_review,
)
from execution.core.progress import advance
from execution.core.states import IN_DOUBT, ApprovalState, Blocker, Kind, Phase, ReviewKind, State
from execution.core.transitions import Trigger
from execution.drive import Drive, Env, LeaseLost, set_lease
from execution.finding_out import reconcile, verify, watch
from execution.gates import ask_approval, check_gate
from execution.quarantine import count_loss, refuse_ruling
from execution.rulings import rule
from execution.store import authority
from execution.store.connection import Connection
from execution.store.errors import LocksHeld, Stale
from execution.store.registry import NotFound, load_if
from execution.store.units import HOLDING
from execution.tracing import working

_UNSETTLED: Final = IN_DOUBT | {State.RUNNING}
"""What must be found out, whoever left it so."""


async def drive_saga(env: Env, root_id: str) -> int | None:
    """Drive one saga as far as it goes now; when it is due again (Unix ms), None when nothing is known to be due."""
    claimed = await claim(env, root_id)
    if claimed is None:
        return None
    drive, following = claimed
    try:
        while not isinstance(following, Wait):
            with working(_named(following), drive.saga.root, _worked_on(drive, following)):
                following = await act(drive, following)
    except LeaseLost:
        return None
    if drive.saga.root.is_terminal and following.until_ms is None:
        env.doubts.forget(drive.saga)
    return following.until_ms


def _named(following: Next) -> str:
    return type(following).__name__


def _worked_on(drive: Drive, following: Next) -> Command:
    command_id = getattr(following, "command_id", None)
    return drive.saga.root if command_id is None else drive.saga.member(command_id)


async def act(drive: Drive, following: Next) -> Next:
    """Do the one thing that needs the world."""
    match following:
        case Execute(command_id=command_id):
            return await execute(drive, command_id)
        case VerifyReceipt(command_id=command_id):
            return await verify(drive, command_id)
        case Reconcile(command_id=command_id):
            return await reconcile(drive, command_id)
        case CheckNow(command_id=command_id):
            return await check_gate(drive, command_id)
        case AskApproval(command_id=command_id):
            return await ask_approval(drive, command_id)
        case Watch(command_ids=command_ids):
            return await watch(drive, command_ids)
        case Wait():
            return following
        case _:
            assert_never(following)


async def claim(env: Env, root_id: str) -> tuple[Drive, Next] | None:
    """Become the owner; None when the saga has one, is not ours to run, or changed under us."""
    now, known = env.clock.now_ms(), env.catalog.known
    try:
        saga = await env.store.hot(lambda conn: load_if(conn, root_id, lambda root: _is_ours(root, now, known)))
    except NotFound:
        return None
    if saga is None or await _still_stopped(env, saga):
        return None
    return await _claim(env, saga)


def _is_ours(root: Command, now_ms: int, known: Collection[tuple[str, int]]) -> bool:
    """Whether there may be something to do, which this worker can, and nobody else does."""
    held = root.lease_owner is not None and (root.lease_until_ms or 0) > now_ms
    over = root.is_terminal and root.next_check_at_ms is None
    return (root.command_type, root.definition_version) in known and not held and not over


async def _claim(env: Env, saga: Saga) -> tuple[Drive, Next] | None:
    definition = env.catalog.definition(saga.root.command_type, saga.root.definition_version)
    draft = Draft(saga, actor=env.owner, now_ms=env.clock.now_ms())
    take_over(draft, env)
    ruling = next((r for r in saga.reviews if r.verdict is not None and r.closed_at_ms is None), None)
    if ruling is not None and saga.root.lease_owner is not None:
        ruling = None if refuse_ruling(draft, ruling, env.horizon(draft.saga, definition)) else ruling
    following = advance(draft, definition, env.horizon(draft.saga, definition)) if ruling is None else None
    set_lease(draft, following, env)
    try:
        await env.store.commit(draft.unit())
    except LocksHeld as held:
        await _locked(env, saga, held)
        return None
    except Stale:
        return None
    drive = Drive(env, draft.committed(), definition)
    return drive, following if following is not None else await _rule(drive, ruling.review_id if ruling else "")


async def _rule(drive: Drive, review_id: str) -> Next:
    try:
        return await rule(drive, review_id)
    except LeaseLost:
        return Wait(until_ms=None)


def take_over(draft: Draft, env: Env) -> None:
    """Raise the epoch and judge what the previous owner left."""
    left, root = draft.saga, draft.root
    if root.lease_owner is not None:
        draft.note(root.command_id, Fact.TAKEN_OVER, {"from": root.lease_owner, "epoch": root.lease_epoch + 1})
    draft.set(root.command_id, lease_owner=env.owner, lease_epoch=root.lease_epoch + 1)
    for row in draft.saga.members:
        _judge_left(draft, row)
    if root.lease_owner is not None:
        definition = env.catalog.definition(root.command_type, root.definition_version)
        count_loss(draft, left, env.horizon(draft.saga, definition))
    _deadline(draft, env)
    if root.state is State.QUEUED:
        if Blocker.LOCKED in root.blocked_by:
            draft.take_locks(tuple(json.loads(root.params)["resources"]))
            draft.unblock(Blocker.LOCKED)
        draft.move(root.command_id, Trigger.CLAIMED, {"epoch": root.lease_epoch + 1}, claim_count=root.claim_count + 1)
        draft.move(root.command_id, Trigger.STARTED, started_at_ms=draft.now_ms)


def _judge_left(draft: Draft, row: Command) -> None:
    if row.state is State.DISPATCHING:
        draft.move(row.command_id, Trigger.LEASE_LOST)
    elif row.state is State.RECONCILING:
        draft.move(row.command_id, Trigger.STILL_UNKNOWN, next_check_at_ms=draft.now_ms)
    elif row.state is State.RUNNING and row.kind is not Kind.GATE and landed_receipt(draft.saga, row) is None:
        draft.move(row.command_id, Trigger.OUTCOME_LOST, {"code": "owner_lost"}, next_check_at_ms=draft.now_ms)


def _deadline(draft: Draft, env: Env) -> None:
    """A saga that outlives its deadline is a question for a person; it is not cut off."""
    root = draft.root
    if root.is_terminal or root.deadline_at_ms is None or root.deadline_at_ms > draft.now_ms:
        return
    draft.set(root.command_id, deadline_at_ms=None)
    draft.note(root.command_id, Fact.DEADLINE_PASSED, {"deadline": root.deadline_at_ms})
    definition = env.catalog.definition(root.command_type, root.definition_version)
    facts = {"code": "deadline_passed"}
    open_review(draft, root.command_id, ReviewKind.STUCK, facts, env.horizon(draft.saga, definition))
    draft.block(Blocker.FINDING_OPEN)


async def _locked(env: Env, saga: Saga, held: LocksHeld) -> None:
    """Another saga owns the resource: wait beside the state and look again."""
    draft = Draft(saga, actor=env.owner, now_ms=env.clock.now_ms())
    draft.block(Blocker.LOCKED, {"resource": held.resource, "owner": held.owner})
    due = draft.now_ms + int(env.settings.lock_poll_s * 1000)
    draft.set(saga.root.command_id, next_check_at_ms=due)
    await _quietly(env, draft)


async def _still_stopped(env: Env, saga: Saga) -> bool:
    """A saga that was held is not claimed again before what held it is gone: polling leaves no trace in the journal."""
    waiting = {Blocker.HELD, Blocker.AWAITING_AUTHORIZATION} & saga.root.blocked_by
    if not waiting or _needs_no_authority(saga, env.clock.now_ms()):
        return False
    root, now = saga.root, env.clock.now_ms()
    systems = {row.target_system for row in saga.members if not row.is_terminal}
    scopes = tuple(sorted({scope for system in systems for scope in scopes_of(root, system)}))
    policy = env.catalog.policy_hash(root)
    held, lapsed = await env.store.hot(lambda conn: _stops(conn, root.command_id, scopes, policy, now))
    draft = Draft(saga, actor=env.owner, now_ms=now)
    if not held:
        draft.unblock(Blocker.HELD)
    if not lapsed:
        draft.unblock(Blocker.AWAITING_AUTHORIZATION)
    still = bool({Blocker.HELD, Blocker.AWAITING_AUTHORIZATION} & draft.root.blocked_by)
    due = now + int(env.settings.held_poll_s * 1000) if still else now
    draft.set(root.command_id, next_check_at_ms=due)
    for row in saga.members:
        if not still and row.state is State.QUEUED and row.next_retry_at_ms is not None:
            draft.set(row.command_id, next_retry_at_ms=now)
    await _quietly(env, draft)
    return True


def _needs_no_authority(saga: Saga, now_ms: int) -> bool:
    """Finding out, ruling, turning back and noticing that a time is over send nothing and need no permission."""
    root = saga.root
    in_doubt = any(
        row.state in _UNSETTLED and row.kind is not Kind.GATE and (row.next_check_at_ms or 0) <= now_ms
        for row in saga.members
    )
    ruled = any(review.verdict is not None and review.closed_at_ms is None for review in saga.reviews)
    turning = root.ending is not None and root.state is State.RUNNING and root.phase is Phase.PRE_PIVOT
    late = root.deadline_at_ms is not None and root.deadline_at_ms <= now_ms
    asked = saga.approval_pending_or_given()
    unanswered = asked is not None and asked.state is ApprovalState.PENDING and asked.expires_at_ms <= now_ms
    return in_doubt or ruled or turning or late or unanswered


def _stops(conn: Connection, root_id: str, scopes: tuple[str, ...], policy: str, now_ms: int) -> tuple[bool, bool]:
    """Whether something holds it, and whether its grant lapsed or is of another policy."""
    grant = authority.find_grant(conn, root_id)
    held = any(scope.startswith(HOLDING) for scope in authority.in_force(conn, scopes))
    return held, grant is None or grant.grant_until_ms <= now_ms or grant.policy_hash not in ("", policy)


async def _quietly(env: Env, draft: Draft) -> None:
    try:
        await env.store.commit(draft.unit())
    except Stale:
        return
