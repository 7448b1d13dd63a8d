"""Whatever ends a process, a lease or a history: nothing is sent again that may have happened, and nothing is lost."""

import asyncio
import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.sandbox.faults import FaultKind
from execution.catalog import Catalog
from execution.core.definition import CheckGate, Finding
from execution.core.states import Kind, State, Verdict
from execution.intake import Intake
from execution.orchestrator import drive_saga
from execution.proposal import CommandView
from execution.recovery import doubt_everything
from execution.sagas.publish_article import SEO_ARTICLE_PUBLISH_V1
from execution.sagas.publish_wordpress import DRAFT
from execution.store import authority
from server.app import SystemClock, Ulids, opened
from server.config import load_config
from server.home import create_home
from server.records import StoreRecords
from tests.integration.passage import CREATE, PUBLISH, PURGE, RECORD, STAGE
from tests.integration.world import PROPOSER, World, eventually, proposal, world_at
from tests.operators import ruled


@pytest.mark.behaviour("law.late-answer")
async def test_a_late_answer_of_a_worker_that_lost_its_lease_is_filed_and_used(world: World) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)
    patient = replace(world.settings.looks, attempts_max=1_000)  # a slow machine looks more often before the answer
    async with world.another(looks=patient) as second:

        async def overtaken() -> None:
            """The answer is in this worker's hands; its lease runs out, and another worker takes the saga over."""
            world.clock.move_on(world.settings.lease_s + 1)
            world.arm("GET /wp-json/wp/v2/posts", FaultKind.STATUS_BEFORE, left=0, status=503)
            await drive_saga(second.worker.env, command_id)
            world.sandbox.faults.clear()

        world.passage.after_send[PUBLISH] = overtaken
        await drive_saga(world.first.worker.env, command_id)
        facts = await world.facts(command_id)
        assert facts.index("TAKEN_OVER") < facts.index("LATE_ANSWER")
        view = await world.settle(command_id, second)
    assert (view.state, view.live) == ("SUCCESS", True)
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]
    assert "sent" not in view.say_to_user


async def test_a_publication_that_cannot_be_read_back_for_a_while_is_read_again_and_not_made_again(
    world: World,
) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)

    async def unreadable() -> None:
        world.arm("GET /wp-json/wp/v2/", FaultKind.STATUS_BEFORE, left=3, status=503)

    world.passage.after_send[PUBLISH] = unreadable
    view = await world.settle(command_id)
    assert (view.state, view.live) == ("SUCCESS", True)
    log: Any = dict(world.sandbox.faults.shown())["log"]
    assert [kind for kind, _ in log] == ["status_before"] * 3
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]


async def test_of_many_purges_only_the_one_that_failed_is_made_again(tmp_path: Path) -> None:
    pages = ("{url}", *(f"https://blog.example/page/{number}/" for number in range(74)))
    async with world_at(tmp_path, purge=pages) as world:
        command_id = await world.until_approval()
        await world.approve(command_id)

        async def fail_the_second() -> None:
            world.arm("POST /cloudflare/", FaultKind.STATUS_BEFORE, status=503)

        world.passage.after_send[PURGE] = fail_the_second
        view = await world.settle(command_id)
        assert (view.state, view.live) == ("SUCCESS", True)
        purges: Any = world.sandbox.effects()["purges"]
        assert sorted(len(purge["addresses"]) for purge in purges) == [15, 30, 30]
        assert len({address for purge in purges for address in purge["addresses"]}) == 75
        assert world.passage.sent.count(PURGE) == 4


