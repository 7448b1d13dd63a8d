"""What nobody works on any more, from the journal alone: forgotten questions, undoings that stand still, stuck work."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from execution.audit.effects import about
from execution.audit.report import Finding, Kind, Wanted
from execution.core.command import Command, Saga
from execution.core.events import Fact
from execution.core.states import Blocker, CompensationState, State
from execution.status import view_of
from execution.store import journal, registry
from execution.store.connection import Connection

UNFINISHED_MAX: Final = 2_000
_TOUCHED: Final = (Fact.REVIEW_ASSIGNED, Fact.RULED)
_HALF_DONE: Final = frozenset(
    {CompensationState.PENDING, CompensationState.RUNNING, CompensationState.UNKNOWN, CompensationState.FAILED}
)
_OWN_TIME: Final = frozenset({Blocker.SCHEDULED, Blocker.LOCKED})
"""Who waits for these waits for a time or for somebody else's work, and says so."""


def forgotten(conn: Connection, wanted: Wanted, now_ms: int, known: Collection[tuple[str, int]]) -> tuple[Finding, ...]:
    """Read in one snapshot. `known`: the definitions that this release has."""
    return (*_questions(conn, wanted, now_ms), *_unfinished(conn, wanted, now_ms, known))


def _questions(conn: Connection, wanted: Wanted, now_ms: int) -> Iterator[Finding]:
    for question in registry.open_questions(conn):
        review = question.review
        if wanted.command_id not in (None, review.root_id):
            continue
        touched = max(review.opened_at_ms, journal.last_ms(conn, (review.command_id,), _TOUCHED) or 0)
        idle_s = (now_ms - touched) / 1000
        if idle_s >= wanted.review_old_s:
            yield Finding(
                kind=Kind.REVIEW_FORGOTTEN,
                code=review.kind.value.lower(),
                command_id=review.root_id,
                step=question.step,
                about=f"{question.object_id} v{question.object_version} on {question.site}",
                facts={"owner": review.owner, "idle_s": int(idle_s)},
                review_id=review.review_id,
            )


def _unfinished(conn: Connection, wanted: Wanted, now_ms: int, known: Collection[tuple[str, int]]) -> Iterator[Finding]:
    after: registry.Cursor | None = None
    seen = 0
    while seen < UNFINISHED_MAX:
        unfinished = registry.Filter(tenant=wanted.tenant, unfinished=True)
        roots, after = registry.page(conn, unfinished, limit=200, after=after)
        for root in roots:
            if wanted.command_id in (None, root.command_id):
                found = _standing_still(conn, registry.load_saga(conn, root.command_id), wanted, now_ms, known)
                yield from (found,) if found is not None else ()
        seen += len(roots)
        if after is None:
            return


def _standing_still(
    conn: Connection, saga: Saga, wanted: Wanted, now_ms: int, known: Collection[tuple[str, int]]
) -> Finding | None:
    root = saga.root
    members = (root.command_id, *(row.command_id for row in saga.members))
    idle_s = (now_ms - (journal.last_ms(conn, members) or root.created_at_ms)) / 1000
    if idle_s < wanted.stuck_s:
        return None
    half_done = {row.command_type: row.compensation_state.value for row in saga.members if _half_done(row)}
    facts: dict[str, object] = {"idle_s": int(idle_s)}
    if half_done and root.state in (State.COMPENSATING, State.NEEDS_REVIEW):
        return _finding(saga, Kind.COMPENSATION_UNFINISHED, "unwinding_stands_still", facts | {"steps": half_done})
    code = _stuck(saga, wanted, now_ms, known)
    return None if code is None else _finding(saga, Kind.STUCK, code, facts)


def _half_done(row: Command) -> bool:
    return row.compensation_state in _HALF_DONE


def _stuck(saga: Saga, wanted: Wanted, now_ms: int, known: Collection[tuple[str, int]]) -> str | None:
    """Nobody is asked, nothing is awaited, and yet nothing happens."""
    root = saga.root
    waiting = view_of(saga).waiting_for
    if (waiting is not None and waiting.needs_person) or root.blocked_by & _OWN_TIME:
        return None
    if (root.command_type, root.definition_version) not in known:
        return "definition_missing"
    if root.next_check_at_ms is None:
        return "nothing_is_due"
    return "due_and_not_done" if now_ms - root.next_check_at_ms > wanted.stuck_s * 1000 else None


def _finding(saga: Saga, kind: Kind, code: str, facts: Mapping[str, object]) -> Finding:
    asked = next((review.review_id for review in saga.reviews if review.closed_at_ms is None), None)
    return Finding(
        kind=kind,
        code=code,
        command_id=saga.root.command_id,
        step=saga.root.command_type,
        about=about(saga),
        facts=facts,
        known=asked is not None,
        review_id=asked,
    )
