"""What follows the pivot at the edge and fails for good: the article stays published, and what is not known is said."""

import json
from pathlib import Path

import pytest

from execution.core.command import Saga
from execution.core.states import ReviewKind, Verdict
from execution.proposal import CommandView
from tests.stage.scene import Scene, is_quiet, staged

PURGE = "POST /cloudflare/client/v4/zones/"
CHECK = "POST /healthchecks/api/v3/checks/"
REFUSED = json.dumps({"success": False, "errors": [{"code": 10000, "message": "no"}], "messages": [], "result": None})
JSON = {"Content-Type": "application/json"}


async def ruled(scene: Scene, saga: Saga, verdict: Verdict) -> tuple[CommandView, Saga]:
    """A person answers the one open question; then nothing moves any more."""
    [asked] = [review for review in saga.reviews if review.closed_at_ms is None]
    await scene.rule(asked, verdict)
    closed = {asked.review_id}

    def answered(view: CommandView, saga: Saga) -> bool:
        return is_quiet(view, saga) and not any(r.review_id in closed and r.closed_at_ms is None for r in saga.reviews)

    return await scene.until(saga.root.command_id, answered)


@pytest.mark.behaviour("cache.unknown-is-said")
async def test_a_purge_that_is_refused_for_good_leaves_the_article_published_and_its_cache_state_unknown(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path / "home") as scene, scene.working():
        scene.sandbox.arm(PURGE, "status_before", status=403, headers=JSON, body=REFUSED)
        view, saga = await scene.until(await scene.propose(), is_quiet)
        assert (view.state, view.live, view.done) == ("NEEDS_REVIEW", True, False)
        assert (
            "is published, cache state unknown. A person must decide about PURGE_CLOUDFLARE_CACHE" in view.say_to_user
        )
        outside = scene.sandbox.outside()
        assert (len(outside.live), outside.purges, outside.mails) == (1, (), ())
        assert [row.status for row in outside.rows] == ["published"]  # what does not depend on it goes on
        view, saga = await ruled(scene, saga, Verdict.ABANDON)
        assert (view.state, view.live, view.done) == ("SUCCESS", True, True)
        assert "published and verified, cache state unknown. These steps were given up" in view.say_to_user
        outside = scene.sandbox.outside()
        assert (len(outside.live), outside.purges, len(outside.mails)) == (1, (), 1)
        assert scene.lies == []


async def test_a_check_that_is_refused_for_good_leaves_the_article_published_and_says_so(tmp_path: Path) -> None:
    async with staged(tmp_path / "home") as scene, scene.working():
        scene.sandbox.arm(CHECK, "status_before", status=403, body="")
        view, saga = await scene.until(await scene.propose(), is_quiet)
        assert (view.state, view.live) == ("NEEDS_REVIEW", True)
        assert "is published, monitoring unknown. A person must decide about REGISTER_MONITORING" in view.say_to_user
        view, _ = await ruled(scene, saga, Verdict.CONTINUE)
        assert (view.state, view.live, view.done) == ("SUCCESS", True, True)
        outside = scene.sandbox.outside()
        assert (len(outside.live), len(outside.checks), len(outside.mails)) == (1, 1, 1)


async def test_a_person_who_mended_the_token_lets_the_purge_go_on(tmp_path: Path) -> None:
    async with staged(tmp_path / "home") as scene, scene.working():
        scene.sandbox.arm(PURGE, "status_before", status=403, headers=JSON, body=REFUSED)
        _, saga = await scene.until(await scene.propose(), is_quiet)
        view, _ = await ruled(scene, saga, Verdict.CONTINUE)
        assert (view.state, view.live, view.done) == ("SUCCESS", True, True)
        assert "unknown" not in view.say_to_user
        outside = scene.sandbox.outside()
        assert (len(outside.live), len(outside.purges), len(outside.mails)) == (1, 1, 1)


async def test_an_accepted_purge_that_nobody_can_look_at_is_a_success_of_unknown_effect(tmp_path: Path) -> None:
    async with staged(tmp_path / "home", changes={"verify = true": "verify = false"}) as scene, scene.working():
        view, saga = await scene.until(await scene.propose(), is_quiet)
        assert (view.state, view.live, view.done) == ("SUCCESS", True, True)
        assert "published and verified, cache state unknown." in view.say_to_user
        purge = saga.named("PURGE_CLOUDFLARE_CACHE")
        assert purge is not None
        assert (purge.state, purge.verified_at_ms) == ("SUCCESS", None)
        assert len(scene.sandbox.outside().purges) == 1


async def test_a_purge_that_removes_nothing_is_a_doubt_that_ends_when_readers_are_served_the_new_page(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path / "home") as scene, scene.working():
        first = await scene.propose()
        view, _ = await scene.until(first, is_quiet)
        scene.sandbox.age_copy(view.reference or "", 60)
        scene.sandbox.arm(PURGE, "ignore")
        second = await scene.propose(2)
        view, saga = await scene.until(second, lambda view, saga: bool(view.answers.unknown) and view.live)
        assert "is published, cache state unknown." in view.say_to_user
        scene.sandbox.drop_copy(view.reference or "")
        view, saga = await scene.until(second, is_quiet)
        assert (view.state, view.live, view.done) == ("SUCCESS", True, True)
        assert "unknown" not in view.say_to_user
        assert ReviewKind.OUTCOME_UNKNOWN not in [review.kind for review in saga.reviews]
        assert len(scene.sandbox.outside().purges) == 2
