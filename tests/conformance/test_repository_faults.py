"""What each fault at each request of an archive proves, and what it left behind: outcomes beside effects."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.github import GitHubRepository
from adapters.sandbox.faults import parse_fault
from adapters.sandbox.running import Sandbox, SandboxSettings
from execution.core.definition import Prepared
from execution.core.failures import (
    Absent,
    Answer,
    CannotTell,
    FailureClass,
    Landed,
    Lost,
    Present,
    Refused,
    Unprepared,
    Unsent,
)
from execution.ports import ContentVersion
from tests.conformance.beds import carry_out
from tests.conformance.repositories import archived, asking_for, fresh_version, standing_in

GIT = "/github/repos/remit/archive/git"
TREES, COMMITS, REFS = (f"POST {GIT}/{what}" for what in ("trees", "commits", "refs"))
HTML = "<html>Unicorn!</html>"
PATIENT_S = 10.0
SILENT = ("hang", "hang_after", "stall", "delay")
SILENCE_S = 1.5
"""How long the client waits where nothing comes; enough for the requests before it on a busy machine."""
SETTINGS = SandboxSettings(incomplete_s=1.5, max_run_s=3.0)
FAULTS: tuple[tuple[dict[str, Any], str, int], ...] = (
    ({"kind": "drop_before"}, "connection_lost", 0),
    ({"kind": "reset_before"}, "connection_lost", 0),
    ({"kind": "hang"}, "no_answer_in_time", 0),
    ({"kind": "status_before", "status": 503, "body": HTML, "headers": {"Retry-After": "1"}}, "http_503", 0),
    ({"kind": "status_before", "status": 200, "body": HTML}, "http_200", 0),
    ({"kind": "status_before", "status": 302, "body": HTML, "headers": {"Location": "/"}}, "http_302", 0),
    ({"kind": "drop_after"}, "connection_lost", 1),
    ({"kind": "reset_after"}, "connection_lost", 1),
    ({"kind": "hang_after"}, "no_answer_in_time", 1),
    ({"kind": "stall"}, "no_answer_in_time", 1),
    ({"kind": "truncate"}, "connection_lost", 1),
    ({"kind": "endless"}, "answer_too_large", 1),
    ({"kind": "status_after", "status": 500, "body": '{"message": "Server Error"}'}, "http_500", 1),
    ({"kind": "status_after", "status": 502, "body": HTML}, "http_502", 1),
    ({"kind": "status_after", "status": 403, "body": HTML}, "http_403", 1),
    ({"kind": "status_after", "status": 200, "body": HTML}, "http_200", 1),
    ({"kind": "status_after", "status": 201, "body": HTML}, "unreadable_answer", 1),
    ({"kind": "status_after", "status": 201, "body": "{}"}, "unreadable_answer", 1),
    ({"kind": "status_after", "status": 422, "body": '{"message": "Reference update failed"}'}, "http_422", 1),
    ({"kind": "delay", "seconds": 2.5}, "no_answer_in_time", 1),
)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    running = Sandbox(tmp_path / "sandbox.db", time.time, SETTINGS)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def repository(sandbox: Sandbox) -> AsyncIterator[GitHubRepository]:
    async with standing_in(sandbox).repository(read_s=SILENCE_S) as adapter:
        yield adapter


def arm(sandbox: Sandbox, match: str, **fault: Any) -> None:
    sandbox.faults.arm(parse_fault(json.dumps({"match": match, **fault}).encode()))


def patience_s(fault: dict[str, Any]) -> float:
    return SILENCE_S if fault["kind"] in SILENT else PATIENT_S


def effects(sandbox: Sandbox, what: str) -> list[dict[str, Any]]:
    found = sandbox.effects()[what]
    assert isinstance(found, list)
    return found


async def healed(sandbox: Sandbox, repository: GitHubRepository, version: ContentVersion) -> None:
    """Whatever happened: sending again leaves one branch with one commit, and it is found."""
    await carry_out(await repository.archive(version))
    assert isinstance(await repository.observe_archived(version, known_commit=None), Present)
    assert (len(effects(sandbox, "branches")), sandbox.effects()["commits"]) == (1, 1)


@pytest.mark.parametrize("match", [TREES, COMMITS], ids=["tree", "commit"])
@pytest.mark.parametrize(("fault", "code", "_effects"), FAULTS)
async def test_an_object_that_is_in_doubt_proves_that_no_branch_was_asked_for(
    sandbox: Sandbox, repository: GitHubRepository, match: str, fault: dict[str, Any], code: str, _effects: int
) -> None:
    version = fresh_version()
    arm(sandbox, match, **fault)
    assert await carry_out(await repository.archive(version), patience_s(fault)) == Unsent(code=code)
    assert effects(sandbox, "branches") == []
    assert await repository.observe_archived(version, known_commit=None) == Absent()
    await healed(sandbox, repository, version)


@pytest.mark.parametrize(("fault", "code", "branches"), FAULTS)
async def test_a_branch_that_is_in_doubt_is_found_or_made_again_once(
    sandbox: Sandbox, repository: GitHubRepository, fault: dict[str, Any], code: str, branches: int
) -> None:
    version = fresh_version()
    arm(sandbox, REFS, **fault)
    assert await carry_out(await repository.archive(version), patience_s(fault)) == Lost(code=code)
    assert len(effects(sandbox, "branches")) == branches
    seen = await repository.observe_archived(version, known_commit=None)
    assert isinstance(seen, Present if branches else Absent)
    await healed(sandbox, repository, version)


def limited(retry_after: str | None, status: int, message: str) -> dict[str, Any]:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    body = json.dumps({"message": message, "documentation_url": "https://docs.github.com/rest"})
    return {"kind": "status_before", "status": status, "headers": headers, "body": body}


SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


@pytest.mark.parametrize("match", [TREES, COMMITS, REFS], ids=["tree", "commit", "branch"])
@pytest.mark.parametrize(
    ("fault", "after_s"),
    [
        (limited("12", 429, SECONDARY), 12.0),
        (limited("12", 403, SECONDARY), 12.0),
        (limited(None, 403, SECONDARY), 60.0),
        (limited(None, 403, "API rate limit exceeded for user ID 1."), 60.0),
        ({"kind": "status_before", "status": 429, "body": HTML}, 60.0),
    ],
)
async def test_a_limit_is_a_refusal_with_its_wait_at_every_request(
    sandbox: Sandbox, repository: GitHubRepository, match: str, fault: dict[str, Any], after_s: float
) -> None:
    version = fresh_version()
    arm(sandbox, match, **fault)
    answer = await carry_out(await repository.archive(version))
    assert answer == Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=after_s)
    assert effects(sandbox, "branches") == []
    await healed(sandbox, repository, version)


async def test_a_limit_that_is_used_up_is_waited_for_until_it_begins_anew(
    sandbox: Sandbox, repository: GitHubRepository
) -> None:
    headers = {
        "Date": "Tue, 14 Nov 2023 22:13:20 GMT",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": "1700001200",
    }
    body = problem("API rate limit exceeded for user ID 1.")
    arm(sandbox, TREES, kind="status_before", status=403, headers=headers, body=body)
    answer = await carry_out(await repository.archive(fresh_version()))
    assert answer == Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=1200.0)


def problem(message: str, errors: list[Any] | None = None) -> str:
    return json.dumps({"message": message, "documentation_url": "x", **({"errors": errors} if errors else {})})


RULES = "Repository rule violations found\n\nCannot create ref due to creations being restricted.\n\n"
PERMANENT, BUSINESS = FailureClass.PERMANENT, FailureClass.BUSINESS
REFUSALS = [
    (401, "Bad credentials", PERMANENT, "not_authenticated"),
    (403, "Resource not accessible by personal access token", PERMANENT, "not_permitted"),
    (403, "Resource protected by organization SAML enforcement.", PERMANENT, "not_permitted"),
    (403, "Repository was archived so is read-only.", PERMANENT, "repository_archived"),
    (404, "Not Found", PERMANENT, "repository_not_found"),
    (409, "Git Repository is empty.", PERMANENT, "repository_empty"),
    (301, "Moved Permanently", PERMANENT, "repository_moved"),
    (422, RULES, BUSINESS, "protected_branch"),
    (422, "Protected branch update failed for refs/heads/remit/blog/a/v1.", BUSINESS, "protected_branch"),
]


@pytest.mark.parametrize("match", [TREES, COMMITS, REFS], ids=["tree", "commit", "branch"])
@pytest.mark.parametrize(("status", "message", "failure", "code"), REFUSALS)
async def test_a_documented_refusal_is_named_by_status_and_message_wherever_it_comes(
    sandbox: Sandbox,
    repository: GitHubRepository,
    match: str,
    status: int,
    message: str,
    failure: FailureClass,
    code: str,
) -> None:
    arm(sandbox, match, kind="status_before", status=status, body=problem(message))
    answer = await carry_out(await repository.archive(fresh_version()))
    assert answer == Refused(failure=failure, code=code)
    assert effects(sandbox, "branches") == []


async def test_a_commit_that_is_not_visible_yet_is_tried_again(sandbox: Sandbox, repository: GitHubRepository) -> None:
    version = fresh_version()
    arm(sandbox, REFS, kind="status_before", status=422, body=problem("Object does not exist"))
    answer = await carry_out(await repository.archive(version))
    assert answer == Refused(failure=FailureClass.TRANSIENT, code="not_yet_visible")
    await healed(sandbox, repository, version)


@pytest.mark.parametrize("match", [TREES, COMMITS], ids=["tree", "commit"])
async def test_an_object_with_another_name_than_ours_stops_before_the_branch(
    sandbox: Sandbox, repository: GitHubRepository, match: str
) -> None:
    arm(sandbox, match, kind="status_after", status=201, body=json.dumps({"sha": "0" * 40}))
    answer = await carry_out(await repository.archive(fresh_version()))
    assert answer == Refused(failure=FailureClass.PERMANENT, code="stored_differently")
    assert effects(sandbox, "branches") == []


async def test_a_service_that_ends_the_connection_between_requests_gets_no_other(
    sandbox: Sandbox, repository: GitHubRepository
) -> None:
    version = fresh_version()
    write = await repository.archive(version)
    arm(sandbox, TREES, kind="status_after", status=201, headers={"Connection": "close"}, body=json.dumps({"sha": "x"}))
    assert isinstance(await carry_out(write), Unsent | Refused)
    assert effects(sandbox, "branches") == []
    await healed(sandbox, repository, version)


async def test_a_late_branch_lands_after_the_client_has_gone(sandbox: Sandbox, repository: GitHubRepository) -> None:
    version = fresh_version()
    arm(sandbox, REFS, kind="late_commit", seconds=2.5)
    assert await carry_out(await repository.archive(version), SILENCE_S) == Lost(code="no_answer_in_time")
    assert await repository.observe_archived(version, known_commit=None) == Absent()
    async with asyncio.timeout(PATIENT_S):
        while not isinstance(await repository.observe_archived(version, known_commit=None), Present):
            pass
    await healed(sandbox, repository, version)


async def test_a_branch_beyond_its_maximum_run_time_is_killed_and_never_lands(
    sandbox: Sandbox, repository: GitHubRepository
) -> None:
    arm(sandbox, REFS, kind="late_commit", seconds=5.0)
    assert await carry_out(await repository.archive(fresh_version()), PATIENT_S) == Lost(code="http_504")
    assert effects(sandbox, "branches") == []


async def test_a_request_that_a_front_sends_twice_makes_one_branch(
    sandbox: Sandbox, repository: GitHubRepository
) -> None:
    version = fresh_version()
    for match in (TREES, COMMITS, REFS):
        arm(sandbox, match, kind="replay")
    assert isinstance(await carry_out(await repository.archive(version)), Landed)
    assert (len(effects(sandbox, "branches")), sandbox.effects()["commits"]) == (1, 1)


async def test_a_stale_read_answers_the_past_and_a_deletion_is_not_taken_from_it(
    sandbox: Sandbox, repository: GitHubRepository
) -> None:
    version = fresh_version()
    commit = await archived(repository, version)
    look = f"GET {GIT}/ref/heads/{version.branch}"
    arm(sandbox, look, kind="stale", seconds=60)
    assert await repository.observe_archived(version, known_commit=commit) == Absent()
    assert isinstance(await repository.observe_archived(version, known_commit=commit), Present)
    assert isinstance(await repository.observe_deleted(branch=version.branch, commit=commit), Absent)


READS = [
    ({"kind": "status_before", "status": 200, "body": HTML}, "unreadable_answer"),
    ({"kind": "status_before", "status": 200, "body": "{}"}, "unreadable_answer"),
    ({"kind": "status_before", "status": 200, "body": "[]"}, "unreadable_answer"),
    ({"kind": "status_before", "status": 503, "body": HTML}, "http_503"),
    ({"kind": "status_before", "status": 404, "body": HTML}, "http_404"),
    ({"kind": "status_before", "status": 401, "body": problem("Bad credentials")}, "not_authenticated"),
    (limited("7", 403, SECONDARY), "rate_limited"),
    ({"kind": "hang"}, "no_answer_in_time"),
    ({"kind": "truncate"}, "connection_lost"),
]


@pytest.mark.parametrize(("fault", "code"), READS)
async def test_a_read_that_fails_says_so_and_is_never_an_absence(
    sandbox: Sandbox, repository: GitHubRepository, fault: dict[str, Any], code: str
) -> None:
    version = fresh_version()
    arm(sandbox, f"GET {GIT}/ref", times=0, **fault)
    seen = await repository.observe_archived(version, known_commit=None)
    assert isinstance(seen, CannotTell)
    assert seen.code == code
    gone = await repository.observe_deleted(branch=version.branch, commit="c")
    assert isinstance(gone, CannotTell)
    with pytest.raises(Unprepared) as caught:
        await repository.archive(version)
    assert caught.value.code == code
    limit = code == "rate_limited"
    assert (seen.retry_after_s, caught.value.retry_after_s) == ((7.0, 7.0) if limit else (None, None))


@pytest.mark.parametrize("match", ["GET /github/repos/remit/archive", f"GET {GIT}/ref/heads/main"])
@pytest.mark.parametrize("status", [200, 404, 403])
async def test_an_absence_is_not_believed_without_proof_of_authority(
    sandbox: Sandbox, repository: GitHubRepository, match: str, status: int
) -> None:
    version = fresh_version()
    body = problem("Not Found" if status == 404 else "Resource not accessible by personal access token")
    taken = {
        "match": f"GET {GIT}/ref/heads/remit",
        "kind": "status_before",
        "status": 404,
        "body": problem("Not Found"),
    }
    sandbox.faults.arm(parse_fault(json.dumps(taken).encode()))
    arm(sandbox, match, kind="status_before", status=status, body=body, times=0)
    assert isinstance(await repository.observe_archived(version, known_commit=None), CannotTell)


# Deleting, opening and closing: one request each.

Preparing = Callable[[GitHubRepository, ContentVersion, str], Prepared]


def deleting(repository: GitHubRepository, version: ContentVersion, commit: str) -> Prepared:
    return repository.delete_branch(branch=version.branch)


def opening(repository: GitHubRepository, version: ContentVersion, commit: str) -> Prepared:
    return repository.open_pull_request(asking_for(version, commit))


DELETE, OPEN = f"DELETE {GIT}/refs/heads/", "POST /github/repos/remit/archive/pulls"


async def struck(
    sandbox: Sandbox, repository: GitHubRepository, prepare: Preparing, match: str, **fault: Any
) -> Answer:
    version = fresh_version()
    write = prepare(repository, version, await archived(repository, version))
    arm(sandbox, match, **fault)
    return await carry_out(write, patience_s(fault))


@pytest.mark.parametrize(("prepare", "match"), [(deleting, DELETE), (opening, OPEN)], ids=["delete", "open"])
@pytest.mark.parametrize(("fault", "code", "_effects"), [row for row in FAULTS if row[1] != "unreadable_answer"])
async def test_any_other_write_whose_answer_is_lost_is_doubt(
    sandbox: Sandbox,
    repository: GitHubRepository,
    prepare: Preparing,
    match: str,
    fault: dict[str, Any],
    code: str,
    _effects: int,
) -> None:
    bodiless = prepare is deleting and fault["kind"] in ("stall", "truncate", "endless")
    answer = await struck(sandbox, repository, prepare, match, **fault)
    if bodiless:
        assert isinstance(answer, Landed)  # an answer without a body cannot be cut in half
    else:
        assert answer == Lost(code=code)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (422, "Reference does not exist", Landed),
        (404, "Not Found", Landed),
        (422, "Repository rule violations found\n\nCannot delete this branch\n\n", Refused),
        (403, "Resource not accessible by personal access token", Refused),
        (422, "Something new", Lost),
        (404, "<html>", Lost),
    ],
)
async def test_a_branch_that_is_not_there_is_deleted_and_a_protected_one_is_not(
    sandbox: Sandbox, repository: GitHubRepository, status: int, message: str, expected: type[Answer]
) -> None:
    body = message if message.startswith("<") else problem(message)
    answer = await struck(sandbox, repository, deleting, DELETE, kind="status_before", status=status, body=body)
    assert isinstance(answer, expected)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (
            [{"resource": "PullRequest", "code": "custom", "message": "A pull request already exists for o:b."}],
            Lost(code="already_exists"),
        ),
        (
            [{"resource": "PullRequest", "code": "custom", "message": "No commits between main and b"}],
            Refused(failure=FailureClass.TRANSIENT, code="not_yet_visible"),
        ),
        (
            [{"resource": "PullRequest", "field": "head", "code": "invalid"}],
            Refused(failure=FailureClass.TRANSIENT, code="not_yet_visible"),
        ),
        (
            [{"resource": "PullRequest", "field": "base", "code": "invalid"}],
            Refused(failure=FailureClass.PERMANENT, code="base_branch_missing"),
        ),
        (["something new"], Lost(code="http_422")),
    ],
)
async def test_what_is_wrong_with_a_pull_request_is_read_from_its_details(
    sandbox: Sandbox, repository: GitHubRepository, errors: list[Any], expected: Answer
) -> None:
    body = problem("Validation Failed", errors)
    answer = await struck(sandbox, repository, opening, OPEN, kind="status_before", status=422, body=body)
    assert answer == expected


async def test_no_text_of_the_service_leaves_the_adapter(sandbox: Sandbox, repository: GitHubRepository) -> None:
    canary = "canary-text-of-the-service"
    for match in (TREES, COMMITS, REFS):
        arm(sandbox, match, kind="status_before", status=422, body=problem(canary, [{"message": canary}]))
        assert canary not in repr(await carry_out(await repository.archive(fresh_version())))
    arm(sandbox, "GET", kind="status_before", status=400, body=problem(canary))
    assert canary not in repr(await repository.observe_archived(fresh_version(), known_commit=None))
