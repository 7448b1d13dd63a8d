"""The port `Repository` over the stand-in and over an independent emulator, whose branches are counted without it."""

import asyncio
from dataclasses import replace

import pytest

from adapters.github_objects import blob_sha
from adapters.sandbox.github import EMPTY, READER_TOKEN
from execution.core.failures import (
    Absent,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Unprepared,
)
from execution.ports import ArchivedFile, Severity, Symptom
from tests.conformance.beds import carry_out, fresh_marker
from tests.conformance.repositories import (
    BASE,
    FOLDER,
    RepositoryBed,
    archived,
    asking_for,
    fresh_version,
)

REFUSED_AS_UNKNOWN = Refused(failure=FailureClass.PERMANENT, code="not_authenticated")


async def test_a_version_is_one_commit_on_a_branch_of_its_own_on_top_of_the_base(shelf: RepositoryBed) -> None:
    version = fresh_version()
    async with shelf.repository() as repository:
        assert await repository.observe_archived(version, known_commit=None) == Absent()
        answer = await carry_out(await repository.archive(version))
        assert isinstance(answer, Landed)
        commit = answer.receipt.data["commit_sha"]
        assert answer.receipt == Receipt(
            resource_id=version.branch,
            version=str(commit),
            reference=f"{shelf.url}/{shelf.owner}/{shelf.repo}/tree/{version.branch}",
            data={"commit_sha": commit, "branch": version.branch, "artifact_hash": version.artifact_hash},
        )
        for known in (None, str(commit)):
            seen = await repository.observe_archived(version, known_commit=known)
            assert seen == Present(receipt=answer.receipt)
    assert await shelf.branches(version.branch) == {version.branch: commit}
    stored = await shelf.person("GET", f"/git/commits/{commit}")
    assert [parent["sha"] for parent in stored["parents"]] == [await shelf.base()]
    assert stored["author"]["date"] == stored["committer"]["date"] == "2023-11-14T22:13:20Z"
    assert f"Remit-Marker: {version.marker}" in stored["message"]
    before, after = await shelf.files(await shelf.base()), await shelf.files(str(commit))
    added = {path: name for path, name in after.items() if path not in before}
    assert added == {f"{FOLDER}/{file.path}": blob_sha(file.content) for file in version.files}
    assert before.items() <= after.items()


async def test_the_same_version_again_is_the_same_commit_and_no_second_branch(shelf: RepositoryBed) -> None:
    version = fresh_version()
    async with shelf.repository() as repository:
        commit = await archived(repository, version)
        assert await carry_out(await repository.archive(version)) == Lost(code="already_exists")
        assert await repository.observe_archived(version, known_commit=None) == Present(
            receipt=_receipt(shelf, version.branch, commit, version.artifact_hash)
        )
        for _ in range(2):
            assert (await repository.archive(version)).request_digest == (
                await repository.archive(version)
            ).request_digest
    assert await shelf.branches(version.branch) == {version.branch: commit}


def _receipt(shelf: RepositoryBed, branch: str, commit: str, artifact_hash: str) -> Receipt:
    page = f"{shelf.url}/{shelf.owner}/{shelf.repo}/tree/{branch}"
    data = {"commit_sha": commit, "branch": branch, "artifact_hash": artifact_hash}
    return Receipt(resource_id=branch, version=commit, reference=page, data=data)


@pytest.mark.behaviour("archive.once")
async def test_many_at_once_make_one_branch(shelf: RepositoryBed) -> None:
    version = fresh_version()
    async with shelf.repository() as repository:
        prepared = [await repository.archive(version) for _ in range(6)]
        answers = await asyncio.gather(*map(carry_out, prepared))
        landed = [answer for answer in answers if isinstance(answer, Landed)]
        assert len(landed) == 1
        assert all(answer == Lost(code="already_exists") for answer in answers if answer not in landed)
    assert len(await shelf.branches(version.branch)) == 1


async def test_a_version_on_a_base_that_moved_on_is_still_ours(shelf: RepositoryBed) -> None:
    version = fresh_version()
    async with shelf.repository() as repository:
        early = await repository.archive(version)
        await shelf.push(BASE, onto=await shelf.base())
        late = await repository.archive(version)
        assert early.request_digest != late.request_digest
        assert isinstance(await carry_out(early), Landed)
        assert await carry_out(late) == Lost(code="already_exists")
        assert isinstance(await repository.observe_archived(version, known_commit=None), Present)


