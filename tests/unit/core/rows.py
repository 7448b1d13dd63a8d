"""Rows of the registry for tests of the pure core."""

from typing import Any

from execution.core.command import Command, Saga
from execution.core.states import EffectClass, Kind, Phase, State


def row(command_id: str, position: int = 0, **changed: Any) -> Command:
    """One row; position 0 is the root."""
    values: dict[str, Any] = {
        "command_id": command_id,
        "root_id": "cmd_root",
        "parent_id": None if position == 0 else "cmd_root",
        "position": position,
        "kind": Kind.SAGA if position == 0 else Kind.STEP,
        "object_kind": "article",
        "object_id": "article-0028",
        "object_version": 1,
        "workflow_id": "wf_1",
        "saga_id": "saga_1",
        "tenant": "acme",
        "site": "blog",
        "decision_id": "dec_1",
        "capability_id": "tok_1",
        "principal": "agent:writer",
        "command_type": "EXAMPLE" if position == 0 else f"STEP_{position}",
        "definition_version": 1,
        "effect_class": EffectClass.NONE if position == 0 else EffectClass.COMPENSABLE,
        "target_system": "wordpress",
        "target_resource": "site/blog/article-0028",
        "idempotency_key": f"acme:wordpress:draft:blog:article-0028:v1:{position}",
        "state": State.RECEIVED,
        "phase": Phase.PRE_PIVOT if position == 0 else None,
        "created_at_ms": 1,
        "correlation_id": "req_1",
    }
    return Command(**{**values, **changed})


def saga(steps: int = 2, **root: Any) -> Saga:
    """A root with that many steps."""
    members = tuple(row(f"cmd_{n}", n, state=State.AUTHORIZED) for n in range(1, steps + 1))
    return Saga(root=row("cmd_root", **root), members=members)
