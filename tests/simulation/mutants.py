"""The real engine with one law broken: each mutant is one small function, and names the laws that may catch it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from execution import (
    attempting,
    doubts,
    drive,
    finding_out,
    intake,
    operations,
    orchestrator,
    recovery,
    rulings,
    worker,
)
from execution.authority import fence_for, scopes_of
from execution.core import apply as core_apply
from execution.core import command, decide, progress, quiescence, unwinding
from execution.core import draft as drafts
from execution.core.definition import Prepared, Step
from execution.core.draft import Draft
from execution.core.events import GENESIS, link
from execution.core.failures import Answer, FailureClass, Foreign, Landed, Lost, Present, Receipt, Refused, Unsent
from execution.core.horizon import Wait
from execution.core.identity import BusinessKey
from execution.core.states import Kind, Phase, Repeat, Settlement, State
from execution.core.transitions import Trigger
from execution.performer import Performer
from execution.sagas import publish_article
from execution.simulation import actors
from execution.simulation.scenario import Kind as World
from execution.simulation.witness import Law
from execution.status import view_of
from execution.store import authority, units
from execution.store.errors import LocksHeld
from execution.store.registry import load_saga, locks_of, newest_generation

Patch = pytest.MonkeyPatch
SEEDS_MAX: Final = 2_000
"""Schedules within which every broken law must be noticed."""


@dataclass(frozen=True)
class Mutant:
    """`breaks` changes the engine; any of `laws` must notice within the seeds of `world`, begun where it shows soon."""

    breaks: Callable[[Patch], None]
    laws: frozenset[Law]
    world: World = World.MIXED
    first: int = 0

    @property
    def seeds(self) -> range:
        """The schedules within which it must be noticed."""
        return range(self.first, self.first + SEEDS_MAX)


def answers(patch: Patch, change: Callable[[Answer], Answer]) -> None:
    """What an exchange proved is misread."""
    send = Performer.send

    async def misread(self: Performer, prepared: Prepared, deadline_s: float) -> Answer:
        return change(await send(self, prepared, deadline_s))

    patch.setattr(Performer, "send", misread)


def sends_before_the_commit(patch: Patch) -> None:
    connect, send = Performer.connect, Performer.send
    early: dict[int, Answer] = {}

    async def connect_and_send(self: Performer, prepared: Prepared, deadline_s: float) -> Unsent | Refused | None:
        refused = await connect(self, prepared, deadline_s)
        if refused is None:
            early[id(prepared)] = await send(self, prepared, deadline_s)
        return refused

    async def sent_already(self: Performer, prepared: Prepared, deadline_s: float) -> Answer:
        return early.pop(id(prepared))

    patch.setattr(Performer, "connect", connect_and_send)
    patch.setattr(Performer, "send", sent_already)


def takes_a_timeout_for_a_failure(patch: Patch) -> None:
    refused = Refused(failure=FailureClass.PERMANENT, code="timeout")
    answers(patch, lambda answer: refused if isinstance(answer, Lost) else answer)


def takes_an_error_after_the_body_for_a_refusal(patch: Patch) -> None:
    refused = Refused(failure=FailureClass.TRANSIENT, code="server_error")
    answers(patch, lambda a: refused if isinstance(a, Lost) and a.code.startswith("undocumented") else a)


def takes_an_unreadable_answer_for_success(patch: Patch) -> None:
    landed = Landed(receipt=Receipt(resource_id="1"))
    answers(patch, lambda answer: landed if isinstance(answer, Lost) else answer)


def queues_what_is_unknown(patch: Patch) -> None:
    answers(patch, lambda answer: Unsent(code="unknown") if isinstance(answer, Lost) else answer)


def waits_for_no_quiescence(patch: Patch) -> None:
    patch.setattr(doubts.Doubts, "remaining_s", lambda self, attempts: 0.0)


def forgets_the_way_to_the_server(patch: Patch) -> None:
    def by_run_time_alone(self: quiescence.Bounds) -> float | None:
        return None if self.max_run_s is None else self.max_run_s + self.stale_s

    patch.setattr(quiescence.Bounds, "quiescent_after_s", by_run_time_alone)


def remembers_the_last_attempt_only(patch: Patch) -> None:
    def last(self: command.Saga, command_id: str) -> tuple[command.Attempt, ...]:
        made = self.attempts_of(command_id)[-1:]
        return tuple(attempt for attempt in made if attempt.settlement is Settlement.OPEN)

    patch.setattr(command.Saga, "open_attempts", last)


def commits_under_any_epoch(patch: Patch) -> None:
    async def reload(self: drive.Drive) -> None:
        root_id = self.saga.root.command_id
        self.saga = await self.env.store.hot(lambda conn: load_saga(conn, root_id))

    patch.setattr(drive.Drive, "_reload", reload)


def queues_what_a_dead_owner_left(patch: Patch) -> None:
    judge = orchestrator._judge_left

    def judged(draft: Any, row: command.Command) -> None:
        if row.state is not State.RUNNING or row.kind is Kind.GATE:
            judge(draft, row)
            return
        for attempt in draft.saga.open_attempts(row.command_id):
            draft.put_attempt(replace(attempt, settlement=Settlement.UNSENT))
        draft.move(row.command_id, Trigger.NOT_APPLIED)

    patch.setattr(orchestrator, "_judge_left", judged)


def believes_the_wall_clock(patch: Patch) -> None:
    def seen_forever(**given: Any) -> quiescence.Doubt:
        return quiescence.Doubt(**{**given, "seen_awake_s": 1e9})

    patch.setattr(doubts, "Doubt", seen_forever)


def trashes_without_looking(patch: Patch) -> None:
    whole = publish_article.SEO_ARTICLE_PUBLISH_V1
    draft = whole.part("CREATE_WORDPRESS_DRAFT")
    assert isinstance(draft, Step)
    assert draft.compensation is not None
    blind = replace(draft, compensation=replace(draft.compensation, looks_first=False))
    parts = tuple(blind if part is draft else part for part in whole.parts)
    patch.setattr(publish_article, "SEO_ARTICLE_PUBLISH_V1", replace(whole, parts=parts))


def gives_up_a_retry_without_a_read(patch: Patch) -> None:
    patch.setattr(unwinding, "_may_exist", lambda draft, row: False)


def rules_before_quiescence(patch: Patch) -> None:
    """Two guards: the engine waits, and where nobody but the person can look, their look must come after the wait."""
    evidence = rulings._evidence

    async def quiet(work: drive.Drive, review: command.Review) -> Any:
        sighting, _ = await evidence(work, review)
        return sighting, 0.0

    patch.setattr(rulings, "_evidence", quiet)
    patch.setattr(rulings, "_looked_early", lambda draft, review: False)


def sweeps_nothing(patch: Patch) -> None:
    async def nothing(self: worker.Worker) -> None:
        return

    patch.setattr(worker.Worker, "sweep", nothing)


def fails_and_unwinds_in_two_transactions(patch: Patch) -> None:
    begin, run = unwinding.start_unwinding, orchestrator.drive_saga

    def fail_only(draft: Any, reason: str, at: Any) -> None:
        draft.move(draft.root.command_id, Trigger.REFUSED, {"reason": reason}, ending=draft.root.ending or reason)

    def unwind_later(draft: Any, reason: str, at: Any) -> None:
        move = draft.move
        root_id = draft.root.command_id
        draft.move = lambda cid, trigger, *more, **columns: (
            None if cid == root_id and trigger is Trigger.REFUSED else move(cid, trigger, *more, **columns)
        )
        begin(draft, reason, at)

    async def in_two_steps(env: drive.Env, root_id: str) -> int | None:
        due = await run(env, root_id)
        saga = await env.store.hot(lambda conn: load_saga(conn, root_id))
        if saga.root.state is not State.FAILED or saga.root.phase is not Phase.PRE_PIVOT:
            return due
        definition = env.catalog.definition(saga.root.command_type, saga.root.definition_version)
        work = drive.Drive(env, saga, definition)
        draft = Draft(saga, actor=env.owner, now_ms=env.clock.now_ms())
        unwind_later(draft, saga.root.ending or "failed", work.horizon(saga))
        draft.set(root_id, next_check_at_ms=draft.now_ms)
        await env.store.commit(draft.unit())
        return draft.now_ms

    patch.setattr(unwinding, "start_unwinding", fail_only)
    patch.setattr(worker, "drive_saga", in_two_steps)


def adopts_what_is_foreign(patch: Patch) -> None:
    observe = Performer.observe

    async def ours(self: Performer, action: Any, context: Any) -> Any:
        seen = await observe(self, action, context)
        if isinstance(seen, Foreign) and seen.receipt is not None:
            return Present(receipt=seen.receipt)
        return seen

    patch.setattr(Performer, "observe", ours)


def ignores_the_backoff(patch: Patch) -> None:
    patch.setattr(progress, "_not_yet", lambda draft, definition, row, at: None)


def publishes_without_a_yes(patch: Patch) -> None:
    patch.setattr(progress, "_needs_approval", lambda saga, definition, row: False)
    fence = fence_for
    patch.setattr(attempting, "fence_for", lambda *given: replace(fence(*given), approval_id=None))
    gate = progress._await_approval

    def opens(draft: Any, command_id: str, at: Any) -> Any:
        if draft.row(command_id).kind is Kind.GATE:
            draft.move(command_id, Trigger.SUCCEEDED)
            return Wait(until_ms=at.now_ms)
        return gate(draft, command_id, at)

    patch.setattr(progress, "_await_approval", opens)


def sends_while_frozen(patch: Patch) -> None:
    fence = fence_for
    patch.setattr(attempting, "fence_for", lambda *given: replace(fence(*given), scopes=()))


def settles_nothing_after_the_end(patch: Patch) -> None:
    patch.setattr(finding_out, "_watched", lambda *given: None)


def claims_under_the_same_epoch(patch: Patch) -> None:
    take_over = orchestrator.take_over

    def same(draft: Draft, env: drive.Env) -> None:
        epoch = draft.root.lease_epoch
        take_over(draft, env)
        draft.set(draft.root.command_id, lease_epoch=epoch)

    patch.setattr(orchestrator, "take_over", same)


def looks_at_no_clock_before_the_write(patch: Patch) -> None:
    patch.setattr(attempting, "SEND_BUDGET_S", 1e9)


def counts_from_the_commits_answer(patch: Patch) -> None:
    commit, fresh = drive.Drive.commit, attempting.Stamp.of
    late: list[attempting.Stamp] = []

    def elapsed(self: attempting.Stamp, clock: Any) -> float:
        since = late[-1] if late else self
        return max(float(clock.now_ms() - since.wall_ms) / 1000.0, float(clock.boot_s() - since.boot_s))

    async def commits(self: drive.Drive, change: Any, *, fold: bool = True) -> Any:
        following = await commit(self, change, fold=fold)
        late.append(fresh(self.env.clock))
        return following

    patch.setattr(drive.Drive, "commit", commits)
    patch.setattr(attempting.Stamp, "elapsed_s", elapsed)


def calls_a_lost_compensation_done(patch: Patch) -> None:
    decide_answer = decide.after_answer

    def done(at: Any, answer: Answer, jitter: float) -> Any:
        landed = Landed(receipt=Receipt(resource_id="1"))
        lost = at.compensation and isinstance(answer, Lost)
        return decide_answer(replace(at, verifies=False), landed, jitter) if lost else decide_answer(at, answer, jitter)

    patch.setattr(decide, "after_answer", done)


def asks_leave_to_find_out(patch: Patch) -> None:
    patch.setattr(orchestrator, "_needs_no_authority", lambda saga, now_ms: False)


def keys_by_whoever_proposes(patch: Patch) -> None:
    plan = intake.Intake._plan

    async def per_principal(self: intake.Intake, intent: Any, proposal: Any, proposer: Any) -> Any:
        incoming = await plan(self, intent, proposal, proposer)
        return replace(incoming, key=replace(incoming.key, object_id=f"{proposal.object_id}-{proposer.principal[-6:]}"))

    patch.setattr(intake.Intake, "_plan", per_principal)


def supersedes_nothing(patch: Patch) -> None:
    """Two guards keep versions of one article apart, and either would do: an earlier one gives way before its pivot and
    is waited for after it (`execution.precedence`), and a lock on the article. Without the lock alone nothing shows;
    without both, expected versions keep anything from being written over, and the sagas are in each other's way."""
    patch.setattr(Draft, "take_locks", lambda self, resources: None)
    patch.setattr(intake.Intake, "_supersede", lambda self, conn, pending, incoming: None)


