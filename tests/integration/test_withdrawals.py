"""Taking an article down: a saga of its own, approved, under the version that was left there, never a delete."""

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.sandbox.faults import FaultKind
from execution.core.quiescence import Bounds
from execution.core.states import Verdict
from execution.operations import OperationRefused
from execution.proposal import IntakeRefused
from execution.repeating import proposer_for
from execution.sagas.withdraw_article import withdrawal_of
from execution.store import journal
from tests.integration.passage import CANCEL, INCIDENT, NOTIFY, PUBLISH, TRASH, UNPUBLISH, WITHDRAW
from tests.integration.world import World, person, proposal, world_at

FIRST, SECOND = "<p>First</p>", "<p>Second</p>"
OPERATOR = "operator:olivia"
ANOTHER = "operator:pat"


async def published(world: World, version: int = 1, content: str = FIRST, **more: Any) -> str:
    offered = proposal(version=version, content=content, content_format="html", notify=["team"], **more)
    command_id = await world.published(offered)
    world.passage.sent.clear()
    return command_id


async def asked(world: World, publication: str, **proposer: Any) -> str:
    """The id of a withdrawal that waits for its approval."""
    command_id = await world.withdrawal(publication, **proposer)
    view = await world.settle(command_id)
    assert (view.state, view.live) == ("AWAITING_APPROVAL", False)
    return command_id


async def withdrawn(world: World, publication: str) -> str:
    command_id = await asked(world, publication)
    await world.approve(command_id, ANOTHER)
    view = await world.settle(command_id)
    assert (view.state, view.done, view.live) == ("SUCCESS", True, False), view
    return command_id


def incidents(world: World) -> list[dict[str, Any]]:
    return [dict(row) for row in world.table.execute("SELECT * FROM remit_incidents")]


async def refused(world: World, publication: str) -> IntakeRefused:
    with pytest.raises(IntakeRefused) as caught:
        await world.withdrawal(publication)
    return caught.value


@pytest.mark.behaviour("withdraw.whole")
async def test_an_article_is_taken_down_marked_written_down_and_corrected_once(world: World) -> None:
    publication = await published(world)
    before = world.reality()
    command_id = await withdrawn(world, publication)
    real = world.reality()
    assert real.live == []
    assert [(post["id"], post["content"]) for post in real.with_status("draft")] == [
        (post["id"], post["content"]) for post in before.live
    ]
    assert [row["status"] for row in real.rows] == ["withdrawn"]
    (incident,) = incidents(world)
    assert (incident["reason"], incident["publication_key"], incident["command_id"]) == (
        "a wrong name",
        real.rows[0]["key"],
        command_id,
    )
    assert world.passage.sent == [UNPUBLISH, INCIDENT, WITHDRAW, NOTIFY]
    told, corrected = real.messages
    assert "Subject: Published:" in told["content"]
    assert "Subject: Withdrawn:" in corrected["content"]
    assert "a wrong name" not in corrected["content"]
    assert told["recipients"] == corrected["recipients"]

    view = await world.view(publication)
    assert (view.state, view.live, view.done, view.answers.executed) == ("SUCCESS", False, True, "yes")
    assert view.say_to_user == "article-0028 version 1 was published. It was withdrawn since."
    ended = await world.view(command_id)
    assert ended.say_to_user.startswith("article-0028 version 1 is withdrawn and verified. That was last seen at ")


async def test_what_is_rejected_stays_live_and_nobody_is_told(world: World) -> None:
    publication = await published(world)
    command_id = await asked(world, publication)
    await world.operations.reject(command_id, operator=OPERATOR, reason="keep it")
    view = await world.settle(command_id)
    assert (view.state, view.ending) == ("FAILED", "rejected")
    assert view.say_to_user == "article-0028 version 1 was not withdrawn. An approver rejected it."
    assert world.passage.sent == []
    assert (len(world.reality().live), (await world.view(publication)).live) == (1, True)
    again = await world.repeated(command_id)
    assert again != command_id
    await world.settle(again)
    await world.approve(again, ANOTHER)
    assert (await world.settle(again)).state == "SUCCESS"
    assert world.reality().live == []


@pytest.mark.behaviour("withdraw.republish")
async def test_a_later_version_is_published_again_over_the_same_post_and_can_be_withdrawn_again(world: World) -> None:
    publication = await published(world)
    first_down = await withdrawn(world, publication)
    second = await published(world, 2, SECOND)
    real = world.reality()
    assert [(post["id"], post["content"].strip()) for post in real.live] == [(1, SECOND)]
    assert [(row["version"], row["status"]) for row in real.rows] == [(1, "withdrawn"), (2, "published")]
    view = await world.view(first_down)
    assert view.say_to_user == "article-0028 version 1 was withdrawn. Version 2 was published since."
    assert await world.withdrawal(publication) == first_down
    second_down = await withdrawn(world, second)
    assert second_down != first_down
    assert world.reality().live == []
    assert len(incidents(world)) == 2


