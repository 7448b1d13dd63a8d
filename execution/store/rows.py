"""Rows and dataclasses: the one place where a column meets a field.

Each mapping is worked out once, at import; a call costs one C-level attribute fetch per column and no reflection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import Boolean, Row, Table

from execution.core.command import Approval, Attempt, Command, Review
from execution.core.events import Event, EventType, Fact
from execution.core.states import (
    ApprovalState,
    Cause,
    CompensationState,
    EffectClass,
    Kind,
    Phase,
    ReviewKind,
    Settlement,
    State,
)
from execution.core.transitions import Trigger
from execution.store import schema
from execution.store.failing import damaged

T = TypeVar("T")
Values = tuple[Any, ...]
"""The columns of one row, in a statement's order."""

_BY_NAME: Final[Mapping[str, EventType]] = {str(t): t for t in (*Trigger, *Fact)}
OPTIONAL: Final = frozenset({"phase"})
"""Columns that hold a member of an enum or nothing."""
_BOOLEANS: Final = {0: False, 1: True}
"""A driver that is asked in plain text answers numbers; True and False are found here too."""
IMMUTABLE: Final = frozenset(
    {
        "command_id",
        "root_id",
        "parent_id",
        "position",
        "kind",
        "object_kind",
        "object_id",
        "object_version",
        "workflow_id",
        "saga_id",
        "tenant",
        "site",
        "decision_id",
        "capability_id",
        "principal",
        "command_type",
        "definition_version",
        "effect_class",
        "target_system",
        "idempotency_key",
        "request_fingerprint",
        "payload_ref",
        "params",
        "created_at_ms",
        "compensates",
        "repeat_of",
        "generation",
        "correlation_id",
    }
)
"""Columns of a command that are written once. An update does not carry them, so that their indexes stay untouched."""


class Mapped(Generic[T]):
    """How one dataclass is stored: `columns` all in order, `mutable` those that an update carries."""

    def __init__(
        self, table: Table, cls: type[T], enums: Mapping[str, Mapping[Any, Any]], immutable: frozenset[str]
    ) -> None:
        self.table = table
        self.columns = tuple(column.name for column in table.columns)
        declared = tuple(field.name for field in fields(cls))  # type: ignore[arg-type]  # T is one of our dataclasses
        if self.columns != declared:
            raise AssertionError(f"{table.name} and {cls.__name__} differ: {set(self.columns) ^ set(declared)}")
        self.mutable = tuple(name for name in self.columns if name not in immutable)
        booleans: dict[str, Mapping[Any, Any]] = {
            column.name: _BOOLEANS for column in table.columns if isinstance(column.type, Boolean)
        }
        self._cls = cls
        self._stored = tuple((name, dict(members)) for name, members in {**booleans, **enums}.items())
        self._enums = enums
        self.values: Callable[[T], Values] = _getter(self.columns, enums)
        self.changes: Callable[[T], Values] = _getter(self.mutable, enums)

    def getter(self, names: Sequence[str]) -> Callable[[T], Values]:
        """What fetches these columns of an instance, in this order."""
        return _getter(names, self._enums)

    def load(self, row: Row[Any] | Sequence[Any]) -> T:
        """The dataclass of a row that holds all columns in order."""
        values = dict(zip(self.columns, row, strict=True))
        try:
            for name, members in self._stored:
                stored = values[name]
                if stored is not None:
                    values[name] = members[stored]
        except KeyError:
            raise damaged(f"a row of {self.table.name}", f"{name} is none that there is") from None
        loaded = object.__new__(self._cls)  # every column was checked when the mapping was made
        vars(loaded).update(values)
        return loaded


def _getter(names: Sequence[str], enums: Mapping[str, Any]) -> Callable[[Any], Values]:
    """Enums leave as plain strings: a driver adapts a subclass of str many times slower."""
    if len(names) == 1:
        return _one_column(names[0])
    get = attrgetter(*(f"{name}._value_" if name in enums and name not in OPTIONAL else name for name in names))
    places = [place for place, name in enumerate(names) if name in OPTIONAL]
    if not places:
        return get
    (place,) = places

    def values(row: Any) -> Values:
        found = get(row)
        member = found[place]
        return found if member is None else (*found[:place], member.value, *found[place + 1 :])

    return values


def _one_column(name: str) -> Callable[[Any], Values]:
    get = attrgetter(name)

    def values(row: Any) -> Values:
        return (get(row),)

    return values


def _members(enum: type[StrEnum]) -> Mapping[str, StrEnum]:
    return {member.value: member for member in enum}


COMMAND: Final = Mapped(
    schema.COMMANDS,
    Command,
    {
        "kind": _members(Kind),
        "effect_class": _members(EffectClass),
        "state": _members(State),
        "phase": _members(Phase),
        "compensation_state": _members(CompensationState),
    },
    IMMUTABLE,
)
ATTEMPT: Final = Mapped(
    schema.ATTEMPTS,
    Attempt,
    {"cause": _members(Cause), "settlement": _members(Settlement)},
    frozenset(schema.ATTEMPTS.columns.keys()) - {"settlement", "settled_at_ms", "code", "receipt", "sent_late"},
)
APPROVAL: Final = Mapped(
    schema.APPROVALS,
    Approval,
    {"state": _members(ApprovalState)},
    frozenset(schema.APPROVALS.columns.keys())
    - {"state", "expires_at_ms", "decided_at_ms", "decided_by", "signature", "reason"},
)
REVIEW: Final = Mapped(
    schema.REVIEWS,
    Review,
    {"kind": _members(ReviewKind)},
    frozenset({"review_id", "root_id", "command_id", "kind", "opened_at_ms"}),
)

EVENT_COLUMNS: Final = ("command_id", "seq", "type", "actor", "at_ms", "body", "prev_hash", "hash")
event_values: Final[Callable[[Event], Values]] = attrgetter(
    *(f"{name}._value_" if name == "type" else name for name in EVENT_COLUMNS)
)


def load_event(row: Row[Any] | Sequence[Any]) -> Event:
    """The event of a row that holds `EVENT_COLUMNS`; StoreUnusable for a type outside the closed list."""
    command_id, seq, type_, actor, at_ms, body, prev_hash, digest = tuple(row)
    if type_ not in _BY_NAME:
        raise damaged("an event", "its type is none that there is")
    return Event(
        command_id=command_id,
        seq=seq,
        type=_BY_NAME[type_],
        actor=actor,
        at_ms=at_ms,
        body=body,
        prev_hash=prev_hash,
        hash=digest,
    )