def believes_every_receipt(patch: Patch) -> None:
    async def believed(self: Performer, action: Any, context: Any, receipt: Receipt) -> Any:
        return Present(receipt=receipt)

    patch.setattr(Performer, "verify", believed)
    takes_an_unreadable_answer_for_success(patch)


def forgets_the_link_to_the_event_before(patch: Patch) -> None:
    linked = link
    patch.setattr(drafts, "link", lambda **event: linked(**{**event, "prev_hash": GENESIS}))


def counts_no_use_of_a_token(patch: Patch) -> None:
    patch.setattr(authority, "use_token", lambda conn, **use: True)


def forgets_what_it_counted(patch: Patch) -> None:
    """Tries and claims are known only to the process that made them."""
    take_over = orchestrator.take_over

    def anew(draft: Draft, env: drive.Env) -> None:
        for row in draft.saga.members:
            draft.set(row.command_id, attempt_count=0, claim_count=0)
        take_over(draft, env)

    patch.setattr(orchestrator, "take_over", anew)


def holds_what_is_unknown(patch: Patch) -> None:
    """A freeze overwrites the doubt; what is released is sent again."""
    found_out = finding_out.reconcile

    async def held(work: drive.Drive, command_id: str) -> Any:
        row, scopes = work.saga.member(command_id), scopes_of(work.saga.root, None)
        if not await work.env.store.hot(lambda conn: authority.in_force(conn, scopes)):
            return await found_out(work, command_id)

        def change(draft: Draft) -> None:
            for attempt in draft.saga.open_attempts(command_id):
                draft.put_attempt(replace(attempt, settlement=Settlement.UNSENT))
            if row.state is State.OUTCOME_UNKNOWN:
                draft.move(command_id, Trigger.PROBING)
            draft.move(command_id, Trigger.FOUND_ABSENT, next_retry_at_ms=draft.now_ms)

        return await work.commit(change)

    patch.setattr(orchestrator, "reconcile", held)


