"""A review's case: everything that a person needs in order to rule, from the journal and, when asked, from reality.

A person who rules must not have to puzzle the facts together from events: which object under which key, which versions
were expected, approved, recorded and seen, what each system was last seen to hold and when it was asked, what was tried
and undone, what a machine may still repeat, and what each verdict would do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from execution.catalog import Catalog
from execution.core.apply import action_of, sighting_body
from execution.core.command import Attempt, Command, Review, Saga
from execution.core.definition import SagaDefinition
from execution.core.events import Event, Fact
from execution.core.states import ApprovalState, EffectClass, Kind, Repeat, State, Verdict
from execution.core.verdicts import would
from execution.looking import Look, Looker
from execution.ports import Clock, Ports
from execution.store import journal, registry
from execution.store.connection import Connection
from execution.store.writer import Store

SIGHTINGS: Final = frozenset({Fact.OBSERVED, Fact.VERIFIED, Fact.RULED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one step's system holds, as it was last seen. `asked_at_ms` None: it was never looked at."""

    step: str
    system: str
    state: State
    resource_id: str | None
    recorded_version: str | None
    asked_at_ms: int | None = None
    query: str | None = None
    verdict: str | None = None
    seen_version: str | None = None
    reference: str | None = None
    code: str | None = None
    difference: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What was done for one step: its attempts, oldest first. undoes: the step that this one offsets."""

    step: str
    state: State
    undoes: str | None
    compensation: str
    attempts: tuple[Attempt, ...]
    again: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A verdict that may be ruled, and what it would do."""

    verdict: Verdict
    would: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """See the module. `versions`: by name (expected, approved, recorded, live); `agreeing`: names with one value."""

    review: Review
    saga: Saga
    row: Command
    age_s: float
    facts: Mapping[str, Any]
    versions: Mapping[str, str]
    agreeing: tuple[tuple[str, ...], ...]
    records: tuple[Record, ...]
    tried: tuple[Tried, ...]
    options: tuple[Option, ...]


async def open_case(
    store: Store, catalog: Catalog, clock: Clock, review_id: str, looker: Looker | None = None
) -> Case | None:
    """Read it; None when there is no such review. With a `looker` every system is asked now."""

    def read(conn: Connection) -> tuple[Saga, Review, tuple[Event, ...]] | None:
        review = registry.find_review(conn, review_id)
        if review is None:
            return None
        return registry.load_saga(conn, review.root_id), review, journal.saga_chain(conn, review.root_id)

    found = await store.read(read)
    if found is None:
        return None
    saga, review, events = found
    named = saga.root.command_type, saga.root.definition_version
    definition = catalog.definition(*named) if named in catalog.known else None
    looks = [] if looker is None or definition is None else await _look(looker, saga, definition)
    return case_of(saga, review, events, definition, clock.now_ms(), looks)


async def _look(looker: Looker, saga: Saga, definition: SagaDefinition[Ports]) -> list[Look]:
    """At everything that was begun: what was never started has left nothing."""
    plan = json.loads(saga.root.params)["plan"]
    begun = [row for row in saga.members if row.started_at_ms is not None]
    looks = [await looker.look(saga, definition, row.command_id, plan) for row in begun]
    return [look for look in looks if look is not None]


def case_of(
    saga: Saga,
    review: Review,
    events: Iterable[Event],
    definition: SagaDefinition[Ports] | None,
    now_ms: int,
    looks: Iterable[Look] = (),
) -> Case:
    """Put together. `looks` are fresh ones; without them a record is as the journal last saw it.

    `definition` None: this release lacks it.
    """
    row = _concerned(saga, review)
    records = _records(saga, events, looks)
    versions = _versions(saga, row, records)
    return Case(
        review=review,
        saga=saga,
        row=row,
        age_s=((review.closed_at_ms or now_ms) - review.opened_at_ms) / 1000,
        facts=json.loads(review.facts),
        versions=versions,
        agreeing=_agreeing(versions),
        records=records,
        tried=tuple(_tried(saga, member, definition) for member in saga.members if _has_effect(member)),
        options=tuple(
            Option(verdict=verdict, would=would(saga, review, verdict))
            for verdict in map(Verdict, review.verdicts.split(","))
        ),
    )


