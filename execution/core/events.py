"""Journal events: a closed list of types, and the hash chain of each command.

An event's type is either a `Trigger` (the command moved) or a `Fact` (something was learned or decided and the state
stayed). What was planned and what was OBSERVED are different events. The chain hashes the *stored bytes*, so that
nothing need be re-serialised to check it: hash = SHA-256(prev_hash ‖ command_id ‖ seq ‖ type ‖ actor ‖ at ‖ body), each
field length-prefixed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from execution.core.transitions import Trigger

GENESIS: Final = "0" * 64
"""prev_hash of a chain's first event."""


class Fact(StrEnum):
    """What was learned or decided without moving the command."""

    COMMAND_RECEIVED = "COMMAND_RECEIVED"
    PLANNED = "PLANNED"
    OBSERVED = "OBSERVED"
    ATTEMPT_STARTED = "ATTEMPT_STARTED"
    ATTEMPT_UNSENT = "ATTEMPT_UNSENT"
    ATTEMPT_REFUSED = "ATTEMPT_REFUSED"
    ATTEMPT_LOST = "ATTEMPT_LOST"
    RECEIPT_RECORDED = "RECEIPT_RECORDED"
    SENT_LATE = "SENT_LATE"
    LATE_ANSWER = "LATE_ANSWER"
    VERIFIED = "VERIFIED"
    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    TAKEN_OVER = "TAKEN_OVER"
    PHASE_CHANGED = "PHASE_CHANGED"
    BLOCKED = "BLOCKED"
    UNBLOCKED = "UNBLOCKED"
    APPROVAL_REQUESTED = "APPROVAL_REQUESTED"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    APPROVAL_VOIDED = "APPROVAL_VOIDED"
    APPROVAL_CONSUMED = "APPROVAL_CONSUMED"
    FINDINGS = "FINDINGS"
    REVIEW_OPENED = "REVIEW_OPENED"
    REVIEW_ASSIGNED = "REVIEW_ASSIGNED"
    RULED = "RULED"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    HOLD_REQUESTED = "HOLD_REQUESTED"
    RESUME_REQUESTED = "RESUME_REQUESTED"
    REAUTHORIZED = "REAUTHORIZED"
    COMPENSATION_PLANNED = "COMPENSATION_PLANNED"
    COMPENSATION_STATE = "COMPENSATION_STATE"
    FINDING_ADDED = "FINDING_ADDED"
    FACT_RECEIVED = "FACT_RECEIVED"
    CONTENT_ERASED = "CONTENT_ERASED"
    DEADLINE_PASSED = "DEADLINE_PASSED"


EventType = Trigger | Fact
_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One link of a command's chain. `at_ms`: the store's clock in Unix milliseconds; `body`: canonical JSON text."""

    command_id: str
    seq: int
    type: EventType
    actor: str
    at_ms: int
    body: str
    prev_hash: str
    hash: str


def canonical(value: Any) -> str:
    """The one JSON form that is stored and hashed: sorted keys, no spaces, UTF-8 text, no NaN."""
    return _ENCODER.encode(value)


def chain_hash(prev_hash: str, command_id: str, seq: int, type_: str, actor: str, at_ms: int, body: str) -> str:
    """The hash of one event over its stored fields (hex SHA-256)."""
    parts = (prev_hash, command_id, str(seq), type_, actor, str(at_ms), body)
    text = "".join([f"{len(part)}:{part}" for part in parts])
    if text.isascii():  # nearly always, and then a character is a byte
        return hashlib.sha256(text.encode()).hexdigest()
    encoded = [part.encode() for part in parts]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in encoded)).hexdigest()


def link(
    *, prev_hash: str, command_id: str, seq: int, type_: EventType, actor: str, at_ms: int, body: dict[str, Any]
) -> Event:
    """The next event of a chain."""
    text = canonical(body)
    digest = chain_hash(prev_hash, command_id, seq, type_.value, actor, at_ms, text)
    return Event(
        command_id=command_id,
        seq=seq,
        type=type_,
        actor=actor,
        at_ms=at_ms,
        body=text,
        prev_hash=prev_hash,
        hash=digest,
    )


def event_type(name: str) -> EventType:
    """The type with that stored name; ValueError for a name outside the closed list."""
    try:
        return Trigger(name)
    except ValueError:
        return Fact(name)
