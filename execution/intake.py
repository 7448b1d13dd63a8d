"""Acceptance: one transaction from proposal to QUEUED command, or a refusal that changes nothing.

Idempotency is by business identity: the key names the effect, the fingerprint says what was meant. The same key with
the same meaning is the same command, now or in five years; with another meaning it is a conflict that names the fields.
A deliberate repetition opens the next generation of the key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final

from capabilities.issuer import RiskClass
from execution.authority import stop_scopes
from execution.catalog import Catalog, Intent, Plan, Previous
from execution.core.command import Command
from execution.core.draft import Draft
from execution.core.events import Fact
from execution.core.identity import BusinessKey, differing, fingerprint, generation_suffix
from execution.core.states import Settlement
from execution.history import History, history_of
from execution.opening import ARTIFACT, Incoming, Judged, authority_of, grant_of, grant_until_ms, new_saga, opening
from execution.ports import Clock, Ids
from execution.precedence import giving_way
from execution.proposal import Accepted, IntakeRefused, Proposal, Proposer, Stored
from execution.settings import EngineSettings
from execution.store import artifacts, authority, registry
from execution.store.connection import Connection
from execution.store.errors import LocksHeld, Stale
from execution.store.units import apply_unit
from execution.store.writer import Store

CONTENT_BYTES_MAX: Final = 8 * 1024 * 1024
PLAN_TRIES: Final = 5
HEAD_BYTES: Final = 64
"""What a plan is shown of stored bytes that an argument names."""
APPROVALS_MAX: Final = 1
"""A grant that asks for more approvals than a gate collects is refused rather than met half-way."""


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
        intent = self._permitted(proposal, proposer)
        for _ in range(PLAN_TRIES):
            incoming = await self._plan(intent, proposal, proposer)
            try:
                accepted = await self._store.transact(partial(self._accept, incoming=incoming))
            except Stale:
                continue
            if accepted is not None:
                if self._wake is not None and not accepted.deduplicated:
                    self._wake(accepted.command_id)
                return accepted
        raise IntakeRefused("busy", retryable=True)

    async def foresee(self, proposal: Proposal, proposer: Proposer) -> Judged:
        """What acceptance would make of it now; nothing is written or counted. Raises what it would refuse."""
        intent = self._permitted(proposal, proposer)
        for _ in range(PLAN_TRIES):
            incoming = await self._plan(intent, proposal, proposer)
            judged = await self._store.hot(partial(self._foreseen, incoming=incoming))
            if judged is not None:
                return judged
        raise IntakeRefused("busy", retryable=True)

    def _permitted(self, proposal: Proposal, proposer: Proposer) -> Intent:
        intent = self._catalog.intents.get(proposal.intent)
        if intent is None:
            raise IntakeRefused("unknown_intent", field="intent")
        if proposer.approvals_required > APPROVALS_MAX:
            raise IntakeRefused("policy_refused", limit=APPROVALS_MAX, actual=proposer.approvals_required)
        return intent

    async def _plan(self, intent: Intent, proposal: Proposal, proposer: Proposer) -> Incoming:
        """Read what our journal knows of the object, and freeze the parameters outside the transaction."""
        proposal, sha256 = await self._with_content(proposal)
        proposal = await self._with_stored(proposal, intent.stored)
        key = BusinessKey(
            tenant=proposer.tenant,
            system="remit",
            operation=intent.operation,
            site=proposal.site,
            object_id=proposal.object_id,
            version=proposal.version,
            generation=proposal.generation,
        )

        def known(conn: Connection) -> tuple[Previous, Command | None]:
            newest = registry.newest_generation(conn, key.tenant, key.shown())
            return self._history(conn, intent, proposer.tenant, proposal).previous, newest

        previous, newest = await self._store.hot(known)
        print_ = fingerprint(proposal.arguments)
        if newest is not None and proposal.repeat_of in (None, newest.repeat_of):
            plan = Plan(params={}, resources=())
        else:
            plan = await self._planned(intent, proposal, sha256, previous)
        return Incoming(
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
        sha256 = ref.removeprefix(ARTIFACT)
        if not ref.startswith(ARTIFACT):
            name = ref.removeprefix("artifact://")
            bound = await self._store.hot(lambda conn: artifacts.resolve(conn, name))
            sha256 = bound or ""
        found = await self._store.hot(lambda conn: artifacts.get(conn, sha256))
        if found is None or found.content is None:
            raise IntakeRefused("payload_missing", field="payload_ref")
        return replace(proposal, content=found.content), sha256

    async def _with_stored(self, proposal: Proposal, names: tuple[str, ...]) -> Proposal:
        """The proposal with what is stored under the other references that it names."""
        found: dict[str, Stored] = {}
        for name in names:
            ref = proposal.arguments.get(name)
            if ref is None:
                continue
            sha256 = str(ref).removeprefix(ARTIFACT)
            known = await self._store.hot(partial(artifacts.head, sha256=sha256, length=HEAD_BYTES))
            if known is None or not str(ref).startswith(ARTIFACT):
                raise IntakeRefused("payload_missing", field=name)
            found[name] = Stored(sha256=sha256, size=known[0], head=known[1])
        return replace(proposal, stored=found) if found else proposal

    def _history(self, conn: Connection, intent: Intent, tenant: str, proposal: Proposal) -> History:
        whole = intent.definition.takes_down
        return history_of(conn, tenant=tenant, site=proposal.site, object_id=proposal.object_id, whole=whole)

    # -- inside the transaction -----------------------------------------------------------------------------------

    def _accept(self, conn: Connection, incoming: Incoming) -> Accepted | None:
        """None: what our journal knew of the object has changed since the plan was made."""
        judged = self._judged(conn, incoming)
        if judged is None:
            return None
        if judged.known is not None:
            return _replayed(judged.known)
        self._spend(conn, incoming.proposer, judged.decision)
        incoming = replace(incoming, proposer=_beside_whoever_decided(judged.decision, incoming.proposer))
        self._store_content(conn, incoming)
        for root in judged.giving_way:
            self._supersede(conn, root, incoming)
        return self._insert(conn, incoming, judged.key)

    def _foreseen(self, conn: Connection, incoming: Incoming) -> Judged | None:
        judged, proposer = self._judged(conn, incoming), incoming.proposer
        if judged is not None and judged.known is None and proposer.max_uses is not None:
            used = authority.token_uses(conn, proposer.issuer, proposer.token_id)
            if used >= proposer.max_uses:
                raise IntakeRefused("token_exhausted", limit=proposer.max_uses)
        return judged

    def _judged(self, conn: Connection, incoming: Incoming) -> Judged | None:
        """What is to become of it; reads only. None: as above."""
        proposal, proposer = incoming.proposal, incoming.proposer
        stopped = self._stopped_by(conn, incoming)
        if any(scope.startswith("revoked:") for scope in stopped):
            raise IntakeRefused("revoked")
        newest = registry.newest_generation(conn, proposer.tenant, incoming.key.shown())
        if newest is not None and proposal.repeat_of in (None, newest.repeat_of):
            _check_same(newest, incoming)
            key = replace(incoming.key, generation=newest.generation)
            return Judged(incoming=incoming, key=key, known=newest)
        if stopped:
            raise IntakeRefused("frozen", retryable=True)
        if not incoming.plan.params:
            return None
        generation = self._generation(conn, newest, incoming)
        history = self._history(conn, incoming.intent, proposer.tenant, proposal)
        if history.previous != incoming.previous:
            return None
        gives_way = giving_way(history, incoming.intent, proposal.version, self._catalog)
        self._check_schedule(incoming)
        self._check_open(conn, proposer)
        decision = self._open_decision(conn, proposer)
        key = replace(incoming.key, generation=incoming.key.generation + generation)
        return Judged(incoming=incoming, key=key, giving_way=gives_way, decision=decision)

    def _stopped_by(self, conn: Connection, incoming: Incoming) -> tuple[str, ...]:
        """Restrictions in force. A revoked caller learns nothing; a freeze stops new work, not answers to replays."""
        proposer, proposal = incoming.proposer, incoming.proposal
        scopes = stop_scopes(
            tenant=proposer.tenant,
            site=proposal.site,
            system=None,
            authority=authority_of(proposer),
            principal=proposer.principal,
            decision_id=proposer.decision_id,
        )
        return authority.in_force(conn, scopes)

    def _generation(self, conn: Connection, newest: Command | None, incoming: Incoming) -> str:
        """The suffix of a deliberate repetition; empty for a first proposal."""
        wanted = incoming.proposal.repeat_of
        if wanted is None:
            return ""
        if newest is None:
            raise IntakeRefused("repeat_of_unknown", field="repeat_of")
        if newest.command_id != wanted:
            raise IntakeRefused("repeat_of_not_newest", field="repeat_of")
        _same_meaning(newest, incoming)
        if not (incoming.proposer.may_repeat or incoming.proposer.operator):
            raise IntakeRefused("repeat_not_granted", field="repeat_of")
        saga = registry.load_saga(conn, newest.command_id)
        if not saga.root.is_terminal or any(a.settlement is Settlement.OPEN for a in saga.attempts):
            raise IntakeRefused("not_repeatable_yet", field="repeat_of", retryable=True)
        return generation_suffix(newest.command_id)

    def _check_schedule(self, incoming: Incoming) -> None:
        """What could never begin in time is refused at once."""
        scheduled, now = incoming.plan.not_before_ms, self._clock.now_ms()
        if scheduled is None:
            return
        if scheduled > grant_until_ms(incoming.proposer, now):
            raise IntakeRefused("schedule_beyond_grant", field="publish_at")
        if scheduled + incoming.intent.definition.max_lateness_s * 1000 < now:
            raise IntakeRefused("schedule_missed", field="publish_at")

    def _check_open(self, conn: Connection, proposer: Proposer) -> None:
        limit = proposer.max_open_commands
        if limit is None:
            return
        wanted = registry.Filter(
            tenant=proposer.tenant,
            principal=proposer.principal,
            decision_id=proposer.decision_id,
            unfinished=True,
        )
        open_now = len(registry.page(conn, wanted, limit=limit + 1)[0])
        if open_now >= limit:
            raise IntakeRefused("too_many_open_commands", limit=limit, actual=open_now, retryable=True)

    def _open_decision(self, conn: Connection, proposer: Proposer) -> authority.Decision | None:
        """The decision behind a token; None when this journal does not hold it (its issuer lives elsewhere), or an
        operator proposes. Closed, over or spent, it carries nothing new."""
        found = None if proposer.operator else authority.find_decision(conn, proposer.decision_id)
        if found is None:
            return None
        if found.closed_at_ms is not None or found.valid_until_ms <= self._clock.now_ms():
            raise IntakeRefused("decision_closed")
        if found.uses >= found.uses_max:
            raise IntakeRefused("decision_exhausted", limit=found.uses_max)
        return found

    def _spend(self, conn: Connection, proposer: Proposer, decision: authority.Decision | None) -> None:
        """Count one use of the decision and of the token."""
        if decision is not None and not authority.spend_use(conn, decision.decision_id, self._clock.now_ms()):
            raise IntakeRefused("decision_closed")
        if proposer.max_uses is not None and not authority.use_token(
            conn,
            iss=proposer.issuer,
            jti=proposer.token_id,
            tenant=proposer.tenant,
            max_uses=proposer.max_uses,
            now_ms=self._clock.now_ms(),
        ):
            raise IntakeRefused("token_exhausted", limit=proposer.max_uses)

    def _store_content(self, conn: Connection, incoming: Incoming) -> None:
        now, proposal = self._clock.now_ms(), incoming.proposal
        assert proposal.content is not None
        media = proposal.content_media_type
        artifacts.put(conn, proposal.content, media_type=media, now_ms=now, bytes_max=CONTENT_BYTES_MAX)
        for content in incoming.plan.artifacts.values():
            artifacts.put(conn, content, media_type="text/html", now_ms=now, bytes_max=CONTENT_BYTES_MAX)

    def _supersede(self, conn: Connection, root: Command, incoming: Incoming) -> None:
        """It gives way: what was prepared is undone before the other saga gets its locks."""
        draft = Draft(
            registry.load_saga(conn, root.command_id), actor=incoming.proposer.actor, now_ms=self._clock.now_ms()
        )
        ending = "withdrawn" if incoming.intent.definition.takes_down else "superseded"
        body = {"code": ending, "by_version": incoming.proposal.version}
        draft.note(root.command_id, Fact.CANCEL_REQUESTED, body)
        draft.set(root.command_id, ending=ending, next_check_at_ms=self._clock.now_ms())
        draft.announce()
        apply_unit(conn, draft.unit())

    def _insert(self, conn: Connection, incoming: Incoming, key: BusinessKey) -> Accepted:
        policy = incoming.intent.policy(incoming.plan.params)
        now = self._clock.now_ms()
        saga = new_saga(incoming, key, policy, now, self._ids)
        try:
            apply_unit(conn, opening(saga, incoming, now, locks=True))
        except LocksHeld:
            apply_unit(conn, opening(saga, incoming, now, locks=False))
        authority.put_grant(conn, grant_of(saga.root, incoming, policy, now))
        return Accepted(
            command_id=saga.root.command_id,
            idempotency_key=saga.root.idempotency_key,
            deduplicated=False,
            original_at_ms=now,
        )


def _beside_whoever_decided(decision: authority.Decision | None, proposer: Proposer) -> Proposer:
    """Where the risk is high four eyes are asked for: whoever opened the decision does not approve what follows."""
    if decision is None or decision.risk_class != RiskClass.HIGH:
        return proposer
    return replace(proposer, chain=(*proposer.chain, decision.opened_by))


def _same_meaning(known: Command, incoming: Incoming) -> None:
    """One version means one thing, in every generation: whoever means something else proposes the next version."""
    if known.request_fingerprint == incoming.fingerprint:
        return
    theirs = json.loads(known.params)["arguments"]
    mine = known.principal == incoming.proposer.principal
    fields = differing(dict(incoming.proposal.arguments), theirs)
    raise IntakeRefused("idempotency_conflict", differing=fields, command_id=known.command_id if mine else None)


def _check_same(known: Command, incoming: Incoming) -> None:
    """The same key: the same command when the same is meant by the same, a conflict otherwise."""
    _same_meaning(known, incoming)
    if known.principal != incoming.proposer.principal:
        raise IntakeRefused("already_proposed", command_id=known.command_id)


def _replayed(known: Command) -> Accepted:
    return Accepted(
        command_id=known.command_id,
        idempotency_key=known.idempotency_key,
        deduplicated=True,
        original_at_ms=known.created_at_ms,
    )
