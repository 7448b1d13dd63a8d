"""What agents are told to say and do. No sentence can be read as "published" while the journal does not prove it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from execution.core.command import Saga
from execution.core.states import IN_DOUBT, Blocker, EffectClass, State
from execution.duties import left_behind
from execution.moments import spelt

_SOON: Final = frozenset(
    {
        State.RECEIVED,
        State.VALIDATING,
        State.AUTHORIZED,
        State.QUEUED,
        State.DISPATCHING,
        State.RUNNING,
        State.RETRY_PENDING,
        State.OUTCOME_UNKNOWN,
        State.RECONCILING,
        State.COMPENSATING,
    }
)

_ENDINGS: Final = {
    "rejected": "An approver rejected it.",
    "approval_expired": "Nobody approved it in time.",
    "cancelled": "It was cancelled.",
    "superseded": "A later version was proposed in its place.",
    "withdrawn": "An operator has the article taken down.",
    "revoked": "The authority to do it was revoked.",
    "abandoned": "A person decided to abandon it.",
}


_LOOK: Final = "A person must look at what was found there."

_CORRECTABLE: Final = {
    "unknown_term": "A category or tag that it names does not exist on the site.",
}
"""What whoever proposed can put right in the next version, by error code."""


CACHE_UNKNOWN: Final = "cache state unknown"
_GAPS: Final = {
    "PURGE_CLOUDFLARE_CACHE": CACHE_UNKNOWN,
    "REGISTER_MONITORING": "monitoring unknown",
    "INDEX_MONITORING": "monitoring unknown",
}
"""What is not known of a published article while a step of that kind is not known to have succeeded."""
_OPEN: Final = frozenset({*IN_DOUBT, State.NEEDS_REVIEW, State.CONFLICT, State.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the sentences are made of.

    word: the one state shown. past: what the object is once it has succeeded ("published"). proven: the pivot's effect
    was read back. live: it is what stands there. later: what has become of the object since, by another command.
    unproven: the pivot may have happened, and nothing proves it.
    """

    word: str
    past: str
    proven: bool
    live: bool
    later: str | None
    unproven: bool
    unknown: tuple[str, ...]
    review: tuple[str, ...]
    given_up: tuple[str, ...]


def say_to_user(saga: Saga, told: Told) -> str:
    """One or two sentences, true whatever the reader skips."""
    what, past = f"{saga.root.object_id} version {saga.root.object_version}", told.past
    if saga.root.is_terminal:
        return _ended(saga, what, told)
    if told.proven:
        return f"{_has_become(saga, what, told)} {_still(told)} {_seen(saga, told)}"
    if _landed(saga):
        return f"{what} was {past}, and what stands there now is not what was {past}. A person must look."
    if _unfinished(saga):
        return f"{what} stands on the site and is not complete yet. Remit is completing it."
    if told.unproven:
        return f"It is not known yet whether {what} was {past}. {_finding_out(told.word)} Do not propose it elsewhere."
    return f"{what} is not {past}. {_still(told)}"


def _has_become(saga: Saga, what: str, told: Told) -> str:
    if told.later is not None:
        return f"{what} was {told.past}. {told.later}"
    return f"{what} is {told.past}{_gaps(saga)}."


def _seen(saga: Saga, told: Told) -> str:
    """A claim about the outside has an age: people may have changed it since."""
    pivot = next(row for row in saga.members if row.effect_class is EffectClass.PIVOT)
    assert pivot.verified_at_ms is not None, "what is proven was verified"
    seen = "It was last seen there at" if told.live else "That was last seen at"
    return f"{seen} {spelt(pivot.verified_at_ms)}."


def _gaps(saga: Saga) -> str:
    return "".join(f", {words}" for words in gaps(saga))


def gaps(saga: Saga) -> tuple[str, ...]:
    """What follows the pivot and failed, is in doubt, or was accepted and could not be seen."""
    rows = [
        row for row in saga.members if row.state in _OPEN or (row.state is State.SUCCESS and not row.verified_at_ms)
    ]
    said = [words for row in rows for name, words in _GAPS.items() if row.command_type.startswith(name)]
    return tuple(dict.fromkeys(said))


def _landed(saga: Saga) -> bool:
    """The pivot succeeded, whatever was seen there since."""
    return any(row.effect_class is EffectClass.PIVOT and row.state is State.SUCCESS for row in saga.members)


def _unfinished(saga: Saga) -> bool:
    """The pivot was seen, and something that was asked for was missing."""
    pivot = next((row for row in saga.members if row.effect_class is EffectClass.PIVOT), None)
    return pivot is not None and pivot.state is not State.SUCCESS and pivot.error_code == "incomplete"


def _finding_out(word: str) -> str:
    if word == State.NEEDS_REVIEW:
        return "A person must look and decide."
    return "Remit is finding out." if word in IN_DOUBT else "It was begun, and no answer has been recorded yet."


def _ended(saga: Saga, what: str, told: Told) -> str:
    root, past = saga.root, told.past
    found = f" {_LOOK}" if any(review.closed_at_ms is None for review in saga.reviews) else ""
    if root.state is State.SUCCESS:
        gaps = (f" These steps were given up by a person: {', '.join(told.given_up)}." if told.given_up else "") + found
        if told.proven and told.later is None:
            return f"{what} is {past} and verified{_gaps(saga)}.{gaps} {_seen(saga, told)}"
        if told.proven:
            return f"{_has_become(saga, what, told)}{gaps}"
        if _landed(saga):
            return f"{what} was {past}, and what stands there now is not what was {past}.{gaps}"
        return f"{what} is done{_gaps(saga)}.{gaps}"
    why = _ENDINGS.get(root.ending or "", f"It failed before it could be {past}.")
    why = _CORRECTABLE.get(root.error_code or "", why)
    left = " What had been prepared was undone." if root.state is State.COMPENSATED else _left_behind(saga)
    return f"{what} was not {past}. {why}{left}{found}"


def _left_behind(saga: Saga) -> str:
    """What was done and not undone is there, whatever the command came to."""
    left = left_behind(saga)
    return f" The effect of {', '.join(left)} was not undone and remains." if left else ""


def _still(told: Told) -> str:
    if told.unknown:
        return f"The outcome of {', '.join(told.unknown)} is not known yet; Remit is finding out."
    if told.review:
        return f"A person must decide about {', '.join(told.review)}."
    it, waits = ("What remains", "What remains waits") if told.proven else ("It", "It waits")
    waiting: dict[str, str] = {
        Blocker.AWAITING_APPROVAL: f"{waits} for a person's approval.",
        Blocker.HELD: f"{it} is held by an operator.",
        Blocker.AWAITING_AUTHORIZATION: f"{waits} for an operator's authorization.",
        Blocker.SCHEDULED: f"{waits} for its scheduled time.",
        Blocker.LOCKED: f"{waits} for another change of the same object.",
        Blocker.FINDING_OPEN: _LOOK,
        State.COMPENSATING: "What had been prepared is being undone.",
    }
    return waiting.get(told.word, "The work goes on.")


def next_action(word: str, done: bool, ruled: bool, error_code: str | None = None) -> str:
    """wait | tell_user | stop | fix_input: what an agent should do with this answer."""
    if done:
        return "fix_input" if word in (State.FAILED, State.COMPENSATED) and error_code in _CORRECTABLE else "stop"
    return "wait" if ruled or word in _SOON else "tell_user"


def poll_after_s(word: str, done: bool, ruled: bool) -> float:
    """When asking again can make sense; 0 when it cannot."""
    if done:
        return 0.0
    return 2.0 if ruled or word in _SOON else 30.0
