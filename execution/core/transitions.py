"""The total transition table. If a move is not in this table it cannot happen.

Theory of operation. A command moves only when something *happened* to it: a `Trigger`. `move(state, trigger)` looks the
pair up; a missing pair raises `IllegalMove`, which is a bug and never a situation. Every move is journaled as an event
named after its trigger, so that the registry's `state` column is a projection of the journal: replaying the triggers of
a command's chain through this table must end in the state that the registry shows (`replay`).

Three shapes are worth knowing when reading the table:

* Acceptance runs RECEIVED → VALIDATING → AUTHORIZED → QUEUED in one transaction, and a root or a gate runs
  QUEUED → DISPATCHING → RUNNING in one, because neither sends anything.
* RUNNING, OUTCOME_UNKNOWN and RECONCILING leave only through their own exits. A freeze, a lapsed grant or a withdrawn
  approval never moves them; those are blockers beside the state.
* QUEUED and RETRY_PENDING may be given up only when no attempt is unproven; otherwise DOUBT_REMAINS leads back to the
look.
* FAILED of a saga with finished steps goes on to COMPENSATING in the same transaction (one that failed and was never
  unwound would otherwise look finished).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from execution.core.states import State as S


class Trigger(StrEnum):
    """What happened to a command so that its state changed."""

    VALIDATION_STARTED = "VALIDATION_STARTED"
    POLICY_REFUSED = "POLICY_REFUSED"
    COMMAND_AUTHORIZED = "COMMAND_AUTHORIZED"
    ENQUEUED = "ENQUEUED"
    CLAIMED = "CLAIMED"
    STARTED = "STARTED"
    FENCED = "FENCED"
    FENCE_REFUSED = "FENCE_REFUSED"
    LEASE_LOST = "LEASE_LOST"
    ADOPTED = "ADOPTED"
    FOUND_FOREIGN = "FOUND_FOREIGN"
    VERSION_DIFFERS = "VERSION_DIFFERS"
    NOT_APPLIED = "NOT_APPLIED"
    SUCCEEDED = "SUCCEEDED"
    REFUSED = "REFUSED"
    OUTCOME_LOST = "OUTCOME_LOST"
    INCARNATION_CHANGED = "INCARNATION_CHANGED"
    PROBING = "PROBING"
    FOUND_PRESENT = "FOUND_PRESENT"
    FOUND_ABSENT = "FOUND_ABSENT"
    REPEATABLE = "REPEATABLE"
    STILL_UNKNOWN = "STILL_UNKNOWN"
    ABANDONED = "ABANDONED"
    DOUBT_REMAINS = "DOUBT_REMAINS"
    DUE = "DUE"
    GIVEN_UP = "GIVEN_UP"
    PERSON_NEEDED = "PERSON_NEEDED"
    UNWIND_STARTED = "UNWIND_STARTED"
    UNWOUND = "UNWOUND"
    RULED_PRESENT = "RULED_PRESENT"
    RULED_ABSENT = "RULED_ABSENT"
    RULED_ABANDON = "RULED_ABANDON"
    RULED_CONTINUE = "RULED_CONTINUE"
    RULED_ACCEPT = "RULED_ACCEPT"
    RULED_COMPENSATE = "RULED_COMPENSATE"
    RULED_LOOK_AGAIN = "RULED_LOOK_AGAIN"


T = Trigger
_DOUBT: Final[Mapping[Trigger, S]] = {T.INCARNATION_CHANGED: S.OUTCOME_UNKNOWN}

TRANSITIONS: Final[Mapping[S, Mapping[Trigger, S]]] = MappingProxyType(
    {
        S.RECEIVED: {T.VALIDATION_STARTED: S.VALIDATING},
        S.VALIDATING: {T.COMMAND_AUTHORIZED: S.AUTHORIZED, T.POLICY_REFUSED: S.FAILED},
        S.AUTHORIZED: {T.ENQUEUED: S.QUEUED, T.GIVEN_UP: S.FAILED, **_DOUBT},
        S.QUEUED: {T.CLAIMED: S.DISPATCHING, T.GIVEN_UP: S.FAILED, T.DOUBT_REMAINS: S.OUTCOME_UNKNOWN, **_DOUBT},
        S.DISPATCHING: {
            T.STARTED: S.RUNNING,
            T.FENCED: S.RUNNING,
            T.FENCE_REFUSED: S.QUEUED,
            T.LEASE_LOST: S.QUEUED,
            T.ADOPTED: S.SUCCESS,
            T.FOUND_FOREIGN: S.CONFLICT,
            T.VERSION_DIFFERS: S.CONFLICT,
            T.NOT_APPLIED: S.RETRY_PENDING,
            **_DOUBT,
        },
        S.RUNNING: {
            T.SUCCEEDED: S.SUCCESS,
            T.NOT_APPLIED: S.RETRY_PENDING,
            T.REFUSED: S.FAILED,
            T.VERSION_DIFFERS: S.CONFLICT,
            T.OUTCOME_LOST: S.OUTCOME_UNKNOWN,
            **_DOUBT,
        },
        S.RETRY_PENDING: {T.DUE: S.QUEUED, T.GIVEN_UP: S.FAILED, T.DOUBT_REMAINS: S.OUTCOME_UNKNOWN, **_DOUBT},
        S.OUTCOME_UNKNOWN: {T.PROBING: S.RECONCILING},
        S.RECONCILING: {
            T.FOUND_PRESENT: S.SUCCESS,
            T.FOUND_ABSENT: S.RETRY_PENDING,
            T.REPEATABLE: S.RETRY_PENDING,
            T.ABANDONED: S.FAILED,
            T.FOUND_FOREIGN: S.CONFLICT,
            T.VERSION_DIFFERS: S.CONFLICT,
            T.STILL_UNKNOWN: S.OUTCOME_UNKNOWN,
            T.PERSON_NEEDED: S.NEEDS_REVIEW,
            **_DOUBT,
        },
        S.CONFLICT: {T.PERSON_NEEDED: S.NEEDS_REVIEW},
        S.FAILED: {T.PERSON_NEEDED: S.NEEDS_REVIEW, T.UNWIND_STARTED: S.COMPENSATING},
        S.COMPENSATING: {T.UNWOUND: S.COMPENSATED, T.PERSON_NEEDED: S.NEEDS_REVIEW},
        S.NEEDS_REVIEW: {
            T.RULED_PRESENT: S.SUCCESS,
            T.RULED_ACCEPT: S.SUCCESS,
            T.RULED_ABSENT: S.RETRY_PENDING,
            T.RULED_ABANDON: S.FAILED,
            T.RULED_CONTINUE: S.QUEUED,
            T.RULED_COMPENSATE: S.COMPENSATING,
            T.RULED_LOOK_AGAIN: S.OUTCOME_UNKNOWN,
        },
        S.SUCCESS: {},
        S.COMPENSATED: {},
    }
)


class IllegalMove(AssertionError):
    """A bug: code asked for a move that the table does not have."""


def move(state: S, trigger: Trigger) -> S:
    """The state that follows, or `IllegalMove`."""
    try:
        return TRANSITIONS[state][trigger]
    except KeyError:
        raise IllegalMove(f"{trigger} cannot happen in {state}") from None


def replay(triggers: Iterable[Trigger], start: S = S.RECEIVED) -> S:
    """The state that a chain of moves ends in."""
    state = start
    for trigger in triggers:
        state = move(state, trigger)
    return state


def diagram() -> str:
    """The table as a Mermaid state diagram, the one that the README shows."""
    arrows: dict[tuple[S, S], list[str]] = {}
    for state, moves in TRANSITIONS.items():
        for trigger, target in moves.items():
            arrows.setdefault((state, target), []).append(trigger.value.lower())
    lines = ["stateDiagram-v2", "    [*] --> RECEIVED"]
    lines += [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in arrows.items()]
    lines += [f"    {state} --> [*]" for state in (S.SUCCESS, S.FAILED, S.COMPENSATED)]
    return "\n".join(lines)
