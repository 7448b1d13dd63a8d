"""What a look at an ended saga should find, and what is odd when it does not. Pure; `auditing` looks and files.

Not every step's effect is still to be seen: a draft became the public post, a later version was written over an
earlier one, a row moved on. So only the last of our writes on an object must stand as it was left; earlier ones are
counted, because a second object under the same key is odd whenever it is found. After an unwinding what was undone must
be gone, and what was given up in doubt must never have come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from execution.core.command import Command, Review, Saga
from execution.core.events import canonical
from execution.core.failures import Absent, Foreign, Present, Sighting
from execution.core.states import Kind, Phase, ReviewKind, Settlement, State


class Expected(StrEnum):
    """STANDS: as we left it, once. COUNTED: at most once, whatever became of it. UNDONE: a compensation's effect holds.
    NEVER: given up in doubt, and never came."""

    STANDS = "STANDS"
    COUNTED = "COUNTED"
    UNDONE = "UNDONE"
    NEVER = "NEVER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A row to look at."""

    row: Command
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """What is odd: the kind of question that it is, and the facts of it (`code` among them)."""

    kind: ReviewKind
    facts: Mapping[str, Any]

    @property
    def code(self) -> str:
        return str(self.facts["code"])


def subjects(saga: Saga, related: Iterable[Saga]) -> tuple[Subject, ...]:
    """What to look at in an ended saga. `related`: every saga about the same object, this one included."""
    if not saga.root.is_terminal:
        return ()
    last = _last_writers(related)
    found = [Subject(row=row, expected=_expected(saga, row, last)) for row in saga.members if _left_something(row)]
    return tuple(found) + tuple(_given_up_in_doubt(saga))


def in_motion(related: Iterable[Saga]) -> bool:
    """Whether something may change the object right now, so that a look would prove nothing."""
    return any(
        not saga.root.is_terminal
        and (saga.root.phase is Phase.POST_PIVOT or any(a.settlement is Settlement.OPEN for a in saga.attempts))
        for saga in related
    )


def odd(subject: Subject, sighting: Sighting) -> Oddity | None:
    """What is odd about what was seen; None when nothing is, or when nothing could be seen (CannotTell)."""
    match subject.expected, sighting:
        case Expected.NEVER, Present(rows=rows):
            return _oddity(ReviewKind.DUPLICATE, "exists_after_undoing", rows=rows)
        case Expected.UNDONE, Absent():
            return _oddity(ReviewKind.DRIFT, "exists_after_undoing")
        case ((Expected.STANDS | Expected.COUNTED), Present(rows=rows)) if rows > 1:
            return _oddity(ReviewKind.DUPLICATE, "several_rows", rows=rows)
        case Expected.STANDS, Present(complete=False, receipt=receipt, difference=difference):
            return _oddity(ReviewKind.DRIFT, "incomplete", difference=list(difference), version=receipt.version)
        case Expected.STANDS, Absent():
            return _oddity(ReviewKind.DRIFT, "effect_vanished")
        case ((Expected.STANDS | Expected.UNDONE), Foreign(code=code, receipt=receipt, difference=difference)):
            version = receipt.version if receipt is not None else ""
            return _oddity(ReviewKind.DRIFT, code, difference=list(difference), version=version)
        case _:
            return None


def asked_before(saga: Saga, command_id: str, oddity: Oddity) -> bool:
    """Whether a person is asked about it, or has answered and nothing has changed since."""
    return any(
        review.command_id == command_id
        and review.kind is oddity.kind
        and (review.closed_at_ms is None or _answered(saga, review, oddity))
        for review in saga.reviews
    )


def _answered(saga: Saga, review: Review, oddity: Oddity) -> bool:
    """An answer holds for these very facts, until the effect was seen whole again. Standing still is always news."""
    if oddity.kind is ReviewKind.STUCK or review.facts != canonical(dict(oddity.facts)):
        return False
    verified = saga.member(review.command_id).verified_at_ms
    return verified is None or (review.closed_at_ms or 0) > verified


def _oddity(kind: ReviewKind, code: str, **facts: Any) -> Oddity:
    return Oddity(kind=kind, facts={"code": code, **{name: value for name, value in facts.items() if value}})


def _left_something(row: Command) -> bool:
    return row.kind in (Kind.STEP, Kind.COMPENSATION) and row.state is State.SUCCESS and row.receipt is not None


def _expected(saga: Saga, row: Command, last: Mapping[tuple[str, str], str]) -> Expected:
    if row.kind is Kind.COMPENSATION:
        return Expected.UNDONE if _is_last(row, last) else Expected.COUNTED
    return Expected.STANDS if _is_last(row, last) else Expected.COUNTED


def _is_last(row: Command, last: Mapping[tuple[str, str], str]) -> bool:
    return last.get((row.target_system, row.external_resource_id or "")) == row.command_id


def _last_writers(related: Iterable[Saga]) -> dict[tuple[str, str], str]:
    """Which row of ours wrote each object last, by system and the system's own id of it."""
    newest: dict[tuple[str, str], Command] = {}
    for row in (row for saga in related for row in saga.members if _left_something(row)):
        place = (row.target_system, row.external_resource_id or "")
        before = newest.get(place)
        if before is None or _when(row) >= _when(before):
            newest[place] = row
    return {place: row.command_id for place, row in newest.items()}


def _when(row: Command) -> tuple[int, int]:
    """Rows of one commit end in the same millisecond; their order in the saga decides then."""
    return row.completed_at_ms or 0, row.position


def _given_up_in_doubt(saga: Saga) -> Iterable[Subject]:
    """Steps that were abandoned although an attempt of theirs was never individually settled."""
    for row in saga.members:
        quiet = any(attempt.settlement is Settlement.QUIET for attempt in saga.attempts_of(row.command_id))
        if row.kind is Kind.STEP and row.state is State.FAILED and quiet:
            yield Subject(row=row, expected=Expected.NEVER)