def takes_back_what_is_being_sent(patch: Patch) -> None:
    """The withdrawal of a yes overwrites a publication that runs."""
    reject = operations.Operations.reject

    async def overwrites(self: operations.Operations, command_id: str, *, operator: str, reason: str) -> None:
        try:
            await reject(self, command_id, operator=operator, reason=reason)
        except operations.OperationRefused as refused:
            too_late = refused

            def change(saga: command.Saga, draft: Draft) -> None:
                pivot = saga.named("PUBLISH_WORDPRESS_POST")
                if pivot is None or pivot.state is not State.RUNNING:
                    raise too_late
                for attempt in saga.open_attempts(pivot.command_id):
                    draft.put_attempt(replace(attempt, settlement=Settlement.UNSENT))
                draft.move(pivot.command_id, Trigger.NOT_APPLIED)
                draft.phase(Phase.PRE_PIVOT)
                draft.set(saga.root.command_id, ending="rejected")

            await self._change(command_id, operator, change)

    patch.setattr(operations.Operations, "reject", overwrites)


def repeats_unread_what_must_not_be(patch: Patch) -> None:
    """Every step is taken for one that may be sent again under the same key."""
    standing = core_apply.standing
    patch.setattr(drive, "standing", lambda *at, **more: replace(standing(*at, **more), repeat=Repeat.NATURAL))


