"""What operators do to commands: approve, reject, cancel, hold, rule. Agents have no way to call any of it.

Each is one guarded commit on the saga; whoever drives it sees the change at its next commit. An approval is signed with
an operator's key and binds one content hash; the caller verifies the key, this module checks who may approve what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from capabilities.revocation import RevocationEffect, RevocationScope
from execution.approvers import proposed
from execution.authority import hold_scope
from execution.core.command import Approval, Review, Saga
from execution.core.draft import Draft, Unit
from execution.core.events import Fact
from execution.core.states import ApprovalState, Blocker, EffectClass, Phase, State, Verdict
from execution.moments import spelt
from execution.ports import Clock
from execution.store import authority, registry
from execution.store.connection import Connection
from execution.store.errors import Stale
from execution.store.registry import Question
from execution.store.units import apply_unit
from execution.store.writer import Store

TRIES: Final = 20
REASON_CHARS_MAX: Final = 500
PERSON: Final = "operator:"
"""How the owner of a question begins once a person has taken it."""


class OperationRefused(Exception):
    """Nothing was changed.

    Codes: unknown_command, unknown_review, not_awaiting_approval, hash_differs, approval_expired, already_decided (with
    who was first), proposer_cannot_approve, too_late (with what exists), already_ended, not_held, until_is_past,
    verdict_not_offered, ruling_under_way, already_taken (with by whom), reason_too_long, busy.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """What a revocation met. fresh: it was not in force before. stopped: sagas that end and are undone. past_pivot:
    sagas that finish what needs no new authority. held: sagas of which nothing runs until it is lifted."""

    fresh: bool
    stopped: tuple[str, ...] = ()
    past_pivot: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


Change = Callable[[Saga, Draft], None]
Beside = Callable[[Connection], object]
"""What is written in the same transaction as the change, before it."""


