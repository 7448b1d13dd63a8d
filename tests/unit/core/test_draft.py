"""A draft collects one commit: guarded rows, chained events, and nothing that was not touched."""

from dataclasses import replace

import pytest

from execution.core.command import Approval, Attempt, Review
from execution.core.draft import Draft, Fence
from execution.core.events import GENESIS, Fact
from execution.core.states import (
    ApprovalState,
    Blocker,
    Cause,
    Kind,
    Phase,
    ReviewKind,
    Settlement,
    State,
)
from execution.core.transitions import IllegalMove, Trigger
from tests.unit.core.rows import row, saga

ATTEMPT = Attempt(
    attempt_id="att_1",
    command_id="cmd_1",
    root_id="cmd_root",
    number=1,
    idempotency_key="k",
    resource="site/blog/article-0028",
    cause=Cause.FIRST,
    lease_epoch=1,
    request_digest="d",
    deadline_s=20.0,
    fenced_at_ms=5,
    terms="{}",
    quiescent_after_s=60.0,
    incarnation="i",
)
APPROVAL = Approval(
    approval_id="apr_1",
    root_id="cmd_root",
    command_id="cmd_1",
    content_hash="h",
    request_digest="d",
    subject="{}",
    state=ApprovalState.PENDING,
    requested_at_ms=1,
    expires_at_ms=9,
)
REVIEW = Review(
    review_id="rev_1",
    root_id="cmd_root",
    command_id="cmd_1",
    kind=ReviewKind.CONFLICT,
    facts="{}",
    verdicts="",
    opened_at_ms=1,
    owner="operators",
)
FENCE = Fence(
    root_id="cmd_root",
    scopes=("tenant:acme",),
    finish_only=False,
    approval_id="apr_1",
    request_digest="d",
    policy_hash="p",
    now_ms=5,
    action="propose_publish",
    resources=("site/blog/article-1",),
)


def draft(**root: object) -> Draft:
    return Draft(saga(**root), actor="worker-1", now_ms=5)  # type: ignore[arg-type]  # columns of the root


def test_an_untouched_draft_still_raises_the_root() -> None:
    made = draft()
    assert not made.touched
    unit = made.unit()
    assert [(written.command_id, written.version, expected) for written, expected in unit.cas] == [("cmd_root", 2, 1)]
    assert unit.events == ()
    assert made.committed().root.version == 2


def test_changed_rows_are_guarded_by_the_version_they_were_read_at() -> None:
    made = Draft(saga(version=7), actor="worker-1", now_ms=5)
    made.set("cmd_2", claim_count=3)
    unit = made.unit()
    assert [(r.command_id, r.version, expected) for r, expected in unit.cas] == [("cmd_root", 8, 7), ("cmd_2", 2, 1)]
    assert made.committed().member("cmd_2").claim_count == 3
    assert made.committed().member("cmd_1").version == 1


def test_a_version_rises_by_one_however_often_a_row_changes_in_one_commit() -> None:
    made = draft()
    for count in range(5):
        made.set("cmd_1", claim_count=count)
        made.note("cmd_1", Fact.OBSERVED)
    assert {r.command_id: r.version for r, _ in made.unit().cas} == {"cmd_root": 2, "cmd_1": 2}


def test_a_move_goes_through_the_table_and_is_journaled_under_its_trigger() -> None:
    made = draft()
    made.move("cmd_1", Trigger.ENQUEUED, {"why": "test"}, next_check_at_ms=9)
    (event,) = made.unit().events
    assert (event.type, event.command_id, event.actor, event.at_ms) == (Trigger.ENQUEUED, "cmd_1", "worker-1", 5)
    assert event.body == '{"why":"test"}'
    assert (made.row("cmd_1").state, made.row("cmd_1").next_check_at_ms) == (State.QUEUED, 9)


def test_moves_follow_each_other_without_being_read_in_between() -> None:
    made = draft()
    made.move("cmd_1", Trigger.ENQUEUED)
    made.move("cmd_1", Trigger.CLAIMED)
    made.move("cmd_1", Trigger.FENCED)
    assert made.row("cmd_1").state is State.RUNNING
    assert [event.seq for event in made.unit().events] == [1, 2, 3]


def test_a_move_outside_the_table_changes_nothing() -> None:
    made = draft()
    with pytest.raises(IllegalMove):
        made.move("cmd_1", Trigger.SUCCEEDED)
    assert not made.touched


@pytest.mark.parametrize(("trigger", "ended"), [(Trigger.GIVEN_UP, 5), (Trigger.ENQUEUED, None)])
def test_an_ending_carries_its_time(trigger: Trigger, ended: int | None) -> None:
    made = draft()
    made.move("cmd_1", trigger)
    assert made.row("cmd_1").completed_at_ms == ended