async def test_content_of_a_mebibyte_is_kept(shelf: RepositoryBed) -> None:
    version = fresh_version("é" * 524_288)
    async with shelf.repository() as repository:
        commit = await archived(repository, version)
    kept = await shelf.files(commit)
    assert kept[f"{FOLDER}/{version.files[0].path}"] == blob_sha(version.files[0].content)


async def test_an_unusual_name_is_a_branch_that_is_found_and_deleted_again(shelf: RepositoryBed) -> None:
    version = fresh_version()
    version = replace(version, branch=version.branch.replace("article-", "a=2e=2e"))
    async with shelf.repository() as repository:
        commit = await archived(repository, version)
        assert isinstance(await repository.observe_archived(version, known_commit=None), Present)
        assert isinstance(await carry_out(repository.delete_branch(branch=version.branch)), Landed)
        seen = await repository.observe_deleted(branch=version.branch, commit=commit)
        assert isinstance(seen, Present)


@pytest.mark.behaviour("archive.untouched")
async def test_a_branch_that_somebody_pushed_to_is_neither_ours_nor_taken_back(shelf: RepositoryBed) -> None:
    version = fresh_version()
    async with shelf.repository() as repository:
        commit = await archived(repository, version)
        pushed = await shelf.push(version.branch, onto=commit)
        for known in (None, commit):
            seen = await repository.observe_archived(version, known_commit=known)
            assert isinstance(seen, Foreign)
            assert seen.code == "pushed_to"
        taken = await repository.observe_deleted(branch=version.branch, commit=commit)
        assert isinstance(taken, Foreign)
        assert (taken.code, taken.receipt and taken.receipt.version) == ("pushed_to", pushed)
    assert await shelf.branches(version.branch) == {version.branch: pushed}


async def test_a_branch_of_somebody_else_is_foreign(shelf: RepositoryBed) -> None:
    version = fresh_version()
    await shelf.person("POST", "/git/refs", {"ref": f"refs/heads/{version.branch}", "sha": await shelf.base()})
    async with shelf.repository() as repository:
        seen = await repository.observe_archived(version, known_commit=None)
        assert isinstance(seen, Foreign)
        assert seen.code == "branch_taken"
        assert await carry_out(await repository.archive(version)) == Lost(code="already_exists")
    assert await shelf.branches(version.branch) == {version.branch: await shelf.base()}


async def test_a_commit_with_our_marker_but_other_files_is_ours_and_says_which(shelf: RepositoryBed) -> None:
    version = fresh_version()
    other = replace(version, files=(ArchivedFile(path=version.files[0].path, content="other"), *version.files[1:]))
    async with shelf.repository() as repository:
        await archived(repository, version)
        seen = await repository.observe_archived(other, known_commit=None)
        assert isinstance(seen, Present)
        assert (seen.complete, seen.difference) == (False, (f"{FOLDER}/{other.files[0].path}",))


async def test_a_branch_is_deleted_and_deleting_it_again_changes_nothing(shelf: RepositoryBed) -> None:
    version = fresh_version()
    async with shelf.repository() as repository:
        commit = await archived(repository, version)
        standing = await repository.observe_deleted(branch=version.branch, commit=commit)
        assert isinstance(standing, Absent)
        for _ in range(2):
            assert isinstance(await carry_out(repository.delete_branch(branch=version.branch)), Landed)
        gone = await repository.observe_deleted(branch=version.branch, commit=commit)
        assert gone == Present(receipt=Receipt(resource_id=version.branch, data={"status": "deleted"}))
        assert await repository.observe_archived(version, known_commit=commit) == Absent()
    assert await shelf.branches(version.branch) == {}
    assert await shelf.base()


