"""The recovery ladder, branch by branch: what follows from an answer, a look, a second look."""

from typing import Any

import pytest

from execution.core.decide import Standing, after_answer, after_first_look, after_look, after_verify, before_fence
from execution.core.definition import OnRefused
from execution.core.failures import (
    Absent,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Unsent,
)
from execution.core.retry import RetryPolicy
from execution.core.states import EffectClass, Repeat, ReviewKind
from execution.core.transitions import Trigger as T

RECEIPT = Receipt(resource_id="7", version="v", reference="")


def at(**changed: Any) -> Standing:
    values: dict[str, Any] = {
        "effect": EffectClass.COMPENSABLE,
        "repeat": Repeat.NEVER,
        "retry": RetryPolicy(attempts_max=3, base_s=1.0),
        "looks_policy": RetryPolicy(attempts_max=4, base_s=1.0),
        "on_refused": OnRefused.UNWIND,
        "on_exhausted": OnRefused.UNWIND,
        "verifies": True,
        "observable": True,
        "compensation": False,
        "attempts": 1,
        "looks": 1,
    }
    return Standing(**{**values, **changed})


def test_a_receipt_is_recorded_and_success_waits_for_the_read_back() -> None:
    assert after_answer(at(), Landed(receipt=RECEIPT), 0.5).moves == ()
    assert after_answer(at(verifies=False), Landed(receipt=RECEIPT), 0.5).moves == (T.SUCCEEDED,)


@pytest.mark.parametrize("answer", [Lost(code="x"), Refused(failure=FailureClass.UNKNOWN, code="x")])
def test_silence_is_doubt(answer: Lost | Refused) -> None:
    decision = after_answer(at(), answer, 0.5)
    assert (decision.moves, decision.failure) == ((T.OUTCOME_LOST,), FailureClass.UNKNOWN)


def test_a_refusal_beside_an_open_attempt_is_doubt_and_no_failure() -> None:
    refused = Refused(failure=FailureClass.PERMANENT, code="x")
    assert after_answer(at(unproven=1), refused, 0.5).moves == (T.OUTCOME_LOST,)
    assert after_answer(at(), refused, 0.5).unwind


@pytest.mark.parametrize("answer", [Unsent(code="x"), Refused(failure=FailureClass.TRANSIENT, code="x")])
def test_what_was_provably_not_done_is_tried_again_within_its_budget(answer: Unsent | Refused) -> None:
    decision = after_answer(at(), answer, 0.5)
    assert (decision.moves, decision.retry_in_s) == ((T.NOT_APPLIED,), 0.5)
    spent = after_answer(at(attempts=3), answer, 0.5)
    assert (spent.moves, spent.unwind) == ((T.NOT_APPLIED, T.GIVEN_UP), True)
    assert after_answer(at(attempts=3, unproven=1), answer, 0.5).moves == (T.NOT_APPLIED, T.DOUBT_REMAINS)


def test_a_version_that_differs_is_a_conflict_for_a_person() -> None:
    decision = after_answer(at(), Refused(failure=FailureClass.CONFLICT, code="changed"), 0.5)
    assert (decision.moves, decision.review) == ((T.VERSION_DIFFERS, T.PERSON_NEEDED), ReviewKind.CONFLICT)


@pytest.mark.parametrize(
    ("standing", "review", "unwind"),
    [
        ({}, None, True),
        ({"forward_only": True}, ReviewKind.PERMANENT_FAILURE, False),
        ({"on_refused": OnRefused.REVIEW}, ReviewKind.PERMANENT_FAILURE, False),
        ({"compensation": True}, ReviewKind.COMPENSATION_FAILED, False),
        ({"abandon": True, "on_refused": OnRefused.REVIEW}, None, True),
    ],
)
def test_where_a_failure_leads_depends_on_the_side_of_the_pivot(
    standing: dict[str, Any], review: ReviewKind | None, unwind: bool
) -> None:
    decision = after_answer(at(**standing), Refused(failure=FailureClass.PERMANENT, code="x"), 0.5)
    assert (decision.review, decision.unwind) == (review, unwind)


