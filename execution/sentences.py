"""What agents are told to say and do. No sentence can be read as "published" while the journal does not prove it."""

from __future__ import annotations

from typing import Final

from execution.core.command import Saga
from execution.core.states import IN_DOUBT, Blocker, CompensationState, EffectClass, Kind, State
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
    "revoked": "The authority to do it was revoked.",
    "abandoned": "A person decided to abandon it.",
}


_LOOK: Final = "A person must look at what was found there."

_CORRECTABLE: Final = {
    "unknown_term": "A category or tag that it names does not exist on the site.",
}
"""What whoever proposed can put right in the next version, by error code."""


_GAPS: Final = {
    "PURGE_CLOUDFLARE_CACHE": "cache state unknown",
    "REGISTER_MONITORING": "monitoring unknown",
}
"""What is not known of a published article while a step of that kind is not known to have succeeded."""
_OPEN: Final = frozenset({*IN_DOUBT, State.NEEDS_REVIEW, State.CONFLICT, State.FAILED})


def say_to_user(
    saga: Saga,
    word: str,
    *,
    live: bool,
    unproven: bool,
    unknown: tuple[str, ...],
    review: tuple[str, ...],
    given_up: tuple[str, ...],
) -> str:
    """One or two sentences, true whatever the reader skips."""
    what = f"{saga.root.object_id} version {saga.root.object_version}"
    if saga.root.is_terminal:
        return _ended(saga, what, live, given_up)
    if live:
        return f"{what} is published{_gaps(saga)}. {_still(word, unknown, review, live=True)} {_seen(saga)}"
    if _landed(saga):
        return f"{what} was published, and what stands there now is not what was published. A person must look."
    if _unfinished(saga):
        return f"{what} stands on the site and is not complete yet. Remit is completing it."
    if unproven:
        return f"It is not known yet whether {what} was published. {_finding_out(word)} Do not propose it elsewhere."
    return f"{what} is not published. {_still(word, unknown, review, live=False)}"


def _seen(saga: Saga) -> str:
    """A claim about the outside has an age: people may have changed it since."""
    pivot = next(row for row in saga.members if row.effect_class is EffectClass.PIVOT)
    assert pivot.verified_at_ms is not None, "what is live was verified"
    return f"It was last seen there at {spelt(pivot.verified_at_ms)}."


def _gaps(saga: Saga) -> str:
    """What follows the pivot and failed, is in doubt, or was accepted and could not be seen."""
    rows = [
        row for row in saga.members if row.state in _OPEN or (row.state is State.SUCCESS and not row.verified_at_ms)
    ]
    said = [words for row in rows for name, words in _GAPS.items() if row.command_type.startswith(name)]
    return "".join(f", {words}" for words in dict.fromkeys(said))


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


def _ended(saga: Saga, what: str, live: bool, given_up: tuple[str, ...]) -> str:
    root = saga.root
    found = f" {_LOOK}" if any(review.closed_at_ms is None for review in saga.reviews) else ""
    if root.state is State.SUCCESS:
        gaps = (f" These steps were given up by a person: {', '.join(given_up)}." if given_up else "") + found
        if not live and _landed(saga):
            return f"{what} was published, and what stands there now is not what was published.{gaps}"
        if live:
            return f"{what} is published and verified{_gaps(saga)}.{gaps} {_seen(saga)}"
        return f"{what} is done{_gaps(saga)}.{gaps}"
    why = _ENDINGS.get(root.ending or "", "It failed before it could be published.")
    why = _CORRECTABLE.get(root.error_code or "", why)
    left = " What had been prepared was undone." if root.state is State.COMPENSATED else _left_behind(saga)
    return f"{what} was not published. {why}{left}{found}"


def _left_behind(saga: Saga) -> str:
    """What was done and not undone is there, whatever the command came to."""
    left = [
        row.command_type
        for row in saga.members
        if row.compensates is None
        and row.kind is Kind.STEP
        and row.state is State.SUCCESS
        and row.compensation_state is not CompensationState.DONE
    ]
    return f" The effect of {', '.join(left)} was not undone and remains." if left else ""


def _still(word: str, unknown: tuple[str, ...], review: tuple[str, ...], *, live: bool) -> str:
    if unknown:
        return f"The outcome of {', '.join(unknown)} is not known yet; Remit is finding out."
    if review:
        return f"A person must decide about {', '.join(review)}."
    it, waits = ("What remains", "What remains waits") if live else ("It", "It waits")
    waiting: dict[str, str] = {
        Blocker.AWAITING_APPROVAL: f"{waits} for a person's approval.",
        Blocker.HELD: f"{it} is held by an operator.",
        Blocker.AWAITING_AUTHORIZATION: f"{waits} for an operator's authorization.",
        Blocker.SCHEDULED: f"{waits} for its scheduled time.",
        Blocker.LOCKED: f"{waits} for another change of the same object.",
        Blocker.FINDING_OPEN: _LOOK,
        State.COMPENSATING: "What had been prepared is being undone.",
    }
    return waiting.get(word, "The work goes on.")


def next_action(word: str, done: bool, error_code: str | None = None) -> str:
    """wait | tell_user | stop | fix_input: what an agent should do with this answer."""
    if done:
        return "fix_input" if word in (State.FAILED, State.COMPENSATED) and error_code in _CORRECTABLE else "stop"
    return "wait" if word in _SOON else "tell_user"


def poll_after_s(word: str, done: bool) -> float:
    """When asking again can make sense; 0 when it cannot."""
    if done:
        return 0.0
    return 2.0 if word in _SOON else 30.0
