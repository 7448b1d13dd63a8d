"""Reading the registry. Every function takes a connection and reads in its transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, literal_column, or_, select

from execution.core.command import Approval, Attempt, Command, Review, Saga
from execution.core.identity import generation_suffix
from execution.core.states import TERMINAL, ApprovalState, Settlement, State
from execution.store import schema, statements
from execution.store.rows import APPROVAL, ATTEMPT, COMMAND, REVIEW, Mapped
from execution.store.statements import Query

T = TypeVar("T")
C: Final = schema.COMMANDS.c
ROOTS: Final = C.parent_id.is_(None)
PAGE_MAX: Final = 500
GENERATIONS_MAX: Final = 1_000
"""How often one business effect may be repeated deliberately."""

_STEPS: Final = schema.COMMANDS.alias("steps")
_LANDED_PIVOTS: Final = Query(
    select(_STEPS)
    .join_from(schema.COMMANDS, _STEPS, _STEPS.c.root_id == C.command_id)
    .where(
        C.tenant == bindparam("tenant_"),
        C.workflow_id == bindparam("workflow_"),
        ROOTS,
        _STEPS.c.effect_class == literal_column("'PIVOT'"),
        _STEPS.c.state == literal_column("'SUCCESS'"),
    ),
    "tenant_",
    "workflow_",
)


class NotFound(LookupError):
    """No command has that id."""


def load_saga(conn: Connection, root_id: str) -> Saga:
    """The aggregate. Raises NotFound."""
    saga = load_if(conn, root_id, lambda root: True)
    assert saga is not None
    return saga


def load_if(conn: Connection, root_id: str, wanted: Callable[[Command], bool]) -> Saga | None:
    """The aggregate, None when its root is not `wanted`; raises NotFound.

    The rows are read first: what changes afterwards makes a commit on them Stale.
    """
    sql = statements.of(conn)
    found = statements.fetch(conn, sql.saga_commands, (root_id,))
    if not found:
        raise NotFound(root_id)
    root = COMMAND.load(found[0])
    if not wanted(root):
        return None
    commands = (root, *(COMMAND.load(row) for row in found[1:]))
    return Saga(
        root=commands[0],
        members=commands[1:],
        attempts=_of_root(conn, ATTEMPT, sql.saga_attempts, root_id),
        approvals=_of_root(conn, APPROVAL, sql.saga_approvals, root_id),
        reviews=_of_root(conn, REVIEW, sql.saga_reviews, root_id),
    )


def _of_root(conn: Connection, mapped: Mapped[T], statement: str, root_id: str) -> tuple[T, ...]:
    return tuple(mapped.load(row) for row in statements.fetch(conn, statement, (root_id,)))


def find(conn: Connection, command_id: str) -> Command | None:
    """The command with that id, root or member."""
    return _one(conn, C.command_id == command_id)


def find_by_key(conn: Connection, tenant: str, key: str) -> Command | None:
    """The command that holds that idempotency key."""
    found = statements.fetch(conn, statements.of(conn).command_by_key, (tenant, key))
    return COMMAND.load(found[0]) if found else None


def workflow_roots(conn: Connection, tenant: str, workflow_id: str) -> tuple[Command, ...]:
    """Every saga about one business object, in no order."""
    found = statements.fetch(conn, statements.of(conn).workflow_roots, (tenant, workflow_id))
    return tuple(COMMAND.load(row) for row in found)


def landed_pivots(conn: Connection, tenant: str, workflow_id: str) -> tuple[Command, ...]:
    """The pivots that succeeded in all sagas about one business object, in no order."""
    return tuple(COMMAND.load(row) for row in _LANDED_PIVOTS.rows(conn, tenant, workflow_id))


def newest_generation(conn: Connection, tenant: str, key_without_generation: str) -> Command | None:
    """The newest of all deliberate repetitions: each one's key is derived from the id of the one before."""
    newest = find_by_key(conn, tenant, key_without_generation)
    for _ in range(GENERATIONS_MAX):
        if newest is None:
            return None
        following = find_by_key(conn, tenant, key_without_generation + generation_suffix(newest.command_id))
        if following is None:
            return newest
        newest = following
    raise RuntimeError(f"{key_without_generation} was repeated more than {GENERATIONS_MAX} times")


def due_roots(conn: Connection, now_ms: int, limit: int, definitions: Collection[tuple[str, int]]) -> tuple[str, ...]:
    """Roots that the sweep must look at, most overdue first, of definitions (type, version) that this worker has."""
    if not definitions:
        return ()
    values = (value for definition in sorted(definitions) for value in definition)
    return tuple(row[0] for row in _due(len(definitions)).rows(conn, now_ms, *values, limit))


