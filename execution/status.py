"""What happened? Answered from the journal alone, in words that never claim more than it proves.

The registry's rows are folded into one word, the most doubtful first, then into sentences for people and instructions
for agents. `live` needs a verified pivot; `done` needs an ended saga and nobody who must still answer a question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from execution.articles import Article, Content, articles, content_of
from execution.catalog import Catalog
from execution.core.command import Command, Saga, receipt_of
from execution.core.definition import SagaDefinition
from execution.core.events import Event
from execution.core.states import (
    ApprovalState,
    Blocker,
    CompensationState,
    Kind,
    Phase,
    ReviewKind,
    State,
)
from execution.duties import follow_ups
from execution.folding import Folded, fold, is_replaced, later, shown_state
from execution.history import Standing, standing_of
from execution.ports import Clock, Ports
from execution.proposal import (
    Answers,
    ApprovalView,
    CommandView,
    DutyView,
    ReviewView,
    StepView,
    WaitingFor,
)
from execution.repeating import proposed_by
from execution.sentences import Told, next_action, poll_after_s, say_to_user
from execution.store import journal, registry
from execution.store.connection import Connection
from execution.store.writer import Store
from execution.tracing import trace_id
from execution.waiting import blocked_since, updated_ms, waiting_for

_DIVERGED: Final = frozenset({ReviewKind.DRIFT, ReviewKind.DUPLICATE, ReviewKind.CONFLICT})
PUBLISHED: Final = "published"
"""What an object is said to be once a saga has succeeded whose definition this process does not have."""
NOTHING_KNOWN: Final[Mapping[Blocker, int]] = MappingProxyType({})


class StatusReader:
    """Reads beside the writer; every answer is one snapshot."""

    def __init__(self, store: Store, catalog: Catalog, clock: Clock) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock

    async def view(self, command_id: str) -> CommandView | None:
        """The command's saga (a step's id answers with its saga); None when there is none."""
        return await self._store.read(lambda conn: self._view(conn, command_id))

    async def by_key(self, tenant: str, idempotency_key: str) -> CommandView | None:
        """The newest generation of that key."""

        def read(conn: Connection) -> CommandView | None:
            found = registry.newest_generation(conn, tenant, idempotency_key)
            return None if found is None else self._view(conn, found.root_id)

        return await self._store.read(read)

    async def recent(self, tenant: str, principal: str | None, limit: int = 10) -> tuple[CommandView, ...]:
        """The newest commands of an agent (of the whole tenant when None)."""

        def read(conn: Connection) -> tuple[CommandView, ...]:
            roots = registry.recent(conn, tenant, principal=principal, limit=limit)
            return tuple(self._told(conn, root.command_id) for root in roots)

        return await self._store.read(read)

    async def listed(self, wanted: registry.Filter, limit: int = 50) -> tuple[CommandView, ...]:
        """Commands that match, newest first."""

        def read(conn: Connection) -> tuple[CommandView, ...]:
            roots, _ = registry.page(conn, wanted, limit=limit)
            return tuple(self._told(conn, root.command_id) for root in roots)

        return await self._store.read(read)

    async def articles(self, tenant: str, site: str | None = None, limit: int = 50) -> tuple[Article, ...]:
        """What has become of the articles that were worked on last."""
        return await self._store.read(lambda conn: articles(conn, self._catalog, tenant, site=site, limit=limit))

    async def saga(self, command_id: str) -> Saga | None:
        """The aggregate itself, for operators' tools."""

        def read(conn: Connection) -> Saga | None:
            found = registry.find(conn, command_id)
            return None if found is None else registry.load_saga(conn, found.root_id)

        return await self._store.read(read)

    async def journal(self, command_id: str) -> tuple[Event, ...]:
        """Every event of the command's saga in the order of their commits."""

        def read(conn: Connection) -> tuple[Event, ...]:
            found = registry.find(conn, command_id)
            return () if found is None else journal.saga_chain(conn, found.root_id)

        return await self._store.read(read)

    def _view(self, conn: Connection, command_id: str) -> CommandView | None:
        found = registry.find(conn, command_id)
        return None if found is None else self._told(conn, found.root_id)

    def _told(self, conn: Connection, root_id: str) -> CommandView:
        saga = registry.load_saga(conn, root_id)
        root = saga.root
        definition = self._catalog.find(root.command_type, root.definition_version)
        standing = standing_of(conn, root.tenant, root.workflow_id)
        content = content_of(conn, saga, standing)
        return view_of(saga, definition, standing, content, blocked_since(conn, root))


