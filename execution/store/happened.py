"""What was journaled since a position, counted, and what stands now: for metrics. A call costs what has happened since
the last one, and what is unfinished.

On PostgreSQL positions may become visible out of order, and one that does is not counted: metrics are no evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, func, select

from execution.core.events import Fact
from execution.core.states import IN_DOUBT, TERMINAL, State
from execution.core.transitions import Trigger
from execution.store import schema
from execution.store.condition import Backlog, backlog
from execution.store.statements import Query

EVENTS_MAX: Final = 5_000
"""Read at once; the rest waits for the next call."""
_FOUND_OUT: Final = frozenset({Trigger.FOUND_PRESENT, Trigger.FOUND_ABSENT, Trigger.REPEATABLE, Trigger.ABANDONED})
_OPEN: Final = [state.value for state in State if state not in TERMINAL]
_DECIDED: Final = frozenset({Fact.APPROVED, Fact.REJECTED})

E: Final = schema.EVENTS.c
R: Final = schema.REFUSALS.c
C: Final = schema.COMMANDS.c
_NEW: Final = Query(
    select(E.position, E.command_id, E.seq, E.type, E.at_ms)
    .where(E.position > bindparam("after"))
    .order_by(E.position)
    .limit(EVENTS_MAX),
    "after",
)
_SINCE: Final = Query(
    select(func.max(E.at_ms)).where(
        E.command_id == bindparam("command_id"), E.seq < bindparam("seq"), E.type == bindparam("type")
    ),
    "command_id",
    "seq",
    "type",
)
_REFUSED: Final = Query(
    select(R.code, func.count(), func.max(R.refusal_id)).where(R.refusal_id > bindparam("after")).group_by(R.code),
    "after",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far somebody has read."""

    event: int
    refusal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Events and refusals by their closed names; how long doubts and approvals took that ended, in seconds."""

    position: Position
    events: Mapping[str, int]
    refusals: Mapping[str, int]
    doubts_s: tuple[float, ...]
    approvals_s: tuple[float, ...]


def here(conn: Connection) -> Position:
    """The end of the journal: what happens from now on."""
    events = conn.execute(select(func.max(E.position))).scalar()
    refusals = conn.execute(select(func.max(R.refusal_id))).scalar()
    return Position(event=events or 0, refusal=refusals or 0)


def since(conn: Connection, position: Position) -> Happened:
    """What was written after a position, and the position to go on from."""
    events, doubts, approvals, last = Counter[str](), list[float](), list[float](), position.event
    for at, command_id, seq, kind, at_ms in _NEW.rows(conn, position.event):
        events[kind] += 1
        last = at
        if kind in _FOUND_OUT:
            doubts += _lasted(conn, command_id, seq, at_ms, Trigger.OUTCOME_LOST)
        elif kind in _DECIDED:
            approvals += _lasted(conn, command_id, seq, at_ms, Fact.APPROVAL_REQUESTED)
    refused = _REFUSED.rows(conn, position.refusal)
    return Happened(
        position=Position(event=last, refusal=max((row[2] for row in refused), default=position.refusal)),
        events=events,
        refusals={code: count for code, count, _ in refused},
        doubts_s=tuple(doubts),
        approvals_s=tuple(approvals),
    )


def _lasted(conn: Connection, command_id: str, seq: int, at_ms: int, began: Trigger | Fact) -> list[float]:
    row = _SINCE.first(conn, command_id, seq, began.value)
    return [] if row is None or row[0] is None else [max(0, at_ms - row[0]) / 1000]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """Commands that have not ended: how long the oldest of each state has been there (Unix ms of its acceptance), and
    how many of their steps are in doubt."""

    oldest_ms: Mapping[State, int]
    in_doubt: int


def unfinished(conn: Connection, tenant: str) -> Unfinished:
    """Costs what is unfinished, not what there ever was."""
    open_roots = (
        (C.tenant == tenant) & C.parent_id.is_(None) & C.state.in_([s.value for s in State if s not in TERMINAL])
    )
    oldest = conn.execute(select(C.state, func.min(C.created_at_ms)).where(open_roots).group_by(C.state))
    steps = schema.COMMANDS.alias("steps")
    doubtful = (
        select(func.count())
        .select_from(schema.COMMANDS.join(steps, steps.c.root_id == C.command_id))
        .where(open_roots, steps.c.state.in_([state.value for state in IN_DOUBT]))
    )
    return Unfinished(
        oldest_ms={State(state): at for state, at in oldest},
        in_doubt=conn.execute(doubtful).scalar() or 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything that is measured, in one snapshot."""

    happened: Happened
    stands: Backlog
    unfinished: Unfinished


def figures(conn: Connection, tenant: str, position: Position, overdue_before_ms: int) -> Figures:
    """Read it all."""
    return Figures(
        happened=since(conn, position),
        stands=backlog(conn, tenant, overdue_before_ms),
        unfinished=unfinished(conn, tenant),
    )
