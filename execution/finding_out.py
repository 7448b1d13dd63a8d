"""Finding out: verifying a receipt, reconciling a doubt, counting once more after quiescence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from execution.comparing import carrying, three_ways
from execution.core import decide
from execution.core.apply import apply, landed_receipt, settle_found, sighting_body
from execution.core.decide import Decision
from execution.core.draft import Draft
from execution.core.events import Fact
from execution.core.failures import Absent, CannotTell, Foreign, Present, Sighting
from execution.core.horizon import Next, open_review
from execution.core.states import Blocker, ReviewKind, Settlement, State
from execution.core.transitions import Trigger
from execution.drive import Drive


async def verify(drive: Drive, command_id: str) -> Next:
    """RUNNING with a receipt on record: success is what a read-back shows, not what the answer said."""
    action = drive.action(command_id)
    receipt = landed_receipt(drive.saga, drive.saga.member(command_id))
    if receipt is None or action.verify is None:
        moves = (Trigger.OUTCOME_LOST,) if receipt is None else (Trigger.SUCCEEDED,)
        plain = Decision(moves=moves, receipt=receipt, retry_in_s=0.0)
        return await drive.commit(lambda draft: apply(draft, command_id, plain, drive.horizon(draft.saga)))
    async with drive.turn(command_id):
        asked = drive.env.clock.now_ms()
        sighting = await drive.keeping(drive.env.performer.verify(action, drive.context(command_id), receipt))
    drive.learn(command_id, sighting)
    texts = await three_ways(drive, command_id, sighting)

    def change(draft: Draft) -> None:
        draft.note(command_id, Fact.VERIFIED, _body(sighting, action.system, asked, "verify"))
        at = drive.standing(draft.saga, command_id)
        decision = carrying(decide.after_verify(at, sighting, drive.jitter()), texts)
        apply(draft, command_id, decision, drive.horizon(draft.saga))

    return await drive.commit(change)


async def reconcile(drive: Drive, command_id: str) -> Next:
    """OUTCOME_UNKNOWN: look, and let the answer decide. Giving up takes two conclusive looks."""
    if drive.saga.member(command_id).state is State.OUTCOME_UNKNOWN:
        await drive.commit(lambda draft: _start_probing(draft, command_id), fold=False)
    decision, asked, sighting = await _look(drive, command_id, second=False)
    if decision.again:
        decision, asked, sighting = await _look(drive, command_id, second=True)
    decision = carrying(decision, await three_ways(drive, command_id, sighting))
    system = drive.action(command_id).system

    def change(draft: Draft) -> None:
        if sighting is not None:
            draft.note(command_id, Fact.OBSERVED, _body(sighting, system, asked, "reconcile"))
            if isinstance(sighting, Present) and {Trigger.FOUND_PRESENT, Trigger.REPEATABLE} & set(decision.moves):
                settle_found(draft, command_id, sighting)
        apply(draft, command_id, decision, drive.horizon(draft.saga))
        row = draft.row(command_id)
        draft.set(command_id, claim_count=row.attempt_count)  # whoever looked lives
        if row.state is not State.OUTCOME_UNKNOWN:
            draft.set(command_id, look_count=0)

    return await drive.commit(change)


def _start_probing(draft: Draft, command_id: str) -> None:
    draft.set(command_id, look_count=draft.row(command_id).look_count + 1)
    draft.move(command_id, Trigger.PROBING)


async def _look(drive: Drive, command_id: str, *, second: bool) -> tuple[Decision, int, Sighting | None]:
    """One read-back. Quiescence is judged at the moment the read begins."""
    async with drive.turn(command_id):
        asked = drive.env.clock.now_ms()
        quiet = drive.env.doubts.remaining_s(drive.saga.open_attempts(command_id))
        shown = drive.env.doubts.remaining_s(drive.saga.effective_attempts(command_id))
        sighting = await drive.observe(command_id)
    row = drive.saga.member(command_id)
    at = drive.standing(drive.saga, command_id, looks=row.look_count, quiet_in_s=quiet, shown_in_s=shown)
    return decide.after_look(at, sighting, drive.jitter(), second=second), asked, sighting


async def watch(drive: Drive, command_ids: tuple[str, ...]) -> Next:
    """The saga ended and quiescence passed: count our objects once more and settle the watch list."""
    seen: list[tuple[str, int, Sighting | None, Mapping[str, Any], float]] = []
    for command_id in command_ids:
        async with drive.turn(command_id):
            asked, shown = drive.env.clock.now_ms(), _shown_in_s(drive)
            sighting = await drive.observe(command_id)
        seen.append((command_id, asked, sighting, await three_ways(drive, command_id, sighting), shown))

    def change(draft: Draft) -> None:
        for command_id, asked, sighting, texts, shown in seen:
            _watched(drive, draft, command_id, asked, sighting, texts, shown)

    return await drive.commit(change)


def _shown_in_s(drive: Drive) -> float:
    """Until then a stale read may lack what landed last, which may be a later step's write to the same object."""
    saga = drive.saga
    return drive.env.doubts.shown_in_s(a for row in saga.members for a in saga.effective_attempts(row.command_id))


