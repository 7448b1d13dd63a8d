"""Small sagas, units and stores for the tests of the store."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from execution.core.command import Approval, Attempt, Command, Saga
from execution.core.draft import Draft, Fence, Unit
from execution.core.events import Fact
from execution.core.states import ApprovalState, Blocker, Cause, EffectClass, Kind, Phase, State
from execution.core.transitions import Trigger
from execution.store import authority
from execution.store.authority import Grant
from execution.store.registry import load_saga
from execution.store.units import apply_unit
from execution.store.writer import Store

T = TypeVar("T")
NOW: Final = 1_796_045_854_000
LATER: Final = NOW + 60_000
DIGEST: Final = "d" * 64
POLICY: Final = "policy-1"
WAIT_S: Final = 180.0
"""Only an end of waiting for what hangs; nothing is measured by it."""
SCOPES: Final = (
    "freeze:all",
    "freeze:tenant:acme",
    "freeze:site:blog",
    "freeze:system:noop",
    "revoked:token:https://issuer tok_1",
    "revoked:decision:dec_1",
    "revoked:agent:agent:w",
    "revoked:client:desk",
    "revoked:key:kid-1",
    "revoked:tenant:acme",
)


def command(root: str, position: int = 0, **columns: Any) -> Command:
    """A root (position 0) or a step of it."""
    values: dict[str, Any] = {
        "command_id": root if position == 0 else f"{root}.{position}",
        "root_id": root,
        "parent_id": None if position == 0 else root,
        "position": position,
        "kind": Kind.SAGA if position == 0 else Kind.STEP,
        "object_kind": "article",
        "object_id": "article-1",
        "object_version": 1,
        "workflow_id": "wf_1",
        "saga_id": f"saga_{root}",
        "tenant": "acme",
        "site": "blog",
        "decision_id": "dec_1",
        "capability_id": "tok_1",
        "principal": "agent:w",
        "command_type": "NOOP" if position == 0 else f"NOOP_{position}",
        "definition_version": 1,
        "effect_class": EffectClass.NONE if position == 0 else EffectClass.RETRYABLE,
        "target_system": "noop",
        "target_resource": f"noop/{root}",
        "idempotency_key": f"acme:{root}:{position}",
        "state": State.RECEIVED if position == 0 else State.AUTHORIZED,
        "phase": Phase.PRE_PIVOT if position == 0 else None,
        "created_at_ms": NOW,
        "correlation_id": "corr",
        "next_check_at_ms": NOW if position == 0 else None,
    }
    return Command(**{**values, **columns})


def opened(root: str, *, steps: int = 1, locks: tuple[str, ...] = (), **columns: Any) -> tuple[Unit, Saga]:
    """The unit that accepts a saga, and the saga as it is then."""
    rows = [command(root, position, **(columns if position == 0 else {})) for position in range(steps + 1)]
    draft = Draft(Saga(root=rows[0], members=tuple(rows[1:])), actor="gateway", now_ms=NOW, opening=True)
    draft.note(root, Fact.COMMAND_RECEIVED, {"key": rows[0].idempotency_key})
    for row in rows[1:]:
        draft.note(row.command_id, Fact.PLANNED)
    for trigger in (Trigger.VALIDATION_STARTED, Trigger.COMMAND_AUTHORIZED, Trigger.ENQUEUED):
        draft.move(root, trigger)
    draft.announce()
    draft.take_locks(locks)
    unit = draft.unit()
    return unit, draft.committed()


def grant(root: str, *, until_ms: int = LATER, details: str = "[]") -> Grant:
    """The authority of a root."""
    return Grant(
        root_id=root,
        iss="https://issuer",
        jti="tok_1",
        kid="kid-1",
        sub="agent:w",
        client_id="desk",
        decision_id="dec_1",
        tenant="acme",
        details=details,
        details_hash=DIGEST,
        policy_hash=POLICY,
        grant_until_ms=until_ms,
        operator=False,
        created_at_ms=NOW,
    )


async def accept(store: Store, root: str, *, until_ms: int = LATER, details: str = "[]", **opening: Any) -> Saga:
    """A stored saga with its grant."""
    unit, saga = opened(root, **opening)

    def work(conn: Connection) -> None:
        apply_unit(conn, unit)
        authority.put_grant(conn, grant(root, until_ms=until_ms, details=details))

    await store.transact(work)
    return saga


def draft_of(saga: Saga, now_ms: int = NOW) -> Draft:
    """A draft of the worker's."""
    return Draft(saga, actor="worker", now_ms=now_ms)


