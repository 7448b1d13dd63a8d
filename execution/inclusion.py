"""Proof that events stand in a journal, for somebody who has neither the journal nor reason to trust its keeper.

The document holds a signed checkpoint and, for each event, all its fields, its place, and the hashes that lead from it
to the checkpoint's root. Whoever checks it needs this document and the public key: the event's own hash is computed
from its fields again, so that no field can differ from what was journaled.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from capabilities import strict_json
from capabilities.note import NotePublicKey
from execution.checkpoint import Checkpoint, open_checkpoint
from execution.core.events import Event, chain_hash, event_type
from execution.core.merkle import PROOF_HASHES_MAX, includes

FORMAT: Final = "remit-inclusion-v1"
DOCUMENT_BYTES_MAX: Final = 64 * 1024 * 1024
_EVENT: Final = frozenset(Event.__dataclass_fields__)


class ProofRefused(Exception):
    """The document proves nothing. Codes: malformed_proof, event_differs, chain_broken, not_included."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Included:
    """One event, its place among all events, and the hashes from it to the root."""

    index: int
    event: Event
    proof: tuple[bytes, ...]


def document_of(note: str, included: Iterable[Included]) -> dict[str, Any]:
    """What is handed to somebody else."""
    events = [
        {
            "index": each.index,
            "event": asdict(each.event) | {"type": each.event.type.value},
            "proof": [base64.b64encode(beside).decode() for beside in each.proof],
        }
        for each in included
    ]
    return {"format": FORMAT, "checkpoint": note, "events": events}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """What a document proves: these events stood in the journal when the checkpoint was signed."""

    checkpoint: Checkpoint
    events: tuple[Event, ...]


def check(raw: bytes, key: NotePublicKey) -> Proven:
    """Raises ProofRefused, or NoteError when the checkpoint is not signed by that key."""
    try:
        document = strict_json.load_object(raw, bytes_max=DOCUMENT_BYTES_MAX)
        note, listed = document["checkpoint"], document["events"]
    except (strict_json.StrictJsonError, KeyError):
        raise ProofRefused("malformed_proof") from None
    if document.get("format") != FORMAT or not isinstance(note, str) or not isinstance(listed, list) or not listed:
        raise ProofRefused("malformed_proof")
    checkpoint = open_checkpoint(note, key)
    included = [_included(each) for each in listed]
    for each in included:
        _check_event(each, checkpoint)
    _check_chains([each.event for each in included])
    return Proven(checkpoint=checkpoint, events=tuple(each.event for each in included))


def _included(value: Any) -> Included:
    try:
        fields, index, proof = value["event"], value["index"], value["proof"]
        if fields.keys() != _EVENT or type(index) is not int or len(proof) > PROOF_HASHES_MAX:
            raise ProofRefused("malformed_proof")
        texts = {name: fields[name] for name in _EVENT - {"seq", "at_ms"}}
        if not all(type(text) is str for text in texts.values()) or not _are_numbers(fields):
            raise ProofRefused("malformed_proof")
        event = Event(**{**fields, "type": event_type(fields["type"])})
        return Included(index=index, event=event, proof=tuple(base64.b64decode(each, validate=True) for each in proof))
    except (KeyError, TypeError, AttributeError, ValueError, binascii.Error):
        raise ProofRefused("malformed_proof") from None


def _are_numbers(fields: Mapping[str, Any]) -> bool:
    return type(fields["seq"]) is int and type(fields["at_ms"]) is int


def _check_event(each: Included, checkpoint: Checkpoint) -> None:
    event = each.event
    named = f"{event.command_id} {event.seq}"
    hashed = chain_hash(
        event.prev_hash, event.command_id, event.seq, event.type.value, event.actor, event.at_ms, event.body
    )
    if hashed != event.hash:
        raise ProofRefused("event_differs", named)
    if not includes(checkpoint.root, checkpoint.size, each.index, bytes.fromhex(event.hash), each.proof):
        raise ProofRefused("not_included", named)


def _check_chains(events: Iterable[Event]) -> None:
    """Between two events of one command that follow each other nothing was left out."""
    last: dict[str, Event] = {}
    for event in events:
        before = last.get(event.command_id)
        if before is not None and event.seq == before.seq + 1 and event.prev_hash != before.hash:
            raise ProofRefused("chain_broken", f"{event.command_id} {event.seq}")
        last[event.command_id] = event