def view_of(
    saga: Saga,
    definition: SagaDefinition[Ports] | None = None,
    standing: Standing | None = None,
    content: Content | None = None,
    since: Mapping[Blocker, int] = NOTHING_KNOWN,
) -> CommandView:
    """The whole answer about a saga. definition: its own, where this process has it. standing: what stands at the
    object's place now, by whatever command; content: what has become of it; since: when its blockers were raised."""
    root, folded = saga.root, fold(saga, definition, standing)
    pivot = folded.pivot
    waiting = waiting_for(saga, folded, since)
    return CommandView(
        command_id=root.command_id,
        workflow_id=root.workflow_id,
        saga_id=root.saga_id,
        decision_id=root.decision_id,
        idempotency_key=root.idempotency_key,
        principal=root.principal,
        proposed_by=proposed_by(root),
        repeat_of=root.repeat_of,
        takes_down=definition is not None and definition.takes_down,
        tenant=root.tenant,
        intent=root.command_type,
        site=root.site,
        object_id=root.object_id,
        object_version=root.object_version,
        state=folded.word,
        phase=root.phase,
        ending=root.ending,
        done=folded.done,
        live=folded.live,
        verified_at_ms=pivot.verified_at_ms if pivot is not None and folded.live else None,
        created_at_ms=root.created_at_ms,
        updated_at_ms=updated_ms(saga),
        trace_id=trace_id(root.trace_id),
        publish_at_ms=root.not_before_ms,
        publish_at_local=_local_schedule(root),
        say_to_user=say_to_user(
            saga,
            Told(
                word=folded.word,
                past=definition.past if definition is not None else PUBLISHED,
                proven=folded.proven,
                live=folded.live,
                later=later(saga, standing),
                unproven=folded.unproven,
                unknown=folded.unknown,
                review=folded.review,
                given_up=folded.given_up,
            ),
        ),
        next_action=next_action(folded.word, folded.done, folded.ruled, root.error_code),
        next_poll_after_s=poll_after_s(folded.word, folded.done, folded.ruled),
        external_version=pivot.external_version
        if folded.proven and pivot and not is_replaced(saga, standing)
        else None,
        reference=pivot.result_reference if pivot is not None and folded.live else None,
        error_code=root.error_code or next((row.error_code for row in saga.members if row.error_code), None),
        blockers=tuple(sorted(root.blocked_by)),
        approval=_approval(saga),
        steps=tuple(_step(saga.root, row) for row in saga.members),
        answers=_answers(saga, folded, waiting),
        waiting_for=waiting,
        reviews=tuple(_reviews(saga)),
        content=content,
        follow_ups=tuple(
            DutyView(name=duty.name, owner=duty.owner, what=duty.what) for duty in follow_ups(saga, definition)
        ),
    )


def _local_schedule(root: Command) -> str | None:
    if root.not_before_ms is None:
        return None
    local = json.loads(root.params)["plan"].get("publish_at_local")
    return str(local) if local else None


def _approval(saga: Saga) -> ApprovalView:
    if not saga.approvals:
        return ApprovalView(required=True, state="NOT_REQUESTED")
    newest = saga.approvals[-1]
    rejection = newest.reason if newest.state is ApprovalState.REJECTED else None
    return ApprovalView(
        required=True,
        state=newest.state,
        content_hash=newest.content_hash,
        expires_at_ms=newest.expires_at_ms,
        rejection=rejection,
    )


def _step(root: Command, row: Command) -> StepView:
    return StepView(
        name=row.command_type,
        kind=row.kind,
        system=row.target_system,
        effect_class=row.effect_class,
        state=shown_state(root, row),
        attempts=row.attempt_count,
        compensation_state=row.compensation_state,
        external_resource_id=row.external_resource_id,
        reference=row.result_reference,
        error_code=row.error_code,
        completed_at_ms=row.completed_at_ms,
        next_check_at_ms=row.next_check_at_ms or row.next_retry_at_ms,
        key_strategy=_key_strategy(row),
    )


def _key_strategy(row: Command) -> str | None:
    known = receipt_of(row.receipt).data.get("key_strategy") if row.receipt else None
    return known if isinstance(known, str) else None


def _reviews(saga: Saga) -> list[ReviewView]:
    return [
        ReviewView(
            review_id=review.review_id,
            kind=review.kind,
            step=saga.member(review.command_id).command_type,
            owner=review.owner,
            opened_at_ms=review.opened_at_ms,
            verdicts=tuple(review.verdicts.split(",")),
        )
        for review in saga.reviews
        if review.closed_at_ms is None
    ]


def _answers(saga: Saga, folded: Folded, waiting: WaitingFor | None) -> Answers:
    checked = [row.verified_at_ms for row in saga.members if row.verified_at_ms is not None]
    diverged = [r.opened_at_ms for r in saga.reviews if r.closed_at_ms is None and r.kind in _DIVERGED]
    return Answers(
        executed=_executed(folded),
        succeeded=folded.succeeded,
        remaining=folded.remaining,
        unknown=folded.unknown,
        retry_safe=_retry_safe(folded),
        direction=_direction(saga, folded),
        compensation=_compensation(saga),
        diverged=bool(diverged),
        checked_at_ms=max(checked + diverged, default=None),
        resumable=not saga.root.is_terminal,
        human=f"{waiting.who}: {waiting.what}" if waiting is not None and waiting.needs_person else None,
    )


def _executed(folded: Folded) -> str:
    if folded.pivot is None:
        return "yes" if folded.done and not folded.given_up else "no"
    if folded.pivot.state is State.SUCCESS:
        return "yes"
    return "unknown" if folded.unproven else "no"


def _retry_safe(folded: Folded) -> str:
    """Proposing the same again is always safe; this says what Remit itself may still repeat."""
    if folded.done:
        return "nothing_to_retry"
    if folded.unknown:
        return "not_before_reconciled"
    if folded.review:
        return "person_decides"
    return "not_before_reconciled" if folded.unproven else "automatic"


def _direction(saga: Saga, folded: Folded) -> str:
    if saga.root.is_terminal:
        return "none"
    turning = saga.root.state is State.COMPENSATING or saga.root.ending is not None
    return "backward" if turning or saga.root.phase is Phase.UNWINDING else "forward"


def _compensation(saga: Saga) -> str:
    states = {row.compensation_state for row in saga.members if row.kind is Kind.STEP}
    for state in (
        CompensationState.FAILED,
        CompensationState.UNKNOWN,
        CompensationState.RUNNING,
        CompensationState.PENDING,
        CompensationState.DONE,
    ):
        if state in states:
            return state.lower()
    return "none"


def plan_of(saga: Saga) -> dict[str, object]:
    """The frozen parameters, for operators' tools."""
    params: dict[str, object] = json.loads(saga.root.params)
    return params