async def test_a_pull_request_is_opened_once_found_again_and_closed(shelf: RepositoryBed) -> None:
    version = fresh_version()
    async with shelf.repository() as repository:
        commit = await archived(repository, version)
        asked = asking_for(version, commit)
        assert await repository.observe_pull_request(asked) == Absent()
        opened = await carry_out(repository.open_pull_request(asked))
        assert isinstance(opened, Landed)
        number = opened.receipt.resource_id
        assert (opened.receipt.version, opened.receipt.data) == (commit, {"state": "open"})
        assert opened.receipt.reference.endswith(f"/{shelf.owner}/{shelf.repo}/pull/{number}")
        assert await repository.observe_pull_request(asked) == Present(receipt=opened.receipt)
        assert await repository.observe_closed(number=number, commit=commit) == Absent(receipt=opened.receipt)
        stored = await shelf.person("GET", f"/pulls/{number}")
        assert (stored["base"]["ref"], stored["head"]["ref"], stored["state"]) == (BASE, version.branch, "open")
        assert "A summary." in stored["body"]
        for _ in range(2):
            assert isinstance(await carry_out(repository.close_pull_request(number=number)), Landed)
        closed = await repository.observe_closed(number=number, commit=commit)
        assert isinstance(closed, Present)
        found = await repository.observe_pull_request(asked)
        assert isinstance(found, Foreign)
        assert found.code == "closed"
    assert (await shelf.person("GET", f"/pulls/{number}"))["state"] == "closed"


async def test_a_pull_request_of_somebody_else_is_not_ours(shelf: RepositoryBed) -> None:
    version = fresh_version()
    async with shelf.repository() as repository:
        commit = await archived(repository, version)
        theirs = await shelf.person("POST", "/pulls", {"title": "mine", "head": version.branch, "base": BASE})
        seen = await repository.observe_pull_request(asking_for(version, commit))
        assert isinstance(seen, Foreign)
        assert (seen.code, seen.receipt and seen.receipt.resource_id) == ("not_ours", str(theirs["number"]))


@pytest.mark.behaviour("incident.66")
async def test_a_pull_request_whose_branch_moved_on_is_left_alone(shelf: RepositoryBed) -> None:
    version = fresh_version()
    async with shelf.repository() as repository:
        commit = await archived(repository, version)
        asked = asking_for(version, commit)
        opened = await carry_out(repository.open_pull_request(asked))
        assert isinstance(opened, Landed)
        moved = asking_for(version, "0" * 40, marker=asked.marker)
        seen = await repository.observe_pull_request(moved)
        assert isinstance(seen, Foreign)
        closing = await repository.observe_closed(number=opened.receipt.resource_id, commit="0" * 40)
        assert isinstance(closing, Foreign)
        assert (seen.code, closing.code) == ("pushed_to", "pushed_to")


async def test_a_base_branch_that_is_not_there_stops_before_anything_is_sent(shelf: RepositoryBed) -> None:
    async with shelf.repository(base_branch=f"missing-{fresh_marker()[:8]}") as repository:
        with pytest.raises(Unprepared) as caught:
            await repository.archive(fresh_version())
        assert (caught.value.failure, caught.value.code) == (FailureClass.PERMANENT, "base_branch_missing")
        seen = await repository.observe_archived(fresh_version(), known_commit=None)
        assert seen == CannotTell(code="base_branch_missing")


async def test_a_repository_that_is_not_there_is_no_proof_of_absence(shelf: RepositoryBed) -> None:
    async with shelf.repository(repo=f"missing-{fresh_marker()[:8]}") as repository:
        with pytest.raises(Unprepared) as caught:
            await repository.archive(fresh_version())
        assert (caught.value.failure, caught.value.code) == (FailureClass.PERMANENT, "not_authorised")
        for seen in (
            await repository.observe_archived(fresh_version(), known_commit=None),
            await repository.observe_deleted(branch="remit/x/y/v1", commit="c"),
            await repository.observe_pull_request(asking_for(fresh_version(), "c")),
        ):
            assert isinstance(seen, CannotTell)


async def test_a_file_where_the_folder_should_be_stops_before_anything_is_sent(shelf: RepositoryBed) -> None:
    """`README.md` stands in every first commit of both."""
    version = fresh_version()
    files = tuple(replace(file, path=file.path) for file in version.files)
    async with shelf.repository() as repository:
        blocked = type(repository)(
            shelf.url, shelf.token, replace(repository._archive, folder="README.md"), shelf.bounds
        )
        with pytest.raises(Unprepared) as caught:
            await blocked.archive(replace(version, files=files))
        assert (caught.value.failure, caught.value.code) == (FailureClass.PERMANENT, "folder_taken")
        await blocked.aclose()


# What the emulator does not do as the real service does is asked of the stand-in alone.