@lru_cache(maxsize=64)
def _due(count: int) -> Query:
    """The sweep's question for that many definitions; it is asked all the time."""
    names = [(f"type_{index}", f"version_{index}") for index in range(count)]
    each = [and_(C.command_type == bindparam(t), C.definition_version == bindparam(v)) for t, v in names]
    due = select(C.command_id).where(ROOTS, C.next_check_at_ms <= bindparam("now_"), or_(*each))
    flat = [name for pair in names for name in pair]
    return Query(due.order_by(C.next_check_at_ms).limit(bindparam("limit_")), "now_", *flat, "limit_")


def unknown_definitions(conn: Connection, definitions: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], int]:
    """Definitions of waiting roots that this worker lacks, and how many wait for each."""
    missing = select(C.command_type, C.definition_version, func.count()).where(ROOTS, C.next_check_at_ms.is_not(None))
    if definitions:
        missing = missing.where(~_defined(definitions))
    found = conn.execute(missing.group_by(C.command_type, C.definition_version))
    return {(type_, version): count for type_, version, count in found}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which roots to list; what is None or empty does not restrict. Times select by creation."""

    tenant: str | None = None
    states: frozenset[State] = frozenset()
    workflow_id: str | None = None
    decision_id: str | None = None
    principal: str | None = None
    command_type: str | None = None
    object_id: str | None = None
    site: str | None = None
    blocked: bool = False
    unfinished: bool = False
    since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The last row of the page before."""

    created_at_ms: int
    command_id: str


def page(
    conn: Connection, wanted: Filter, *, limit: int = 50, after: Cursor | None = None
) -> tuple[tuple[Command, ...], Cursor | None]:
    """Roots, newest first, and where the next page begins (None: this was the last)."""
    limit = min(limit, PAGE_MAX)
    statement = select(schema.COMMANDS).where(ROOTS, *_conditions(wanted))
    if after is not None:
        older = and_(C.created_at_ms == after.created_at_ms, C.command_id < after.command_id)
        statement = statement.where(or_(C.created_at_ms < after.created_at_ms, older))
    statement = statement.order_by(C.created_at_ms.desc(), C.command_id.desc()).limit(limit + 1)
    found = tuple(COMMAND.load(row) for row in conn.execute(statement))
    if len(found) <= limit:
        return found, None
    last = found[limit - 1]
    return found[:limit], Cursor(created_at_ms=last.created_at_ms, command_id=last.command_id)


def recent(
    conn: Connection,
    tenant: str,
    *,
    principal: str | None = None,
    decision_id: str | None = None,
    limit: int = 10,
) -> tuple[Command, ...]:
    """The newest roots of a tenant, an agent or a decision."""
    return page(conn, Filter(tenant=tenant, principal=principal, decision_id=decision_id), limit=limit)[0]


def counts_by_state(conn: Connection, tenant: str | None = None) -> Mapping[State, int]:
    """How many roots stand in each state."""
    statement = select(C.state, func.count()).where(ROOTS).group_by(C.state)
    if tenant is not None:
        statement = statement.where(C.tenant == tenant)
    return {State(state): count for state, count in conn.execute(statement)}


def children_of(conn: Connection, command_id: str) -> tuple[Command, ...]:
    """The rows whose parent is that command."""
    return _many(conn, COMMAND, C.parent_id == command_id, C.position)


def open_attempts_on(conn: Connection, resource: str) -> tuple[Attempt, ...]:
    """Every attempt on a resource, of whatever saga, that is not individually proven unsent, refused or landed."""
    a = schema.ATTEMPTS.c
    return _many(conn, ATTEMPT, and_(a.resource == resource, a.settlement == Settlement.OPEN.value), a.fenced_at_ms)


