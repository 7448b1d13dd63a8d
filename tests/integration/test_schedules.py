"""Scheduled publications are held by Remit: never early, not much too late, and a backlog is let go one by one."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from execution.core.states import Verdict
from execution.proposal import IntakeRefused, Proposal
from execution.sagas.publish_plan import SiteRules
from tests.integration.passage import PUBLISH
from tests.integration.world import PROPOSER, SETTINGS, World, proposal, world_at

HOUR_S = 3600
SPACING_S = 300.0


@pytest.fixture
async def spaced(tmp_path: Path) -> AsyncIterator[World]:
    async with world_at(tmp_path, settings=replace(SETTINGS, spacing_s={"blog": SPACING_S})) as made:
        yield made


def at(world: World, seconds: float) -> str:
    """A time that far from now, whole seconds."""
    return datetime.fromtimestamp(world.clock.now_ms() // 1000 + seconds, UTC).isoformat()


async def scheduled(world: World, publish_at: str, article: str = "article-0028", **more: Any) -> str:
    """The id of an approved command that waits for its time."""
    command_id = await world.until_approval(proposal(article=article, slug=article, publish_at=publish_at, **more))
    await world.approve(command_id)
    view = await world.settle(command_id)
    assert (view.state, view.live) == ("SCHEDULED", False)
    return command_id


async def test_it_is_published_at_its_time_and_once_and_not_before(world: World) -> None:
    command_id = await scheduled(world, at(world, HOUR_S))
    for _ in range(3):
        world.clock.move_on(HOUR_S / 4)
        await world.turn(command_id)
        assert world.reality().live == []
    world.clock.move_on(HOUR_S / 4)
    view = await world.settle(command_id)
    assert (view.state, view.live, world.passage.sent.count(PUBLISH)) == ("SUCCESS", True, 1)
    post = world.reality().live[0]
    assert post["status"] == "publish"  # the site was never given a date to come


async def test_the_schedule_is_told_in_utc_and_on_the_sites_clock(tmp_path: Path) -> None:
    async with world_at(tmp_path) as world:
        local = SiteRules(url=world.sandbox.url + "/{slug}/", timezone="Asia/Kathmandu")
        rules = replace(world.publish, sites={**world.publish.sites, "blog": local})
        world.publish = rules
        async with world.another() as other:
            offered = proposal(publish_at=at(world, HOUR_S))
            command_id = (await other.intake.propose(offered, PROPOSER)).command_id
            assert (await world.settle(command_id, other)).state == "AWAITING_APPROVAL"
        view = await world.view(command_id)
        assert view.publish_at_ms == int(datetime.fromisoformat(offered.arguments["publish_at"]).timestamp() * 1000)
        assert view.publish_at_local is not None
        assert view.publish_at_local.endswith("+05:45[Asia/Kathmandu]")
        _, approval = await world.operations.pending(command_id)
        assert json.loads(approval.subject)["publish_at_local"] == view.publish_at_local


async def test_what_is_past_or_beyond_the_grant_is_refused_and_a_replay_is_answered(world: World) -> None:
    async def refusal(offered: Proposal) -> IntakeRefused:
        with pytest.raises(IntakeRefused) as caught:
            await world.propose(offered)
        return caught.value

    past = await refusal(proposal(publish_at=at(world, -2 * HOUR_S)))
    assert (past.code, past.field) == ("schedule_missed", "publish_at")
    assert (await refusal(proposal(publish_at=at(world, 48 * HOUR_S)))).code == "schedule_beyond_grant"
    offered = proposal(publish_at=at(world, HOUR_S))
    command_id = await world.accepted(offered)
    world.clock.move_on(5 * HOUR_S)
    assert (await world.propose(offered)).command_id == command_id


async def test_missed_by_too_much_asks_a_person_and_is_published_once_on_their_word(world: World) -> None:
    command_id = await scheduled(world, at(world, HOUR_S))
    world.clock.move_on(3 * HOUR_S)
    view = await world.settle(command_id)
    assert (view.state, [(r.kind, r.step) for r in view.reviews]) == (
        "NEEDS_REVIEW",
        [("STUCK", "PUBLISH_WORDPRESS_POST")],
    )
    assert world.reality().live == []
    view = await world.rule(command_id, Verdict.CONTINUE)
    assert (view.live, world.passage.sent.count(PUBLISH)) == (True, 1)


async def test_a_yes_to_what_is_scheduled_later_lasts_until_then(tmp_path: Path) -> None:
    async with world_at(tmp_path, approval_ttl_s=600.0) as world:
        command_id = await scheduled(world, at(world, 2 * HOUR_S))
        world.clock.move_on(2 * HOUR_S + 1)
        assert (await world.settle(command_id)).live
        facts = await world.facts(command_id)
        assert facts.count("APPROVAL_REQUESTED") == 1


@pytest.mark.behaviour("schedule.spaced")
async def test_after_downtime_a_backlog_is_let_go_one_by_one_by_however_many_workers(spaced: World) -> None:
    due = at(spaced, HOUR_S)
    ids = [await scheduled(spaced, due, f"article-{n}") for n in range(4)]
    spaced.clock.move_on(HOUR_S + 600)
    lives: list[int] = []
    async with spaced.another() as second:
        for _ in range(8):
            await asyncio.gather(
                *(spaced.turn(c, process) for c, process in zip(ids, (spaced.first, second) * 2, strict=True))
            )
            lives.append(len(spaced.reality().live))
            spaced.clock.move_on(SPACING_S / 2 + 1)
    assert lives == [1, 1, 2, 2, 3, 3, 4, 4]
    times = [(await spaced.step(c, "PUBLISH_WORDPRESS_POST")).last_attempt_at_ms or 0 for c in ids]
    gaps = [later - earlier for earlier, later in zip(sorted(times), sorted(times)[1:], strict=False)]
    assert all(gap >= SPACING_S * 1000 for gap in gaps), gaps
    assert [(await spaced.settle(c)).state for c in ids] == ["SUCCESS"] * 4
    assert spaced.passage.sent.count(PUBLISH) == 4


async def test_lifting_a_freeze_lets_no_backlog_go_at_once_either(spaced: World) -> None:
    due = at(spaced, HOUR_S)
    ids = [await scheduled(spaced, due, f"article-{n}") for n in range(3)]
    await spaced.restrict("freeze:site:blog")
    spaced.clock.move_on(HOUR_S + 60)
    for command_id in ids:
        await spaced.turn(command_id)
    await spaced.lift("freeze:site:blog")
    spaced.clock.move_on(10)
    for _ in range(3):
        for command_id in ids:
            await spaced.turn(command_id)
    assert len(spaced.reality().live) == 1
    waiting = [await spaced.view(command_id) for command_id in ids]
    assert sorted(view.state for view in waiting) == ["SCHEDULED", "SCHEDULED", "SUCCESS"]
    spaced.clock.move_on(SPACING_S)
    assert [(await spaced.settle(command_id)).done for command_id in ids].count(True) >= 2


async def test_other_sites_and_what_a_person_just_approved_do_not_wait_for_a_turn(spaced: World) -> None:
    first = await scheduled(spaced, at(spaced, HOUR_S), "article-1")
    elsewhere = await scheduled(spaced, at(spaced, HOUR_S), "article-2", site="shop")
    spaced.clock.move_on(HOUR_S + 1)
    assert (await spaced.settle(first)).live
    unscheduled = await spaced.published(proposal(article="article-3", slug="article-3"))
    assert (await spaced.settle(elsewhere)).live
    assert (await spaced.view(unscheduled)).live


async def test_a_backlog_that_would_come_too_late_asks_a_person(spaced: World) -> None:
    due = at(spaced, HOUR_S)
    ids = [await scheduled(spaced, due, f"article-{n}") for n in range(2)]
    spaced.clock.move_on(2 * HOUR_S - 60)
    for command_id in ids:
        await spaced.turn(command_id)
    assert len(spaced.reality().live) == 1
    spaced.clock.move_on(SPACING_S)
    states = sorted([(await spaced.settle(command_id)).state for command_id in ids])
    assert states == ["NEEDS_REVIEW", "SUCCESS"]