def _watched(
    drive: Drive,
    draft: Draft,
    command_id: str,
    asked: int,
    sighting: Sighting | None,
    texts: Mapping[str, Any],
    shown_in_s: float,
) -> None:
    row = draft.row(command_id)
    undone = draft.root.state is not State.SUCCESS and row.compensates is None
    finding = _not_undone(sighting) if undone else _not_as_it_was(sighting)
    if sighting is not None:
        draft.note(command_id, Fact.OBSERVED, _body(sighting, drive.action(command_id).system, asked, "watch"))
    again_s = _again_in_s(drive, sighting, row.look_count + 1)
    if finding is not None and not isinstance(sighting, CannotTell) and shown_in_s > 0:
        again_s = shown_in_s  # it may not show yet what landed last, an effect or its undoing
    if again_s is not None:
        due = draft.now_ms + int(again_s * 1000) + 1
        draft.set(command_id, look_count=row.look_count + 1, next_check_at_ms=due)
        return
    draft.set(command_id, look_count=0, next_check_at_ms=None)
    if finding is not None:
        kind, facts = finding[0], {**finding[1], **texts}
        draft.note(command_id, Fact.FINDING_ADDED, {"kind": kind, **facts})
        open_review(draft, command_id, kind, facts, drive.horizon(draft.saga))
        draft.block(Blocker.FINDING_OPEN)
    for attempt in draft.saga.open_attempts(command_id):
        draft.put_attempt(replace(attempt, settlement=Settlement.QUIET, settled_at_ms=draft.now_ms))


def _again_in_s(drive: Drive, sighting: Sighting | None, looks: int) -> float | None:
    """Seconds until the next look where this one could not tell and another may; a person is asked after several."""
    policy = drive.env.settings.looks
    if not isinstance(sighting, CannotTell) or sighting.hopeless or not policy.allows(looks):
        return None
    return policy.delay_s(looks, drive.jitter(), sighting.retry_after_s)


def _not_as_it_was(sighting: Sighting | None) -> tuple[ReviewKind, dict[str, Any]] | None:
    """What is odd about an effect that should exist, once."""
    match sighting:
        case Present(rows=rows) if rows > 1:
            return ReviewKind.DUPLICATE, {"code": "several_rows", "rows": rows}
        case Absent():
            return ReviewKind.DRIFT, {"code": "effect_vanished"}
        case Foreign(code=code, difference=difference):
            return ReviewKind.DRIFT, {"code": code, "difference": list(difference)}
        case CannotTell(code=code):
            return ReviewKind.LATE_FACT, {"code": code, "after": "success"}
        case _:
            return None


def _not_undone(sighting: Sighting | None) -> tuple[ReviewKind, dict[str, Any]] | None:
    """What is odd about an effect that was undone or given up: that something of ours is still there."""
    match sighting:
        case Present(rows=rows):
            return ReviewKind.DUPLICATE, {"code": "exists_after_undoing", "rows": rows}
        case CannotTell(code=code):
            return ReviewKind.LATE_FACT, {"code": code, "after": "undoing"}
        case _:
            return None


def _body(sighting: Sighting, system: str, asked: int, purpose: str) -> dict[str, Any]:
    return sighting_body(sighting, source=system, asked_at_ms=asked, purpose=purpose)
