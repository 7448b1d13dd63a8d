"""Endings other than success: what a person refuses, nobody answers or a system refuses for good is undone, or kept."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from execution.core.command import Saga
from execution.core.states import ReviewKind, State, Verdict
from execution.proposal import CommandView
from tests.matrix.cases import POSTS, judged
from tests.stage.judging import Judge, unwound
from tests.stage.scene import Scene, is_quiet, staged

TABLE = "remit_publications"
REFUSED = {
    "status": 403,
    "headers": {"Content-Type": "application/json"},
    "body": '{"code": "rest_cannot_publish", "message": "no", "data": {"status": 403}}',
}


@asynccontextmanager
async def at_the_gate(path: Path, **staging: object) -> AsyncIterator[tuple[Scene, str]]:
    """Everything before the pivot is done, and a person is asked."""
    async with staged(path, **staging) as scene, scene.working():  # type: ignore[arg-type]  # its own keywords
        command_id = await scene.propose()
        await scene.until(command_id, _asks, approving_it=False)
        yield scene, command_id


async def right(scene: Scene, seen: tuple[CommandView, Saga], judge: Judge) -> None:
    wrong, outside = await judged(scene, *seen, judge)
    assert wrong == [], outside


@pytest.mark.behaviour("law.compensation")
async def test_what_a_person_rejects_is_undone_in_reverse_and_read_back(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path / "home") as (scene, command_id):
        await scene.reject(command_id)
        view, saga = await scene.until(command_id, is_quiet)
        assert view.ending == "rejected"
        await right(scene, (view, saga), unwound)


async def test_what_nobody_approves_in_time_is_undone(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path / "home", approval_ttl_s=2.0) as (scene, command_id):
        view, saga = await scene.until(command_id, is_quiet, approving_it=False)
        assert view.ending == "approval_expired"
        await right(scene, (view, saga), unwound)


async def test_a_step_that_fails_for_good_before_the_pivot_undoes_the_steps_before_it(tmp_path: Path) -> None:
    async with staged(tmp_path / "home") as scene, scene.working():
        await asyncio.to_thread(rename_table, scene, TABLE, "elsewhere")
        view, saga = await scene.until(await scene.propose(), is_quiet)
        await right(scene, (view, saga), unwound)


async def test_a_pivot_that_is_refused_for_good_is_undone(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path / "home") as (scene, command_id):
        scene.sandbox.arm(f"POST {POSTS}/", "status_before", **REFUSED)
        view, saga = await scene.until(command_id, is_quiet)
        await right(scene, (view, saga), unwound)


async def test_findings_stop_for_a_person_and_abandoning_undoes(tmp_path: Path) -> None:
    changes = {"[site.blog.require]\n": "[site.blog.require]\nmeta_description = true\n"}
    async with staged(tmp_path / "home", changes=changes) as scene, scene.working():
        command_id = await scene.propose()
        view, saga = await scene.until(command_id, is_quiet)
        assert (view.state, view.live) == ("NEEDS_REVIEW", False)
        (asked,) = [review for review in saga.reviews if review.closed_at_ms is None]
        assert asked.kind is ReviewKind.VALIDATION_FINDINGS
        assert "meta_description" in asked.facts
        await scene.rule(asked, Verdict.ABANDON)
        view, saga = await scene.until(command_id, lambda view, saga: saga.root.is_terminal)
        await right(scene, (view, saga), unwound)


@pytest.mark.behaviour("law.pivot")
async def test_a_record_that_fails_for_good_after_the_pivot_never_unpublishes(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path / "home") as (scene, command_id):
        await asyncio.to_thread(rename_table, scene, TABLE, "elsewhere")
        view, saga = await scene.until(command_id, is_quiet)
        assert (view.state, view.phase, view.live, view.done) == ("NEEDS_REVIEW", "POST_PIVOT", True, False)
        (asked,) = [review for review in saga.reviews if review.closed_at_ms is None]
        assert asked.kind is ReviewKind.PERMANENT_FAILURE
        outside = await asyncio.to_thread(scene.sandbox.outside)
        assert (len(outside.live), outside.mails) == (1, ())  # what cannot be taken back waits for what came before

        await asyncio.to_thread(rename_table, scene, "elsewhere", TABLE)
        await scene.rule(asked, Verdict.CONTINUE)
        view, saga = await scene.until(command_id, lambda view, saga: saga.root.is_terminal)
        outside = await asyncio.to_thread(scene.sandbox.outside)
        assert (view.state, view.live, view.done) == ("SUCCESS", True, True)
        assert ([row.status for row in outside.rows], len(outside.mails), len(outside.live)) == (["published"], 1, 1)
        assert await scene.verified() == []
        assert [lie for lie in scene.lies if "row" not in lie] == []  # there was no table to find a row in


async def test_a_step_given_up_after_the_pivot_is_named_as_a_gap(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path / "home") as (scene, command_id):
        await asyncio.to_thread(rename_table, scene, TABLE, "elsewhere")
        _, saga = await scene.until(command_id, is_quiet)
        await scene.rule(next(review for review in saga.reviews if review.closed_at_ms is None), Verdict.ABANDON)
        view, saga = await scene.until(command_id, lambda view, saga: saga.root.is_terminal)
        assert (view.state, view.ending, view.live) == ("SUCCESS", "completed_with_gaps", True)
        record = next(row for row in saga.members if row.command_type == "RECORD_PUBLICATION")
        assert record.state is State.FAILED
        assert len((await asyncio.to_thread(scene.sandbox.outside)).live) == 1


def rename_table(scene: Scene, old: str, new: str) -> None:
    """The customer's administrator moves the table away, or back."""
    connection = sqlite3.connect(scene.home / "sandbox" / "publications.db", timeout=10.0)
    with connection:
        connection.execute(f"ALTER TABLE {old} RENAME TO {new}")
    connection.close()


def _asks(view: CommandView, saga: Saga) -> bool:
    return view.state == "AWAITING_APPROVAL"
