"""The one word, the sentence and the answers, for every standing that a saga can have."""

from dataclasses import replace

import pytest

from execution.core.states import ApprovalState, Blocker, CompensationState, Phase, ReviewKind, Settlement, State
from execution.status import view_of
from tests.unit.engine.sagas import APPROVAL, DRAFT, NOTIFY, PUBLISH, approval, attempt, changed, review, saga

DONE = State.SUCCESS


@pytest.mark.parametrize(
    ("blockers", "word", "who", "says"),
    [
        (Blocker.HELD, "HELD", "an operator", "It is held by an operator."),
        (Blocker.AWAITING_AUTHORIZATION, "AWAITING_AUTHORIZATION", "an operator", "an operator's authorization"),
        (Blocker.LOCKED, "LOCKED", "nobody", "another change of the same object"),
        (Blocker.SCHEDULED, "SCHEDULED", "nobody", "its scheduled time"),
        (Blocker.AWAITING_APPROVAL, "AWAITING_APPROVAL", "an approver", "a person's approval"),
    ],
)
def test_a_blocker_is_the_word_and_says_who_can_end_it(blockers: str, word: str, who: str, says: str) -> None:
    view = view_of(saga(DONE, State.RUNNING, blockers=blockers))
    assert view.state == word
    assert view.waiting_for is not None
    assert view.waiting_for.who == who
    assert says in view.say_to_user
    assert "is not published" in view.say_to_user
    assert (view.answers.human is None) == (who == "nobody")


def test_what_a_sagas_end_has_overtaken_is_not_called_failed() -> None:
    ended = saga(DONE, State.FAILED, State.FAILED, State.FAILED, state=State.COMPENSATED, ending="cancelled")
    asked = changed(ended, APPROVAL, started_at_ms=3)
    assert [step.state for step in view_of(asked).steps] == [DONE, "CANCELLED", "NOT_RUN", "NOT_RUN"]
    rejected = replace(asked, root=replace(asked.root, ending="rejected"))
    assert [step.state for step in view_of(rejected).steps] == [DONE, "FAILED", "NOT_RUN", "NOT_RUN"]
    for tried in ({"attempt_count": 1}, {"error_code": "unknown_term"}):
        assert view_of(changed(asked, PUBLISH, **tried)).steps[2].state == "FAILED"


def test_who_did_it_once_more_is_named_beside_whose_proposal_it_is() -> None:
    assert view_of(saga()).proposed_by == "agent:writer"
    view = view_of(saga(capability_id="operator:olivia", repeat_of="cmd_0"))
    assert (view.proposed_by, view.repeat_of) == ("operator:olivia for agent:writer", "cmd_0")
    assert view_of(saga(capability_id="operator:olivia", principal="operator:olivia")).proposed_by == "operator:olivia"


def test_a_freeze_is_named_before_a_waiting_approval() -> None:
    assert view_of(saga(blockers="AWAITING_APPROVAL,HELD")).state == "HELD"


@pytest.mark.parametrize(
    ("states", "word"),
    [
        ((State.RECONCILING, State.AUTHORIZED), "RECONCILING"),
        ((State.OUTCOME_UNKNOWN, State.AUTHORIZED), "OUTCOME_UNKNOWN"),
        ((State.NEEDS_REVIEW, State.AUTHORIZED), "NEEDS_REVIEW"),
        ((State.CONFLICT, State.AUTHORIZED), "NEEDS_REVIEW"),
        ((State.RETRY_PENDING, State.AUTHORIZED), "RETRY_PENDING"),
        ((State.RUNNING, State.AUTHORIZED), "RUNNING"),
    ],
)
def test_the_most_doubtful_step_gives_the_word(states: tuple[State, State], word: str) -> None:
    assert view_of(saga(*states)).state == word


def test_doubt_outranks_a_freeze_and_a_review() -> None:
    held = saga(DONE, DONE, State.OUTCOME_UNKNOWN, State.NEEDS_REVIEW, blockers="HELD", phase=Phase.POST_PIVOT)
    assert view_of(held).state == "OUTCOME_UNKNOWN"