def test_chains_continue_where_they_ended() -> None:
    before = replace(saga().members[0], chain_seq=4, chain_head="a" * 64)
    made = Draft(replace(saga(), members=(before,)), actor="worker-1", now_ms=5)
    made.note("cmd_1", Fact.OBSERVED)
    made.note("cmd_1", Fact.VERIFIED)
    made.note("cmd_root", Fact.PLANNED)
    first, second, other = made.unit().events
    assert (first.seq, first.prev_hash) == (5, "a" * 64)
    assert (second.seq, second.prev_hash) == (6, first.hash)
    assert (other.seq, other.prev_hash) == (1, GENESIS)
    assert (made.row("cmd_1").chain_seq, made.row("cmd_1").chain_head) == (6, second.hash)


def test_the_phase_is_journaled_only_when_it_turns() -> None:
    made = draft()
    made.phase(Phase.PRE_PIVOT)
    made.phase(Phase.POST_PIVOT)
    made.phase(Phase.POST_PIVOT)
    assert [event.body for event in made.unit().events] == ['{"from":"PRE_PIVOT","to":"POST_PIVOT"}']


def test_a_blocker_stands_beside_the_state_and_is_raised_once() -> None:
    made = draft(state=State.RUNNING)
    made.block(Blocker.HELD, {"scope": "tenant:acme"})
    made.block(Blocker.HELD)
    made.block(Blocker.AWAITING_APPROVAL)
    assert made.root.blockers == "AWAITING_APPROVAL,HELD"
    made.unblock(Blocker.HELD)
    made.unblock(Blocker.HELD)
    assert made.root.blocked_by == {Blocker.AWAITING_APPROVAL}
    assert made.root.state is State.RUNNING
    assert [event.type for event in made.unit().events] == [Fact.BLOCKED, Fact.BLOCKED, Fact.UNBLOCKED]


def test_what_is_new_is_kept_apart_from_what_changed() -> None:
    loaded = replace(saga(), attempts=(ATTEMPT,), approvals=(APPROVAL,), reviews=(REVIEW,))
    made = Draft(loaded, actor="worker-1", now_ms=5)
    made.put_attempt(replace(ATTEMPT, settlement=Settlement.LANDED))
    made.put_attempt(replace(ATTEMPT, attempt_id="att_2", number=2))
    made.put_approval(replace(APPROVAL, state=ApprovalState.APPROVED))
    made.put_approval(replace(APPROVAL, approval_id="apr_2"))
    made.put_review(replace(REVIEW, closed_at_ms=5))
    made.put_review(replace(REVIEW, review_id="rev_2"))
    unit = made.unit()
    assert [a.attempt_id for a in unit.attempts] == ["att_1"]
    assert [a.attempt_id for a in unit.new_attempts] == ["att_2"]
    assert [a.approval_id for a in unit.approvals] == ["apr_1"]
    assert [a.approval_id for a in unit.new_approvals] == ["apr_2"]
    assert [r.review_id for r in unit.reviews] == ["rev_1"]
    assert [r.review_id for r in unit.new_reviews] == ["rev_2"]


def test_untouched_attempts_approvals_and_reviews_are_not_written() -> None:
    loaded = replace(saga(), attempts=(ATTEMPT,), approvals=(APPROVAL,), reviews=(REVIEW,))
    unit = Draft(loaded, actor="worker-1", now_ms=5).unit()
    assert (unit.attempts, unit.new_attempts, unit.approvals, unit.reviews) == ((), (), (), ())


def test_a_new_member_is_inserted_with_everything_it_became_in_the_same_commit() -> None:
    made = draft()
    made.add_command(row("cmd_9", 9, kind=Kind.COMPENSATION, state=State.AUTHORIZED))
    made.move("cmd_9", Trigger.ENQUEUED)
    unit = made.unit()
    assert [(r.command_id, r.state, r.version) for r in unit.new_commands] == [("cmd_9", State.QUEUED, 1)]
    assert "cmd_9" not in {r.command_id for r, _ in unit.cas}
    assert made.committed().members[-1].chain_seq == 1


def test_an_opening_draft_inserts_every_row_and_guards_none() -> None:
    made = Draft(saga(), actor="intake", now_ms=5, opening=True)
    made.note("cmd_root", Fact.COMMAND_RECEIVED)
    unit = made.unit()
    assert {r.command_id for r in unit.new_commands} == {"cmd_root", "cmd_1", "cmd_2"}
    assert unit.cas == ()


def test_locks_outbox_and_fence_belong_to_the_same_commit() -> None:
    made = draft()
    made.take_locks(("b", "a", "b"))
    made.free_locks()
    made.announce()
    made.fence = FENCE
    unit = made.unit()
    assert (unit.locks_take, unit.locks_free, unit.outbox, unit.fence) == (("a", "b"), True, ("run",), FENCE)


def test_reading_through_a_draft_shows_what_it_changed() -> None:
    made = draft()
    made.set("cmd_2", claim_count=1)
    made.put_attempt(ATTEMPT)
    assert made.saga.member("cmd_2").claim_count == 1
    assert made.saga.open_attempts("cmd_1") == (ATTEMPT,)
