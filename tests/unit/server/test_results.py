"""Answers stay within their size whatever a command has been through, and say so when something was left out."""

import json
from dataclasses import replace

import pytest

from execution.proposal import Answers, ApprovalView, CommandView, ReviewView, StepView, WaitingFor
from server.fitting import DETAILED_CHARS_MAX, fit
from server.results import CONCISE_CHARS_MAX, CommandStatus, listing, status, text

NAMES = tuple(f"STEP_WITH_A_RATHER_LONG_NAME_{number:03}" for number in range(200))


def step(name: str) -> StepView:
    return StepView(
        name=name,
        kind="STEP",
        system="wordpress",
        effect_class="COMPENSABLE",
        state="OUTCOME_UNKNOWN",
        attempts=99,
        compensation_state="UNKNOWN",
        external_resource_id="x" * 60,
        reference="https://blog.example/" + "y" * 200,
        error_code="no_answer_in_time",
        completed_at_ms=1_700_000_000_000,
        next_check_at_ms=1_700_000_000_000,
    )


def view(names: tuple[str, ...] = NAMES) -> CommandView:
    ulid = "01kb9zq3m4n5p6q7r8s9t0v1w2"
    return CommandView(
        command_id=f"cmd_{ulid}",
        workflow_id=f"wf_{ulid}",
        saga_id=f"saga_{ulid}",
        decision_id=f"dec_{ulid}",
        idempotency_key="acme:remit:publish:" + "s" * 64 + ":" + "a" * 64 + ":v1#abcdefghijklmnop",
        principal="agent:writer",
        proposed_by="operator:olivia for agent:writer",
        tenant="acme",
        intent="SEO_ARTICLE_PUBLISH",
        site="s" * 64,
        object_id="a" * 64,
        object_version=1,
        state="OUTCOME_UNKNOWN",
        phase="POST_PIVOT",
        ending=None,
        done=False,
        live=False,
        verified_at_ms=1_700_000_000_000,
        created_at_ms=1_700_000_000_000,
        updated_at_ms=1_700_000_000_000,
        publish_at_ms=1_700_000_000_000,
        publish_at_local="2027-10-31T02:30:00-03:00[America/Argentina/ComodRivadavia]",
        trace_id=None,
        say_to_user="It is not known yet. " * 100,
        next_action="wait",
        next_poll_after_s=2.0,
        external_version="v" * 150,
        reference="https://blog.example/" + "z" * 900,
        error_code="no_answer_in_time",
        blockers=(),
        approval=ApprovalView(
            required=True, state="PENDING", content_hash="f" * 64, expires_at_ms=1, rejection="r" * 500
        ),
        steps=tuple(map(step, names)),
        answers=Answers(
            executed="unknown",
            succeeded=names,
            remaining=names,
            unknown=names,
            retry_safe="not_before_reconciled",
            direction="forward",
            compensation="none",
            diverged=True,
            checked_at_ms=1,
            resumable=True,
            human="operators: " + "review " * 60,
        ),
        waiting_for=WaitingFor(what="review " * 40, who="operators", since_ms=1),
        reviews=tuple(
            ReviewView(
                review_id=f"rev_{ulid}", kind="STUCK", step=name, owner="operators", opened_at_ms=1, verdicts=("a",)
            )
            for name in names
        ),
    )


def test_a_concise_answer_fits_whatever_happened() -> None:
    answer = fit(status(view(), deduplicated=True, original_ms=1), detailed=False)
    assert len(text(answer)) <= CONCISE_CHARS_MAX
    assert answer.truncated is not None
    assert answer.command_id == view().command_id
    assert not answer.live


def test_a_detailed_answer_fits_and_its_pages_hold_every_step() -> None:
    seen: list[str] = []
    for page in range(len(NAMES)):
        answer = fit(status(view(), detailed=True, page=page), detailed=True)
        assert len(text(answer)) <= DETAILED_CHARS_MAX
        seen += [found.name for found in answer.steps]
        if answer.cursor is None:
            break
        assert answer.cursor == str(page + 1)
    assert seen == list(NAMES)


def test_a_short_answer_is_not_cut() -> None:
    short = replace(
        view(NAMES[:2]), say_to_user="ok", reference=None, external_version=None, reviews=(), waiting_for=None
    )
    calm = replace(short, approval=ApprovalView(required=False, state="NOT_REQUESTED"))
    calm = replace(calm, answers=replace(calm.answers, human=None))
    assert fit(status(calm), detailed=False).truncated is None
    assert fit(status(calm), detailed=False).answers.unknown == list(NAMES[:2])


def test_a_list_of_commands_fits_and_says_what_was_left_out() -> None:
    shown = listing([view()] * 10)
    assert len(text(shown)) <= CONCISE_CHARS_MAX
    assert shown.truncated is not None


@pytest.mark.parametrize("detailed", [False, True])
def test_the_answer_matches_its_published_schema(detailed: bool) -> None:
    answer = fit(status(view(), detailed=detailed), detailed=detailed)
    assert CommandStatus.model_validate(json.loads(text(answer))) == answer