async def test_the_same_version_repeated_on_purpose_is_published_and_withdrawn_under_keys_of_its_own(
    world: World,
) -> None:
    publication = await published(world)
    down = await withdrawn(world, publication)
    again = await world.repeated(publication)
    await world.settle(again)
    await world.approve(again)
    assert (await world.settle(again)).live
    assert [post["content"].strip() for post in world.reality().live] == [FIRST]
    assert (await world.view(publication)).say_to_user.endswith("was published. It was published again since.")
    down_again = await withdrawn(world, again)
    keys = [(await world.saga(c)).root.idempotency_key for c in (down, down_again)]
    assert len(set(keys)) == 2
    assert world.reality().live == []
    assert [row["status"] for row in world.reality().rows] == ["withdrawn", "withdrawn"]


@pytest.mark.behaviour("withdraw.no-lost-update")
async def test_a_persons_edit_stops_it_and_is_kept_when_it_is_taken_down_on_their_word(world: World) -> None:
    publication = await published(world)
    command_id = await asked(world, publication)
    await world.approve(command_id, ANOTHER)
    await world.edit(1, content="A person's words")
    view = await world.settle(command_id)
    assert (view.state, [r.kind for r in view.reviews]) == ("NEEDS_REVIEW", ["CONFLICT"])
    assert [post["content"] for post in world.reality().live] == ["A person's words"]
    assert UNPUBLISH not in world.passage.sent
    assert (await world.rule(command_id, Verdict.REBASE)).state == "AWAITING_APPROVAL"
    await world.approve(command_id, ANOTHER)
    assert (await world.settle(command_id)).state == "SUCCESS"
    assert [post["content"] for post in world.reality().with_status("draft")] == ["A person's words"]


@pytest.mark.parametrize("status", ["draft", "private", "pending"])
async def test_what_a_person_took_down_already_is_adopted_and_not_written_again(world: World, status: str) -> None:
    publication = await published(world)
    command_id = await asked(world, publication)
    await world.approve(command_id, ANOTHER)
    await world.edit(1, status=status, content="Mine")
    assert (await world.settle(command_id)).state == "SUCCESS"
    assert UNPUBLISH not in world.passage.sent
    assert [row["status"] for row in world.reality().rows] == ["withdrawn"]
    second = await published(world, 2, SECOND)
    assert (await world.view(second)).live
    assert [post["content"].strip() for post in world.reality().live] == [SECOND]


async def test_after_its_post_was_thrown_away_a_later_version_gets_a_post_of_its_own(world: World) -> None:
    publication = await published(world)
    await person(world.sandbox.url, 1, None, "DELETE")
    await withdrawn(world, publication)
    assert UNPUBLISH not in world.passage.sent
    second = await published(world, 2, SECOND)
    assert (await world.view(second)).live
    assert [(post["id"], post["slug"]) for post in world.reality().live] == [(2, "how-to-brew-coffee")]


@pytest.mark.parametrize("kind", [FaultKind.DROP_AFTER, FaultKind.DROP_BEFORE, FaultKind.STATUS_AFTER])
async def test_a_lost_answer_is_found_out_and_the_post_is_taken_down_once(world: World, kind: FaultKind) -> None:
    publication = await published(world)
    command_id = await asked(world, publication)
    await world.approve(command_id, ANOTHER)
    more = {"status": 500} if kind is FaultKind.STATUS_AFTER else {}
    world.arm("POST /wp-json/wp/v2/posts/1", kind, **more)
    assert (await world.settle(command_id)).state == "SUCCESS"
    assert "OUTCOME_LOST" in await world.facts(command_id)
    writes = world.reality().writes["POST /wp-json/wp/v2/posts/1"]
    assert writes == 2  # the publication and the withdrawal
    assert world.reality().live == []


async def test_while_an_attempt_on_the_article_may_still_land_nothing_is_taken_down(world: World) -> None:
    """Past its pivot's fence and not known: refused. Known, and its message still open: waits for its locks."""
    first = await world.until_approval(proposal(content=FIRST, content_format="html", notify=["team"]))
    await world.approve(first)
    tried: list[str] = []

    async def too_early() -> None:
        tried.append((await refused(world, first)).code)

    world.passage.before_send[PUBLISH] = too_early
    waiting: list[str] = []

    async def wait() -> None:
        waiting.append(await world.withdrawal(first))
        await world.turn(waiting[0])

    world.passage.before_send[NOTIFY] = wait
    world.arm("SMTP DATA", FaultKind.DROP_AFTER)
    view = await world.settle(first)
    assert tried == ["not_live"]
    assert (view.state, view.live) == ("NEEDS_REVIEW", True)
    (command_id,) = waiting
    world.clock.move_on(5.0)
    await world.turn(command_id)
    assert (await world.view(command_id)).state == "LOCKED"
    assert len(world.reality().live) == 1
    assert (await world.rule(first, Verdict.PRESENT)).done
    assert (await world.settle(command_id)).state == "AWAITING_APPROVAL"


