"""Applying units: what one transaction writes for a saga, all or none.

A run of units is written with a handful of grouped statements. Each guarded update addresses one row by its primary key
and expected version, so it changes at most one row, and a sum that equals the number of members proves every one of
them. When the sum differs nobody knows whose guard failed: `Stale` is raised for the run, the caller rolls back and
applies the members one by one (`apply_unit`), so that only the loser fails.

A fence is judged in the same transaction, under a shared lock on the one `authority` row, which every freeze, unfreeze,
revocation and policy change takes exclusively: none of them can commit between the judgement and our commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from capabilities.scope import still_permits
from execution.core.command import Command
from execution.core.draft import Fence, Unit
from execution.core.states import ApprovalState
from execution.store import releases, rows, schema, statements
from execution.store.errors import Duplicate, FenceRefused, LocksHeld, Refusal, Stale, StoreError
from execution.store.statements import Statements, fetch, fetch_in, many

WHOLE: Final = frozenset[str]()
"""No column named: any may have changed."""
HOLDING: Final = ("freeze:", "revoked:key:", "revoked:tenant:")
"""Scopes that hold everything. Any other revocation spares what may finish after the pivot."""
OF_NONE: Final = "[]"
"""The details of a grant that a person gave: it is for the one command, and no token stands behind it."""


def apply_unit(conn: Connection, unit: Unit) -> None:
    """Write one unit inside the transaction of `conn`.

    Raises FenceRefused or LocksHeld (nothing was written; the transaction may go on), or Stale or Duplicate (the
    transaction or savepoint must be rolled back).
    """
    try:
        (refusal,) = apply_wave(conn, (unit,))
    except IntegrityError as error:
        raise Duplicate(str(error.orig)) from error
    if refusal is not None:
        raise refusal


def waves(units: Sequence[Unit]) -> Iterator[Sequence[Unit]]:
    """Cut a run so that no unit depends on an earlier one of its own wave, in order.

    A later unit of the same root must find what the earlier one wrote, and a lock may be taken after it was freed.
    """
    start, roots, freed = 0, set[str](), False
    for index, unit in enumerate(units):
        if unit.root_id in roots or (freed and unit.locks_take):
            yield units[start:index]
            start, roots, freed = index, set(), False
        roots.add(unit.root_id)
        freed = freed or unit.locks_free
    yield units[start:]


def apply_wave(conn: Connection, wave: Sequence[Unit]) -> list[StoreError | None]:
    """Write units of different roots; for each None, or why it was refused (then nothing of it was written).

    Raises Stale or IntegrityError when the wave as a whole failed; the caller rolls back.
    """
    sql = statements.of(conn)
    refusals: list[StoreError | None] = [None] * len(wave)
    _judge(conn, sql, wave, refusals)
    _take_locks(conn, sql, wave, refusals)
    _write(conn, sql, [unit for unit, refusal in zip(wave, refusals, strict=True) if refusal is None])
    return refusals


@dataclass(slots=True)
class _Facts:
    """What the fences of one wave read."""

    restrictions: frozenset[str]
    grants: dict[str, tuple[int, str, str]]
    approvals: dict[str, tuple[str, str, str, int]]


def _judge(conn: Connection, sql: Statements, wave: Sequence[Unit], refusals: list[StoreError | None]) -> None:
    fenced = [(index, unit.fence) for index, unit in enumerate(wave) if unit.fence is not None]
    if not fenced:
        return
    facts = _read_facts(conn, sql, [fence for _, fence in fenced])
    for index, fence in fenced:
        refusals[index] = _verdict(fence, facts) or _turn(conn, fence)


def _read_facts(conn: Connection, sql: Statements, fences: Sequence[Fence]) -> _Facts:
    fetch(conn, sql.share_authority)
    scopes = list({scope for fence in fences for scope in fence.scopes})
    approvals = [fence.approval_id for fence in fences if fence.approval_id is not None]
    return _Facts(
        restrictions=frozenset(found[0] for found in fetch_in(conn, sql.restrictions, scopes)),
        grants={found[0]: tuple(found[1:]) for found in fetch_in(conn, sql.grants, [f.root_id for f in fences])},
        approvals={found[0]: tuple(found[1:]) for found in fetch_in(conn, sql.approvals, approvals)},
    )


def _verdict(fence: Fence, facts: _Facts) -> FenceRefused | None:
    if facts.restrictions:
        hit = tuple(scope for scope in fence.scopes if scope in facts.restrictions)
        holding = tuple(scope for scope in hit if scope.startswith(HOLDING))
        if holding:
            return FenceRefused(Refusal.HELD, holding)
        if hit and not fence.finish_only:
            return FenceRefused(Refusal.REVOKED, hit)
    until_ms, judged_by, details = facts.grants.get(fence.root_id, (0, "", OF_NONE))
    if details != OF_NONE and not still_permits(details, fence.action, fence.resources):
        return FenceRefused(Refusal.OUT_OF_SCOPE, fence.resources)
    if judged_by not in ("", fence.policy_hash):
        return FenceRefused(Refusal.POLICY_CHANGED)
    if not fence.finish_only and until_ms <= fence.now_ms:
        return FenceRefused(Refusal.GRANT_LAPSED)
    return _approval_verdict(fence, facts)


def _turn(conn: Connection, fence: Fence) -> FenceRefused | None:
    """Asked last: whoever takes a turn is let through."""
    until_ms = None if fence.spacing is None else releases.take(conn, fence.spacing, fence.now_ms)
    return None if until_ms is None else FenceRefused(Refusal.NOT_ITS_TURN, until_ms=until_ms)


def _approval_verdict(fence: Fence, facts: _Facts) -> FenceRefused | None:
    if fence.approval_id is None:
        return None
    found = facts.approvals.get(fence.approval_id)
    if found is None:
        return FenceRefused(Refusal.APPROVAL_MISSING)
    root_id, state, digest, expires_at_ms = found
    if root_id != fence.root_id or state != ApprovalState.APPROVED or expires_at_ms <= fence.now_ms:
        return FenceRefused(Refusal.APPROVAL_MISSING)
    return None if digest == fence.request_digest else FenceRefused(Refusal.APPROVAL_DIFFERS)


def _take_locks(conn: Connection, sql: Statements, wave: Sequence[Unit], refusals: list[StoreError | None]) -> None:
    """Decide who gets which locks. They are written after the rows of new roots, to which they refer."""
    takers = [i for i, unit in enumerate(wave) if unit.locks_take and refusals[i] is None]
    if not takers:
        return
    wanted = list({resource for i in takers for resource in wave[i].locks_take})
    owners = {(tenant, resource): owner for tenant, resource, owner in fetch_in(conn, sql.lock_owners, wanted)}
    for i in takers:
        unit = wave[i]
        tenant = _tenant(conn, unit)
        held = next((r for r in unit.locks_take if owners.get((tenant, r), unit.root_id) != unit.root_id), None)
        if held is not None:
            refusals[i] = LocksHeld(owners[tenant, held], held)
            continue
        owners.update({(tenant, resource): unit.root_id for resource in unit.locks_take})


def _tenant(conn: Connection, unit: Unit) -> str:
    for row in chain((row for row, _ in unit.cas), unit.new_commands):
        if row.command_id == unit.root_id:
            return row.tenant
    table = schema.COMMANDS.c
    found: str = conn.execute(select(table.tenant).where(table.command_id == unit.root_id)).scalar_one()
    return found


def _write(conn: Connection, sql: Statements, units: Sequence[Unit]) -> None:
    """Everything in a fixed order of tables, updates sorted by key: two writers never wait for each other in a ring."""
    command = rows.COMMAND.values
    _update_guarded(conn, sql, units)
    many(conn, sql.insert_command, [command(row) for unit in units for row in unit.new_commands])
    many(conn, sql.insert_event, [rows.event_values(event) for unit in units for event in unit.events])
    _beside(conn, sql, units)
    many(conn, sql.insert_outbox, [(topic, unit.root_id) for unit in units for topic in unit.outbox])
    _write_locks(conn, sql, units)


def _update_guarded(conn: Connection, sql: Statements, units: Sequence[Unit]) -> None:
    """One statement for all rows in which the same columns change. Each addresses one row, so the sums prove each."""
    groups: dict[frozenset[str], list[tuple[Command, int]]] = {}
    for unit in units:
        for place, guarded in enumerate(unit.cas):
            groups.setdefault(unit.changed[place] if unit.changed else WHOLE, []).append(guarded)
    for changed, members in groups.items():
        update = sql.guarded_update(changed)
        values = [(*update.values(row), row.command_id, expected) for row, expected in members]
        values.sort(key=_guard_key)
        if many(conn, update.text, values) != len(values):
            raise Stale("a row has another version than expected")


def _guard_key(values: rows.Values) -> Any:
    return values[-2]


def _beside(conn: Connection, sql: Statements, units: Sequence[Unit]) -> None:
    attempt, approval, review = rows.ATTEMPT, rows.APPROVAL, rows.REVIEW
    many(conn, sql.insert_attempt, [attempt.values(new) for unit in units for new in unit.new_attempts])
    _exactly(conn, sql.update_attempt, [(*attempt.changes(a), a.attempt_id) for unit in units for a in unit.attempts])
    _exactly(conn, sql.update_approval, [(*approval.changes(a), a.approval_id) for u in units for a in u.approvals])
    many(conn, sql.insert_approval, [approval.values(new) for unit in units for new in unit.new_approvals])
    many(conn, sql.insert_review, [review.values(new) for unit in units for new in unit.new_reviews])
    _exactly(conn, sql.update_review, [(*review.changes(r), r.review_id) for unit in units for r in unit.reviews])


def _exactly(conn: Connection, statement: str, values: Sequence[rows.Values]) -> None:
    if many(conn, statement, values) != len(values):
        raise Stale("a row that was to change is not there")


def _write_locks(conn: Connection, sql: Statements, units: Sequence[Unit]) -> None:
    takers = [unit for unit in units if unit.locks_take]
    if takers:
        taken = list({resource for unit in takers for resource in unit.locks_take})
        owned = {(tenant, resource) for tenant, resource, _ in fetch_in(conn, sql.lock_owners, taken)}
        new = [(_tenant(conn, unit), resource, unit.root_id) for unit in takers for resource in unit.locks_take]
        many(conn, sql.insert_lock, sorted(lock for lock in new if lock[:2] not in owned))
    many(conn, sql.delete_locks, [(unit.root_id,) for unit in units if unit.locks_free])