class Operations:
    """Operators' verbs. `wake` is called with the root id after each change."""

    def __init__(self, store: Store, clock: Clock, wake: Callable[[str], None] | None = None) -> None:
        self._store = store
        self._clock = clock
        self._wake = wake

    async def pending(self, command_id: str) -> tuple[Saga, Approval]:
        """The saga and its approval request; raises unknown_command or not_awaiting_approval."""
        saga = await self._load(command_id)
        approval = next((a for a in reversed(saga.approvals) if a.state is ApprovalState.PENDING), None)
        if approval is None:
            raise OperationRefused("not_awaiting_approval", _standing(saga))
        return saga, approval

    async def approve(self, command_id: str, *, content_hash: str, operator: str, signature: str) -> Approval:
        """A signed yes to exactly that content. The caller has verified the signature over `approval_statement`."""

        def change(saga: Saga, draft: Draft) -> None:
            approval = _decidable(saga)
            if approval.content_hash != content_hash:
                raise OperationRefused("hash_differs", f"what is asked for now is {approval.content_hash}")
            if approval.expires_at_ms <= draft.now_ms:
                raise OperationRefused("approval_expired")
            if proposed(saga, (operator,)):
                raise OperationRefused("proposer_cannot_approve")
            decided = replace(
                approval,
                state=ApprovalState.APPROVED,
                decided_at_ms=draft.now_ms,
                decided_by=operator,
                signature=signature,
            )
            draft.put_approval(decided)
            body = {"approval_id": approval.approval_id, "content_hash": content_hash, "by": operator}
            draft.note(approval.command_id, Fact.APPROVED, body | {"signature": signature})

        saga = await self._change(command_id, operator, change)
        return next(a for a in reversed(saga.approvals) if a.state is ApprovalState.APPROVED)

    async def reject(self, command_id: str, *, operator: str, reason: str) -> None:
        """A no, or the withdrawal of a yes that was not used: the saga unwinds with the reason."""
        _check_reason(reason)

        def change(saga: Saga, draft: Draft) -> None:
            alive = saga.approval_pending_or_given()
            if saga.root.state in (State.FAILED, State.COMPENSATED):
                raise OperationRefused("already_ended", _standing(saga))
            if saga.root.phase is not Phase.PRE_PIVOT or saga.root.is_terminal:
                raise OperationRefused("too_late", _standing(saga))
            if alive is None:
                raise OperationRefused("not_awaiting_approval", _standing(saga))
            rejected = replace(
                alive,
                state=ApprovalState.REJECTED,
                decided_at_ms=draft.now_ms,
                decided_by=operator,
                reason=reason,
            )
            draft.put_approval(rejected)
            body = {"approval_id": alive.approval_id, "by": operator, "reason": reason}
            draft.note(alive.command_id, Fact.REJECTED, body)
            draft.set(saga.root.command_id, ending="rejected")

        await self._change(command_id, operator, change)

    async def cancel(self, command_id: str, *, operator: str, reason: str) -> None:
        """Legal before the pivot's fence; afterwards the refusal says what exists."""
        _check_reason(reason)

        def change(saga: Saga, draft: Draft) -> None:
            root = saga.root
            if root.is_terminal:
                raise OperationRefused("already_ended", _standing(saga))
            if root.phase is not Phase.PRE_PIVOT:
                raise OperationRefused("too_late", _standing(saga))
            if root.ending is not None:
                raise OperationRefused("already_ended", f"it is ending: {root.ending}")
            draft.note(root.command_id, Fact.CANCEL_REQUESTED, {"by": operator, "reason": reason})
            draft.set(root.command_id, ending="cancelled")

        await self._change(command_id, operator, change)

    async def hold(self, command_id: str, *, operator: str, reason: str) -> None:
        """Nothing of this command is sent from its next fence on, compensations included. Looking goes on."""
        _check_reason(reason)
        now_ms = self._clock.now_ms()

        def change(saga: Saga, draft: Draft) -> None:
            if saga.root.is_terminal:
                raise OperationRefused("already_ended", _standing(saga))
            draft.note(saga.root.command_id, Fact.HOLD_REQUESTED, {"by": operator, "reason": reason})
            draft.block(Blocker.HELD, {"by": operator})

        def restrict(scope: str, conn: Connection) -> None:
            authority.restrict(conn, scope, reason=reason, by=operator, now_ms=now_ms)

        root_id = (await self._load(command_id)).root.command_id
        await self._change(root_id, operator, change, partial(restrict, hold_scope(root_id)))

    async def resume(self, command_id: str, *, operator: str) -> None:
        """End a hold. Whatever else holds the command shows at its next fence."""

        def change(saga: Saga, draft: Draft) -> None:
            draft.note(saga.root.command_id, Fact.RESUME_REQUESTED, {"by": operator})
            draft.unblock(Blocker.HELD)

        def lift(scope: str, conn: Connection) -> None:
            if not authority.lift(conn, scope):
                raise OperationRefused("not_held")

        root_id = (await self._load(command_id)).root.command_id
        await self._change(root_id, operator, change, partial(lift, hold_scope(root_id)))

    async def reauthorize(
        self, command_id: str, *, operator: str, reason: str, until_ms: int, policy_hash: str
    ) -> None:
        """An operator's authority where the grant lapsed or the configuration that judged it changed. A yes under
        other rules is void: it is asked for anew. What is revoked or frozen stays so."""
        _check_reason(reason)
        root_id = (await self._load(command_id)).root.command_id
        grant = await self._store.hot(lambda conn: authority.find_grant(conn, root_id))
        judged_anew = grant is not None and grant.policy_hash not in ("", policy_hash)

        def change(saga: Saga, draft: Draft) -> None:
            if saga.root.is_terminal:
                raise OperationRefused("already_ended", _standing(saga))
            if until_ms <= draft.now_ms:
                raise OperationRefused("until_is_past")
            body = {"by": operator, "reason": reason, "until_ms": until_ms, "policy_hash": policy_hash}
            draft.note(root_id, Fact.REAUTHORIZED, body)
            given = saga.approval_pending_or_given()
            if judged_anew and given is not None and given.state is ApprovalState.APPROVED:
                void = replace(given, state=ApprovalState.VOID, decided_at_ms=draft.now_ms, reason="policy")
                draft.put_approval(void)
                draft.note(given.command_id, Fact.APPROVAL_VOIDED, {"approval_id": given.approval_id})

        def extend(conn: Connection) -> None:
            authority.extend_grant(conn, root_id, grant_until_ms=until_ms, policy_hash=policy_hash)

        await self._change(root_id, operator, change, extend)

    async def revoke(self, scope: RevocationScope, *, operator: str, reason: str) -> Revoked:
        """In force at every next fence. What waits before its pivot is told to end now, so that it is undone without
        waiting for one; a compromise (key, tenant) only holds, because undoing would be an effect too."""
        _check_reason(reason)
        name, now_ms = authority.revocation(scope), self._clock.now_ms()
        fresh: bool = await self._store.transact(
            lambda conn: authority.restrict(conn, name, reason=reason, by=operator, now_ms=now_ms)
        )
        roots = await self._store.read(lambda conn: authority.roots_under(conn, scope))
        if scope.effect is RevocationEffect.HOLD:
            return Revoked(fresh=fresh, held=roots)
        body = {"code": "revoked", "scope": name, "by": operator, "reason": reason}

        def change(saga: Saga, draft: Draft) -> None:
            if saga.root.phase is Phase.PRE_PIVOT and saga.root.ending is None and not saga.root.is_terminal:
                draft.note(saga.root.command_id, Fact.CANCEL_REQUESTED, body)
                draft.set(saga.root.command_id, ending="revoked", error_code="revoked")

        met = [(await self._change(root_id, operator, change)).root for root_id in roots]
        return Revoked(
            fresh=fresh,
            stopped=tuple(root.command_id for root in met if root.ending is not None),
            past_pivot=tuple(root.command_id for root in met if root.phase is Phase.POST_PIVOT),
        )

    async def request_ruling(
        self, review_id: str, *, verdict: Verdict, operator: str, reason: str, at_ms: int, signature: str
    ) -> Review:
        """Ask a worker to carry the verdict out; it reads back first and refuses what the facts contradict, and what is
        not signed as `execution.acts.ruling` is."""
        _check_reason(reason)
        review = await self._store.read(lambda conn: registry.find_review(conn, review_id))
        if review is None:
            raise OperationRefused("unknown_review")

        def change(saga: Saga, draft: Draft) -> None:
            known = next(r for r in saga.reviews if r.review_id == review_id)
            if known.closed_at_ms is not None:
                raise OperationRefused("already_decided", f"{known.verdict} by {known.closed_by}; {_standing(saga)}")
            if known.verdict is not None:
                raise OperationRefused("ruling_under_way", f"{known.verdict} by {known.closed_by}")
            if verdict.value not in known.verdicts.split(","):
                raise OperationRefused("verdict_not_offered", f"offered: {known.verdicts}")
            ruled = replace(known, verdict=verdict, closed_by=operator, reason=reason)
            draft.put_review(replace(ruled, answered_at_ms=at_ms, signature=signature))

        saga = await self._change(review.root_id, operator, change)
        return next(r for r in saga.reviews if r.review_id == review_id)

    async def assign(self, review_id: str, *, owner: str, operator: str, take_over: bool) -> Review:
        """Say whose question it is. Without `take_over` one that somebody else has taken stays theirs."""
        review = await self._store.read(lambda conn: registry.find_review(conn, review_id))
        if review is None:
            raise OperationRefused("unknown_review")

        def change(saga: Saga, draft: Draft) -> None:
            known = next(r for r in saga.reviews if r.review_id == review_id)
            if known.closed_at_ms is not None:
                raise OperationRefused("already_decided", f"{known.verdict} by {known.closed_by}")
            if known.owner.startswith(PERSON) and known.owner != owner and not take_over:
                raise OperationRefused("already_taken", f"by {known.owner}")
            draft.put_review(replace(known, owner=owner))
            body = {"review_id": review_id, "from": known.owner, "to": owner, "by": operator}
            draft.note(known.command_id, Fact.REVIEW_ASSIGNED, body)

        saga = await self._change(review.root_id, operator, change)
        return next(r for r in saga.reviews if r.review_id == review_id)

    async def reviews(self) -> tuple[Question, ...]:
        """Open questions, the oldest first."""
        return await self._store.read(registry.open_questions)

    async def review(self, review_id: str) -> Review | None:
        """One review."""
        return await self._store.read(lambda conn: registry.find_review(conn, review_id))

    async def _load(self, command_id: str) -> Saga:
        def read(conn: Connection) -> Saga | None:
            found = registry.find(conn, command_id)
            return None if found is None else registry.load_saga(conn, found.root_id)

        saga = await self._store.hot(read)
        if saga is None:
            raise OperationRefused("unknown_command")
        return saga

    async def _change(self, command_id: str, operator: str, change: Change, beside: Beside | None = None) -> Saga:
        for _ in range(TRIES):
            saga = await self._load(command_id)
            draft = Draft(saga, actor=operator, now_ms=self._clock.now_ms())
            change(saga, draft)
            draft.announce()
            if saga.root.lease_owner is None:
                draft.set(saga.root.command_id, next_check_at_ms=self._clock.now_ms())
            unit = draft.unit()
            try:
                if beside is None:
                    await self._store.commit(unit)
                else:
                    await self._store.transact(partial(_together, beside, unit))
            except Stale:
                continue
            if self._wake is not None:
                self._wake(saga.root.command_id)
            return draft.committed()
        raise OperationRefused("busy")


