"""Acceptance: one transaction from proposal to QUEUED command, or a refusal that changes nothing.

Idempotency is by business identity: the key names the effect, the fingerprint says what was meant. The same key with the
same meaning is the same command, now or in five years; with another meaning it is a conflict that names the fields. A
deliberate repetition opens the next generation of the key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection

from execution.authority import stop_scopes
from execution.catalog import Catalog, Intent, Plan, Previous
from execution.core.command import Command, Saga
from execution.core.definition import SagaDefinition, Step
from execution.core.draft import Draft, Unit
from execution.core.events import Fact, canonical
from execution.core.identity import BusinessKey, differing, fingerprint, generation_suffix
from execution.core.states import Blocker, EffectClass, Kind, Phase, Settlement, State
from execution.core.transitions import Trigger
from execution.history import newest_live, newest_pending
from execution.ports import Clock, Ids, Ports
from execution.proposal import Accepted, IntakeRefused, Proposal, Proposer
from execution.settings import EngineSettings
from execution.store import artifacts, authority, registry
from execution.store.errors import LocksHeld
from execution.store.units import apply_unit
from execution.store.writer import Store

CONTENT_BYTES_MAX: Final = 8 * 1024 * 1024
PLAN_TRIES: Final = 5
GRANT_S_DEFAULT: Final = 86_400
_PREFIX: Final = "artifact://sha256/"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Incoming:
    """A proposal on its way through the acceptance transaction."""

    proposal: Proposal
    proposer: Proposer
    intent: Intent
    key: BusinessKey
    fingerprint: str
    content_sha256: str
    previous: Previous
    plan: Plan


class Intake:
    """Turns proposals into journaled commands. `wake` is called with the root id of each newly accepted one."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        clock: Clock,
        ids: Ids,
        settings: EngineSettings,
        wake: Callable[[str], None] | None = None,
        offload: Callable[[Callable[[], Plan]], Awaitable[Plan]] | None = None,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._wake = wake
        self._offload = offload

    async def propose(self, proposal: Proposal, proposer: Proposer) -> Accepted:
        """Accept the proposal, or answer with the command that it already is. Raises IntakeRefused."""
        intent = self._catalog.intents.get(proposal.intent)
        if intent is None:
            raise IntakeRefused("unknown_intent", field="intent")
        for _ in range(PLAN_TRIES):
            incoming = await self._plan(intent, proposal, proposer)
            accepted = await self._store.transact(partial(self._accept, incoming=incoming))
            if accepted is not None:
                if self._wake is not None and not accepted.deduplicated:
                    self._wake(accepted.command_id)
                return accepted
        raise IntakeRefused("busy", retryable=True)

    async def preview(self, proposal: Proposal, proposer: Proposer) -> tuple[Intent, Plan, str]:
        """What acceptance would freeze, and the key; nothing is written."""
        intent = self._catalog.intents.get(proposal.intent)
        if intent is None:
            raise IntakeRefused("unknown_intent", field="intent")
        incoming = await self._plan(intent, proposal, proposer)
        return intent, incoming.plan, incoming.key.shown()

    async def _plan(self, intent: Intent, proposal: Proposal, proposer: Proposer) -> _Incoming:
        """Read what our journal knows of the object, and freeze the parameters outside the transaction."""
        proposal, sha256 = await self._with_content(proposal)
        key = BusinessKey(
            tenant=proposer.tenant,
            system="remit",
            operation=intent.operation,
            site=proposal.site,
            object_id=proposal.object_id,
            version=proposal.version,
        )
        previous = await self._store.hot(lambda conn: self._previous(conn, proposer.tenant, proposal))
        known = await self._store.hot(lambda conn: registry.newest_generation(conn, key.tenant, key.shown()))
        print_ = fingerprint(proposal.arguments)
        if known is not None and proposal.repeat_of is None:
            plan = Plan(params={}, resources=())
        else:
            plan = await self._planned(intent, proposal, sha256, previous)
        return _Incoming(
            proposal=proposal,
            proposer=proposer,
            intent=intent,
            key=key,
            fingerprint=print_,
            content_sha256=sha256,
            previous=previous,
            plan=plan,
        )

    async def _planned(self, intent: Intent, proposal: Proposal, sha256: str, previous: Previous) -> Plan:
        if self._offload is None:
            return intent.plan(proposal, sha256, previous)
        return await self._offload(lambda: intent.plan(proposal, sha256, previous))

    async def _with_content(self, proposal: Proposal) -> tuple[Proposal, str]:
        """The proposal with its bytes at hand; `payload_ref` and `content` of the same bytes are one."""
        if proposal.content is not None:
            return proposal, hashlib.sha256(proposal.content).hexdigest()
        ref = proposal.payload_ref or ""
        sha256 = ref.removeprefix(_PREFIX)
        if not ref.startswith(_PREFIX):
            name = ref.removeprefix("artifact://")
            sha256 = await self._store.hot(lambda conn: artifacts.resolve(conn, name)) or ""
        found = await self._store.hot(lambda conn: artifacts.get(conn, sha256))
        if found is None or found.content is None:
            raise IntakeRefused("payload_missing", field="payload_ref")
        return replace(proposal, content=found.content), sha256

    def _previous(self, conn: Connection, tenant: str, proposal: Proposal) -> Previous:
        return newest_live(conn, tenant=tenant, site=proposal.site, object_id=proposal.object_id)

    # -- inside the transaction -----------------------------------------------------------------------------------

    def _accept(self, conn: Connection, incoming: _Incoming) -> Accepted | None:
        """None: what our journal knew of the object has changed since the plan was made."""
        proposal, proposer = incoming.proposal, incoming.proposer
        self._check_stops(conn, incoming)
        newest = registry.newest_generation(conn, proposer.tenant, incoming.key.shown())
        if newest is not None and proposal.repeat_of in (None, newest.repeat_of):
            return _existing(newest, incoming)
        if not incoming.plan.params:
            return None
        generation = self._generation(conn, newest, incoming)
        if self._previous(conn, proposer.tenant, proposal) != incoming.previous:
            return None
        pending = newest_pending(conn, tenant=proposer.tenant, site=proposal.site, object_id=proposal.object_id)
        if pending is not None and pending.object_version > proposal.version:
            raise IntakeRefused("stale_version", field="version", limit=pending.object_version, actual=proposal.version)
        self._count(conn, proposer)
        self._store_content(conn, incoming)
        if pending is not None and pending.phase is Phase.PRE_PIVOT:
            self._supersede(conn, pending, incoming)
        return self._insert(conn, incoming, replace(incoming.key, generation=generation))

    def _check_stops(self, conn: Connection, incoming: _Incoming) -> None:
        proposer, proposal = incoming.proposer, incoming.proposal
        scopes = stop_scopes(
            tenant=proposer.tenant,
            site=proposal.site,
            system=None,
            authority=_authority_of(proposer),
            principal=proposer.principal,
            decision_id=proposer.decision_id,
        )
        hit = authority.in_force(conn, scopes)
        if any(scope.startswith("revoked:") for scope in hit):
            raise IntakeRefused("revoked")
        if hit:
            raise IntakeRefused("frozen", retryable=True)

    def _generation(self, conn: Connection, newest: Command | None, incoming: _Incoming) -> str:
        """The suffix of a deliberate repetition; empty for a first proposal."""
        wanted = incoming.proposal.repeat_of
        if wanted is None:
            return ""
        if newest is None:
            raise IntakeRefused("repeat_of_unknown", field="repeat_of")
        if newest.command_id != wanted:
            raise IntakeRefused("repeat_of_not_newest", field="repeat_of")
        if not (incoming.proposer.may_repeat or incoming.proposer.operator):
            raise IntakeRefused("repeat_not_granted", field="repeat_of")
        saga = registry.load_saga(conn, newest.command_id)
        if not saga.root.is_terminal or any(a.settlement is Settlement.OPEN for a in saga.attempts):
            raise IntakeRefused("not_repeatable_yet", field="repeat_of", retryable=True)
        return generation_suffix(newest.command_id)

    def _count(self, conn: Connection, proposer: Proposer) -> None:
        if proposer.max_open_commands is not None:
            wanted = registry.Filter(
                tenant=proposer.tenant,
                principal=proposer.principal,
                decision_id=proposer.decision_id,
                unfinished=True,
            )
            open_now = len(registry.page(conn, wanted, limit=proposer.max_open_commands + 1)[0])
            if open_now >= proposer.max_open_commands:
                limit = proposer.max_open_commands
                raise IntakeRefused("too_many_open_commands", limit=limit, actual=open_now, retryable=True)
        if proposer.max_uses is not None and not authority.use_token(
            conn,
            iss=proposer.issuer,
            jti=proposer.token_id,
            tenant=proposer.tenant,
            max_uses=proposer.max_uses,
            now_ms=self._clock.now_ms(),
        ):
            raise IntakeRefused("token_exhausted", limit=proposer.max_uses)

    def _store_content(self, conn: Connection, incoming: _Incoming) -> None:
        now, proposal = self._clock.now_ms(), incoming.proposal
        assert proposal.content is not None
        media = proposal.content_media_type
        artifacts.put(conn, proposal.content, media_type=media, now_ms=now, bytes_max=CONTENT_BYTES_MAX)
        for content in incoming.plan.artifacts.values():
            artifacts.put(conn, content, media_type="text/html", now_ms=now, bytes_max=CONTENT_BYTES_MAX)

    def _supersede(self, conn: Connection, pending: Command, incoming: _Incoming) -> None:
        """A later version takes the place of an earlier one that has not reached its pivot: that one unwinds first."""
        saga = registry.load_saga(conn, pending.command_id)
        if saga.root.ending is not None:
            return
        draft = Draft(saga, actor=incoming.proposer.principal, now_ms=self._clock.now_ms())
        body = {"code": "superseded", "by_version": incoming.proposal.version}
        draft.note(pending.command_id, Fact.CANCEL_REQUESTED, body)
        draft.set(pending.command_id, ending="superseded", next_check_at_ms=self._clock.now_ms())
        draft.announce()
        apply_unit(conn, draft.unit())

    def _insert(self, conn: Connection, incoming: _Incoming, key: BusinessKey) -> Accepted:
        policy = authority.authority(conn).policy_hash
        now = self._clock.now_ms()
        saga = self._new_saga(incoming, key, policy, now)
        try:
            apply_unit(conn, self._opening(saga, incoming, now, locks=True))
        except LocksHeld:
            apply_unit(conn, self._opening(saga, incoming, now, locks=False))
        authority.put_grant(conn, self._grant(saga.root, incoming, policy, now))
        return Accepted(
            command_id=saga.root.command_id,
            idempotency_key=saga.root.idempotency_key,
            deduplicated=False,
            original_at_ms=now,
        )

    def _opening(self, saga: Saga, incoming: _Incoming, now: int, *, locks: bool) -> Unit:
        draft = Draft(saga, actor=incoming.proposer.principal, now_ms=now, opening=True)
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

    def _new_saga(self, incoming: _Incoming, key: BusinessKey, policy: str, now: int) -> Saga:
        root = self._root(incoming, key, policy, now)
        definition = incoming.intent.definition
        wanted = [part for part in definition.parts if part.when(incoming.plan.params)]
        members = tuple(
            self._member(root, definition, part.name, position, key, incoming.plan)
            for position, part in enumerate(wanted, start=1)
        )
        return Saga(root=root, members=members)

    def _root(self, incoming: _Incoming, key: BusinessKey, policy: str, now: int) -> Command:
        proposal, proposer, intent, plan = incoming.proposal, incoming.proposer, incoming.intent, incoming.plan
        command_id = self._ids.new("cmd")
        params = {
            "plan": dict(plan.params),
            "arguments": dict(proposal.arguments),
            "resources": list(plan.resources),
            "authority": _authority_of(proposer),
            "chain": list(proposer.chain),
            "approvals_required": proposer.approvals_required,
            "policy_hash": policy,
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
            workflow_id="wf_" + hashlib.sha256(f"{key.tenant}\0{key.site}\0{key.object_id}".encode()).hexdigest()[:26],
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
            payload_ref=_PREFIX + incoming.content_sha256,
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

    def _member(
        self, root: Command, definition: SagaDefinition[Ports], name: str, position: int, key: BusinessKey, plan: Plan
    ) -> Command:
        part = definition.part(name)
        step = part if isinstance(part, Step) else None
        system = step.action.system if step else "remit"
        operation = step.action.operation if step else name.lower()
        pivot = step is not None and step.effect is EffectClass.PIVOT
        return replace(
            root,
            command_id=self._ids.new("cmd"),
            parent_id=root.command_id,
            position=position,
            kind=Kind.STEP if step else Kind.GATE,
            command_type=name,
            effect_class=step.effect if step else EffectClass.NONE,
            target_system=system,
            target_resource=step.resource(plan.params) if step else root.target_resource,
            expected_version=plan.base_version if pivot else None,
            idempotency_key=key.of(system, operation).shown(),
            params="",
            state=State.AUTHORIZED,
            phase=None,
            deadline_at_ms=None,
            not_before_ms=None,
            next_check_at_ms=None,
        )

    def _grant(self, root: Command, incoming: _Incoming, policy: str, now: int) -> authority.Grant:
        proposer = incoming.proposer
        details = canonical([dict(detail) for detail in proposer.details])
        until = proposer.grant_until_s * 1000 if proposer.grant_until_s else now + GRANT_S_DEFAULT * 1000
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
            grant_until_ms=until,
            operator=proposer.operator,
            created_at_ms=now,
        )


def _authority_of(proposer: Proposer) -> dict[str, Any]:
    return {
        "issuer": proposer.issuer,
        "token_id": proposer.token_id,
        "key_id": proposer.key_id,
        "client_id": proposer.client_id,
    }


def _existing(known: Command, incoming: _Incoming) -> Accepted:
    """The same key: the same command when the same is meant, a conflict otherwise."""
    proposer = incoming.proposer
    if known.request_fingerprint != incoming.fingerprint:
        theirs = json.loads(known.params)["arguments"]
        mine = known.principal == proposer.principal
        fields = differing(dict(incoming.proposal.arguments), theirs)
        raise IntakeRefused("idempotency_conflict", differing=fields, command_id=known.command_id if mine else None)
    if known.principal != proposer.principal:
        raise IntakeRefused("already_proposed", command_id=known.command_id)
    return Accepted(
        command_id=known.command_id,
        idempotency_key=known.idempotency_key,
        deduplicated=True,
        original_at_ms=known.created_at_ms,
    )