@pytest.mark.parametrize(
    ("publish", "says"),
    [
        (State.RUNNING, "It was begun, and no answer has been recorded yet."),
        (State.OUTCOME_UNKNOWN, "Remit is finding out."),
        (State.RECONCILING, "Remit is finding out."),
    ],
)
def test_a_pivot_past_its_fence_is_neither_published_nor_unpublished(publish: State, says: str) -> None:
    view = view_of(saga(DONE, DONE, publish, phase=Phase.POST_PIVOT))
    assert (view.live, view.answers.executed) == (False, "unknown")
    assert says in view.say_to_user
    assert "is not published" not in view.say_to_user
    assert "is published" not in view.say_to_user


def test_a_pivot_in_review_is_unknown_only_while_an_attempt_on_it_is_open() -> None:
    plain = saga(DONE, DONE, State.NEEDS_REVIEW)
    asked = replace(plain, reviews=(review("cmd_3", ReviewKind.CONFLICT),))
    assert (view_of(asked).answers.executed, view_of(asked).answers.diverged) == ("no", True)
    in_doubt = replace(asked, attempts=(attempt("cmd_3"),))
    assert view_of(in_doubt).answers.executed == "unknown"
    assert "A person must look and decide." in view_of(in_doubt).say_to_user
    settled = replace(asked, attempts=(attempt("cmd_3", Settlement.UNSENT),))
    assert view_of(settled).answers.executed == "no"


def test_published_and_still_working_is_both() -> None:
    view = view_of(saga(DONE, DONE, DONE, State.OUTCOME_UNKNOWN, phase=Phase.POST_PIVOT))
    assert (view.live, view.done, view.answers.unknown) == (True, False, (NOTIFY,))
    assert "is published." in view.say_to_user
    assert "The outcome of NOTIFY is not known yet" in view.say_to_user
    assert (view.external_version, view.reference) == ("v1", "https://blog.example/x/")


@pytest.mark.parametrize(
    ("state", "verified", "said"),
    [
        (State.OUTCOME_UNKNOWN, None, True),
        (State.RECONCILING, None, True),
        (State.NEEDS_REVIEW, None, True),
        (State.FAILED, None, True),
        (State.SUCCESS, None, True),
        (State.SUCCESS, 7, False),
        (State.RUNNING, None, False),
        (State.AUTHORIZED, None, False),
    ],
)
def test_a_purge_that_is_not_known_to_have_worked_is_said_beside_the_publication(
    state: State, verified: int | None, said: bool
) -> None:
    """Accepted and not seen counts as not known; not begun yet is no doubt."""
    of = saga(DONE, DONE, DONE, state, phase=Phase.POST_PIVOT)
    view = view_of(changed(of, NOTIFY, command_type="PURGE_CLOUDFLARE_CACHE_2", verified_at_ms=verified))
    assert ("is published, cache state unknown." in view.say_to_user) is said
    assert view.live


def test_success_without_a_verified_pivot_is_not_live() -> None:
    unverified = changed(saga(DONE, DONE, DONE, DONE, state=DONE), PUBLISH, verified_at_ms=None)
    view = view_of(unverified)
    assert (view.live, view.verified_at_ms, view.external_version) == (False, None, None)
    assert "is published" not in view.say_to_user


def test_an_ended_saga_with_an_open_question_is_not_done() -> None:
    ended = saga(DONE, DONE, DONE, DONE, state=DONE, phase=Phase.COMPLETED, ending="completed")
    assert view_of(ended).done
    asked = view_of(replace(ended, reviews=(review("cmd_3", ReviewKind.DRIFT),)))
    assert (asked.done, asked.answers.diverged, asked.answers.resumable) == (False, True, False)
    assert asked.waiting_for is not None
    assert asked.waiting_for.who == "operators"
    closed = view_of(replace(ended, reviews=(review("cmd_3", ReviewKind.DRIFT, closed_at_ms=5),)))
    assert (closed.done, closed.answers.diverged, closed.reviews) == (True, False, ())


def test_gaps_are_named_in_the_ending() -> None:
    view = view_of(saga(DONE, DONE, DONE, State.FAILED, state=DONE, ending="completed_with_gaps"))
    assert "is published and verified. These steps were given up by a person: NOTIFY." in view.say_to_user