def test_before_the_fence_a_refusal_is_final_only_without_open_attempts() -> None:
    refused = Refused(failure=FailureClass.BUSINESS, code="unknown_term")
    assert before_fence(at(), refused, 0.5).moves == (T.NOT_APPLIED, T.GIVEN_UP)
    assert before_fence(at(unproven=1), refused, 0.5).moves == (T.NOT_APPLIED, T.DOUBT_REMAINS)
    assert before_fence(at(), Unsent(code="x", retry_after_s=9.0), 0.5).retry_in_s == 9.0


def test_what_a_stale_read_before_the_first_attempt_misses_is_looked_for_again_before_anybody_is_asked() -> None:
    gone = Foreign(code="gone")
    assert after_first_look(at(), gone, 0.5).moves == (T.NOT_APPLIED,)
    assert after_first_look(at(attempts=3), gone, 0.5).review is ReviewKind.CONFLICT
    assert after_first_look(at(), Foreign(code="gone", receipt=RECEIPT), 0.5).review is ReviewKind.CONFLICT


def test_the_first_look_adopts_only_what_an_attempt_of_ours_can_have_made() -> None:
    seen = Present(receipt=RECEIPT)
    assert after_first_look(at(), seen, 0.5).moves == (T.ADOPTED,)
    assert after_first_look(at(adopts=False), seen, 0.5).code == "marker_without_attempt"
    assert after_first_look(at(adopts=False, unproven=1), seen, 0.5).moves == (T.ADOPTED,)
    assert after_first_look(at(adopts=False, landed=RECEIPT), seen, 0.5).moves == (T.ADOPTED,)


def test_a_success_that_nobody_could_look_at_is_no_verified_one() -> None:
    for seen in (True, False):
        sighting = Present(receipt=RECEIPT, seen=seen)
        assert after_verify(at(landed=RECEIPT), sighting, 0.5).verified is seen
        assert after_look(at(landed=RECEIPT), sighting, 0.5).verified is seen


def test_the_first_look_lets_pass_only_a_conclusive_absence() -> None:
    assert after_first_look(at(), Absent(), 0.5).proceed
    assert not after_first_look(at(unproven=1, quiet_in_s=3.0), Absent(), 0.5).proceed
    assert not after_first_look(at(unproven=1, quiet_in_s=None), Absent(), 0.5).proceed
    assert after_first_look(at(unproven=1, quiet_in_s=0.0), Absent(), 0.5).proceed
    assert after_first_look(at(unproven=1, quiet_in_s=3.0, repeat=Repeat.BY_KEY), Absent(), 0.5).proceed
    assert after_first_look(at(landed=RECEIPT), Absent(), 0.5).code == "receipt_without_object"


def test_the_first_look_that_cannot_tell_is_made_again() -> None:
    assert after_first_look(at(), CannotTell(code="x"), 0.5).moves == (T.NOT_APPLIED,)
    assert after_first_look(at(unproven=1, repeat=Repeat.NATURAL), CannotTell(code="x"), 0.5).proceed
    assert not after_first_look(at(unproven=1), CannotTell(code="x"), 0.5).proceed


def test_somebody_elses_object_is_neither_adopted_nor_overwritten() -> None:
    for decision in (
        after_first_look(at(), Foreign(code="slug_taken"), 0.5),
        after_look(at(unproven=1), Foreign(code="changed"), 0.5),
    ):
        assert (decision.moves, decision.review) == ((T.FOUND_FOREIGN, T.PERSON_NEEDED), ReviewKind.CONFLICT)


@pytest.mark.parametrize("seen", [Absent(), CannotTell(code="x"), Foreign(code="changed")])
def test_accepted_but_not_seen_is_doubt(seen: Absent | CannotTell | Foreign) -> None:
    assert after_verify(at(), seen, 0.5).moves == (T.OUTCOME_LOST,)


def test_more_rows_than_one_and_an_incomplete_one_are_findings_beside_success() -> None:
    twice = after_verify(at(), Present(receipt=RECEIPT, rows=2), 0.5)
    assert (twice.moves, twice.finding) == ((T.SUCCEEDED,), ReviewKind.DUPLICATE)
    partly = after_verify(at(), Present(receipt=RECEIPT, complete=False, difference=("slug",)), 0.5)
    assert (partly.finding, partly.difference) == (ReviewKind.DRIFT, ("slug",))
    assert after_verify(at(), Present(receipt=RECEIPT), 0.5).finding is None


