"""A repository on GitHub: the port `execution.ports.Repository` over the git data interface.

A version is a branch with one commit on top of the base branch. Tree and commit are content-addressed: their names are
computed here first (`adapters.github_objects`), nobody sees them, and storing them again changes nothing. The branch is
the effect, and it comes last, on the connection that was opened before the fence: a branch of a name is made once,
whoever asks for it, so that its name is our key.

Ours is a branch whose head we have on record, or whose head carries our marker as a trailer. A head that is neither is
Foreign: `pushed_to` when our commit lies below it, `branch_taken` when it does not. "Not there" counts only from a
token that may write to the repository and sees its base branch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from adapters.answers import Reply, Unreadable, parse_object, text, undocumented
from adapters.github_objects import (
    FILE_MODE,
    Commit,
    Identity,
    blob_sha,
    folders_of,
    marker_in,
    message_of,
    tree_with,
)
from adapters.github_probing import symptom
from adapters.github_pulls import PullRequests
from adapters.github_rest import GitHubReader, Missing, json_body, problem_in, refusal, unprepared
from adapters.http import CONNECT_S, READ_S, HttpSystem
from adapters.writes import Planned, Preparation
from execution.core.definition import Prepared
from execution.core.failures import (
    Absent,
    Answer,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Sighting,
)
from execution.core.quiescence import Bounds
from execution.ports import ContentVersion, PullRequest, Symptom

API_VERSION: Final = "2022-11-28"
CLOUD: Final = "https://api.github.com"
WITHIN_S: Final = 10.0
"""How long after its fence the last request of a write may begin."""
_OWNER: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})")
_REPO: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PART: Final = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"
_PATH: Final = re.compile(rf"(?!.*\.\.){_PART}(?:/{_PART}){{0,9}}")
_EDGE: Final = r"""[^\x00-\x20\x7f.,:;<>"'\\]"""
"""What git leaves at the ends of a name; what it takes away there would give the commit another name than ours."""
_PERSON: Final = re.compile(rf"(?=.{{1,100}}$){_EDGE}(?:[^\x00-\x1f\x7f<>]*{_EDGE})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Where versions are kept, and from whom their commits are. folder: where in the repository. Raises ValueError."""

    owner: str
    repo: str
    base_branch: str = "main"
    folder: str = "remit"
    author_name: str = "Remit"
    author_email: str = "remit@remit.invalid"

    def __post_init__(self) -> None:
        shapes = (
            ("owner", _OWNER, self.owner),
            ("repo", _REPO, self.repo),
            ("base_branch", _PATH, self.base_branch),
            ("folder", _PATH, self.folder),
            ("author_name", _PERSON, self.author_name),
            ("author_email", _PERSON, self.author_email),
        )
        wrong = [name for name, shape, value in shapes if not shape.fullmatch(value)]
        if wrong:
            raise ValueError(f"{wrong[0]} is not a usable value")


class GitHubRepository:
    """See the module. `url` is the REST interface's: https://api.github.com, or https://HOST/api/v3 of a server.

    within_s: how long after its fence the last request of a write may begin; it counts towards quiescence.
    """

    system = "github"

    def __init__(
        self,
        url: str,
        token: str,
        archive: Archive,
        bounds: Bounds,
        *,
        within_s: float = WITHIN_S,
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        ca_file: str | None = None,
    ) -> None:
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": API_VERSION,
        }
        self._system = HttpSystem(
            url, bounds=bounds, headers=headers, connect_s=connect_s, read_s=read_s, ca_file=ca_file
        )
        self._archive, self._within_s = archive, within_s
        self._identity = Identity(name=archive.author_name, email=archive.author_email)
        self._read = GitHubReader(self._system, archive.owner, archive.repo, archive.base_branch)
        self._pulls = PullRequests(self._system, self._read, archive.base_branch)
        self._page = f"{_pages(self._system.url)}/{self._read.full_name}/tree"

    @property
    def bounds(self) -> Bounds:
        return self._system.bounds

    async def probe(self) -> tuple[Symptom, ...]:
        return (symptom(await self._read.obstacle(), self._read.full_name, self._archive.base_branch),)

    async def aclose(self) -> None:
        """Close the kept connections."""
        await self._system.aclose()

    async def archive(self, version: ContentVersion) -> Prepared:
        base = await self._read.head(self._archive.base_branch)
        if isinstance(base, Missing):
            raise unprepared(await self._read.authority() or CannotTell(code="base_branch_missing"))
        below = base if isinstance(base, CannotTell) else await self._read.commit(base)
        if isinstance(below, CannotTell):
            raise unprepared(below)
        files = self._files(version)
        folders = await self._read.folders(below.tree, folders_of(files))
        if isinstance(folders, CannotTell):
            raise unprepared(folders)
        commit = Commit(
            tree=tree_with(folders, files),
            parent=below.sha,
            identity=self._identity,
            at_s=version.date_s,
            message=message_of(version.subject, version.marker, version.artifact_hash),
        )
        return self._in_turn(version, below.tree, files, commit)

    async def observe_archived(self, version: ContentVersion, *, known_commit: str | None) -> Sighting:
        head = await self._read.head(version.branch)
        if isinstance(head, CannotTell):
            return head
        if isinstance(head, Missing):
            return await self._read.authority() or Absent()
        if head == known_commit:
            return Present(receipt=self._receipt(version, head))
        commit = await self._read.commit(head)
        if isinstance(commit, CannotTell):
            return commit
        if known_commit is None and marker_in(commit.message) == version.marker:
            differing = await self._differing(commit.tree, version)
            if isinstance(differing, CannotTell):
                return differing
            return Present(receipt=self._receipt(version, head), complete=not differing, difference=differing)
        return await self._foreign(version, head, known_commit)

    def delete_branch(self, *, branch: str) -> Prepared:
        path = f"{self._read.path}/git/refs/heads/{quote(branch)}"
        return self._system.write("DELETE", path, b"", judge=lambda reply: _deleted(reply, branch))

    async def observe_deleted(self, *, branch: str, commit: str) -> Sighting:
        head = await self._read.head(branch)
        if isinstance(head, CannotTell):
            return head
        if isinstance(head, Missing):
            return await self._read.authority() or Present(receipt=_gone(branch))
        seen = Receipt(resource_id=branch, version=head, data={"status": "standing"})
        return Absent(receipt=seen) if head == commit else Foreign(code="pushed_to", receipt=seen)

    def open_pull_request(self, request: PullRequest) -> Prepared:
        return self._pulls.open(request)

    async def observe_pull_request(self, request: PullRequest) -> Sighting:
        return await self._pulls.observe(request)

    def close_pull_request(self, *, number: str) -> Prepared:
        return self._pulls.close(number)

    async def observe_closed(self, *, number: str, commit: str) -> Sighting:
        return await self._pulls.observe_closed(number, commit)

    def _files(self, version: ContentVersion) -> dict[str, str]:
        return {f"{self._archive.folder}/{file.path}": file.content for file in version.files}

    def _in_turn(self, version: ContentVersion, base_tree: str, files: Mapping[str, str], commit: Commit) -> Prepared:
        entries = [{"path": p, "mode": FILE_MODE, "type": "blob", "content": c} for p, c in sorted(files.items())]
        signed = self._identity.fields(commit.at_s)
        as_commit = {
            "message": commit.message,
            "tree": commit.tree,
            "parents": [commit.parent],
            "author": signed,
            "committer": signed,
        }
        git, names = f"{self._read.path}/git", commit.names()
        tree = {"base_tree": base_tree, "tree": entries}
        preparations = (
            Preparation(request=self._plan(f"{git}/trees", tree), made=lambda reply: _stored(reply, (commit.tree,))),
            Preparation(request=self._plan(f"{git}/commits", as_commit), made=lambda reply: _stored(reply, names)),
        )
        ref = f"refs/heads/{version.branch}"
        branches = {name: self._plan(f"{git}/refs", {"ref": ref, "sha": name}) for name in names}
        return self._system.write_in_turn(
            preparations, branches, judge=lambda reply: self._branched(reply, version, names), within_s=self._within_s
        )

    def _plan(self, path: str, fields: Mapping[str, object]) -> Planned:
        return self._system.plan("POST", path, json_body(fields))

    def _branched(self, reply: Reply, version: ContentVersion, names: tuple[str, ...]) -> Answer:
        if reply.status == 201:
            made = text(parse_object(reply.body), "object", "sha")
            if made not in names:
                raise Unreadable
            return Landed(receipt=self._receipt(version, made))
        problem = problem_in(reply) if reply.status == 422 else None
        if problem is not None and problem.says("reference already exists"):
            return Lost(code="already_exists")  # an earlier attempt of ours, or somebody else: the read-back tells
        if problem is not None and problem.says("object does not exist"):
            return Refused(failure=FailureClass.TRANSIENT, code="not_yet_visible")
        return refusal(reply) or undocumented(reply)

    def _receipt(self, version: ContentVersion, commit: str) -> Receipt:
        data = {"commit_sha": commit, "branch": version.branch, "artifact_hash": version.artifact_hash}
        page = f"{self._page}/{quote(version.branch)}"
        return Receipt(resource_id=version.branch, version=commit, reference=page, data=data)

    async def _differing(self, tree: str, version: ContentVersion) -> tuple[str, ...] | CannotTell:
        """Files that are not in that tree as asked."""
        files = self._files(version)
        folders = await self._read.folders(tree, folders_of(files))
        if isinstance(folders, CannotTell):
            return folders
        found = {f"{folder}/{entry.name}": entry.sha for folder, entries in folders.items() for entry in entries}
        return tuple(path for path, content in sorted(files.items()) if found.get(path) != blob_sha(content))

    async def _foreign(self, version: ContentVersion, head: str, known_commit: str | None) -> Sighting:
        receipt = Receipt(resource_id=version.branch, version=head)
        if known_commit is not None:
            return Foreign(code="pushed_to", receipt=receipt)
        below = await self._read.history(head)
        if isinstance(below, CannotTell):
            return below
        ours = any(marker_in(message) == version.marker for _, message in below)
        return Foreign(code="pushed_to" if ours else "branch_taken", receipt=receipt)


def _pages(url: str) -> str:
    """Where the pages of an interface's repositories are."""
    return "https://github.com" if url == CLOUD else url.removesuffix("/api/v3")


def _stored(reply: Reply, names: tuple[str, ...]) -> str | Answer:
    """The name under which an object was stored, which must be one that we computed."""
    if reply.status != 201:
        return refusal(reply) or undocumented(reply)
    name = text(parse_object(reply.body), "sha")
    return name if name in names else Refused(failure=FailureClass.PERMANENT, code="stored_differently")


def _deleted(reply: Reply, branch: str) -> Answer:
    problem = problem_in(reply)
    missing = problem is not None and problem.says("not found" if reply.status == 404 else "reference does not exist")
    if reply.status == 204 or (reply.status in (404, 422) and missing):
        return Landed(receipt=_gone(branch))
    return refusal(reply) or undocumented(reply)


def _gone(branch: str) -> Receipt:
    return Receipt(resource_id=branch, data={"status": "deleted"})