def gives_up_before_quiescence(patch: Patch) -> None:
    after = decide.after_look

    def hopeful(at: decide.Standing, seen: Any, jitter: float, *, second: bool = False) -> decide.Decision:
        return after(replace(at, quiet_in_s=0.0) if at.abandon else at, seen, jitter, second=second)

    patch.setattr(decide, "after_look", hopeful)


def files_no_lateness(patch: Patch) -> None:
    patch.setattr(attempting.Lateness, "note", lambda self: None)


def says_live_from_the_fence_on(patch: Patch) -> None:
    view = view_of

    def hopeful(saga: command.Saga) -> Any:
        return replace(view(saga), live=True) if saga.root.phase is Phase.POST_PIVOT else view(saga)

    patch.setattr(actors, "view_of", hopeful)


def says_done_too_soon(patch: Patch) -> None:
    view = view_of
    patch.setattr(actors, "view_of", lambda saga: replace(view(saga), done=True))


def believes_a_journal_that_went_back(patch: Patch) -> None:
    async def nothing(*given: Any) -> int:
        return 0

    patch.setattr(recovery, "doubt_everything", nothing)


def keys_without_the_site(patch: Patch) -> None:
    plan = intake.Intake._plan

    async def any_site(self: intake.Intake, intent: Any, proposal: Any, proposer: Any) -> Any:
        incoming = await plan(self, intent, proposal, proposer)
        return replace(incoming, key=replace(incoming.key, site=""))

    patch.setattr(intake.Intake, "_plan", any_site)