async def test_an_empty_repository_stops_before_anything_is_sent(stand_in: RepositoryBed) -> None:
    async with stand_in.repository(repo=EMPTY) as repository:
        with pytest.raises(Unprepared) as caught:
            await repository.archive(fresh_version())
        assert (caught.value.failure, caught.value.code) == (FailureClass.PERMANENT, "repository_empty")


async def test_a_wrong_token_is_refused_for_good_and_sees_nothing(stand_in: RepositoryBed) -> None:
    async with stand_in.repository("wrong") as repository:
        with pytest.raises(Unprepared) as caught:
            await repository.archive(fresh_version())
        assert (caught.value.failure, caught.value.code) == (FailureClass.PERMANENT, "not_authenticated")
        assert await carry_out(repository.delete_branch(branch="remit/x/y/v1")) == REFUSED_AS_UNKNOWN
        seen = await repository.observe_archived(fresh_version(), known_commit=None)
        assert seen == CannotTell(code="not_authenticated")


async def test_a_token_that_may_only_read_proves_no_absence_and_writes_nothing(stand_in: RepositoryBed) -> None:
    version = fresh_version()
    async with stand_in.repository(READER_TOKEN) as repository:
        assert await repository.observe_archived(version, known_commit=None) == CannotTell(code="not_authorised")
        answer = await carry_out(await repository.archive(version))
        assert answer == Refused(failure=FailureClass.PERMANENT, code="not_permitted")
    assert await stand_in.branches(version.branch) == {}


async def test_a_second_pull_request_for_a_branch_is_a_question_and_not_a_failure(stand_in: RepositoryBed) -> None:
    version = fresh_version()
    async with stand_in.repository() as repository:
        asked = asking_for(version, await archived(repository, version))
        assert isinstance(await carry_out(repository.open_pull_request(asked)), Landed)
        assert await carry_out(repository.open_pull_request(asked)) == Lost(code="already_exists")
        seen = await repository.observe_pull_request(asked)
        assert isinstance(seen, Present)
        assert seen.rows == 1


async def test_a_pull_request_from_a_branch_that_is_not_visible_yet_comes_later(stand_in: RepositoryBed) -> None:
    async with stand_in.repository() as repository:
        answer = await carry_out(repository.open_pull_request(asking_for(fresh_version(), "c")))
        assert answer == Refused(failure=FailureClass.TRANSIENT, code="not_yet_visible")


async def test_deleting_a_branch_closes_what_was_to_be_merged_from_it(stand_in: RepositoryBed) -> None:
    version = fresh_version()
    async with stand_in.repository() as repository:
        commit = await archived(repository, version)
        opened = await carry_out(repository.open_pull_request(asking_for(version, commit)))
        assert isinstance(opened, Landed)
        await carry_out(repository.delete_branch(branch=version.branch))
        seen = await repository.observe_closed(number=opened.receipt.resource_id, commit=commit)
        assert isinstance(seen, Present)


def problems(symptoms: tuple[Symptom, ...]) -> list[tuple[str, str]]:
    return [(symptom.code, symptom.severity) for symptom in symptoms]


async def test_a_probe_says_whether_versions_can_be_kept_and_leaves_nothing(shelf: RepositoryBed) -> None:
    before = await shelf.branches()
    async with shelf.repository() as repository:
        (ready,) = await repository.probe()
        assert (ready.code, ready.severity) == ("repository_ready", Severity.FINE)
        assert f"{shelf.owner}/{shelf.repo}" in ready.detail
    async with shelf.repository(base_branch="nowhere") as repository:
        assert problems(await repository.probe()) == [("base_branch_missing", "problem")]
    async with shelf.repository(repo="nowhere") as repository:
        assert problems(await repository.probe()) == [("not_authorised", "problem")]
    assert await shelf.branches() == before


async def test_a_probe_names_what_is_wrong_with_the_token_without_showing_it(stand_in: RepositoryBed) -> None:
    for token, code in (("github_pat_canary", "not_authenticated"), (READER_TOKEN, "not_authorised")):
        async with stand_in.repository(token) as repository:
            (symptom,) = await repository.probe()
            assert (symptom.code, symptom.severity, bool(symptom.fix)) == (code, Severity.PROBLEM, True)
            assert token not in repr(symptom)
    async with stand_in.repository(repo=EMPTY) as repository:
        assert problems(await repository.probe()) == [("repository_empty", "problem")]
