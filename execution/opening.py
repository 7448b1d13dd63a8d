"""The rows that acceptance writes: a saga with all its steps, its grant, its first events."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from execution.catalog import Intent, Plan, Previous
from execution.core.command import Command, Saga, evolved
from execution.core.definition import Step
from execution.core.draft import Draft, Unit
from execution.core.events import Fact, canonical
from execution.core.identity import BusinessKey, workflow_id
from execution.core.states import Blocker, EffectClass, Kind, Phase, State
from execution.core.transitions import Trigger
from execution.ports import Ids
from execution.proposal import Proposal, Proposer
from execution.store import authority

GRANT_S_DEFAULT: Final = 86_400
ARTIFACT: Final = "artifact://sha256/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A proposal on its way through the acceptance transaction."""

    proposal: Proposal
    proposer: Proposer
    intent: Intent
    key: BusinessKey
    fingerprint: str
    content_sha256: str
    previous: Previous
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is to become of a proposal. known: the command that it already is; else `key` is its own, and `giving_way`
    are the roots that turn back for it, and `decision` what it is proposed under."""

    incoming: Incoming
    key: BusinessKey
    known: Command | None = None
    giving_way: tuple[Command, ...] = ()
    decision: authority.Decision | None = None


def new_saga(incoming: Incoming, key: BusinessKey, policy: str, now: int, ids: Ids) -> Saga:
    """The rows of a new saga: the root in RECEIVED, every part that this plan has in AUTHORIZED."""
    root = _root(incoming, key, policy, now, ids)
    definition = incoming.intent.definition
    wanted = [part for part in definition.parts if part.when(incoming.plan.params)]
    members = tuple(
        _member(root, incoming, part.name, position, key, ids) for position, part in enumerate(wanted, start=1)
    )
    return Saga(root=root, members=members)


def _root(incoming: Incoming, key: BusinessKey, policy: str, now: int, ids: Ids) -> Command:
    proposal, proposer, intent, plan = incoming.proposal, incoming.proposer, incoming.intent, incoming.plan
    command_id = ids.new("cmd")
    params = {
        "plan": dict(plan.params),
        "arguments": dict(proposal.arguments),
        "resources": list(plan.resources),
        "authority": authority_of(proposer),
        "chain": list(proposer.chain),
        "approvals_required": proposer.approvals_required,
        "policy_hash": policy,
        "of_generation": proposal.generation,
        "four_eyes": proposer.four_eyes,
    }
    return Command(
        command_id=command_id,
        root_id=command_id,
        parent_id=None,
        position=0,
        kind=Kind.SAGA,
        object_kind=intent.object_kind,
        object_id=proposal.object_id,
        object_version=proposal.version,
        workflow_id=workflow_id(key.tenant, key.site, key.object_id),
        saga_id="saga_" + command_id.removeprefix("cmd_"),
        tenant=proposer.tenant,
        site=proposal.site,
        decision_id=proposer.decision_id,
        capability_id=proposer.token_id,
        principal=proposer.principal,
        command_type=intent.definition.name,
        definition_version=intent.definition.version,
        effect_class=EffectClass.NONE,
        target_system=intent.system,
        target_resource=f"site/{proposal.site}/{proposal.object_id}",
        expected_version=plan.base_version,
        idempotency_key=key.shown(),
        request_fingerprint=incoming.fingerprint,
        payload_ref=ARTIFACT + incoming.content_sha256,
        params=canonical(params),
        state=State.RECEIVED,
        phase=Phase.PRE_PIVOT,
        created_at_ms=now,
        deadline_at_ms=now + int(intent.definition.deadline_s * 1000),
        not_before_ms=plan.not_before_ms,
        next_check_at_ms=now,
        repeat_of=proposal.repeat_of,
        generation=key.generation,
        correlation_id=proposal.correlation_id or command_id,
        trace_id=proposal.trace_id,
    )


def _member(root: Command, incoming: Incoming, name: str, position: int, key: BusinessKey, ids: Ids) -> Command:
    part, plan = incoming.intent.definition.part(name), incoming.plan
    step = part if isinstance(part, Step) else None
    system = step.action.system if step else "remit"
    operation = step.action.operation if step else name.lower()
    pivot = step is not None and step.effect is EffectClass.PIVOT
    own = {
        "command_id": ids.new("cmd"),
        "parent_id": root.command_id,
        "position": position,
        "kind": Kind.STEP if step else Kind.GATE,
        "command_type": name,
        "effect_class": step.effect if step else EffectClass.NONE,
        "target_system": system,
        "target_resource": step.resource(plan.params) if step else root.target_resource,
        "expected_version": plan.base_version if pivot else None,
        "idempotency_key": key.of(system, operation).shown(),
        "params": "",
        "state": State.AUTHORIZED,
        "phase": None,
        "deadline_at_ms": None,
        "not_before_ms": None,
        "next_check_at_ms": None,
    }
    return evolved(root, own)


def grant_until_ms(proposer: Proposer, now: int) -> int:
    """Until when effects may begin, whatever becomes of the token."""
    return proposer.grant_until_s * 1000 if proposer.grant_until_s else now + GRANT_S_DEFAULT * 1000


def grant_of(root: Command, incoming: Incoming, policy: str, now: int) -> authority.Grant:
    """The authority that outlives the token."""
    proposer = incoming.proposer
    details = canonical([dict(detail) for detail in proposer.details])
    return authority.Grant(
        root_id=root.command_id,
        iss=proposer.issuer,
        jti=proposer.token_id,
        kid=proposer.key_id,
        sub=proposer.principal,
        client_id=proposer.client_id,
        decision_id=proposer.decision_id,
        tenant=proposer.tenant,
        details=details,
        details_hash=hashlib.sha256(details.encode()).hexdigest(),
        policy_hash=policy,
        grant_until_ms=grant_until_ms(proposer, now),
        operator=bool(proposer.operator),
        created_at_ms=now,
    )


def opening(saga: Saga, incoming: Incoming, now: int, *, locks: bool) -> Unit:
    """The unit that writes them: RECEIVED … QUEUED as events of one transaction."""
    draft = Draft(saga, actor=incoming.proposer.actor, now_ms=now, opening=True)
    root = saga.root
    body = {
        "intent": incoming.intent.name,
        "key": root.idempotency_key,
        "fingerprint": root.request_fingerprint,
        "content_sha256": incoming.content_sha256,
        "token": incoming.proposer.token_id,
        "decision": root.decision_id,
        "repeat_of": root.repeat_of,
    }
    body |= {"key_set": incoming.proposer.key_set} if incoming.proposer.key_set else {}
    body |= {"reason": incoming.proposal.reason} if incoming.proposal.reason else {}
    draft.note(root.command_id, Fact.COMMAND_RECEIVED, body)
    draft.move(root.command_id, Trigger.VALIDATION_STARTED)
    draft.move(root.command_id, Trigger.COMMAND_AUTHORIZED, {"policy_hash": json.loads(root.params)["policy_hash"]})
    draft.move(root.command_id, Trigger.ENQUEUED)
    for row in saga.members:
        draft.note(row.command_id, Fact.PLANNED, {"key": row.idempotency_key, "effect": row.effect_class})
    if locks:
        draft.take_locks(incoming.plan.resources)
    else:
        draft.block(Blocker.LOCKED)
    draft.announce()
    return draft.unit()


def authority_of(proposer: Proposer) -> dict[str, Any]:
    """Which token, key and client a command was accepted under."""
    return {
        "issuer": proposer.issuer,
        "token_id": proposer.token_id,
        "key_id": proposer.key_id,
        "client_id": proposer.client_id,
    }
