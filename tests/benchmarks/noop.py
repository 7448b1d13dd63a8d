"""A no-op saga of five steps as the rows and events of its twelve commits: what product and bound both write.

1 acceptance · 1 claim of the root and the first step · per step a fence and an outcome; each outcome claims the next
step, the last one closes the root.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from execution.core.command import Attempt, Command, Saga
from execution.core.draft import Draft, Fence, Unit
from execution.core.events import Fact
from execution.core.states import Cause, EffectClass, Kind, Phase, Settlement, State
from execution.core.transitions import Trigger
from execution.store.authority import Grant
from tests.benchmarks.measure import STEPS

NOW_MS: Final = 1_796_045_854_000
UNTIL_MS: Final = NOW_MS + 86_400_000
LEASE_MS: Final = 30_000
DIGEST: Final = "d" * 64
TERMS: Final = '{"deadline_s":20.0,"max_run_s":30.0,"staleness_s":5.0,"transit_s":60.0}'
URL: Final = "https://example.invalid/7"
RECEIPT: Final = {"data": {"status": "done"}, "reference": URL, "resource_id": "7", "version": "1"}
RECEIPT_TEXT: Final = (
    '{"data":{"status":"done"},"reference":"https://example.invalid/7","resource_id":"7","version":"1"}'
)
PARAMS: Final = '{"authority":{"client_id":"c","issuer":"i","key_id":"k","token_id":"t"},"title":"A title"}'
SCOPES: Final = (
    "freeze:all",
    "freeze:tenant:acme",
    "freeze:site:blog",
    "freeze:system:noop",
    "revoked:token:https://issuer tok_bench",
    "revoked:decision:dec_bench",
    "revoked:agent:agent:bench",
    "revoked:client:bench",
    "revoked:key:bench",
    "revoked:tenant:acme",
)


def command_id(number: int, position: int) -> str:
    """The id of the root (position 0) or of a step."""
    return f"cmd_{number:020d}_{position}"


def command(number: int, position: int) -> Command:
    """The row of the root or of a step."""
    root = command_id(number, 0)
    is_root = position == 0
    return Command(
        command_id=command_id(number, position),
        root_id=root,
        parent_id=None if is_root else root,
        position=position,
        kind=Kind.SAGA if is_root else Kind.STEP,
        object_kind="article",
        object_id=f"article-{number}",
        object_version=1,
        workflow_id=f"wf_{number}",
        saga_id=f"saga_{number}",
        tenant="acme",
        site="blog",
        decision_id="dec_bench",
        capability_id="tok_bench",
        principal="agent:bench",
        command_type="NOOP_SAGA" if is_root else f"NOOP_{position}",
        definition_version=1,
        effect_class=EffectClass.NONE if is_root else EffectClass.RETRYABLE,
        target_system="" if is_root else "noop",
        target_resource="" if is_root else f"noop/{number}",
        idempotency_key=f"acme:noop:{position}:blog:article-{number}:v1",
        request_fingerprint="f1:" + DIGEST,
        params=PARAMS if is_root else "",
        state=State.RECEIVED if is_root else State.AUTHORIZED,
        phase=Phase.PRE_PIVOT if is_root else None,
        created_at_ms=NOW_MS,
        correlation_id=f"corr-{number}",
        next_check_at_ms=NOW_MS if is_root else None,
    )


def grant(number: int) -> Grant:
    """The authority of one saga."""
    return Grant(
        root_id=command_id(number, 0),
        iss="https://issuer",
        jti=f"tok_{number}",
        kid="bench",
        sub="agent:bench",
        client_id="bench",
        decision_id="dec_bench",
        tenant="acme",
        details="[]",
        details_hash=DIGEST,
        policy_hash="",
        grant_until_ms=UNTIL_MS,
        operator=False,
        created_at_ms=NOW_MS,
    )


def acceptance(number: int) -> tuple[Unit, Saga]:
    """The first commit, and the saga after it."""
    rows = [command(number, position) for position in range(STEPS + 1)]
    draft = Draft(Saga(root=rows[0], members=tuple(rows[1:])), actor="gateway", now_ms=NOW_MS)
    root = rows[0].command_id
    draft.note(root, Fact.COMMAND_RECEIVED, {"key": rows[0].idempotency_key, "principal": "agent:bench"})
    for row in rows[1:]:
        draft.note(row.command_id, Fact.PLANNED, {"key": row.idempotency_key, "type": row.command_type})
    draft.move(root, Trigger.VALIDATION_STARTED)
    draft.move(root, Trigger.COMMAND_AUTHORIZED)
    draft.move(root, Trigger.ENQUEUED)
    saga = draft.saga
    unit = Unit(root_id=root, new_commands=(saga.root, *saga.members), events=draft.unit().events, outbox=("run",))
    return unit, saga


def claim(draft: Draft, number: int) -> None:
    """The second commit: the root runs, its first step is claimed."""
    root = command_id(number, 0)
    draft.move(
        root,
        Trigger.CLAIMED,
        {"epoch": 1},
        lease_owner="worker-1",
        lease_epoch=1,
        lease_until_ms=NOW_MS + LEASE_MS,
        next_check_at_ms=NOW_MS + LEASE_MS,
        claim_count=1,
    )
    draft.move(root, Trigger.STARTED, started_at_ms=NOW_MS)
    claim_step(draft, number, 1)


def claim_step(draft: Draft, number: int, position: int) -> None:
    """A step's claim rides on the commit before it."""
    step = command_id(number, position)
    draft.move(step, Trigger.ENQUEUED)
    draft.move(step, Trigger.CLAIMED, {"epoch": 1}, lease_epoch=1, claim_count=1, started_at_ms=NOW_MS)


