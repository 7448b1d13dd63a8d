"""Whose yes counts is judged by the worker, from its own configuration: a row that says approved is not enough."""

import hashlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from capabilities import base64url
from capabilities.keys import generate_operator_key, sign_approval
from execution.approvers import Approver, Approvers, approval_statement
from execution.core.command import Approval, Context
from execution.core.definition import ApprovalGate
from execution.core.failures import CannotTell
from execution.core.states import ApprovalState
from execution.gates import subject_of
from execution.operations import OperationRefused
from execution.performer import Performer
from execution.ports import Ports
from tests.integration.passage import CREATE, PUBLISH, RECORD, STAGE
from tests.integration.world import World, proposal
from tests.operators import Known, key_of, signed

OLIVIA = "operator:olivia"
Forge = Callable[[Approval], dict[str, Any]]


def plant(world: World, approval: Approval, **columns: Any) -> None:
    """Write the row as somebody does who has the database and nothing else."""
    row = {"state": "APPROVED", "decided_by": OLIVIA, "decided_at_ms": approval.requested_at_ms, **columns}
    with sqlite3.connect(world.database, isolation_level=None) as raw:
        names = ", ".join(f"{name} = ?" for name in row)
        raw.execute(f"UPDATE approvals SET {names} WHERE approval_id = ?", (*row.values(), approval.approval_id))
    raw.close()


def retold(approval: Approval) -> dict[str, Any]:
    """Olivia's own signature over the hash that she was told, under another text."""
    text = json.dumps(subject_of(approval) | {"title": "Something harmless"})
    return {"subject": text, "signature": signed(approval, OLIVIA)}


def about_another(approval: Approval) -> dict[str, Any]:
    """Signed and hashed well; but the text names another request."""
    text = json.dumps(subject_of(approval) | {"request_digest": "0" * 64})
    other = replace(approval, subject=text, content_hash=hashlib.sha256(text.encode()).hexdigest())
    return {"subject": text, "content_hash": other.content_hash, "signature": signed(other, OLIVIA)}


def of_a_new_key(approval: Approval) -> str:
    key = generate_operator_key("olivia")
    return base64url.encode(sign_approval(key, approval_statement(approval, OLIVIA)))


FORGED: dict[str, tuple[str, Forge]] = {
    "unsigned": ("bad_signature", lambda a: {"signature": None}),
    "not base64url": ("bad_signature", lambda a: {"signature": "signed!"}),
    "64 zero bytes": ("bad_signature", lambda a: {"signature": base64url.encode(bytes(64))}),
    "a key of that name that is not configured": ("bad_signature", lambda a: {"signature": of_a_new_key(a)}),
    "another operator's signature": ("bad_signature", lambda a: {"signature": signed(a, "operator:pat")}),
    "a signature for another command": (
        "bad_signature",
        lambda a: {"signature": signed(replace(a, root_id="cmd_other"), OLIVIA)},
    ),
    "a longer life than was signed": (
        "bad_signature",
        lambda a: {"signature": signed(a, OLIVIA), "expires_at_ms": a.expires_at_ms + 1},
    ),
    "another text than was hashed": ("not_what_was_shown", retold),
    "no text at all": ("not_what_was_shown", lambda a: {"subject": "", "signature": signed(a, OLIVIA)}),
    "a text about another request": ("not_what_was_shown", about_another),
    "nobody": ("unknown_approver", lambda a: {"decided_by": None, "signature": signed(a, OLIVIA)}),
    "a stranger with a good signature": (
        "unknown_approver",
        lambda a: {"decided_by": "operator:mallory", "signature": signed(a, "operator:mallory")},
    ),
}


async def refused(world: World, approval: Approval) -> None:
    """Nothing was published, that yes is void, and somebody is asked anew."""
    view = await world.settle(approval.root_id)
    assert (view.state, view.live, world.passage.sent) == ("AWAITING_APPROVAL", False, [CREATE, STAGE])
    *_, before, asked = (await world.saga(approval.root_id)).approvals
    assert (before.approval_id, before.state, before.reason) == (approval.approval_id, "VOID", "APPROVAL_INVALID")
    assert asked.state is ApprovalState.PENDING