def locks_each_step_against_its_own_saga(patch: Patch) -> None:
    fence, take = attempting._fence, units._take_locks

    def nested(work: drive.Drive, draft: Draft, attempt: command.Attempt, look: Any) -> None:
        fence(work, draft, attempt, look)
        draft.take_locks(tuple(json.loads(draft.root.params)["resources"]))

    def jealous(conn: Any, sql: Any, wave: Any, refusals: list[Any]) -> None:
        for number, unit in enumerate(wave):
            held = unit.locks_take and locks_of(conn, unit.root_id)
            if held and refusals[number] is None:
                refusals[number] = LocksHeld(unit.root_id, held[0].resource)
        take(conn, sql, wave, refusals)

    patch.setattr(attempting, "_fence", nested)
    patch.setattr(units, "_take_locks", jealous)


def numbers_repetitions_by_count(patch: Patch) -> None:
    propose = intake.Intake.propose

    async def after_the_newest(self: intake.Intake, proposal: Any, proposer: Any) -> Any:
        if proposal.repeat_of is not None:
            key = BusinessKey(
                tenant=proposer.tenant,
                system="remit",
                operation=self._catalog.intents[proposal.intent].operation,
                site=proposal.site,
                object_id=proposal.object_id,
                version=proposal.version,
            )
            newest = await self._store.hot(lambda conn: newest_generation(conn, proposer.tenant, key.shown()))
            proposal = replace(proposal, repeat_of=newest.command_id if newest is not None else None)
        return await propose(self, proposal, proposer)

    patch.setattr(intake.Intake, "propose", after_the_newest)


def _of(breaks: Callable[[Patch], None], *laws: Law, world: World = World.MIXED, first: int = 0) -> Mutant:
    return Mutant(breaks, frozenset(laws), world, first)


