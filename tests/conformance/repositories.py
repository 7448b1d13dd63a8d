"""The two worlds in which the repository's suite runs: the stand-in and an independent emulator."""

import asyncio
import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from adapters.github import Archive, GitHubRepository
from adapters.sandbox.github import OWNER, PREFIX, REPO, TOKEN
from adapters.sandbox.running import Sandbox
from execution.core.failures import Landed
from execution.core.quiescence import Bounds
from execution.ports import ArchivedFile, ContentVersion, PullRequest
from tests.conformance.beds import PLENTY, carry_out, fresh_marker
from tests.testbeds.github.emulator import Emulator

REST_MAX_S: Final = 15.0
BASE: Final = "main"
FOLDER: Final = "kept/versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryBed:
    """A repository, and a person who uses it beside us."""

    url: str
    owner: str
    repo: str
    token: str
    bounds: Bounds

    @contextlib.asynccontextmanager
    async def repository(self, token: str | None = None, **settings: Any) -> AsyncIterator[GitHubRepository]:
        """The adapter under test. `repo` and `base_branch` name other ones."""
        named = {name: settings.pop(name) for name in ("repo", "base_branch") if name in settings}
        archive = replace(Archive(owner=self.owner, repo=self.repo, folder=FOLDER), **named)
        given = self.token if token is None else token
        adapter = GitHubRepository(self.url, given, archive, self.bounds, **settings)
        try:
            yield adapter
        finally:
            await adapter.aclose()

    async def rest(self, method: str, path: str, fields: object = None, *, token: str = "") -> tuple[int, Any]:
        """One call below the repository by another client: status and parsed body."""
        return await asyncio.to_thread(self._rest, method, path, fields, token or self.token)

    async def person(self, method: str, path: str, fields: object = None) -> Any:
        """The body of a call that must succeed."""
        status, body = await self.rest(method, path, fields)
        assert status in (200, 201, 204), body
        return body

    async def branches(self, prefix: str = "remit/") -> dict[str, str]:
        """Every branch with that prefix and its head: the effects, counted without the adapter."""
        path = f"/git/matching-refs/heads/{prefix}"
        status, rows = await self.rest("GET", path)
        assert status == 200, rows
        return {row["ref"].removeprefix("refs/heads/"): row["object"]["sha"] for row in rows}

    async def files(self, commit: str) -> dict[str, str]:
        """Path and Git's name of every file in a commit."""
        tree = (await self.person("GET", f"/git/commits/{commit}"))["tree"]["sha"]
        return dict(await self._below(tree, ""))

    async def _below(self, tree: str, folder: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for row in (await self.person("GET", f"/git/trees/{tree}"))["tree"]:
            path = f"{folder}{row['path']}"
            found += await self._below(row["sha"], f"{path}/") if row["type"] == "tree" else [(path, row["sha"])]
        return found

    async def push(self, branch: str, *, onto: str) -> str:
        """Somebody commits on top of `onto` and pushes to the branch; the commit."""
        tree = (await self.person("GET", f"/git/commits/{onto}"))["tree"]["sha"]
        fields = {"message": "by hand", "tree": tree, "parents": [onto]}
        commit: str = (await self.person("POST", "/git/commits", fields))["sha"]
        await self.person("PATCH", f"/git/refs/heads/{branch}", {"sha": commit})
        return commit

    async def base(self) -> str:
        """The head of the base branch."""
        head: str = (await self.person("GET", f"/git/ref/heads/{BASE}"))["object"]["sha"]
        return head

    def _rest(self, method: str, path: str, fields: object, token: str) -> tuple[int, Any]:
        request = urllib.request.Request(f"{self.url}/repos/{self.owner}/{self.repo}{path}", method=method)
        request.add_header("Authorization", f"Bearer {token}")
        if fields is not None:
            request.data = json.dumps(fields).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=REST_MAX_S) as response:
                return response.status, json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@contextlib.asynccontextmanager
async def sandbox_repository(folder: Path) -> AsyncIterator[RepositoryBed]:
    """The stand-in, in this process."""
    sandbox = Sandbox(folder / "sandbox.db", time.time, PLENTY)
    await sandbox.start()
    try:
        yield standing_in(sandbox)
    finally:
        await sandbox.stop()


def standing_in(sandbox: Sandbox) -> RepositoryBed:
    """The repository of a running sandbox."""
    url = sandbox.url + PREFIX
    return RepositoryBed(url=url, owner=OWNER, repo=REPO, token=TOKEN, bounds=sandbox.settings.bounds())


def emulated_repository(emulator: Emulator) -> RepositoryBed:
    """The independent emulator, which names no limits."""
    named = {"owner": emulator.owner, "repo": emulator.repo, "token": emulator.token}
    return RepositoryBed(url=emulator.url, bounds=Bounds(), **named)


def fresh_version(content: str = "# Hello 🎉\r\n\n日本", **fields: Any) -> ContentVersion:
    """A version that nobody else keeps."""
    marker = fresh_marker()
    place = f"blog/article-{marker[:8]}/v1"
    files = (
        ArchivedFile(path=f"{place}/source.md", content=content),
        ArchivedFile(path=f"{place}/content.html", content=f"<p>{content}</p>\n"),
        ArchivedFile(path=f"{place}/metadata.json", content='{"title":"A title"}'),
    )
    named = {"branch": f"remit/{place}", "subject": f"Archive {place}", "date_s": 1_700_000_000}
    return ContentVersion(**{"marker": marker, "files": files, **named, **fields})


def asking_for(version: ContentVersion, commit: str, **fields: Any) -> PullRequest:
    """A request to merge that version."""
    named = {"branch": version.branch, "commit": commit, "title": version.subject, "body": "A summary."}
    return PullRequest(**{"marker": fresh_marker(), **named, **fields})


async def archived(repository: GitHubRepository, version: ContentVersion) -> str:
    """Archive it, which must succeed; the commit."""
    answer = await carry_out(await repository.archive(version))
    assert isinstance(answer, Landed), answer
    return answer.receipt.version