@pytest.mark.parametrize(
    ("ending", "says"),
    [
        ("rejected", "An approver rejected it."),
        ("approval_expired", "Nobody approved it in time."),
        ("cancelled", "It was cancelled."),
        ("superseded", "A later version was proposed in its place."),
        ("revoked", "The authority to do it was revoked."),
        ("abandoned", "A person decided to abandon it."),
        ("failed", "It failed before it could be published."),
        (None, "It failed before it could be published."),
    ],
)
def test_an_unsuccessful_ending_says_why_and_claims_undoing_only_when_it_was_done(
    ending: str | None, says: str
) -> None:
    failed = view_of(saga(DONE, State.FAILED, State.FAILED, State.FAILED, state=State.FAILED, ending=ending))
    assert says in failed.say_to_user
    assert "was undone" not in failed.say_to_user
    undone = view_of(saga(DONE, State.FAILED, State.FAILED, State.FAILED, state=State.COMPENSATED, ending=ending))
    assert undone.say_to_user.endswith("What had been prepared was undone.")
    assert (undone.next_action, undone.next_poll_after_s, undone.answers.direction) == ("stop", 0.0, "none")


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (CompensationState.NOT_NEEDED, "none"),
        (CompensationState.PENDING, "pending"),
        (CompensationState.RUNNING, "running"),
        (CompensationState.UNKNOWN, "unknown"),
        (CompensationState.FAILED, "failed"),
        (CompensationState.DONE, "done"),
    ],
)
def test_the_worst_compensation_is_told(step: CompensationState, told: str) -> None:
    unwinding = changed(
        saga(DONE, state=State.COMPENSATING, phase=Phase.UNWINDING, ending="rejected"), DRAFT, compensation_state=step
    )
    view = view_of(unwinding)
    assert (view.answers.compensation, view.answers.direction) == (told, "backward")
    assert "is being undone" in view.say_to_user
    one_done = changed(unwinding, NOTIFY, compensation_state=CompensationState.DONE)
    assert view_of(one_done).answers.compensation == (told if told != "none" else "done")


@pytest.mark.parametrize(
    ("draft", "safe"),
    [
        (State.RUNNING, "automatic"),
        (State.OUTCOME_UNKNOWN, "not_before_reconciled"),
        (State.NEEDS_REVIEW, "person_decides"),
    ],
)
def test_what_remit_may_repeat_depends_on_what_is_known(draft: State, safe: str) -> None:
    assert view_of(saga(draft)).answers.retry_safe == safe


def test_the_approval_that_is_shown_is_the_newest_and_a_rejection_has_its_reason() -> None:
    assert view_of(saga()).approval.state == "NOT_REQUESTED"
    rejected = replace(saga(), approvals=(approval(ApprovalState.REJECTED, reason="wrong picture"),))
    assert view_of(rejected).approval.rejection == "wrong picture"
    voided = replace(saga(), approvals=(approval(ApprovalState.VOID, reason="changed"),))
    assert (view_of(voided).approval.state, view_of(voided).approval.rejection) == ("VOID", None)


def test_a_saga_without_a_pivot_is_executed_when_it_is_done() -> None:
    none = replace(saga(DONE, DONE), members=saga(DONE, DONE).members[:2])
    assert view_of(none).answers.executed == "no"
    assert view_of(replace(none, root=replace(none.root, state=DONE))).answers.executed == "yes"


def test_what_is_turning_back_goes_backward_before_it_compensates() -> None:
    assert view_of(saga(ending="cancelled")).answers.direction == "backward"
    assert view_of(saga()).answers.direction == "forward"


def test_what_the_proposer_can_correct_is_said_and_asked_for() -> None:
    failed = saga(State.FAILED, state=State.FAILED, phase=Phase.UNWOUND, ending="failed", error_code="unknown_term")
    view = view_of(failed)
    assert (view.done, view.next_action) == (True, "fix_input")
    assert "category or tag" in view.say_to_user


def test_what_an_ended_command_left_behind_is_named() -> None:
    failed = view_of(saga(DONE, State.FAILED, State.FAILED, State.FAILED, state=State.FAILED, ending="abandoned"))
    assert failed.say_to_user.endswith("The effect of CREATE_DRAFT was not undone and remains.")


def test_a_finding_that_holds_up_the_rest_is_a_persons_and_not_waited_for() -> None:
    view = view_of(saga(DONE, DONE, DONE, State.AUTHORIZED, phase=Phase.POST_PIVOT, blockers="FINDING_OPEN"))
    assert (view.state, view.next_action) == ("FINDING_OPEN", "tell_user")
    assert "is published. A person must look at what was found there." in view.say_to_user


def test_a_pivot_past_its_fence_is_not_called_repeatable() -> None:
    view = view_of(saga(DONE, DONE, State.RUNNING, phase=Phase.POST_PIVOT))
    assert view.answers.retry_safe == "not_before_reconciled"