@pytest.mark.behaviour("threat.16")
async def test_two_workers_on_one_journal_drive_each_saga_once(world: World) -> None:
    async with world.another() as second:
        stop = asyncio.Event()
        workers = [asyncio.create_task(p.worker.run(stop)) for p in (world.first, second)]
        ids = [await world.accepted(proposal(article=f"article-{n}", slug=f"slug-{n}")) for n in range(6)]

        async def waiting(word: str) -> bool:
            return all([(await world.view(c)).state == word for c in ids])

        try:
            await eventually(lambda: waiting("AWAITING_APPROVAL"), "approvals asked for")
            await asyncio.gather(*(world.approve(c) for c in ids))
            await eventually(lambda: waiting("SUCCESS"), "published")
        finally:
            stop.set()
            await asyncio.gather(*workers)
    assert {name: world.passage.sent.count(name) for name in (CREATE, STAGE, PUBLISH, RECORD)} == {
        CREATE: 6,
        STAGE: 6,
        PUBLISH: 6,
        RECORD: 6,
    }


async def test_a_held_lease_is_respected_and_a_lapsed_one_taken_over(world: World) -> None:
    command_id = await world.accepted()
    async with world.another() as second:

        async def not_yet() -> None:
            assert await drive_saga(second.worker.env, command_id) is None
            assert (await world.saga(command_id)).root.lease_owner == "worker-1"

        world.passage.before_fence[CREATE] = not_yet
        await world.turn(command_id)
        assert (await world.saga(command_id)).root.lease_epoch == 1
    assert world.passage.sent[:1] == [CREATE]


@pytest.mark.behaviour("law.incarnation")
@pytest.mark.parametrize("approved", [False, True])
async def test_a_copied_journal_asks_people_and_sends_nothing(world: World, approved: bool) -> None:
    command_id = await world.until_approval(proposal(notify=["team"]))
    if approved:
        await world.approve(command_id)
    copy = world.path / "copy"
    copy.mkdir()
    with sqlite3.connect(world.database) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(world.database, copy / "remit.db")
    shutil.copy(str(world.database) + ".incarnation", str(copy / "remit.db") + ".incarnation")
    sent = list(world.passage.sent)
    async with world.another("c", copy / "remit.db") as restored:
        assert restored.changed
        for _ in range(12):
            await drive_saga(restored.worker.env, command_id)
            world.clock.move_on(3600)
        view = await restored.status.view(command_id)
    assert view is not None
    assert world.passage.sent == sent
    assert (view.state, view.answers.executed, view.live) == ("NEEDS_REVIEW", "unknown", False)
    assert "not known" in view.say_to_user
    assert {review.kind for review in view.reviews} >= {"OUTCOME_UNKNOWN"}
    assert view.phase == "POST_PIVOT"


async def test_a_message_leaves_only_after_the_journal_would_be_missed_if_it_were_put_back(world: World) -> None:
    command_id = await world.until_approval(proposal(notify=["team"]))
    await world.approve(command_id)
    assert (await world.settle(command_id)).state == "SUCCESS"
    noted = json.loads(await asyncio.to_thread(Path(f"{world.database}.incarnation").read_text))["position"]
    with sqlite3.connect(world.database) as conn:
        fenced = "SELECT max(position) FROM events WHERE type = 'FENCED'"
        assert noted >= conn.execute(fenced).fetchone()[0]


@pytest.mark.behaviour("threat.45")
async def test_a_restored_journal_adopts_what_was_published_after_the_backup(world: World) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)
    backup = world.path / "backup.db"
    with sqlite3.connect(world.database) as conn, sqlite3.connect(backup) as target:
        conn.backup(target)
    await world.settle(command_id)
    sent = list(world.passage.sent)
    async with world.another("r", backup) as restored:
        assert restored.changed
        for _ in range(6):
            await drive_saga(restored.worker.env, command_id)
            world.clock.move_on(60)
        view = await restored.status.view(command_id)
    assert view is not None
    assert (view.live, view.phase) == (True, view.phase)
    assert view.phase != "PRE_PIVOT"
    assert world.passage.sent == sent


