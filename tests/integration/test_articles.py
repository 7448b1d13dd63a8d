"""What has become of an article, through its life; and what an ending leaves to people."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from adapters.sandbox.faults import FaultKind
from execution.articles import Content
from execution.core.states import Verdict
from tests.integration.passage import NOTIFY
from tests.integration.world import PROPOSER, World, proposal

YEAR = datetime.now(UTC).year + 3
LATER = f"{YEAR}-07-01T12:00:00Z"
GRANTED_UNTIL_S = int(datetime(YEAR + 1, 1, 1, tzinfo=UTC).timestamp())


async def content(world: World, article: str = "article-0028") -> Content | None:
    """As the list has it; every command about the article must say the same."""
    (found,) = [each for each in await world.first.status.articles("acme") if each.object_id == article]
    for view in await world.first.status.recent("acme", None, 50):
        if view.object_id == article:
            assert view.content == found.content, view.command_id
    return found.content


@pytest.mark.behaviour("article.content")
async def test_through_its_life(world: World) -> None:
    command_id = await world.accepted()
    assert await content(world) == Content.DRAFTED
    await world.settle(command_id)
    assert await content(world) == Content.AWAITING_APPROVAL
    await world.approve(command_id)
    await world.settle(command_id)
    assert await content(world) == Content.LIVE
    second = await world.until_approval(proposal(version=2, content="# Better"))
    assert await content(world) == Content.LIVE
    (listed,) = await world.first.status.articles("acme")
    assert (listed.version, [(each.version, each.state) for each in listed.under_way]) == (
        1,
        [(2, "AWAITING_APPROVAL")],
    )
    await world.operations.cancel(second, operator="operator:olivia", reason="no")
    await world.settle(second)
    down = await world.withdrawal(command_id)
    assert await content(world) == Content.LIVE
    await world.settle(down)
    await world.approve(down, "operator:pat")
    await world.settle(down)
    assert await content(world) == Content.WITHDRAWN
    third = await world.until_approval(proposal(version=3, content="# Best"))
    assert await content(world) == Content.WITHDRAWN
    await world.approve(third)
    await world.settle(third)
    assert await content(world) == Content.LIVE
    (listed,) = await world.first.status.articles("acme")
    assert (listed.version, listed.command_id, listed.under_way) == (3, third, ())


async def test_a_schedule_is_told(world: World) -> None:
    command_id = await world.until_approval(
        proposal(publish_at=LATER), replace(PROPOSER, grant_until_s=GRANTED_UNTIL_S)
    )
    await world.approve(command_id)
    await world.turn(command_id)
    assert await content(world) == Content.SCHEDULED


async def test_what_came_to_nothing_is_nothing(world: World) -> None:
    command_id = await world.until_approval()
    await world.operations.cancel(command_id, operator="operator:olivia", reason="no")
    await world.settle(command_id)
    assert await content(world) is None


async def test_what_was_seen_to_differ_is_stale(world: World) -> None:
    command_id = await world.published(proposal(content="<p>1</p>", content_format="html"))
    await world.store.transact(
        lambda conn: conn.exec_driver_sql(
            "UPDATE commands SET verified_at_ms = NULL WHERE root_id = ? AND effect_class = 'PIVOT'", (command_id,)
        )
    )
    assert await content(world) == Content.STALE


async def test_articles_of_other_sites_are_listed_apart(world: World) -> None:
    await world.accepted()
    await world.accepted(proposal(site="shop", article="article-0030"))
    listed = [(each.site, each.object_id) for each in await world.first.status.articles("acme")]
    assert listed == [("shop", "article-0030"), ("blog", "article-0028")]
    assert [each.site for each in await world.first.status.articles("acme", "blog")] == ["blog"]
    assert len(await world.first.status.articles("acme", limit=1)) == 1


@pytest.mark.behaviour("article.duties")
async def test_a_withdrawal_leaves_what_only_people_can_do_and_to_whom(world: World) -> None:
    publication = await world.published()
    assert (await world.view(publication)).follow_ups == ()
    down = await world.withdrawal(publication)
    assert (await world.settle(down)).follow_ups == ()
    await world.approve(down, "operator:pat")
    (duty,) = (await world.settle(down)).follow_ups
    assert (duty.name, duty.owner) == ("ASK_SEARCH_ENGINES", "whoever keeps the site")


@pytest.mark.behaviour("article.duties")
async def test_what_a_person_gave_up_is_left_to_be_done_by_hand(world: World) -> None:
    command_id = await world.until_approval(proposal(notify=["team"]))
    await world.approve(command_id)
    world.arm("SMTP DATA", FaultKind.DROP_AFTER)
    await world.settle(command_id)
    world.clock.move_on(120)
    view = await world.rule(command_id, Verdict.ABANDON)
    assert (view.state, view.done) == ("SUCCESS", True)
    assert [duty.name for duty in view.follow_ups] == ["FINISH_BY_HAND"]
    assert world.passage.sent.count(NOTIFY) == 1


@pytest.mark.behaviour("article.duties")
async def test_what_could_not_be_undone_is_left_to_be_taken_away(world: World) -> None:
    command_id = await world.until_approval()
    await world.edit(1, content="A person's words")
    await world.operations.cancel(command_id, operator="operator:olivia", reason="no")
    view = await world.settle(command_id)
    assert view.reviews
    view = await world.rule(command_id, Verdict.ABANDON)
    assert [duty.name for duty in view.follow_ups] == ["TAKE_AWAY_BY_HAND"]
    assert "remains" in view.say_to_user
