"""What each verdict of a review would do, in a sentence for the person who has to choose. Carried out in `rulings`."""

from __future__ import annotations

from typing import Final, assert_never

from execution.core.command import Command, Review, Saga
from execution.core.horizon import to_compensate
from execution.core.states import (
    CompensationState,
    EffectClass,
    Kind,
    Phase,
    ReviewKind,
    State,
    Verdict,
)

FINDINGS: Final = frozenset({ReviewKind.DRIFT, ReviewKind.DUPLICATE, ReviewKind.LATE_FACT, ReviewKind.STUCK})
"""What is told about an effect that stays as it is, whatever is ruled."""


def would(saga: Saga, review: Review, verdict: Verdict) -> str:
    """In one or two sentences. A worker reads reality back first and refuses what it contradicts."""
    row = saga.member(review.command_id)
    if untried(row):
        return _of_untried(row, verdict)
    match verdict:
        case Verdict.PRESENT:
            return _present(row)
        case Verdict.ABSENT:
            return (
                f"{row.command_type} counts as not done and is sent again. Refused when it is seen there, or while an "
                "earlier attempt could still land."
            )
        case Verdict.ABANDON:
            return _abandon(saga, row)
        case Verdict.CONTINUE:
            return _continue(review, row)
        case Verdict.COMPENSATE:
            return f"{_undone(saga)} Refused when a later effect is live."
        case Verdict.REBASE:
            return (
                "What stands there now becomes what is expected, the approval is void, and a person is asked to "
                "approve anew."
            )
        case _:
            assert_never(verdict)


def untried(row: Command) -> bool:
    """A step whose compensation could not even be begun: nobody knows when its attempts are over."""
    return row.compensation_state is CompensationState.FAILED and row.compensation_command is None


def _of_untried(row: Command, verdict: Verdict) -> str:
    if verdict is Verdict.ABANDON:
        return f"What {row.command_type} left stays where it is, and the ending says so."
    if verdict is Verdict.PRESENT:
        return f"What {row.command_type} left is gone already; refused when it is seen there."
    return f"Its attempts are taken to be over, and what {row.command_type} left is undone now."


def _present(row: Command) -> str:
    done = "counts as undone" if row.kind is Kind.COMPENSATION else "counts as done"
    if row.effect_class is EffectClass.IRREVERSIBLE:
        return f"{row.command_type} {done} on your word, because its system cannot be asked; nothing is sent."
    return f"{row.command_type} {done}, with what is read back as its receipt. Refused when it is not seen there."


def _abandon(saga: Saga, row: Command) -> str:
    if row.kind is Kind.COMPENSATION:
        return f"{row.command_type} is given up: what it was to undo stays, and the ending says so."
    if saga.root.phase is Phase.PRE_PIVOT:
        return _undone(saga)
    return f"{row.command_type} alone is given up; the other steps go on, and the ending names the gap."


def _undone(saga: Saga) -> str:
    steps = [step.command_type for step in to_compensate(saga)]
    if not steps:
        return "The command ends; nothing was done that would have to be undone."
    return f"The command ends, and what was done is undone, newest first: {', '.join(steps)}."


def _continue(review: Review, row: Command) -> str:
    if review.kind is ReviewKind.STUCK and not row.is_root and row.state is not State.NEEDS_REVIEW:
        return f"{row.command_type} is tried again; refused or not, nothing is sent before it is permitted."
    if review.kind in FINDINGS and (row.is_root or row.state is not State.NEEDS_REVIEW):
        return "Noted as seen: nothing is sent and nothing changes, and what waited for this answer goes on."
    if row.kind is Kind.GATE:
        return f"{row.command_type} passes in spite of what it found, and the command goes on."
    if row.kind is Kind.COMPENSATION:
        return f"{row.command_type} is tried again with a fresh number of attempts."
    if review.kind is ReviewKind.CONFLICT:
        return (
            f"{row.command_type} counts as done when it is seen there after all, else it is tried again with a fresh "
            "number of attempts. Refused while something else stands in its way."
        )
    return (
        f"{row.command_type} is tried again with a fresh number of attempts. Refused when it is seen there, or while "
        "something else stands in its way."
    )