async def published_by_a_real_yes(world: World, command_id: str) -> None:
    await world.approve(command_id)
    assert (await world.settle(command_id)).state == "SUCCESS"
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]


@pytest.mark.behaviour("approval.forged")
async def test_a_yes_that_was_written_into_the_database_publishes_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    command_id = await world.until_approval()
    for forged, (why, forge) in FORGED.items():
        _, approval = await world.operations.pending(command_id)
        plant(world, approval, **forge(approval))
        await refused(world, approval)
        assert f"{approval.approval_id} of {command_id} does not count: {why}" in caplog.text, forged
        world.clock.move_on(1)
    await published_by_a_real_yes(world, command_id)


NOT_THEIRS: dict[str, Approvers] = {
    "retired": Known("pat"),
    "nobody is configured": {},
    "has another key now": {OLIVIA: Approver(key=key_of("pat").public_key())},
    "acts as the agent": Known(aliases=("agent:writer",)),
    "acts as the agent, spelt otherwise": Known(aliases=("Writer",)),
    "acts as the agent's host": Known(aliases=("mcp-host:desk",)),
}


@pytest.mark.behaviour("approval.forged")
async def test_a_signed_yes_of_somebody_who_may_not_approve_publishes_nothing(world: World) -> None:
    """As the worker knows its operators, whatever the process knew in which it was signed."""
    command_id = await world.until_approval()
    worker = world.first.worker
    for standing in NOT_THEIRS.values():
        approval = await world.approve(command_id)
        worker.env = replace(worker.env, approvers=standing)
        await refused(world, approval)
        world.clock.move_on(1)
    worker.env = replace(worker.env, approvers=Known())
    await published_by_a_real_yes(world, command_id)


async def test_what_was_withdrawn_is_not_approved_by_putting_its_row_back(world: World) -> None:
    command_id = await world.until_approval()
    approval = await world.approve(command_id)
    await world.operations.reject(command_id, operator=OLIVIA, reason="wrong picture")
    plant(world, approval, signature=approval.signature)
    view = await world.settle(command_id)
    assert (view.state, view.ending, PUBLISH in world.passage.sent) == ("COMPENSATED", "rejected", False)


@pytest.mark.behaviour("threat.11")
async def test_the_yes_of_one_command_is_none_for_another(world: World) -> None:
    first = await world.until_approval()
    theirs = await world.approve(first)
    await world.settle(first)
    world.passage.sent.clear()
    second = await world.until_approval(proposal(version=2, content="# Two"))
    _, asked = await world.operations.pending(second)
    plant(world, asked, signature=theirs.signature, content_hash=theirs.content_hash, subject=theirs.subject)
    assert (await world.settle(second)).state == "AWAITING_APPROVAL"
    assert PUBLISH not in world.passage.sent
    with pytest.raises(OperationRefused, match="already_decided: CONSUMED"):
        await world.operations.approve(
            first, content_hash=theirs.content_hash, operator=OLIVIA, signature=theirs.signature or ""
        )


@pytest.mark.behaviour("approval.one-open")
async def test_two_workers_that_ask_at_the_same_moment_ask_once(world: World) -> None:
    """The first has read what it will show when its lease ends; the second asks; then the first goes on."""
    command_id = await world.accepted()
    worker = world.first.worker
    async with world.another() as second:

        class Slow(Performer):
            async def subject(self, gate: ApprovalGate[Ports], context: Context) -> dict[str, Any] | CannotTell:
                found = await super().subject(gate, context)
                world.clock.move_on(60)
                await world.settle(command_id, second)
                return found

        known = worker.env.performer
        slow = Slow(ports=known.ports, observe_deadline_s=known.observe_deadline_s)
        worker.env = replace(worker.env, performer=slow)
        await world.settle(command_id)
    assert [each.state for each in (await world.saga(command_id)).approvals] == ["PENDING"]
    await world.approve(command_id)
    assert (await world.settle(command_id)).live
