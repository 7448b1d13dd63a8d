"""Reading the journal, and checking that it is what was written and that the registry is its projection.

Each command has a chain. A chain shows edits, gaps and reordering; that its end was cut off shows in the registry's
`chain_seq` and `chain_head`; that chain *and* registry were rewritten together shows only in a checkpoint that was
exported (`hashes` gives the leaves, in order of position).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, Row, func, or_, select, text

from execution.core.events import GENESIS, Event, EventType, Fact, chain_hash
from execution.core.states import State
from execution.core.transitions import IllegalMove, Trigger, replay
from execution.store import schema
from execution.store.failing import damaged
from execution.store.registry import NotFound
from execution.store.rows import EVENT_COLUMNS, load_event
from execution.store.statements import Query

E: Final = schema.EVENTS.c
C: Final = schema.COMMANDS.c
_LAST: Final = Query(select(func.max(E.position)))
_STORED: Final = tuple(schema.EVENTS.c[name] for name in EVENT_COLUMNS)
_TRIGGERS: Final = {trigger.value: trigger for trigger in Trigger}
BATCH_COMMANDS_MAX: Final = 200


class FindingKind(StrEnum):
    """What is wrong with a chain."""

    HASH_DIFFERS = "HASH_DIFFERS"
    SEQUENCE_BROKEN = "SEQUENCE_BROKEN"
    LINK_BROKEN = "LINK_BROKEN"
    END_DIFFERS = "END_DIFFERS"
    STATE_DIFFERS = "STATE_DIFFERS"
    MOVE_ILLEGAL = "MOVE_ILLEGAL"
    COMMAND_MISSING = "COMMAND_MISSING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One contradiction. `seq` is the event's, None when it concerns the registry's row."""

    command_id: str
    kind: FindingKind
    seq: int | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """What the registry says of a command."""

    command_id: str
    is_root: bool
    state: str
    chain_seq: int
    chain_head: str


def chain_of(conn: Connection, command_id: str) -> tuple[Event, ...]:
    """A command's events in order."""
    return tuple(load_event(row) for row in conn.execute(_events().where(E.command_id == command_id).order_by(E.seq)))


def of_types(conn: Connection, command_id: str, types: Sequence[EventType]) -> tuple[Event, ...]:
    """A command's events of these types, in order."""
    wanted = _events().where(E.command_id == command_id, E.type.in_([t.value for t in types])).order_by(E.seq)
    return tuple(load_event(row) for row in conn.execute(wanted))