def _together(beside: Beside, unit: Unit, conn: Connection) -> None:
    beside(conn)
    apply_unit(conn, unit)


def _decidable(saga: Saga) -> Approval:
    if not saga.approvals:
        raise OperationRefused("not_awaiting_approval", _standing(saga))
    newest = saga.approvals[-1]
    if newest.state is not ApprovalState.PENDING:
        raise OperationRefused("already_decided", f"{newest.state} by {newest.decided_by or 'the system'}")
    if saga.root.ending is not None:
        raise OperationRefused("too_late", f"it is ending: {saga.root.ending}")
    return newest


def _check_reason(reason: str) -> None:
    if len(reason) > REASON_CHARS_MAX:
        raise OperationRefused("reason_too_long", f"{len(reason)} > {REASON_CHARS_MAX}")


def _standing(saga: Saga) -> str:
    """What exists, in a few words."""
    pivot = next((row for row in saga.members if row.effect_class is EffectClass.PIVOT), None)
    if pivot is not None and pivot.state is State.SUCCESS:
        at = f" at {spelt(pivot.completed_at_ms)}" if pivot.completed_at_ms is not None else ""
        return f"{pivot.command_type} succeeded on {pivot.external_resource_id}{at}"
    if pivot is not None and saga.root.phase is Phase.POST_PIVOT:
        return f"{pivot.command_type} has begun and its outcome is being found out"
    return f"the command is {saga.root.state}"
