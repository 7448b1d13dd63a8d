"""The product's store: the twelve commits through `Draft` and `Store`."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from execution.core.command import Saga
from execution.core.draft import Draft
from execution.store import authority
from execution.store.opening import open_store
from execution.store.units import apply_unit
from execution.store.writer import Store
from tests.benchmarks import noop
from tests.benchmarks.measure import STEPS, Measured, measure


async def run(path: Path, *, sagas: int, concurrency: int) -> Measured:
    """Measure on a fresh database."""
    store = open_store(path)

    async def saga(number: int) -> None:
        await _saga(store, number)

    measured = await measure(saga, sagas=sagas, concurrency=concurrency)
    await store.close()
    return measured


async def _saga(store: Store, number: int) -> None:
    unit, saga = noop.acceptance(number)
    grant = noop.grant(number)

    def accept(conn: Connection) -> None:
        uses = {"iss": grant.iss, "jti": grant.jti, "tenant": grant.tenant}
        assert authority.use_token(conn, **uses, max_uses=1, now_ms=noop.NOW_MS)
        apply_unit(conn, unit)
        authority.put_grant(conn, grant)

    await store.transact(accept)
    draft = _draft(saga)
    noop.claim(draft, number)
    saga = await _commit(store, draft)
    for position in range(1, STEPS + 1):
        draft = _draft(saga)
        attempt = noop.fence(draft, number, position)
        saga = await _commit(store, draft)
        draft = _draft(saga)
        noop.outcome(draft, number, position, attempt)
        saga = await _commit(store, draft)


def _draft(saga: Saga) -> Draft:
    return Draft(saga, actor="worker-1", now_ms=noop.NOW_MS)


async def _commit(store: Store, draft: Draft) -> Saga:
    await store.commit(draft.unit())
    return draft.committed()