def saga_chain(conn: Connection, root_id: str) -> tuple[Event, ...]:
    """The events of a root and all its members, in the order in which they were written."""
    of_saga = select(C.command_id).where(C.root_id == root_id)
    return tuple(
        load_event(row) for row in conn.execute(_events().where(E.command_id.in_(of_saga)).order_by(E.position))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One event where it stands. `step`: the type of its command."""

    position: int
    root_id: str
    step: str
    event: Event


def entries(
    conn: Connection, after: int, limit: int, *, root_id: str | None = None, also: Sequence[int] = ()
) -> tuple[Entry, ...]:
    """Events after a position (of one saga, if named) and those at `also`, in order."""
    wanted = select(E.position, C.root_id, C.command_type, *_STORED).join(schema.COMMANDS, C.command_id == E.command_id)
    wanted = wanted.where(or_(E.position > after, E.position.in_(also)) if also else E.position > after)
    if root_id is not None:
        wanted = wanted.where(C.root_id == root_id)
    return tuple(
        Entry(position=row[0], root_id=row[1], step=row[2], event=load_event(tuple(row)[3:]))
        for row in conn.execute(wanted.order_by(E.position).limit(limit))
    )


def received(conn: Connection, limit: int) -> tuple[Event, ...]:
    """The newest acceptances, the oldest of them first."""
    newest = _events().where(E.type == Fact.COMMAND_RECEIVED.value).order_by(E.position.desc()).limit(limit)
    return tuple(load_event(row) for row in reversed(conn.execute(newest).all()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One event's place and hash."""

    position: int
    hash: str

    @property
    def digest(self) -> bytes:
        """Its bytes. Raises StoreUnusable when the stored text is none."""
        try:
            return bytes.fromhex(self.hash)
        except ValueError:
            raise damaged("an event", "its hash is none") from None


def hashes(conn: Connection, after: int, limit: int, until: int) -> tuple[Leaf, ...]:
    """Events after a position and not after another, in order: the leaves of a checkpoint's tree."""
    wanted = select(E.position, E.hash).where(E.position > after, E.position <= until)
    wanted = wanted.order_by(E.position).limit(limit)
    return tuple(Leaf(position=position, hash=digest) for position, digest in conn.execute(wanted))


def last_position(conn: Connection) -> int:
    """The position of the newest event, 0 when there is none."""
    return _LAST.first(conn)[0] or 0


def count(conn: Connection) -> int:
    """How many events there are."""
    return conn.execute(select(func.count(E.position))).scalar() or 0


def settled_position(conn: Connection) -> int:
    """The position up to which nothing can be inserted any more. PostgreSQL hands positions out before their commits,
    so that a lower one may still come: writers are waited for. SQLite has one writer at a time."""
    if conn.dialect.name == "postgresql":
        conn.execute(text("LOCK TABLE events IN SHARE MODE"))
    return last_position(conn)


def places(conn: Connection, positions: Sequence[int]) -> tuple[int, ...]:
    """How many events stand before each of these positions."""
    return tuple(
        conn.execute(select(func.count()).where(E.position < position)).scalar() or 0 for position in positions
    )


def last_ms(conn: Connection, command_ids: Sequence[str], types: Sequence[EventType] = ()) -> int | None:
    """When something was last written about these commands (Unix ms); of these types alone, if named."""
    wanted = select(func.max(E.at_ms)).where(E.command_id.in_(command_ids))
    return conn.execute(wanted.where(E.type.in_([t.value for t in types])) if types else wanted).scalar()


def verify_chain(conn: Connection, command_id: str) -> tuple[Finding, ...]:
    """Check one command. Raises NotFound."""
    row = conn.execute(_standings().where(C.command_id == command_id)).first()
    if row is None:
        raise NotFound(command_id)
    stored = conn.execute(_events().where(E.command_id == command_id).order_by(E.seq, E.position)).all()
    return tuple(_check(_standing(row), stored))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """One batch: what was found, and after which command the next batch begins (None: all was checked)."""

    findings: tuple[Finding, ...]
    commands: int
    events: int
    next_after: str | None


def verify_batch(conn: Connection, after: str = "", limit: int = BATCH_COMMANDS_MAX) -> Verified:
    """Check the commands whose ids follow `after`, and every event between them that belongs to no command."""
    standings = [
        _standing(row)
        for row in conn.execute(_standings().where(C.command_id > after).order_by(C.command_id).limit(limit))
    ]
    more = len(standings) == limit
    wanted = _events().where(E.command_id > after).order_by(E.command_id, E.seq, E.position)
    if more:
        wanted = wanted.where(E.command_id <= standings[-1].command_id)
    chains = {cid: list(rows) for cid, rows in groupby(conn.execute(wanted), key=_command_id)}
    events = sum(len(chain) for chain in chains.values())
    findings: list[Finding] = []
    for standing in standings:
        findings += _check(standing, chains.pop(standing.command_id, []))
    for command_id, chain in chains.items():
        findings.append(_finding(command_id, FindingKind.COMMAND_MISSING, None, f"{len(chain)} events of no command"))
    return Verified(
        findings=tuple(findings),
        commands=len(standings),
        events=events,
        next_after=standings[-1].command_id if more else None,
    )


def verify_all(conn: Connection, batch: int = BATCH_COMMANDS_MAX) -> Iterator[Verified]:
    """Check everything, batch by batch."""
    after: str | None = ""
    while after is not None:
        verified = verify_batch(conn, after, batch)
        yield verified
        after = verified.next_after


def _events() -> Any:
    return select(*_STORED)


def _standings() -> Any:
    return select(C.command_id, C.parent_id, C.state, C.chain_seq, C.chain_head)


def _standing(row: Row[Any]) -> _Standing:
    command_id, parent_id, state, chain_seq, chain_head = tuple(row)
    return _Standing(
        command_id=command_id, is_root=parent_id is None, state=state, chain_seq=chain_seq, chain_head=chain_head
    )


def _command_id(row: Row[Any]) -> str:
    return str(row[0])


def _finding(command_id: str, kind: FindingKind, seq: int | None, detail: str) -> Finding:
    return Finding(command_id=command_id, kind=kind, seq=seq, detail=detail)


def _check(standing: _Standing, stored: Sequence[Sequence[Any]]) -> Iterator[Finding]:
    """The chain by itself, its end against the registry, and the registry's state against the replayed moves."""
    cid = standing.command_id
    expected_prev = GENESIS
    for place, row in enumerate(stored, start=1):
        _, seq, type_, actor, at_ms, body, prev_hash, digest = tuple(row)
        if seq != place:
            yield _finding(cid, FindingKind.SEQUENCE_BROKEN, seq, f"stands at place {place}")
        if prev_hash != expected_prev:
            yield _finding(cid, FindingKind.LINK_BROKEN, seq, "does not follow the event before")
        if chain_hash(prev_hash, cid, seq, type_, actor, at_ms, body) != digest:
            yield _finding(cid, FindingKind.HASH_DIFFERS, seq, "its stored fields were changed")
        expected_prev = digest
    yield from _check_end(standing, stored)
    yield from _check_state(standing, stored)


def _check_end(standing: _Standing, stored: Sequence[Sequence[Any]]) -> Iterator[Finding]:
    seq, head = (stored[-1][1], stored[-1][-1]) if stored else (0, "")
    if (seq, head) != (standing.chain_seq, standing.chain_head):
        detail = f"the journal ends at {seq}, the registry at {standing.chain_seq}"
        yield _finding(standing.command_id, FindingKind.END_DIFFERS, None, detail)


def _check_state(standing: _Standing, stored: Sequence[Sequence[Any]]) -> Iterator[Finding]:
    moves = [_TRIGGERS[row[2]] for row in stored if row[2] in _TRIGGERS]
    try:
        state = replay(moves, State.RECEIVED if standing.is_root else State.AUTHORIZED)
    except IllegalMove as error:
        yield _finding(standing.command_id, FindingKind.MOVE_ILLEGAL, None, str(error))
        return
    if state.value != standing.state:
        detail = f"the journal says {state.value}, the registry {standing.state}"
        yield _finding(standing.command_id, FindingKind.STATE_DIFFERS, None, detail)