def test_a_receipt_outranks_an_absence() -> None:
    assert after_look(at(landed=RECEIPT), Absent(), 0.5).code == "accepted_not_visible"
    assert after_look(at(landed=RECEIPT), None, 0.5).moves == (T.FOUND_PRESENT,)


def test_an_absence_before_quiescence_proves_nothing() -> None:
    early = after_look(at(unproven=1, quiet_in_s=3.0), Absent(), 0.5)
    assert (early.moves, early.code) == ((T.STILL_UNKNOWN,), "not_quiescent")
    assert early.retry_in_s is not None
    assert early.retry_in_s <= 3.001
    late = after_look(at(unproven=1, quiet_in_s=3.0, looks=4), Absent(), 0.5)
    assert late.retry_in_s == 3.001
    again = after_look(at(unproven=1, quiet_in_s=3.0, repeat=Repeat.BY_KEY), Absent(), 0.5)
    assert again.moves == (T.REPEATABLE,)


def test_unknown_quiescence_ends_with_a_person_and_never_with_a_resend() -> None:
    assert after_look(at(unproven=1, quiet_in_s=None), Absent(), 0.5).moves == (T.STILL_UNKNOWN,)
    asked = after_look(at(unproven=1, quiet_in_s=None, looks=4), Absent(), 0.5)
    assert (asked.moves, asked.review) == ((T.PERSON_NEEDED,), ReviewKind.OUTCOME_UNKNOWN)


def test_a_conclusive_absence_is_tried_again_and_giving_up_takes_two() -> None:
    assert after_look(at(unproven=1), Absent(), 0.5).moves == (T.FOUND_ABSENT,)
    spent = at(unproven=1, attempts=3)
    assert after_look(spent, Absent(), 0.5).again
    assert after_look(spent, Absent(), 0.5, second=True).moves == (T.ABANDONED,)
    leaving = at(unproven=1, abandon=True)
    assert after_look(leaving, Absent(), 0.5).again
    assert after_look(leaving, Absent(), 0.5, second=True).code == "abandoned"


def test_what_cannot_be_taken_back_is_never_sent_again_by_a_machine() -> None:
    decision = after_look(at(effect=EffectClass.IRREVERSIBLE, unproven=1), Absent(), 0.5)
    assert (decision.moves, decision.code) == ((T.PERSON_NEEDED,), "irreversible_in_doubt")
    asked = after_look(at(effect=EffectClass.IRREVERSIBLE, unproven=1, observable=False), None, 0.5)
    assert (asked.moves, asked.code) == ((T.PERSON_NEEDED,), "cannot_be_asked")


def test_a_look_that_cannot_tell_is_repeated_then_asked() -> None:
    again = after_look(at(unproven=1), CannotTell(code="x", retry_after_s=9.0), 0.5)
    assert (again.moves, again.retry_in_s) == ((T.STILL_UNKNOWN,), 9.0)
    assert after_look(at(unproven=1, looks=4), CannotTell(code="x"), 0.5).moves == (T.PERSON_NEEDED,)
    assert after_look(at(unproven=1), CannotTell(code="x", hopeless=True), 0.5).moves == (T.PERSON_NEEDED,)
    keyed = at(unproven=1, looks=4, repeat=Repeat.BY_KEY)
    assert after_look(keyed, CannotTell(code="x"), 0.5).moves == (T.REPEATABLE,)


UNFINISHED = Present(receipt=RECEIPT, complete=False, mendable=True, difference=("tags",))


