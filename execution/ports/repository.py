"""A Git repository in which versions of content are kept, a branch for each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

from execution.core.definition import Prepared
from execution.core.events import canonical
from execution.core.failures import Sighting
from execution.core.quiescence import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """`path` is below the folder that the repository's configuration names."""

    path: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentVersion:
    """One version of one article, as it is to be kept.

    branch: its own, and its key: a branch of that name exists once. subject: first line of the commit's message.
    date_s: Unix seconds of the commit, the same on every try, so that the same version makes the same commit.
    """

    marker: str
    branch: str
    subject: str
    date_s: int
    files: tuple[ArchivedFile, ...]

    @property
    def artifact_hash(self) -> str:
        """SHA-256 over names and contents of the files."""
        sums = {file.path: hashlib.sha256(file.content.encode()).hexdigest() for file in self.files}
        return hashlib.sha256(canonical(sums).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A request to merge a version's branch, whose head is `commit`. `body` is a summary, never the content."""

    marker: str
    branch: str
    commit: str
    title: str
    body: str


class Repository(Protocol):
    """One repository.

    Commits carry our marker as a trailer, pull requests as a comment in their body. Receipts of an archived version
    have resource_id = branch, version = commit, reference = its page, and data: commit_sha, branch, artifact_hash;
    those of a pull request resource_id = number, version = the head's commit, reference = its page, and data: state.
    """

    @property
    def bounds(self) -> Bounds: ...

    async def archive(self, version: ContentVersion) -> Prepared:
        """The version on a branch of its own, on top of the base branch as it is now, which is read first.

        Tree, commit and branch go out in turn; only the branch is an effect. Raises `Unprepared`: PERMANENT
        `repository_empty`, `base_branch_missing`, `not_authenticated` and the like, TRANSIENT when it cannot be read.
        """
        ...

    async def observe_archived(self, version: ContentVersion, *, known_commit: str | None) -> Sighting:
        """Present = the branch's head is the known commit, or carries our marker; Foreign = `pushed_to` when somebody
        pushed to it, `branch_taken` when it is somebody else's. `complete` is false when a file is not as asked."""
        ...

    def delete_branch(self, *, branch: str) -> Prepared:
        """The repository cannot be told which head to expect: look right before."""
        ...

    async def observe_deleted(self, *, branch: str, commit: str) -> Sighting:
        """Present = gone; Absent = still there with that head; Foreign = `pushed_to`: hands off."""
        ...

    def open_pull_request(self, request: PullRequest) -> Prepared: ...

    async def observe_pull_request(self, request: PullRequest) -> Sighting:
        """Present = ours, open or merged; Foreign = `closed` when somebody closed ours, `pushed_to`, or `not_ours` when
        somebody else opened one for that branch."""
        ...

    def close_pull_request(self, *, number: str) -> Prepared: ...

    async def observe_closed(self, *, number: str, commit: str) -> Sighting:
        """Present = closed; Absent = open as we left it; Foreign = `merged` or `pushed_to`: hands off."""
        ...