async def test_a_journal_from_before_the_draft_finds_the_article_under_its_address(world: World) -> None:
    command_id = await world.accepted()
    backup = world.path / "backup.db"
    with sqlite3.connect(world.database) as conn, sqlite3.connect(backup) as target:
        conn.backup(target)
    await world.settle(command_id)
    await world.approve(command_id)
    assert (await world.settle(command_id)).state == "SUCCESS"
    sent = list(world.passage.sent)
    async with world.another("r", backup) as restored:
        assert restored.changed

        async def looked() -> CommandView:
            for _ in range(6):
                await drive_saga(restored.worker.env, command_id)
                world.clock.move_on(60)
            found = await restored.status.view(command_id)
            assert found is not None
            return found

        view = await looked()
        assert (view.live, view.answers.executed) == (True, "yes")
        (conflict,) = view.reviews
        assert (conflict.kind, conflict.step) == ("CONFLICT", DRAFT)
        ruling = ruled(conflict.review_id, Verdict.CONTINUE, "olivia", "it is ours", world.clock.now_ms())
        await restored.operations.request_ruling(conflict.review_id, **ruling)
        view = await looked()
        assert conflict.review_id not in {review.review_id for review in view.reviews}
        assert {step.state for step in view.steps if step.name in (DRAFT, PUBLISH, RECORD)} == {State.SUCCESS}
    assert world.passage.sent == sent
    assert len(world.reality().posts) == 1


async def test_a_definition_that_this_process_lacks_is_left_alone(world: World) -> None:
    command_id = await world.accepted()
    before = await world.saga(command_id)
    async with world.another() as other:
        other.worker.env = replace(other.worker.env, catalog=Catalog([]))
        await other.worker.sweep()
        assert await drive_saga(other.worker.env, command_id) is None
    assert await world.saga(command_id) == before
    assert (await world.settle(command_id)).state == "AWAITING_APPROVAL"


class Killed(BaseException):
    """The process ends here."""


async def killed_at(world: World, command_id: str, step: str) -> None:
    async def die() -> None:
        raise Killed

    world.passage.before_fence[step] = die
    with pytest.raises(Killed):
        await drive_saga(world.first.worker.env, command_id)
    world.clock.move_on(world.settings.lease_s + 1)


@pytest.mark.behaviour("law.poison")
async def test_what_kills_its_worker_again_and_again_is_quarantined_and_others_flow(world: World) -> None:
    poison = await world.accepted()
    for _ in range(world.settings.claims_max):
        await killed_at(world, poison, CREATE)
    view = await world.settle(poison)
    assert (view.state, [r.kind for r in view.reviews]) == ("NEEDS_REVIEW", ["POISON"])
    assert world.passage.sent == []
    await world.published(proposal(article="article-2", slug="two"))
    world.passage.before_fence.clear()
    assert (await world.rule(poison, Verdict.CONTINUE)).state == "AWAITING_APPROVAL"


async def test_a_check_that_kills_its_worker_again_and_again_is_quarantined(world: World) -> None:
    async def kills(ports: object, context: object) -> tuple[Finding, ...]:
        raise Killed

    parts = tuple(
        replace(part, check=kills) if isinstance(part, CheckGate) else part for part in SEO_ARTICLE_PUBLISH_V1.parts
    )
    env = world.first.worker.env
    intent = env.catalog.intents[SEO_ARTICLE_PUBLISH_V1.intent]
    poisoned = Catalog([replace(intent, definition=replace(SEO_ARTICLE_PUBLISH_V1, parts=parts))])
    world.first.worker.env = replace(env, catalog=poisoned)
    command_id = await world.accepted()
    for _ in range(world.settings.claims_max + 2):
        try:
            await drive_saga(world.first.worker.env, command_id)
        except Killed:
            world.clock.move_on(world.settings.lease_s + 1)
    view = await world.view(command_id)
    assert (view.state, [r.kind for r in view.reviews]) == ("NEEDS_REVIEW", ["POISON"])


async def test_restarts_without_poison_quarantine_nobody(world: World) -> None:
    command_id = await world.accepted()
    for _ in range(world.settings.claims_max - 2):
        await killed_at(world, command_id, CREATE)
    world.passage.before_fence.clear()
    assert (await world.settle(command_id)).state == "AWAITING_APPROVAL"