def noted(saga: Saga, body: dict[str, Any] | None = None) -> tuple[Unit, Saga]:
    """The smallest commit of an owner: one fact on the root."""
    draft = draft_of(saga)
    draft.note(saga.root.command_id, Fact.FINDINGS, body)
    unit = draft.unit()
    return unit, draft.committed()


def blocked(saga: Saga) -> Unit:
    """A commit that raises a blocker."""
    draft = draft_of(saga)
    draft.block(Blocker.HELD)
    return draft.unit()


def fenced(saga: Saga, **changes: Any) -> Unit:
    """A write-ahead commit of the first step."""
    row = saga.members[0]
    draft = draft_of(saga)
    draft.put_attempt(attempt(saga))
    draft.note(row.command_id, Fact.ATTEMPT_STARTED)
    values: dict[str, Any] = {
        "root_id": row.root_id,
        "scopes": SCOPES,
        "finish_only": False,
        "approval_id": None,
        "request_digest": DIGEST,
        "policy_hash": POLICY,
        "now_ms": NOW,
        "action": "propose_publish",
        "resources": ("site/blog/article-1",),
    }
    draft.fence = Fence(**{**values, **changes})
    return draft.unit()


def attempt(saga: Saga, number: int = 1) -> Attempt:
    """An open attempt of the first step."""
    row = saga.members[0]
    return Attempt(
        attempt_id=f"att_{row.command_id}_{number}",
        command_id=row.command_id,
        root_id=row.root_id,
        number=number,
        idempotency_key=row.idempotency_key,
        resource=row.target_resource,
        cause=Cause.FIRST,
        lease_epoch=1,
        request_digest=DIGEST,
        deadline_s=20.0,
        fenced_at_ms=NOW,
        terms="{}",
        quiescent_after_s=None,
        incarnation="inc_1",
    )


def approval(saga: Saga, state: ApprovalState = ApprovalState.APPROVED, **columns: Any) -> Approval:
    """An approval of that root."""
    values: dict[str, Any] = {
        "approval_id": f"apr_{saga.root.command_id}",
        "root_id": saga.root.command_id,
        "command_id": saga.members[0].command_id,
        "content_hash": DIGEST,
        "request_digest": DIGEST,
        "subject": "{}",
        "state": state,
        "requested_at_ms": NOW,
        "expires_at_ms": LATER,
    }
    return Approval(**{**values, **columns})


async def stored(store: Store, root: str) -> Saga:
    """The saga as it is on disk."""
    return await store.hot(lambda conn: load_saga(conn, root))


def outcomes(results: list[Any]) -> list[str | None]:
    """For each result of a `gather`: None, or the name of its error."""
    return [type(result).__name__ if isinstance(result, BaseException) else None for result in results]


async def together(*work: Any) -> list[Any]:
    """Submitted within one turn of the loop, so in one batch; errors are results."""
    return list(await asyncio.wait_for(asyncio.gather(*work, return_exceptions=True), WAIT_S))


def child(module: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """Another process that runs a module of the tests."""
    line = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True)


def run_sync(store: Store, work: Callable[[Connection], T]) -> T:
    """A read or write beside the store's writer, on the same engine."""
    with store.engine.begin() as conn:
        return work(conn)