def fence(draft: Draft, number: int, position: int) -> Attempt:
    """The write-ahead commit of a step."""
    row = draft.row(command_id(number, position))
    attempt = Attempt(
        attempt_id=f"att_{row.command_id}",
        command_id=row.command_id,
        root_id=row.root_id,
        number=1,
        idempotency_key=row.idempotency_key,
        resource=row.target_resource,
        cause=Cause.FIRST,
        lease_epoch=1,
        request_digest=DIGEST,
        deadline_s=20.0,
        fenced_at_ms=NOW_MS,
        terms=TERMS,
        quiescent_after_s=97.0,
        incarnation="inc_bench",
    )
    draft.put_attempt(attempt)
    body = {"attempt": attempt.attempt_id, "cause": "FIRST", "digest": DIGEST, "number": 1}
    draft.note(row.command_id, Fact.ATTEMPT_STARTED, body)
    draft.move(row.command_id, Trigger.FENCED, {"epoch": 1}, attempt_count=1, last_attempt_at_ms=NOW_MS)
    draft.fence = Fence(
        root_id=row.root_id,
        scopes=SCOPES,
        finish_only=False,
        approval_id=None,
        request_digest=DIGEST,
        policy_hash="",
        now_ms=NOW_MS,
        action="propose_publish",
        resources=(f"noop/{row.command_id}",),
    )
    return attempt


def outcome(draft: Draft, number: int, position: int, attempt: Attempt) -> None:
    """The answer of a step; claims the next one or closes the root."""
    settled = replace(attempt, settlement=Settlement.LANDED, settled_at_ms=NOW_MS, receipt=RECEIPT_TEXT)
    draft.put_attempt(settled)
    draft.note(attempt.command_id, Fact.RECEIPT_RECORDED, RECEIPT)
    draft.move(
        attempt.command_id,
        Trigger.SUCCEEDED,
        receipt=RECEIPT_TEXT,
        external_resource_id="7",
        external_version="1",
        result_reference=URL,
        verified_at_ms=NOW_MS,
    )
    if position < STEPS:
        claim_step(draft, number, position + 1)
        return
    draft.phase(Phase.COMPLETED)
    draft.move(command_id(number, 0), Trigger.SUCCEEDED, lease_owner=None, lease_until_ms=None, next_check_at_ms=None)
