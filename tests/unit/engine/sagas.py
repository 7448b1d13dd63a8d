"""Sagas in any state, as values, for tests of what is read out of them."""

from dataclasses import replace
from typing import Any

from execution.core.command import Approval, Attempt, Review, Saga
from execution.core.states import (
    ApprovalState,
    Cause,
    EffectClass,
    Kind,
    Phase,
    ReviewKind,
    Settlement,
    State,
)
from tests.unit.core.rows import row

DRAFT, APPROVAL, PUBLISH, NOTIFY = "CREATE_DRAFT", "HUMAN_APPROVAL", "PUBLISH", "NOTIFY"


def saga(
    draft: State = State.AUTHORIZED,
    approval: State = State.AUTHORIZED,
    publish: State = State.AUTHORIZED,
    notify: State = State.AUTHORIZED,
    **root: Any,
) -> Saga:
    """A draft, an approval, a pivot and a notice."""
    verified = 7 if publish is State.SUCCESS else None
    members = (
        row("cmd_1", 1, command_type=DRAFT, state=draft),
        row("cmd_2", 2, command_type=APPROVAL, state=approval, kind=Kind.GATE, effect_class=EffectClass.NONE),
        row(
            "cmd_3",
            3,
            command_type=PUBLISH,
            state=publish,
            effect_class=EffectClass.PIVOT,
            verified_at_ms=verified,
            external_version="v1" if verified else None,
            result_reference="https://blog.example/x/" if verified else None,
        ),
        row("cmd_4", 4, command_type=NOTIFY, state=notify, effect_class=EffectClass.IRREVERSIBLE),
    )
    return Saga(root=row("cmd_root", **{"state": State.RUNNING, "phase": Phase.PRE_PIVOT, **root}), members=members)


def changed(of: Saga, name: str, **columns: Any) -> Saga:
    """One step with other columns."""
    return replace(of, members=tuple(replace(r, **columns) if r.command_type == name else r for r in of.members))


def attempt(command_id: str, settlement: Settlement = Settlement.OPEN) -> Attempt:
    return Attempt(
        attempt_id=f"att_{command_id}",
        command_id=command_id,
        root_id="cmd_root",
        number=1,
        idempotency_key="k",
        resource="site/blog/article-0028",
        cause=Cause.FIRST,
        lease_epoch=1,
        request_digest="d",
        deadline_s=20.0,
        fenced_at_ms=5,
        terms="{}",
        quiescent_after_s=60.0,
        incarnation="i",
        settlement=settlement,
    )


def review(command_id: str, kind: ReviewKind, **columns: Any) -> Review:
    values = {"facts": "{}", "verdicts": "continue", "opened_at_ms": 3, "owner": "operators", **columns}
    return Review(review_id="rev_1", root_id="cmd_root", command_id=command_id, kind=kind, **values)


def approval(state: ApprovalState, **columns: Any) -> Approval:
    return Approval(
        approval_id="apr_1",
        root_id="cmd_root",
        command_id="cmd_2",
        content_hash="h",
        request_digest="d",
        subject="{}",
        state=state,
        requested_at_ms=4,
        expires_at_ms=9,
        **columns,
    )
