"""What ends the wait of a command, who can end it, and since when it has waited for that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from execution.core.command import Command, Saga
from execution.core.events import Fact
from execution.core.states import Blocker
from execution.folding import Folded
from execution.proposal import NOBODY, WaitingFor
from execution.store import journal
from execution.store.connection import Connection

_ENDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        Blocker.HELD: ("the end of a hold or freeze", "an operator"),
        Blocker.AWAITING_AUTHORIZATION: ("authority to go on", "an operator"),
        Blocker.SCHEDULED: ("the scheduled time", NOBODY),
        Blocker.LOCKED: ("another change of the same object", NOBODY),
    }
)
"""What ends the wait under a blocker, and who."""


def blocked_since(conn: Connection, root: Command) -> Mapping[Blocker, int]:
    """When each of its blockers was raised (Unix ms), as the journal has it."""
    if root.is_terminal or not root.blocked_by:
        return {}
    since: dict[Blocker, int] = {}
    for event in journal.of_types(conn, root.command_id, (Fact.BLOCKED, Fact.UNBLOCKED)):
        blocker = Blocker(json.loads(event.body)["blocker"])
        if event.type is Fact.BLOCKED:
            since[blocker] = event.at_ms
        else:
            since.pop(blocker, None)
    return since


def waiting_for(saga: Saga, folded: Folded, since: Mapping[Blocker, int]) -> WaitingFor | None:
    """None once nothing is waited for. since: of `blocked_since`; without it a wait began with the command."""
    root = saga.root
    asked = next((review for review in saga.reviews if review.closed_at_ms is None), None)
    if asked is not None:
        return WaitingFor(what=f"review {asked.review_id} ({asked.kind})", who=asked.owner, since_ms=asked.opened_at_ms)
    if root.is_terminal:
        return None
    if folded.word == Blocker.AWAITING_APPROVAL:
        asked_ms = saga.approvals[-1].requested_at_ms if saga.approvals else root.created_at_ms
        return WaitingFor(what="a person's approval", who="an approver", since_ms=asked_ms)
    if folded.word in _ENDS:
        what, who = _ENDS[folded.word]
        return WaitingFor(what=what, who=who, since_ms=since.get(Blocker(folded.word), root.created_at_ms))
    return WaitingFor(what="the worker", who=NOBODY, since_ms=updated_ms(saga))


def updated_ms(saga: Saga) -> int:
    """When something last changed about it."""
    rows = (saga.root, *saga.members)
    times = [
        time
        for row in rows
        for time in (row.created_at_ms, row.started_at_ms, row.last_attempt_at_ms, row.completed_at_ms)
        if time is not None
    ]
    return max(times)