async def test_a_worker_that_dies_after_the_fence_leaves_a_doubt_that_is_found_out(world: World) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)

    async def die() -> None:
        raise Killed

    world.passage.after_send[PUBLISH] = die
    with pytest.raises(Killed):
        await drive_saga(world.first.worker.env, command_id)
    assert (await world.check(command_id)).answers.executed == "unknown"
    world.clock.move_on(world.settings.lease_s + 1)
    async with world.another() as second:
        view = await world.settle(command_id, second)
    assert (view.state, view.live) == ("SUCCESS", True)
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]


async def test_a_saga_that_outlives_its_deadline_is_a_question_and_can_be_abandoned(tmp_path: Path) -> None:
    async with world_at(tmp_path, deadline_s=3600.0) as world:
        command_id = await world.until_approval()
        world.clock.move_on(3601)
        view = await world.settle(command_id)
        assert (view.state, [r.kind for r in view.reviews]) == ("AWAITING_APPROVAL", ["STUCK"])
        assert view.answers.human is not None
        view = await world.rule(command_id, Verdict.ABANDON)
        assert (view.state, view.ending, view.done) == ("COMPENSATED", "abandoned", True)


async def test_a_journal_locked_for_a_while_loses_nothing(world: World) -> None:
    command_id = await world.until_approval(proposal(notify=["team"]))
    await world.approve(command_id)
    blocker = sqlite3.connect(world.database, isolation_level=None, check_same_thread=False)

    async def lock() -> None:
        blocker.execute("BEGIN IMMEDIATE")
        asyncio.get_running_loop().call_later(0.5, blocker.execute, "COMMIT")

    world.passage.after_send[PUBLISH] = lock
    world.passage.after_send[RECORD] = lock
    view = await world.settle(command_id)
    blocker.close()
    assert view.state == "SUCCESS"
    assert [world.passage.sent.count(name) for name in (CREATE, STAGE, PUBLISH, RECORD)] == [1, 1, 1, 1]


async def test_putting_a_history_in_doubt_twice_is_putting_it_in_doubt(world: World) -> None:
    command_id = await world.until_approval()
    ids = world.first.worker.env.ids
    for incarnation in ("inc_x", "inc_y"):
        await doubt_everything(world.store, world.clock, ids, incarnation)
    saga = await world.saga(command_id)
    assert {row.state for row in saga.members if row.command_type == "PUBLISH_WORDPRESS_POST"} == {
        State.OUTCOME_UNKNOWN
    }
    assert (await world.settle(command_id)).state == "NEEDS_REVIEW"
    assert world.passage.sent == [CREATE, STAGE]


@pytest.mark.behaviour("threat.45")
async def test_a_copied_home_is_put_in_doubt_when_it_is_opened_and_the_original_is_not(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", SystemClock()
    await asyncio.to_thread(create_home, home, clock=clock, ids=Ulids(), tenant="acme", operator="olivia")
    async with opened(load_config(home)) as at:
        intake = Intake(at.store, at.catalog, clock, at.ids, at.engine)
        command_id = (await intake.propose(proposal(), PROPOSER)).command_id
    shutil.copytree(home, tmp_path / "copy")
    issued_s = clock.now_ms() // 1000 - 60

    async def states(where: Path) -> set[str]:
        async with opened(load_config(where)) as at:
            saga = await at.status.saga(command_id)
            assert saga is not None
            return {row.state for row in saga.members if row.kind is Kind.STEP}

    async def stands(where: Path) -> tuple[list[str], bool]:
        """What is frozen, and whether a token of before is refused."""
        async with opened(load_config(where)) as at:
            frozen = [each.scope for each in await at.store.read(authority.restrictions)]
            why = await StoreRecords(at.store, clock).why_not(frozenset(), issued_s=issued_s, expires_s=issued_s + 900)
            return frozen, why == "revoked"

    assert await states(home) == {State.AUTHORIZED}
    assert await states(tmp_path / "copy") == {State.OUTCOME_UNKNOWN}
    assert await states(tmp_path / "copy") == {State.OUTCOME_UNKNOWN}
    assert await stands(tmp_path / "copy") == (["freeze:all"], True)
    assert await stands(home) == ([], False)