LATE: Final = (Law.NO_DUPLICATE, Law.GHOSTS_KNOWN, Law.UNWOUND_IS_TRUE, Law.STOPS_HOLD)
"""What a write that comes too late may break."""
MUTANTS: Final[dict[str, Mutant]] = {
    "M1": _of(sends_before_the_commit, Law.WRITE_AHEAD),
    "M2": _of(takes_a_timeout_for_a_failure, Law.GHOSTS_KNOWN, Law.UNWOUND_IS_TRUE, Law.NO_DUPLICATE),
    "M3": _of(takes_an_error_after_the_body_for_a_refusal, Law.GHOSTS_KNOWN, Law.NO_DUPLICATE, first=45),
    "M4": _of(takes_an_unreadable_answer_for_success, Law.SUCCESS_IS_TRUE, first=40),
    "M5": _of(queues_what_is_unknown, Law.NO_DUPLICATE, Law.GHOSTS_KNOWN, Law.MAIL_ONCE),
    "M6": _of(waits_for_no_quiescence, Law.NO_DUPLICATE, Law.UNWOUND_IS_TRUE, Law.STATUS_IS_TRUE, first=45),
    "M7": _of(forgets_the_way_to_the_server, Law.NO_DUPLICATE, Law.UNWOUND_IS_TRUE, Law.STATUS_IS_TRUE, first=78),
    "M9": _of(remembers_the_last_attempt_only, Law.NO_DUPLICATE, Law.UNWOUND_IS_TRUE, Law.CONVERGES),
    "M11": _of(commits_under_any_epoch, Law.EPOCHS_RISE),
    "M13": _of(queues_what_a_dead_owner_left, Law.NO_DUPLICATE, Law.GHOSTS_KNOWN, Law.MAIL_ONCE),
    "M17": _of(believes_the_wall_clock, *LATE, Law.STATUS_IS_TRUE, world=World.CLOCKS),
    "M21": _of(trashes_without_looking, Law.NO_LIVE_TRASHED),
    "M22": _of(believes_a_journal_that_went_back, Law.MAIL_ONCE, Law.NO_DUPLICATE, world=World.RESTORED),
    "M24": _of(gives_up_a_retry_without_a_read, Law.UNWOUND_IS_TRUE, Law.STATUS_IS_TRUE, world=World.FOCUS),
    "M25": _of(rules_before_quiescence, Law.MAIL_ONCE, Law.NO_DUPLICATE, world=World.FOCUS),
    "M31": _of(sweeps_nothing, Law.CONVERGES),
    "M32": _of(fails_and_unwinds_in_two_transactions, Law.UNWOUND_IS_TRUE),
    "M39": _of(adopts_what_is_foreign, Law.SUCCESS_IS_TRUE, Law.NO_LOST_UPDATE, Law.UNWOUND_IS_TRUE),
    "M40": _of(ignores_the_backoff, Law.NO_EARLY_RETRY),
    "M12": _of(claims_under_the_same_epoch, Law.EPOCHS_RISE),
    "M14": _of(
        looks_at_no_clock_before_the_write,
        Law.NO_DUPLICATE,
        Law.GHOSTS_KNOWN,
        Law.UNWOUND_IS_TRUE,
        Law.STOPS_HOLD,
        world=World.STALLED,
        first=100,
    ),
    "M15": _of(counts_from_the_commits_answer, *LATE, world=World.STALLED, first=100),
    "M27": _of(calls_a_lost_compensation_done, Law.UNWOUND_IS_TRUE, first=70),
    "M29": _of(asks_leave_to_find_out, Law.CONVERGES, world=World.FOCUS, first=110),
    "M33": _of(keys_without_the_site, Law.NOTHING_LOST, Law.ONE_COMMAND, world=World.TWINS),
    "M34": _of(keys_by_whoever_proposes, Law.NO_DUPLICATE, Law.ONE_COMMAND),
    "M35": _of(supersedes_nothing, Law.STATUS_IS_TRUE, Law.NO_LOST_UPDATE, world=World.FOCUS, first=150),
    "M36": _of(locks_each_step_against_its_own_saga, Law.CONVERGES, Law.QUARANTINE),
    "M38": _of(numbers_repetitions_by_count, Law.ONE_COMMAND, world=World.TWINS),
    "unverified": _of(believes_every_receipt, Law.SUCCESS_IS_TRUE),
    "unlinked": _of(forgets_the_link_to_the_event_before, Law.JOURNAL_VERIFIES),
    "uncounted": _of(counts_no_use_of_a_token, Law.TOKEN_USES),
    "hopeful": _of(says_live_from_the_fence_on, Law.STATUS_IS_TRUE, first=50),
    "hasty": _of(says_done_too_soon, Law.STATUS_IS_TRUE),
    "M18": _of(holds_what_is_unknown, Law.NO_DUPLICATE, Law.GHOSTS_KNOWN, Law.MAIL_ONCE, world=World.FOCUS),
    "M19": _of(
        takes_back_what_is_being_sent,
        Law.UNWOUND_IS_TRUE,
        Law.STATUS_IS_TRUE,
        Law.GHOSTS_KNOWN,
        world=World.STALLED,
        first=40,
    ),
    "M28": _of(repeats_unread_what_must_not_be, Law.NO_DUPLICATE, Law.UNWOUND_IS_TRUE, first=45),
    "impatient": _of(gives_up_before_quiescence, Law.UNWOUND_IS_TRUE, Law.STATUS_IS_TRUE, world=World.FOCUS),
    "tireless": _of(forgets_what_it_counted, Law.BUDGETS_HOLD, world=World.FOCUS),
    "undeterred": _of(forgets_what_it_counted, Law.QUARANTINE, world=World.DEADLY),
    "unfiled": _of(files_no_lateness, Law.LATE_IS_FILED, world=World.STALLED),
    "unapproved": _of(publishes_without_a_yes, Law.APPROVED_BYTES),
    "unfenced": _of(sends_while_frozen, Law.STOPS_HOLD),
}
"""By their numbers in the protocol; those with names have none there."""
