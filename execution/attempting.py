"""Making an effect: look → connect → fence → attempt → decide → commit.

The order is the protection. Looking comes first because a restored journal must not publish again; the connection is
opened before the fence and nothing connects after it, so that a pause between check and write ends in a proof and not
in an effect; the fence is the commit that makes silence doubt; the local stamp is taken before the fence is submitted,
so that a slow commit or a suspended machine cannot stretch the time in which a byte may leave.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import Any, Final

from execution.approvers import invalid
from execution.authority import fence_for
from execution.comparing import carrying, three_ways
from execution.core import decide
from execution.core.apply import apply, landed_receipt, settle_answer, settle_found, sighting_body, step_of
from execution.core.command import Attempt, Command
from execution.core.decide import Decision
from execution.core.definition import Action, Forward, Prepared, asks_to_write, tells_writing
from execution.core.draft import Draft
from execution.core.events import Fact, canonical
from execution.core.failures import Answer, FailureClass, Refused, Sighting, Unsent
from execution.core.horizon import Next
from execution.core.quiescence import SEND_BUDGET_S
from execution.core.states import Blocker, Cause, EffectClass, Phase, Repeat, Settlement
from execution.core.transitions import Trigger
from execution.drive import Drive, Env, LeaseLost
from execution.gates import fence_refused
from execution.ports import Clock, Ports
from execution.store.errors import FenceRefused, Refusal, Stale, StoreError
from execution.store.meta import mark
from execution.store.registry import load_saga

_LOG: Final = logging.getLogger("remit.attempting")

EVIDENCE_TRIES: Final = 50
"""How often a late answer is filed anew because the owner wrote first."""


class TurningBack(Exception):
    """The saga was told to end before this fence: nothing of it is sent any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The look before acting: journaled in whatever commit follows from it."""

    body: dict[str, Any]
    sighting: Sighting


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """A moment, by both clocks; permission to send uses the larger elapsed time."""

    wall_ms: int
    boot_s: float

    @staticmethod
    def of(clock: Clock) -> Stamp:
        """Now."""
        return Stamp(wall_ms=clock.now_ms(), boot_s=clock.boot_s())

    def elapsed_s(self, clock: Clock) -> float:
        """Seconds since, the larger of both."""
        return max((clock.now_ms() - self.wall_ms) / 1000.0, clock.boot_s() - self.boot_s)


class Lateness:
    """Whether bytes left after the budget that the request declares: the sender looks at its clocks every time, and
    before each further request of a write that takes several."""

    def __init__(self, clock: Clock, stamp: Stamp, budget_s: float) -> None:
        self._clock = clock
        self._stamp = stamp
        self._budget_s = budget_s
        self.late_s: float | None = None

    def note(self) -> None:
        """Bytes have just left."""
        elapsed_s = self._stamp.elapsed_s(self._clock)
        if elapsed_s > self._budget_s:
            self.late_s = elapsed_s

    def in_time(self) -> bool:
        """Whether bytes may still leave."""
        return self._stamp.elapsed_s(self._clock) <= self._budget_s


async def execute(drive: Drive, command_id: str) -> Next:
    """DISPATCHING: make the effect, or find out why not."""
    if _to_send(drive, command_id) is None:
        return await _decided(drive, command_id, _doubt_again("receipt_on_record"), None)
    async with drive.turn(command_id, urgent=False):
        return await _make(drive, command_id)


async def _make(drive: Drive, command_id: str) -> Next:
    action = drive.action(command_id)
    for _ in range(drive.env.settings.refences_max):
        forward = _to_send(drive, command_id)
        if forward is None:
            return await _decided(drive, command_id, _doubt_again("receipt_on_record"), None)
        prepared = await drive.keeping(drive.env.performer.prepare(forward, drive.context(command_id)))
        if isinstance(prepared, Refused):
            if prepared.retry_after_s is not None:
                drive.learn(command_id, prepared)
            return await _not_sent(drive, command_id, prepared, None)
        try:
            following = await _attempt(drive, command_id, action, prepared)
        finally:
            await drive.env.performer.close(prepared)
        if following is not None:
            return following
    return await _not_sent(drive, command_id, Unsent(code="send_budget"), None)


def _to_send(drive: Drive, command_id: str) -> Forward[Ports] | None:
    """Once a receipt is in evidence nothing but what mends; None where nothing does."""
    action = drive.action(command_id)
    return action.forward if landed_receipt(drive.saga, drive.saga.member(command_id)) is None else action.mend


async def _attempt(drive: Drive, command_id: str, action: Action[Ports], prepared: Prepared) -> Next | None:
    """One look, connect, fence and send; None when time was missed on the way and all of it must be done again."""
    env = drive.env
    looked_s, look = env.clock.awake_s(), None
    if action.looks_first or drive.saga.open_attempts(command_id):
        decision, look = await _first_look(drive, command_id, action)
        if not decision.proceed:
            return await _decided(drive, command_id, decision, look)
    refusal = await drive.keeping(env.performer.connect(prepared, action.deadline_s))
    if refusal is not None:
        drive.learn(command_id, refusal)
        return await _not_sent(drive, command_id, refusal, look)
    if look is not None and env.clock.awake_s() - looked_s > env.settings.absent_fresh_s:
        return None
    stamp = Stamp.of(env.clock)
    attempt = _new_attempt(drive, command_id, action, prepared)
    try:
        await drive.commit(lambda draft: _fence(drive, draft, attempt, look), fold=False)
    except FenceRefused as refused:
        return await fence_refused(drive, command_id, refused)
    except TurningBack:
        return await drive.commit(lambda draft: None)
    if not await _on_record(env, action) or stamp.elapsed_s(env.clock) > SEND_BUDGET_S:
        await _budget_missed(drive, attempt)
        return None
    lateness = Lateness(env.clock, stamp, prepared.bounds.budget_s)
    if tells_writing(prepared):
        prepared.written = lateness.note
    if asks_to_write(prepared):
        prepared.may_write = lateness.in_time
    answer = await drive.keeping(env.performer.send(prepared, action.deadline_s))
    drive.learn(command_id, answer)
    return await _answered(drive, attempt, answer, lateness.late_s)


async def _on_record(env: Env, action: Action[Ports]) -> bool:
    """Whether a journal that is put back to before this fence would be noticed, where looking would not show it."""
    if action.observe is not None or action.repeat is Repeat.NATURAL:
        return True
    try:
        await mark(env.store)
    except StoreError:
        return False
    return True


async def _first_look(drive: Drive, command_id: str, action: Action[Ports]) -> tuple[Decision, Look | None]:
    asked = drive.env.clock.now_ms()
    quiet = drive.env.doubts.remaining_s(drive.saga.open_attempts(command_id))
    sighting = await drive.observe(command_id)
    if sighting is None:
        return _doubt_again("cannot_be_asked"), None
    body = sighting_body(sighting, source=action.system, asked_at_ms=asked, purpose="before_sending")
    at = drive.standing(drive.saga, command_id, quiet_in_s=quiet)
    at = replace(at, attempts=at.attempts + 1)
    return decide.after_first_look(at, sighting, drive.jitter()), Look(body=body, sighting=sighting)


def _doubt_again(code: str) -> Decision:
    return Decision(
        moves=(Trigger.NOT_APPLIED, Trigger.DOUBT_REMAINS), failure=FailureClass.UNKNOWN, code=code, retry_in_s=0.0
    )


def _new_attempt(drive: Drive, command_id: str, action: Action[Ports], prepared: Prepared) -> Attempt:
    row = drive.saga.member(command_id)
    earlier = drive.saga.attempts_of(command_id)
    bounds = prepared.bounds
    return Attempt(
        attempt_id=drive.env.ids.new("att"),
        command_id=command_id,
        root_id=row.root_id,
        number=len(earlier) + 1,
        idempotency_key=row.idempotency_key,
        resource=step_of(drive.definition, drive.saga, row).resource(drive.plan),
        cause=_cause(earlier, action),
        lease_epoch=drive.epoch,
        request_digest=prepared.request_digest,
        deadline_s=action.deadline_s,
        fenced_at_ms=drive.env.clock.now_ms(),
        terms=canonical(bounds.terms()),
        quiescent_after_s=bounds.quiescent_after_s(),
        incarnation=drive.env.incarnation,
    )


def _cause(earlier: tuple[Attempt, ...], action: Action[Ports]) -> Cause:
    if not earlier:
        return Cause.FIRST
    if any(attempt.settlement is Settlement.OPEN for attempt in earlier):
        return Cause.RESEND_AFTER_ABSENT if action.repeat is Repeat.NEVER else Cause.REPEAT_BY_KEY
    return Cause.OPERATOR if any(attempt.code == "ruled_absent" for attempt in earlier) else Cause.RETRY


def _fence(drive: Drive, draft: Draft, attempt: Attempt, look: Look | None) -> None:
    command_id = attempt.command_id
    _journal_look(draft, command_id, look)
    row = draft.row(command_id)
    if draft.root.ending is not None and draft.root.phase is Phase.PRE_PIVOT:
        raise TurningBack(command_id)
    spacing_s = drive.env.settings.spacing_s.get(row.site, 0.0)
    policy_hash = drive.env.catalog.policy_hash(draft.root)
    draft.fence = fence_for(draft.saga, row, drive.definition, attempt, draft.now_ms, policy_hash, spacing_s)
    _check_approval(drive, draft, draft.fence.approval_id)
    draft.put_attempt(attempt)
    body = {
        "attempt_id": attempt.attempt_id,
        "number": attempt.number,
        "cause": attempt.cause,
        "key": attempt.idempotency_key,
        "digest": attempt.request_digest,
        "deadline_s": attempt.deadline_s,
        "epoch": attempt.lease_epoch,
        "terms": json.loads(attempt.terms),
    }
    draft.move(command_id, Trigger.FENCED, body, attempt_count=row.attempt_count + 1, last_attempt_at_ms=draft.now_ms)
    draft.unblock(Blocker.HELD)
    if not draft.fence.finish_only:
        draft.unblock(Blocker.AWAITING_AUTHORIZATION)
    if row.effect_class is EffectClass.PIVOT:
        draft.phase(Phase.POST_PIVOT)


def _check_approval(drive: Drive, draft: Draft, approval_id: str | None) -> None:
    """What the store cannot judge: whether the yes that it finds is one. The store judges the rest."""
    approval = next((a for a in draft.saga.approvals if a.approval_id == approval_id), None)
    if approval is None:
        return
    why = invalid(approval, draft.saga, drive.env.approvers)
    if why is not None:
        _LOG.warning("the approval %s of %s does not count: %s", approval.approval_id, approval.root_id, why)
        raise FenceRefused(Refusal.APPROVAL_INVALID, (why,))


async def _budget_missed(drive: Drive, attempt: Attempt) -> None:
    """Provably nothing was written and nothing will be: the attempt is settled and does not count."""
    command_id = attempt.command_id

    def change(draft: Draft) -> None:
        settle_answer(draft, attempt, Unsent(code="send_budget"))
        moves = (Trigger.NOT_APPLIED, Trigger.DUE, Trigger.CLAIMED)
        apply(draft, command_id, Decision(moves=moves, code="send_budget"), drive.horizon(draft.saga))
        draft.set(command_id, attempt_count=draft.row(command_id).attempt_count - 1)

    await drive.commit(change, fold=False)


async def _answered(drive: Drive, attempt: Attempt, answer: Answer, late_s: float | None) -> Next:
    command_id = attempt.command_id
    texts = await three_ways(drive, command_id, answer)

    def change(draft: Draft) -> None:
        settle_answer(draft, _known(draft, attempt, late_s), answer)
        at = drive.standing(draft.saga, command_id, but=attempt.attempt_id)
        decision = carrying(decide.after_answer(at, answer, drive.jitter()), texts)
        apply(draft, command_id, decision, drive.horizon(draft.saga))

    try:
        return await drive.commit(change)
    except (LeaseLost, StoreError):
        await file_evidence(drive.env, attempt, answer, late_s)
        raise


def _known(draft: Draft, attempt: Attempt, late_s: float | None) -> Attempt:
    """The attempt as it stands now, with what its sender learned about its own lateness."""
    known = next(a for a in draft.saga.attempts if a.attempt_id == attempt.attempt_id)
    if late_s is None:
        return known
    late = replace(known, sent_late=True)
    draft.put_attempt(late)
    body = {"attempt_id": attempt.attempt_id, "after_ms": int(late_s * 1000)}
    draft.note(attempt.command_id, Fact.SENT_LATE, body)
    return late


async def _not_sent(drive: Drive, command_id: str, answer: Unsent | Refused, look: Look | None) -> Next:
    """No attempt was committed: counted as a try, journaled, retried or given up."""
    texts = await three_ways(drive, command_id, answer)

    def change(draft: Draft) -> None:
        _journal_look(draft, command_id, look)
        draft.set(command_id, attempt_count=draft.row(command_id).attempt_count + 1)
        draft.note(command_id, Fact.ATTEMPT_UNSENT, {"code": answer.code})
        at = drive.standing(draft.saga, command_id)
        decision = carrying(decide.before_fence(at, answer, drive.jitter()), texts)
        apply(draft, command_id, decision, drive.horizon(draft.saga))

    return await drive.commit(change)


async def _decided(drive: Drive, command_id: str, decision: Decision, look: Look | None) -> Next:
    decision = carrying(decision, await three_ways(drive, command_id, look.sighting if look else None))

    def change(draft: Draft) -> None:
        _journal_look(draft, command_id, look)
        landed = landed_receipt(draft.saga, draft.row(command_id)) is not None
        if Trigger.NOT_APPLIED in decision.moves and (landed or Trigger.DOUBT_REMAINS not in decision.moves):
            draft.set(command_id, attempt_count=draft.row(command_id).attempt_count + 1)
        if look is not None and Trigger.ADOPTED in decision.moves:
            settle_found(draft, command_id, look.sighting)
        apply(draft, command_id, decision, drive.horizon(draft.saga))

    return await drive.commit(change)


def _journal_look(draft: Draft, command_id: str, look: Look | None) -> None:
    if look is not None:
        draft.note(command_id, Fact.OBSERVED, look.body)


async def file_evidence(env: Env, attempt: Attempt, answer: Answer, late_s: float | None) -> None:
    """The saga has another owner; what the exchange proved still settles its attempt, and the owner must use it."""
    for _ in range(EVIDENCE_TRIES):
        saga = await env.store.hot(lambda conn: load_saga(conn, attempt.root_id))
        draft = Draft(saga, actor=env.owner, now_ms=env.clock.now_ms())
        if not any(a.attempt_id == attempt.attempt_id for a in saga.attempts):
            return
        settle_answer(draft, _known(draft, attempt, late_s), answer, late=True)
        if not draft.touched:
            return
        if saga.root.lease_owner is None:
            draft.set(saga.root.command_id, next_check_at_ms=env.clock.now_ms())
        row: Command = draft.row(attempt.command_id)
        if row.next_check_at_ms is not None:
            draft.set(attempt.command_id, next_check_at_ms=env.clock.now_ms())
        try:
            await env.store.commit(draft.unit())
        except Stale:
            continue
        return
