"""The repository in whole publications: what is kept, what is taken back, and what is left to a person."""

from pathlib import Path

import pytest

from adapters.sandbox.github import OWNER, PREFIX, REPO, TOKEN
from execution.core.command import Saga
from execution.core.quiescence import Bounds
from execution.core.states import CompensationState, ReviewKind, State
from execution.proposal import CommandView
from tests.conformance.repositories import RepositoryBed
from tests.matrix.cases import ARCHIVE, judged
from tests.stage.judging import published_once, unwound
from tests.stage.scene import Scene, is_quiet, staged

BRANCH = "remit/blog/article-0028/v1"
WITH_REQUESTS = {"pull_request = false\n": "pull_request = true\n"}


def person_at(scene: Scene) -> RepositoryBed:
    """Somebody else who may push to the repository."""
    url = scene.sandbox.url + PREFIX
    return RepositoryBed(url=url, owner=OWNER, repo=REPO, token=TOKEN, bounds=Bounds())


def asks(view: CommandView, saga: Saga) -> bool:
    return view.state == "AWAITING_APPROVAL"


@pytest.mark.behaviour("archive.kept")
async def test_a_publication_keeps_its_branch_and_asks_once_for_it_to_be_merged(tmp_path: Path) -> None:
    async with staged(tmp_path / "home", changes=WITH_REQUESTS) as scene, scene.working():
        view, saga = await scene.until(await scene.propose(), is_quiet)
        wrong, outside = await judged(scene, view, saga, published_once)
        assert wrong == []
        (pull,) = outside.pulls
        assert (pull.branch, pull.state) == (BRANCH, "open")
        assert "How to brew coffee" in pull.body
        assert "fresh water" not in pull.body
        (branch,) = outside.branches
        archived = saga.named("ARCHIVE_CONTENT_VERSION")
        assert archived is not None
        assert archived.external_version == branch.commit
        assert archived.result_reference == f"{scene.sandbox.url}/github/remit/archive/tree/{BRANCH}"


async def test_what_is_rejected_is_asked_for_no_more_and_its_branch_is_gone(tmp_path: Path) -> None:
    async with staged(tmp_path / "home", changes=WITH_REQUESTS) as scene, scene.working():
        command_id = await scene.propose()
        await scene.until(command_id, asks, approving_it=False)
        await scene.reject(command_id)
        view, saga = await scene.until(command_id, is_quiet)
        undoing = [row for row in saga.members if row.compensates]
        order = [row.command_type for row in sorted(undoing, key=lambda row: row.completed_at_ms or 0)]
        assert order[-2:] == ["CLOSE_ARCHIVE_PULL_REQUEST", "DELETE_ARCHIVE_BRANCH"]
        outside = scene.sandbox.outside()
        assert (view.state, outside.branches) == ("COMPENSATED", ())
        assert [pull.state for pull in outside.pulls] == ["closed"]
        assert scene.lies == []


@pytest.mark.behaviour("incident.66")
async def test_a_version_that_somebody_pushed_to_is_left_to_a_person_and_the_rest_is_undone(tmp_path: Path) -> None:
    async with staged(tmp_path / "home") as scene, scene.working():
        command_id = await scene.propose()
        _, saga = await scene.until(command_id, asks, approving_it=False)
        archived = saga.named("ARCHIVE_CONTENT_VERSION")
        assert archived is not None
        pushed = await person_at(scene).push(BRANCH, onto=archived.external_version or "")
        await scene.reject(command_id)
        view, saga = await scene.until(command_id, is_quiet)
        outside = scene.sandbox.outside()
        assert [(branch.name, branch.commit) for branch in outside.branches] == [(BRANCH, pushed)]
        assert (view.state, view.done, outside.by_status()) == ("NEEDS_REVIEW", False, {"trash": 1})
        states = {row.command_type: row.compensation_state for row in saga.members if row.compensation_command}
        assert states["ARCHIVE_CONTENT_VERSION"] is CompensationState.FAILED
        assert states["CREATE_WORDPRESS_DRAFT"] is CompensationState.DONE
        (asked,) = [review for review in saga.reviews if review.closed_at_ms is None]
        assert (asked.kind, "pushed_to" in asked.facts) == (ReviewKind.CONFLICT, True)


async def test_a_repetition_of_what_was_rejected_has_a_branch_of_its_own(tmp_path: Path) -> None:
    async with staged(tmp_path / "home") as scene, scene.working():
        first = await scene.propose()
        await scene.until(first, asks, approving_it=False)
        await scene.reject(first)
        await scene.until(first, is_quiet)
        again = await scene.propose(repeat_of=first)
        view, saga = await scene.until(again, is_quiet)
        (branch,) = scene.sandbox.outside().branches
        assert branch.name == f"{BRANCH}-{saga.root.generation.removeprefix('#')}"
        assert (view.state, view.live) == ("SUCCESS", True)


async def test_a_branch_of_that_name_which_is_not_ours_stops_before_anything_is_made(tmp_path: Path) -> None:
    async with staged(tmp_path / "home") as scene, scene.working():
        person = person_at(scene)
        await person.person("POST", "/git/refs", {"ref": f"refs/heads/{BRANCH}", "sha": await person.base()})
        view, saga = await scene.until(await scene.propose(), is_quiet)
        (asked,) = [review for review in saga.reviews if review.closed_at_ms is None]
        assert (view.state, asked.kind, "branch_taken" in asked.facts) == ("NEEDS_REVIEW", ReviewKind.CONFLICT, True)
        outside = scene.sandbox.outside()
        assert (outside.posts, outside.commits) == ((), 0)


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (422, "Repository rule violations found", "protected_branch"),
        (403, "Resource not accessible by personal access token", "not_permitted"),
    ],
)
async def test_a_repository_that_refuses_for_good_ends_the_publication_before_it_began(
    tmp_path: Path, status: int, message: str, code: str
) -> None:
    async with staged(tmp_path / "home") as scene, scene.working():
        body = f'{{"message": "{message}", "documentation_url": "x"}}'
        scene.sandbox.arm(ARCHIVE.match, "status_before", status=status, body=body)
        view, saga = await scene.until(await scene.propose(), is_quiet)
        row = saga.named("ARCHIVE_CONTENT_VERSION")
        assert row is not None
        assert (view.state, row.state, row.error_code) == ("FAILED", State.FAILED, code)
        outside = scene.sandbox.outside()
        assert (outside.branches, outside.posts, outside.rows, outside.mails) == ((), (), (), ())


async def test_what_fails_later_takes_the_branch_back_too(tmp_path: Path) -> None:
    refused = {"status": 403, "body": '{"code": "rest_cannot_create", "message": "no", "data": {"status": 403}}'}
    async with staged(tmp_path / "home") as scene, scene.working():
        scene.sandbox.arm("POST /wp-json/wp/v2/posts", "status_before", **refused)
        view, saga = await scene.until(await scene.propose(), is_quiet)
        wrong, outside = await judged(scene, view, saga, unwound)
        assert (wrong, outside.posts) == ([], ())
        assert outside.commits == 1