def _concerned(saga: Saga, review: Review) -> Command:
    """The row that it is about; for a question about the whole saga its pivot, which is what people ask about."""
    row = saga.member(review.command_id)
    pivot = next((member for member in saga.members if member.effect_class is EffectClass.PIVOT), None)
    return pivot if row.is_root and pivot is not None else row


def _has_effect(row: Command) -> bool:
    return row.kind in (Kind.STEP, Kind.COMPENSATION)


def _records(saga: Saga, events: Iterable[Event], looks: Iterable[Look]) -> tuple[Record, ...]:
    seen: dict[str, Mapping[str, Any]] = {}
    for event in events:
        if event.type in SIGHTINGS:
            body = json.loads(event.body)
            found = body.get("evidence") if event.type is Fact.RULED else body
            seen |= {event.command_id: found} if found else {}
    for look in looks:
        body = sighting_body(look.sighting, source=look.system, asked_at_ms=look.asked_at_ms, purpose="person")
        seen[look.command_id] = body
    return tuple(_record(row, seen.get(row.command_id)) for row in saga.members if _has_effect(row))


def _record(row: Command, body: Mapping[str, Any] | None) -> Record:
    known = {
        "step": row.command_type,
        "system": row.target_system,
        "state": row.state,
        "resource_id": row.external_resource_id,
        "recorded_version": row.external_version,
    }
    if body is None:
        return Record(**known)  # type: ignore[arg-type]  # columns of a row under the names of a record
    receipt = body.get("receipt") or {}
    return Record(
        **known,  # type: ignore[arg-type]  # columns of a row under the names of a record
        asked_at_ms=body["asked_at"],
        query=body["query"],
        verdict=body["verdict"],
        seen_version=receipt.get("version") or None,
        reference=receipt.get("reference") or row.result_reference,
        code=body.get("code"),
        difference=tuple(body.get("difference") or ()),
    )


def _versions(saga: Saga, row: Command, records: Iterable[Record]) -> dict[str, str]:
    """What was expected to stand there, what was approved, what our last write gave back, and what was last seen."""
    own = next((record for record in records if record.step == row.command_type), None)
    alive = (ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.CONSUMED)
    approval = next((a for a in reversed(saga.approvals) if a.state in alive), None)
    subject = json.loads(approval.subject) if approval is not None else {}
    named = {
        "expected": row.expected_version or _of(subject, "target", "expected_version"),
        "approved": _of(subject, "baseline", "version"),
        "recorded": row.external_version,
        "live": own.seen_version if own is not None else None,
    }
    return {name: version for name, version in named.items() if version}


def _of(subject: Mapping[str, Any], part: str, name: str) -> str | None:
    found = subject.get(part)
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else None


def _agreeing(versions: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    by_value: dict[str, list[str]] = {}
    for name, version in versions.items():
        by_value.setdefault(version, []).append(name)
    return tuple(tuple(names) for names in by_value.values())


def _tried(saga: Saga, row: Command, definition: SagaDefinition[Ports] | None) -> Tried:
    undoes = saga.member(row.compensates).command_type if row.compensates is not None else None
    return Tried(
        step=row.command_type,
        state=row.state,
        undoes=undoes,
        compensation=row.compensation_state,
        attempts=saga.attempts_of(row.command_id),
        again="no: this release lacks its definition"
        if definition is None
        else _again(saga, row, action_of(definition, saga, row).repeat),
    )


def _again(saga: Saga, row: Command, repeat: Repeat) -> str:
    """May a machine send it again?"""
    open_attempts = saga.open_attempts(row.command_id)
    if row.is_terminal:
        return "no: it has ended"
    if row.effect_class is EffectClass.IRREVERSIBLE and open_attempts:
        return "no: it cannot be taken back, and an attempt may have landed"
    if not open_attempts:
        return "yes: no attempt is unproven"
    if repeat is not Repeat.NEVER:
        return f"yes, {repeat.replace('_', ' ')}: doing it twice is the same as once"
    quiet = [attempt.fenced_at_ms + int((attempt.quiescent_after_s or 0.0) * 1000) for attempt in open_attempts]
    if any(attempt.quiescent_after_s is None for attempt in open_attempts):
        return "no: nobody knows when its open attempts are over"
    return f"not before its open attempts are over and it was seen to be absent (at_ms {max(quiet)})"
