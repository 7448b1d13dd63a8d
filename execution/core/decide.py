"""Given where a step stands and what just happened, what follows? Pure; the caller applies the decision in one commit.

The recovery ladder, in this order:

1. transient → retry, within the budget;
2. unknown → reconcile: find out, never guess;
3. the forward path is safe → continue;
4. unrecoverable before the pivot → compensate;
5. after the pivot → forward only;
6. high-risk or ambiguous → a person.

Two rules cut across it. Nothing is given up while an attempt on the key is unproven: that leads back to the look. And a
receipt in evidence outranks any ABSENT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from execution.core.definition import OnRefused
from execution.core.failures import (
    Absent,
    Answer,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Sighting,
    Unsent,
)
from execution.core.retry import RetryPolicy
from execution.core.states import EffectClass, Repeat, ReviewKind
from execution.core.transitions import Trigger as T


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a step stands, as far as decisions need it.

    attempts: tries counted so far, the one just made included. looks: read-backs made in the present doubt.
    unproven: attempts on the key that are still open, beside the one just answered. quiet_in_s: seconds until all
    open attempts are quiescent, judged when the read *began*; None when that is unknown. shown_in_s: the same for
    what landed, too: until then a stale read may lack it. landed: a receipt in evidence. abandon: the saga wants to
    end without this step. forward_only: an earlier step passed the pivot's fence. mends: it can finish its own.
    """

    effect: EffectClass
    repeat: Repeat
    retry: RetryPolicy
    looks_policy: RetryPolicy
    on_refused: OnRefused
    on_exhausted: OnRefused
    verifies: bool
    observable: bool
    compensation: bool
    attempts: int
    looks: int = 0
    unproven: int = 0
    quiet_in_s: float | None = 0.0
    shown_in_s: float | None = 0.0
    landed: Receipt | None = None
    abandon: bool = False
    forward_only: bool = False
    adopts: bool = True
    mends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What follows, as data.

    moves: triggers in order, all in one commit. proceed: nothing stands in the way of the fence. receipt: to be
    recorded. retry_in_s: when the step is due again. review: open one of this kind. unwind: the saga turns back.
    finding: success stays, and a person is told what is odd. facts: more of them, for whoever is asked.
    """

    moves: tuple[T, ...] = ()
    proceed: bool = False
    receipt: Receipt | None = None
    verified: bool = True
    failure: FailureClass | None = None
    code: str | None = None
    retry_in_s: float | None = None
    review: ReviewKind | None = None
    unwind: bool = False
    finding: ReviewKind | None = None
    difference: tuple[str, ...] = ()
    again: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


def after_answer(at: Standing, answer: Answer, jitter: float) -> Decision:
    """RUNNING, and the exchange ended."""
    match answer:
        case Landed(receipt=receipt):
            return Decision(moves=() if at.verifies else (T.SUCCEEDED,), receipt=receipt)
        case Unsent(code=code) | Refused(code=code) if at.landed is not None:
            return Decision(moves=(T.OUTCOME_LOST,), failure=FailureClass.UNKNOWN, code=code, retry_in_s=0.0)
        case Unsent(code=code, retry_after_s=asked):
            return _not_applied(at, FailureClass.TRANSIENT, code, asked, jitter)
        case Refused(failure=FailureClass.TRANSIENT, code=code, retry_after_s=asked):
            return _not_applied(at, FailureClass.TRANSIENT, code, asked, jitter)
        case Refused(failure=FailureClass.UNKNOWN, code=code) | Lost(code=code):
            return Decision(moves=(T.OUTCOME_LOST,), failure=FailureClass.UNKNOWN, code=code, retry_in_s=0.0)
        case Refused(failure=failure, code=code):
            if at.unproven:
                return Decision(moves=(T.OUTCOME_LOST,), failure=FailureClass.UNKNOWN, code=code, retry_in_s=0.0)
            if failure is FailureClass.CONFLICT:
                return _conflict(T.VERSION_DIFFERS, code, ())
            return _failed(at, (T.REFUSED,), failure, code, at.on_refused)
        case _:
            assert_never(answer)


def before_fence(at: Standing, answer: Unsent | Refused, jitter: float) -> Decision:
    """DISPATCHING, and no connection could be opened: provably nothing was sent."""
    if at.landed is not None:
        return _doubt(answer.code, at.looks_policy.delay_s(at.attempts, jitter))
    if isinstance(answer, Refused) and answer.failure is not FailureClass.TRANSIENT:
        if at.unproven:
            return _doubt(answer.code)
        if answer.failure is FailureClass.CONFLICT:
            return _conflict(T.FOUND_FOREIGN, answer.code, ())
        return _failed(at, (T.NOT_APPLIED, T.GIVEN_UP), answer.failure, answer.code, at.on_refused)
    return _not_applied(at, FailureClass.TRANSIENT, answer.code, answer.retry_after_s, jitter)


def after_first_look(at: Standing, sighting: Sighting, jitter: float) -> Decision:
    """DISPATCHING, and the look before acting answered."""
    if at.landed is not None:
        return _looked_at_landed(at, sighting, jitter)
    match sighting:
        case Present() if at.unproven and _to_mend(at, sighting):
            return _doubt("incomplete")
        case Present(receipt=receipt) if at.adopts or at.unproven:
            return _found(T.ADOPTED, sighting, receipt)
        case Present(receipt=receipt):
            return _conflict(T.FOUND_FOREIGN, "marker_without_attempt", ())
        case Foreign(code="gone", receipt=None) if at.retry.allows(at.attempts):  # so does a stale read see it
            return _not_applied(at, FailureClass.TRANSIENT, "gone", None, jitter)
        case Foreign(code=code, difference=difference):
            return _conflict(T.FOUND_FOREIGN, code, difference)
        case Absent():
            if at.unproven and at.repeat is Repeat.NEVER and at.quiet_in_s != 0.0:
                return _doubt("not_quiescent", at.quiet_in_s)
            return Decision(proceed=True)
        case CannotTell(code=code, retry_after_s=asked):
            if at.unproven and at.repeat is not Repeat.NEVER and at.retry.allows(at.attempts):
                return Decision(proceed=True)
            return _not_applied(at, FailureClass.TRANSIENT, code, asked, jitter)
        case _:
            assert_never(sighting)


def _looked_at_landed(at: Standing, sighting: Sighting, jitter: float) -> Decision:
    """A receipt is in evidence: what is unfinished may be mended, nothing else is sent."""
    match sighting:
        case Present(mendable=True, rows=1) if at.mends and not at.abandon:
            return Decision(proceed=True)
        case Present(receipt=receipt):
            return _found(T.ADOPTED, sighting, receipt)
        case Foreign(code=code, difference=difference) if at.compensation:
            return _conflict(T.FOUND_FOREIGN, code, difference)
        case Foreign(code=code):
            return _doubt(code)
        case Absent():
            return _doubt("receipt_without_object")
        case CannotTell(code=code, retry_after_s=asked):
            return _doubt(code, at.looks_policy.delay_s(at.attempts, jitter, asked))
        case _:
            assert_never(sighting)


def after_verify(at: Standing, sighting: Sighting, jitter: float) -> Decision:
    """RUNNING with a recorded receipt, and the read-back after success answered."""
    match sighting:
        case Present(difference=difference) if _mendable(at, sighting):
            return _unseen(at, FailureClass.UNKNOWN, "incomplete", jitter, difference)
        case Present(receipt=receipt):
            return _found(T.SUCCEEDED, sighting, receipt)
        case Foreign(code=code, difference=difference):
            return _unseen(at, FailureClass.CONFLICT, code, jitter, difference)
        case Absent():
            return _unseen(at, FailureClass.UNKNOWN, "accepted_not_visible", jitter)
        case CannotTell(code=code, retry_after_s=asked):
            return _unseen(at, FailureClass.UNKNOWN, code, jitter, asked=asked)
        case _:
            assert_never(sighting)


def _unseen(
    at: Standing,
    failure: FailureClass,
    code: str,
    jitter: float,
    difference: tuple[str, ...] = (),
    asked: float | None = None,
) -> Decision:
    """It was accepted, and what was read back is something else: doubt, and another look."""
    retry_in_s = at.looks_policy.delay_s(1, jitter, asked)
    return Decision(moves=(T.OUTCOME_LOST,), failure=failure, code=code, difference=difference, retry_in_s=retry_in_s)


def after_look(at: Standing, sighting: Sighting | None, jitter: float, *, second: bool = False) -> Decision:
    """RECONCILING, and the read-back answered (None: the system cannot be asked).

    `second`: this read confirms an earlier conclusive ABSENT; giving a step up takes two.
    """
    if at.landed is not None and not isinstance(sighting, Present | Foreign):
        return _landed_unseen(at, sighting, jitter)
    match sighting:
        case None if at.unproven == 0:
            return _absent(at, jitter, second)
        case None:
            return _no_answer(at, "cannot_be_asked", hopeless=True, asked=None, jitter=jitter)
        case Present() if _to_mend(at, sighting):
            return _unfinished(at, sighting, jitter)
        case Present(complete=False) if at.quiet_in_s:  # perhaps somebody else's doing, and ours is still on its way
            return _still_unknown("not_as_asked", sighting, _look_before_quiet_s(at, at.quiet_in_s, jitter))
        case Present(receipt=receipt):
            return _found(T.FOUND_PRESENT, sighting, receipt)
        case Foreign(code="gone", receipt=None) if at.looks_policy.allows(at.looks):  # so does a stale read see it
            return _look_again_or_person(at, "gone" if at.landed is None else "accepted_not_visible", None, jitter)
        case Foreign(code=code, difference=difference) if at.landed is not None and not at.compensation:
            return _drifted(at.landed, code, difference)
        case Foreign(code=code, difference=difference):
            return _conflict(T.FOUND_FOREIGN, code, difference)
        case CannotTell(code=code, hopeless=hopeless, retry_after_s=asked):
            return _no_answer(at, code, hopeless=hopeless, asked=asked, jitter=jitter)
        case Absent():
            return _absent(at, jitter, second)
        case _:
            assert_never(sighting)


def _to_mend(at: Standing, sighting: Present) -> bool:
    """Whether what was found is to be finished: there are tries left, or a stale read only lacks what was added."""
    return _mendable(at, sighting) and (at.retry.allows(at.attempts) or bool(at.shown_in_s))


def _mendable(at: Standing, sighting: Present) -> bool:
    """Whether what was found could be finished. A saga that turns back undoes it as it is."""
    return at.mends and sighting.mendable and sighting.rows == 1 and not at.abandon


def _unfinished(at: Standing, sighting: Present, jitter: float) -> Decision:
    """It exists, and something that was asked for is missing. Whoever is still at it is waited for; then it is mended,
    and where nobody knows how long to wait it stays as it is and a person is told."""
    if at.shown_in_s is None:
        return _found(T.FOUND_PRESENT, sighting, sighting.receipt)
    if at.shown_in_s:
        return _still_unknown("incomplete", sighting, _look_before_quiet_s(at, at.shown_in_s, jitter))
    return Decision(
        moves=(T.REPEATABLE,),
        receipt=sighting.receipt,
        failure=FailureClass.TRANSIENT,
        code="incomplete",
        difference=sighting.difference,
        retry_in_s=at.retry.delay_s(at.attempts, jitter),
    )


def _still_unknown(code: str, sighting: Present, in_s: float) -> Decision:
    moves, difference = (T.STILL_UNKNOWN,), sighting.difference
    return Decision(moves=moves, failure=FailureClass.UNKNOWN, code=code, difference=difference, retry_in_s=in_s)


def _doubt(code: str, retry_in_s: float | None = 0.0) -> Decision:
    """DISPATCHING, and it must be found out first."""
    return Decision(
        moves=(T.NOT_APPLIED, T.DOUBT_REMAINS), failure=FailureClass.UNKNOWN, code=code, retry_in_s=retry_in_s
    )


def _absent(at: Standing, jitter: float, second: bool) -> Decision:
    repeatable = at.repeat is not Repeat.NEVER and at.retry.allows(at.attempts) and not at.abandon
    if at.quiet_in_s != 0.0:
        if repeatable:
            return _again(T.REPEATABLE, at, "repeat_under_key", jitter)
        if at.quiet_in_s is None:
            return _look_again_or_person(at, "quiescence_unknown", None, jitter)
        return Decision(
            moves=(T.STILL_UNKNOWN,),
            failure=FailureClass.UNKNOWN,
            code="not_quiescent",
            retry_in_s=_look_before_quiet_s(at, at.quiet_in_s, jitter),
        )
    if at.effect is EffectClass.IRREVERSIBLE and at.unproven and not at.abandon:
        return _person(T.PERSON_NEEDED, ReviewKind.OUTCOME_UNKNOWN, "irreversible_in_doubt")
    if not at.abandon and at.retry.allows(at.attempts):
        return _again(T.FOUND_ABSENT, at, "absent", jitter)
    if not second:
        return Decision(again=True)
    return _failed(
        at, (T.ABANDONED,), FailureClass.TRANSIENT, "abandoned" if at.abandon else "retries_exhausted", at.on_exhausted
    )


def _look_before_quiet_s(at: Standing, quiet_in_s: float, jitter: float) -> float:
    """Seconds until the next look while something may still arrive: soon at first, then not before it no longer can."""
    quiet_s = quiet_in_s + 0.001
    if at.looks >= at.looks_policy.attempts_max:
        return quiet_s
    return min(quiet_s, max(at.looks_policy.delay_s(at.looks, jitter), 0.05))


def _landed_unseen(at: Standing, sighting: Sighting | None, jitter: float) -> Decision:
    if sighting is None:
        return Decision(moves=(T.FOUND_PRESENT,), receipt=at.landed)
    return _look_again_or_person(at, "accepted_not_visible", None, jitter)


def _no_answer(at: Standing, code: str, *, hopeless: bool, asked: float | None, jitter: float) -> Decision:
    repeatable = at.repeat is not Repeat.NEVER and at.retry.allows(at.attempts) and not at.abandon
    if repeatable and (hopeless or not at.looks_policy.allows(at.looks)):
        return _again(T.REPEATABLE, at, code, jitter)
    if hopeless:
        return _person(T.PERSON_NEEDED, ReviewKind.OUTCOME_UNKNOWN, code)
    return _look_again_or_person(at, code, asked, jitter)


def _look_again_or_person(at: Standing, code: str, asked: float | None, jitter: float) -> Decision:
    if not at.looks_policy.allows(at.looks):
        return _person(T.PERSON_NEEDED, ReviewKind.OUTCOME_UNKNOWN, code)
    return Decision(
        moves=(T.STILL_UNKNOWN,),
        failure=FailureClass.UNKNOWN,
        code=code,
        retry_in_s=at.looks_policy.delay_s(at.looks, jitter, asked),
    )


def _again(trigger: T, at: Standing, code: str, jitter: float) -> Decision:
    return Decision(
        moves=(trigger,), failure=FailureClass.TRANSIENT, code=code, retry_in_s=at.retry.delay_s(at.attempts, jitter)
    )


def _found(trigger: T, sighting: Present, receipt: Receipt) -> Decision:
    finding = ReviewKind.DUPLICATE if sighting.rows > 1 else None if sighting.complete else ReviewKind.DRIFT
    return Decision(
        moves=(trigger,), receipt=receipt, verified=sighting.seen, finding=finding, difference=sighting.difference
    )


def _drifted(receipt: Receipt, code: str, difference: tuple[str, ...]) -> Decision:
    """The receipt proves that it happened; somebody changed it since. Success stays, unverified; a person is told."""
    return Decision(
        moves=(T.FOUND_PRESENT,),
        receipt=receipt,
        verified=False,
        code=code,
        finding=ReviewKind.DRIFT,
        difference=difference,
    )


def _conflict(trigger: T, code: str, difference: tuple[str, ...]) -> Decision:
    return Decision(
        moves=(trigger, T.PERSON_NEEDED),
        failure=FailureClass.CONFLICT,
        code=code,
        review=ReviewKind.CONFLICT,
        difference=difference,
    )


def _person(trigger: T, kind: ReviewKind, code: str) -> Decision:
    return Decision(moves=(trigger,), failure=FailureClass.UNKNOWN, code=code, review=kind)


def _not_applied(at: Standing, failure: FailureClass, code: str, asked: float | None, jitter: float) -> Decision:
    if at.retry.allows(at.attempts):
        return Decision(
            moves=(T.NOT_APPLIED,),
            failure=failure,
            code=code,
            retry_in_s=at.retry.delay_s(at.attempts, jitter, asked),
        )
    if at.unproven:
        return Decision(moves=(T.NOT_APPLIED, T.DOUBT_REMAINS), failure=failure, code=code, retry_in_s=0.0)
    return _failed(at, (T.NOT_APPLIED, T.GIVEN_UP), failure, code, at.on_exhausted)


def _failed(at: Standing, moves: tuple[T, ...], failure: FailureClass, code: str, policy: OnRefused) -> Decision:
    asks = not at.abandon and (at.forward_only or policy is not OnRefused.UNWIND)
    if at.compensation or asks:
        kind = ReviewKind.COMPENSATION_FAILED if at.compensation else ReviewKind.PERMANENT_FAILURE
        return Decision(moves=(*moves, T.PERSON_NEEDED), failure=failure, code=code, review=kind)
    return Decision(moves=moves, failure=failure, code=code, unwind=True)