async def test_a_version_in_preparation_gives_way_and_a_new_one_waits_until_it_is_down(world: World) -> None:
    publication = await published(world)
    second = await world.until_approval(proposal(version=2, content=SECOND, content_format="html"))
    world.passage.sent.clear()
    command_id = await world.withdrawal(publication)
    assert (await world.settle(second)).ending == "withdrawn"
    assert world.passage.sent == [CANCEL, TRASH]
    third = proposal(version=3, content="<p>Third</p>", content_format="html")
    with pytest.raises(IntakeRefused, match="withdrawal_under_way") as caught:
        await world.propose(third)
    assert caught.value.retryable
    await world.settle(command_id)
    await world.approve(command_id, ANOTHER)
    assert (await world.settle(command_id)).state == "SUCCESS"
    assert world.reality().live == []
    await world.published(third)
    assert [(post["id"], post["content"].strip()) for post in world.reality().live] == [(1, "<p>Third</p>")]


async def test_a_version_past_its_fence_is_found_out_first_and_is_then_what_would_be_taken_down(world: World) -> None:
    publication = await published(world)
    second = await world.until_approval(proposal(version=2, content=SECOND, content_format="html"))
    await world.approve(second)
    world.arm("POST /wp-json/wp/v2/posts/1", FaultKind.DROP_AFTER)
    codes: list[str] = []

    async def withdraw() -> None:
        codes.append((await refused(world, publication)).code)

    world.passage.after_send["update"] = withdraw
    assert (await world.settle(second)).live
    assert codes == ["earlier_version_in_doubt"]
    assert (await refused(world, publication)).code == "not_live"
    await withdrawn(world, second)
    assert world.reality().live == []


async def test_asking_twice_is_one_withdrawal_and_another_reason_is_a_conflict(world: World) -> None:
    publication = await published(world)
    command_id = await asked(world, publication)
    assert await world.withdrawal(publication) == command_id
    other = withdrawal_of(await world.saga(publication), reason="another")
    by = proposer_for(OPERATOR, tenant="acme", principal=OPERATOR, decision_id="dec_2", now_ms=world.clock.now_ms())
    with pytest.raises(IntakeRefused, match="idempotency_conflict") as caught:
        await world.propose(other, by)
    assert caught.value.differing == ("reason",)


async def test_whoever_withdraws_does_not_approve_it_where_somebody_else_can(world: World) -> None:
    publication = await published(world)
    command_id = await asked(world, publication)
    with pytest.raises(OperationRefused, match="proposer_cannot_approve"):
        await world.approve(command_id, OPERATOR)
    await world.operations.cancel(command_id, operator=OPERATOR, reason="again")
    await world.settle(command_id)
    publication = await published(world, 2, SECOND)
    alone = await asked(world, publication, four_eyes=False)
    await world.approve(alone, OPERATOR)
    assert (await world.settle(alone)).state == "SUCCESS"


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[World]:
    """Neither a table of publications nor a relay."""
    async with world_at(tmp_path) as made:
        made.publish = replace(made.publish, publications=False, mail=False)
        async with made.another() as process:
            made.first = process
            yield made


async def test_without_tables_and_mail_it_is_the_post_alone(plain: World) -> None:
    publication = await plain.published(proposal(content=FIRST, content_format="html"))
    plain.passage.sent.clear()
    await withdrawn(plain, publication)
    assert plain.passage.sent == [UNPUBLISH]
    assert plain.reality().live == []


@pytest.fixture
async def unbounded(tmp_path: Path) -> AsyncIterator[World]:
    """A site of which nobody knows how long a request may run."""
    async with world_at(tmp_path, bounds=Bounds()) as made:
        yield made


async def test_where_nobody_knows_how_long_a_request_may_run_a_lost_one_is_a_question(unbounded: World) -> None:
    publication = await published(unbounded)
    command_id = await asked(unbounded, publication)
    await unbounded.approve(command_id, ANOTHER)
    unbounded.arm("POST /wp-json/wp/v2/posts/1", FaultKind.DROP_BEFORE)
    view = await unbounded.settle(command_id)
    assert (view.state, [r.kind for r in view.reviews]) == ("NEEDS_REVIEW", ["OUTCOME_UNKNOWN"])
    assert "not known yet whether article-0028 version 1 was withdrawn" in view.say_to_user
    assert UNPUBLISH in unbounded.passage.sent
    assert len(unbounded.reality().live) == 1


async def test_the_journal_of_a_publication_and_its_withdrawal_is_whole(world: World) -> None:
    publication = await published(world)
    command_id = await withdrawn(world, publication)
    batches = await world.store.read(lambda conn: list(journal.verify_all(conn)))
    assert [finding for batch in batches for finding in batch.findings] == []
    with sqlite3.connect(world.database) as conn:
        held = conn.execute("SELECT resource FROM locks").fetchall()
    conn.close()
    assert held == []
    assert command_id != publication
