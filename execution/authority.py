"""What must hold at a fence: the restrictions that could stop an effect, the approval that it needs.

Only sends need authority. Reading, adopting and waiting never do, and compensations run under operator authority: a
lapsed or revoked grant does not stop them, a freeze does. The same holds for mending: it finishes what was permitted.
"""

from __future__ import annotations

import json
from typing import Any

from execution.core.apply import landed_receipt
from execution.core.command import Attempt, Command, Saga
from execution.core.definition import ApprovalGate, SagaDefinition, Step
from execution.core.draft import Fence, Spacing
from execution.core.states import ApprovalState, EffectClass, Kind, Phase


def hold_scope(root_id: str) -> str:
    """The restriction that holds one command alone."""
    return f"freeze:command:{root_id}"


def stop_scopes(
    *, tenant: str, site: str, system: str | None, authority: dict[str, Any], principal: str, decision_id: str
) -> tuple[str, ...]:
    """Every restriction that would stop an effect of this command on that system (None: on any)."""
    scopes = [
        "freeze:all",
        f"freeze:tenant:{tenant}",
        f"freeze:site:{site}",
        f"revoked:token:{authority['issuer']} {authority['token_id']}",
        f"revoked:decision:{decision_id}",
        f"revoked:agent:{principal}",
        f"revoked:client:{authority['client_id']}",
        f"revoked:key:{authority['key_id']}",
        f"revoked:tenant:{tenant}",
    ]
    return tuple(scopes if system is None else [*scopes, f"freeze:system:{system}"])


def scopes_of(root: Command, system: str | None) -> tuple[str, ...]:
    """`stop_scopes` of a command that was accepted, and the one of its own."""
    scopes = stop_scopes(
        tenant=root.tenant,
        site=root.site,
        system=system,
        authority=json.loads(root.params)["authority"],
        principal=root.principal,
        decision_id=root.decision_id,
    )
    return (*scopes, hold_scope(root.command_id))


def fence_for(
    saga: Saga,
    row: Command,
    definition: SagaDefinition[Any],
    attempt: Attempt,
    now_ms: int,
    policy_hash: str,
    spacing_s: float = 0.0,
) -> Fence:
    """The predicates for that attempt of that row. policy_hash: of this process; spacing_s: of the site.

    What it touches is said twice: by the frozen plan (the attempt's resource), and by the row whose site chooses the
    system and its credentials.
    """
    root = saga.root
    part = definition.part(row.command_type) if row.kind is Kind.STEP else None
    after_pivot = root.phase is Phase.POST_PIVOT
    mending = landed_receipt(saga, row) is not None
    finish = row.kind is Kind.COMPENSATION or mending or (isinstance(part, Step) and part.finish_only and after_pivot)
    return Fence(
        root_id=root.command_id,
        scopes=scopes_of(root, row.target_system),
        finish_only=finish,
        approval_id=_approval_id(saga, row, definition, attempt.request_digest if mending else None),
        request_digest=attempt.request_digest,
        policy_hash=policy_hash,
        now_ms=now_ms,
        action=definition.intent,
        resources=(attempt.resource, f"site/{row.site}/{row.object_id}"),
        spacing=None if mending else _spacing(root, row, spacing_s),
    )


def _spacing(root: Command, row: Command, spacing_s: float) -> Spacing | None:
    """Scheduled publications wait for each other; what a person has just approved does not."""
    if spacing_s <= 0 or root.not_before_ms is None or row.effect_class is not EffectClass.PIVOT:
        return None
    return Spacing(tenant=root.tenant, site=root.site, distance_ms=int(spacing_s * 1000))


def _approval_id(saga: Saga, row: Command, definition: SagaDefinition[Any], mends_with: str | None) -> str | None:
    """The approval that guards this row; an id that no row has when one is needed and none is alive. What mends sends
    the bytes that were approved once more, however late."""
    guard = next((p for p in definition.parts if isinstance(p, ApprovalGate) and p.guards == row.command_type), None)
    if guard is None or saga.named(guard.name) is None or row.kind is not Kind.STEP:
        return None
    newest = next((a for a in reversed(saga.approvals) if a.state is ApprovalState.APPROVED), None)
    if newest is not None and mends_with is not None:
        return None if newest.request_digest == mends_with else "missing"
    return newest.approval_id if newest is not None else "missing"