def pending_approvals(conn: Connection, limit: int = PAGE_MAX) -> tuple[Approval, ...]:
    """What waits for a person's yes, the soonest to expire first."""
    a = schema.APPROVALS.c
    return _many(conn, APPROVAL, a.state == ApprovalState.PENDING.value, a.expires_at_ms, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An open review and the command that it is about. `step`: its command type; a saga's own for the root."""

    review: Review
    step: str
    site: str
    object_id: str
    object_version: int


def open_questions(conn: Connection, limit: int = PAGE_MAX) -> tuple[Question, ...]:
    """What waits for a person and what it is about, the oldest first."""
    r = schema.REVIEWS
    about = (C.command_type, C.site, C.object_id, C.object_version)
    wanted = select(r, *about).join(schema.COMMANDS, C.command_id == r.c.command_id).where(r.c.closed_at_ms.is_(None))
    width = len(REVIEW.columns)
    return tuple(
        Question(
            review=REVIEW.load(tuple(row)[:width]),
            step=row[width],
            site=row[-3],
            object_id=row[-2],
            object_version=row[-1],
        )
        for row in conn.execute(wanted.order_by(r.c.opened_at_ms, r.c.review_id).limit(limit))
    )


def find_review(conn: Connection, review_id: str) -> Review | None:
    """The review with that id."""
    return next(iter(_many(conn, REVIEW, schema.REVIEWS.c.review_id == review_id, schema.REVIEWS.c.review_id)), None)


def mentioning(conn: Connection, sha256: str, limit: int = PAGE_MAX) -> tuple[Command, ...]:
    """Roots whose frozen parameters name that content."""
    return _many(conn, COMMAND, and_(ROOTS, C.params.contains(sha256, autoescape=True)), C.created_at_ms, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a step's marker is made of, beside what its definition says."""

    command_id: str
    command_type: str
    tenant: str
    site: str
    object_id: str
    object_version: int
    generation: str


def named(conn: Connection, types: Collection[str], after: str, limit: int) -> tuple[Named, ...]:
    """Steps of these types in order of their ids."""
    columns = [C[field.name] for field in fields(Named)]
    wanted = select(*columns).where(C.command_type.in_(sorted(types)), C.command_id > after, C.compensates.is_(None))
    return tuple(Named(**row._mapping) for row in conn.execute(wanted.order_by(C.command_id).limit(limit)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A semantic lock; `owner` is the root command."""

    tenant: str
    resource: str
    owner: str


def locks_of(conn: Connection, root_id: str) -> tuple[Lock, ...]:
    """What a root has locked, in canonical order."""
    return _locks(conn, schema.LOCKS.c.owner == root_id)


def lock_owner(conn: Connection, tenant: str, resource: str) -> str | None:
    """Who has locked a resource."""
    found = _locks(conn, and_(schema.LOCKS.c.tenant == tenant, schema.LOCKS.c.resource == resource))
    return found[0].owner if found else None


def locks_of_finished(conn: Connection, limit: int = PAGE_MAX) -> tuple[Lock, ...]:
    """Locks whose root has ended: the sweep frees them when their resources are quiescent."""
    ended = select(C.command_id).where(C.state.in_(sorted(TERMINAL)))
    return _locks(conn, schema.LOCKS.c.owner.in_(ended))[:limit]


def _locks(conn: Connection, where: ColumnElement[bool]) -> tuple[Lock, ...]:
    table = schema.LOCKS.c
    found = conn.execute(select(table.tenant, table.resource, table.owner).where(where).order_by(table.resource))
    return tuple(Lock(tenant=tenant, resource=resource, owner=owner) for tenant, resource, owner in found)


def _one(conn: Connection, where: ColumnElement[bool]) -> Command | None:
    row = conn.execute(select(schema.COMMANDS).where(where)).first()
    return None if row is None else COMMAND.load(row)


def _many(
    conn: Connection, mapped: Mapped[T], where: ColumnElement[bool], order: ColumnElement[Any], limit: int = PAGE_MAX
) -> tuple[T, ...]:
    statement = select(mapped.table).where(where).order_by(order).limit(limit)
    return tuple(mapped.load(row) for row in conn.execute(statement))


def _defined(definitions: Collection[tuple[str, int]]) -> ColumnElement[bool]:
    each = sorted(definitions)
    return or_(*(and_(C.command_type == type_, C.definition_version == version) for type_, version in each))


def _conditions(wanted: Filter) -> list[ColumnElement[bool]]:
    exact = {
        C.tenant: wanted.tenant,
        C.workflow_id: wanted.workflow_id,
        C.decision_id: wanted.decision_id,
        C.principal: wanted.principal,
        C.command_type: wanted.command_type,
        C.object_id: wanted.object_id,
        C.site: wanted.site,
    }
    conditions: list[ColumnElement[bool]] = [column == value for column, value in exact.items() if value is not None]
    if wanted.states:
        conditions.append(C.state.in_(sorted(wanted.states)))
    if wanted.blocked:
        conditions.append(C.blockers != "")
    if wanted.unfinished:
        conditions.append(C.state.not_in(sorted(TERMINAL)))
    if wanted.since_ms is not None:
        conditions.append(C.created_at_ms >= wanted.since_ms)
    return conditions