def test_what_is_found_unfinished_is_waited_for_and_then_mended() -> None:
    verified = after_verify(at(mends=True), UNFINISHED, 0.5)
    assert (verified.moves, verified.code, verified.retry_in_s) == ((T.OUTCOME_LOST,), "incomplete", 0.5)
    waiting = after_look(at(mends=True, unproven=1, quiet_in_s=3.0, shown_in_s=3.0), UNFINISHED, 0.5)
    assert (waiting.moves, waiting.code) == ((T.STILL_UNKNOWN,), "incomplete")
    used_up = at(mends=True, attempts=3, landed=RECEIPT, shown_in_s=3.0)  # what was mended may not be seen yet
    assert after_verify(used_up, UNFINISHED, 0.5).code == after_look(used_up, UNFINISHED, 0.5).code == "incomplete"
    landed_just_now = after_look(at(mends=True, landed=RECEIPT, shown_in_s=3.0), UNFINISHED, 0.5)
    assert (landed_just_now.moves, landed_just_now.code) == ((T.STILL_UNKNOWN,), "incomplete")
    quiet = after_look(at(mends=True), UNFINISHED, 0.5)
    assert (quiet.moves, quiet.code, quiet.receipt) == ((T.REPEATABLE,), "incomplete", RECEIPT)
    assert after_first_look(at(mends=True, landed=RECEIPT), UNFINISHED, 0.5).proceed


@pytest.mark.parametrize(
    "changed",
    [{"mends": False}, {"attempts": 3}, {"abandon": True}, {"shown_in_s": None}],
    ids=["no way to mend", "tries used up", "turning back", "nobody knows how long"],
)
def test_what_cannot_be_mended_is_a_success_with_a_finding(changed: dict[str, Any]) -> None:
    decision = after_look(at(**{"mends": True, **changed}), UNFINISHED, 0.5)
    assert (decision.moves, decision.finding, decision.difference) == (
        (T.FOUND_PRESENT,),
        ReviewKind.DRIFT,
        ("tags",),
    )


def test_what_is_not_as_asked_may_be_somebody_elses_while_ours_is_on_its_way() -> None:
    renamed = Present(receipt=RECEIPT, complete=False, difference=("slug",))
    waiting = after_look(at(unproven=1, quiet_in_s=3.0), renamed, 0.5)
    assert (waiting.moves, waiting.code) == ((T.STILL_UNKNOWN,), "not_as_asked")
    quiet = after_look(at(unproven=1), renamed, 0.5)
    assert (quiet.moves, quiet.finding) == ((T.FOUND_PRESENT,), ReviewKind.DRIFT)


def test_of_two_objects_none_is_mended() -> None:
    decision = after_look(at(mends=True), Present(receipt=RECEIPT, rows=2, complete=False, mendable=True), 0.5)
    assert (decision.moves, decision.finding) == ((T.FOUND_PRESENT,), ReviewKind.DUPLICATE)


def test_an_unfinished_object_of_an_open_attempt_is_doubt_before_anything_is_sent() -> None:
    decision = after_first_look(at(mends=True, unproven=1), UNFINISHED, 0.5)
    assert (decision.moves, decision.code, decision.proceed) == ((T.NOT_APPLIED, T.DOUBT_REMAINS), "incomplete", False)


@pytest.mark.parametrize(
    "answer",
    [
        Unsent(code="x"),
        Refused(failure=FailureClass.TRANSIENT, code="x"),
        Refused(failure=FailureClass.PERMANENT, code="x"),
        Refused(failure=FailureClass.CONFLICT, code="x"),
    ],
)
def test_with_a_receipt_in_evidence_no_answer_makes_a_failure(answer: Unsent | Refused) -> None:
    decision = after_answer(at(landed=RECEIPT, attempts=3), answer, 0.5)
    assert (decision.moves, decision.unwind, decision.review) == ((T.OUTCOME_LOST,), False, None)
    if not isinstance(answer, Refused) or answer.failure is not FailureClass.CONFLICT:
        assert before_fence(at(landed=RECEIPT, attempts=3), answer, 0.5).moves == (T.NOT_APPLIED, T.DOUBT_REMAINS)


@pytest.mark.parametrize("seen", [Absent(), Foreign(code="changed"), CannotTell(code="x")])
def test_with_a_receipt_in_evidence_a_look_that_shows_something_else_is_doubt(seen: Any) -> None:
    decision = after_first_look(at(landed=RECEIPT, mends=True), seen, 0.5)
    assert (decision.moves, decision.proceed) == ((T.NOT_APPLIED, T.DOUBT_REMAINS), False)
