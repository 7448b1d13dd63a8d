"""Reading a repository over GitHub's REST interface, and what its errors mean.

The same status means different things: 404 is "not there" to whoever may look and "not for you" to everybody else, 403
is a missing permission or a limit, 422 anything from a taken name to a rule of the organisation. So errors are read by
status and message, and what is not known is nothing: doubt for a write, "cannot tell" for a read. Texts and where they
come from: docs.github.com, "Troubleshooting the REST API" and the pages of each operation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from adapters.answers import JsonObject, NoReply, Reply, Unreadable, limit_over_s, parse, parse_object, text
from adapters.github_objects import Entry
from adapters.http import HttpSystem
from capabilities.strict_json import JsonValue
from execution.core.failures import CannotTell, FailureClass, Refused, Unprepared

LIMITED_S: Final = 60.0
"""What to wait for when a limit does not say: at least a minute."""
LISTED: Final = 30
"""How many commits are read to find ours below somebody else's."""
PULLS_LISTED: Final = 100
_MOVED: Final = frozenset((301, 302, 307, 308))
_LIMITS: Final = ("rate limit", "abuse detection")
_RULES: Final = ("rule violations", "protected branch", "being restricted")
_FORBIDDEN: Final = ("resource not accessible", "must have push access", "saml enforcement", "permission to")
_PERMANENT_READS: Final = frozenset(
    (
        *("not_authenticated", "not_authorised", "not_permitted", "base_branch_missing", "folder_taken"),
        *("repository_archived", "repository_empty", "repository_moved", "tree_too_large"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """GitHub answers that it is not there, which counts as much as the token may see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCommit:
    """A commit."""

    sha: str
    tree: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """A pull request."""

    number: int
    state: str
    merged: bool
    head_sha: str
    head_branch: str
    head_repository: str
    body: str
    page: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error body in lower case: its message, and those of its details with their fields (`head:invalid`)."""

    message: str
    details: str

    def says(self, *fragments: str) -> bool:
        return any(fragment in self.message or fragment in self.details for fragment in fragments)


def problem_in(reply: Reply) -> Problem | None:
    """The error body, None when the answer has none that GitHub would give."""
    try:
        body = parse_object(reply.body)
        message = text(body, "message").lower()
    except Unreadable:
        return None
    errors = body.get("errors")
    return Problem(message=message, details=" ".join(_detail(e) for e in errors) if isinstance(errors, list) else "")


def json_body(fields: Mapping[str, object]) -> bytes:
    """The bytes of a request, the same for the same fields."""
    return json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _detail(error: JsonValue) -> str:
    if not isinstance(error, dict):
        return str(error).lower()
    return f"{error.get('field')}:{error.get('code')} {error.get('message', '')}".lower()


def refusal(reply: Reply) -> Refused | None:
    """What any write may be refused with before anything happened; None when the answer is none of these."""
    problem = problem_in(reply)
    if reply.status == 429 or (reply.status == 403 and problem is not None and _is_limit(reply, problem)):
        after_s = reply.retry_after_s or _limit_over_s(reply) or LIMITED_S
        return Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=after_s)
    if problem is None:
        return None
    match reply.status:
        case status if status in _MOVED:
            return _permanent("repository_moved")
        case 401:
            return _permanent("not_authenticated")
        case 403 if problem.says("archived"):
            return _permanent("repository_archived")
        case 403 if problem.says(*_FORBIDDEN):
            return _permanent("not_permitted")
        case 404 if problem.message == "not found":
            return _permanent("repository_not_found")
        case 409 if problem.says("repository is empty"):
            return _permanent("repository_empty")
        case 403 | 409 | 422 if problem.says(*_RULES):
            return Refused(failure=FailureClass.BUSINESS, code="protected_branch")
        case _:
            return None


def _is_limit(reply: Reply, problem: Problem) -> bool:
    return reply.retry_after_s is not None or problem.says(*_LIMITS)


def _limit_over_s(reply: Reply) -> float | None:
    heads = reply.headers
    return limit_over_s(heads.get("x-ratelimit-remaining"), heads.get("x-ratelimit-reset"), heads.get("date"))


def _permanent(code: str) -> Refused:
    return Refused(failure=FailureClass.PERMANENT, code=code)


def unprepared(cannot: CannotTell) -> Unprepared:
    """Why a request could not be built, from a read that failed."""
    failure = FailureClass.PERMANENT if cannot.code in _PERMANENT_READS else FailureClass.TRANSIENT
    return Unprepared(failure, cannot.code, cannot.retry_after_s)


class GitHubReader:
    """Reads of one repository."""

    def __init__(self, system: HttpSystem, owner: str, repo: str, base_branch: str) -> None:
        self._system, self._base_branch = system, base_branch
        self.full_name = f"{owner}/{repo}"
        self.path = f"/repos/{self.full_name}"

    async def head(self, branch: str) -> str | Missing | CannotTell:
        """The commit that a branch points to."""
        found = await self._object(f"/git/ref/heads/{quote(branch)}")
        if not isinstance(found, dict):
            return found
        try:
            if text(found, "ref") != f"refs/heads/{branch}" or text(found, "object", "type") != "commit":
                return CannotTell(code="unreadable_answer")
            return text(found, "object", "sha")
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def commit(self, sha: str) -> GitCommit | CannotTell:
        """A commit that was just named to us: not to see it yet is the lag of a replica."""
        found = await self._object(f"/git/commits/{quote(sha)}")
        if not isinstance(found, dict):
            return _lagging(found)
        try:
            return GitCommit(sha=text(found, "sha"), tree=text(found, "tree", "sha"), message=text(found, "message"))
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def history(self, sha: str) -> tuple[tuple[str, str], ...] | CannotTell:
        """Commits from that one on into the past, (sha, message) each."""
        found = await self._get("/commits", {"sha": sha, "per_page": str(LISTED)})
        if not isinstance(found, list):
            return _lagging(found)
        try:
            return tuple((text(_object(row), "sha"), text(_object(row), "commit", "message")) for row in found)
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def folders(self, tree: str, wanted: tuple[str, ...]) -> dict[str, tuple[Entry, ...]] | CannotTell:
        """The entries of those folders (`github_objects.folders_of`) in that tree, as far as they exist."""
        found: dict[str, tuple[Entry, ...]] = {}
        for folder in wanted:
            above, _, name = folder.rpartition("/")
            here = next((entry for entry in found.get(above, ()) if folder and entry.name == name), None)
            if folder and here is None:
                continue
            if here is not None and not here.is_tree:
                return CannotTell(code="folder_taken")
            entries = await self._tree(tree if here is None else here.sha)
            if isinstance(entries, CannotTell):
                return entries
            found[folder] = entries
        return found

    async def pulls(self, branch: str) -> tuple[Pull, ...] | CannotTell:
        """Every pull request from that branch of this repository, open or not."""
        owner = self.full_name.partition("/")[0]
        asked = {"head": f"{owner}:{branch}", "state": "all", "per_page": str(PULLS_LISTED)}
        found = await self._get("/pulls", asked)
        if not isinstance(found, list):
            return _lagging(found)
        try:
            rows = tuple(parse_pull(row) for row in found)
        except Unreadable:
            return CannotTell(code="unreadable_answer")
        wanted = (branch, self.full_name.lower())
        return tuple(row for row in rows if (row.head_branch, row.head_repository.lower()) == wanted)

    async def pull(self, number: str) -> Pull | CannotTell:
        """One pull request; they are never deleted."""
        found = await self._object(f"/pulls/{quote(number)}")
        if not isinstance(found, dict):
            return _lagging(found)
        try:
            return parse_pull(found)
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def authority(self) -> CannotTell | None:
        """None when the token may write here and sees branches: then what it does not see is not there."""
        found = await self._repository()
        if isinstance(found, CannotTell):
            return found
        base = await self.head(self._base_branch)
        if isinstance(base, Missing):
            return CannotTell(code="base_branch_missing")
        return base if isinstance(base, CannotTell) else None

    async def obstacle(self) -> str | None:
        """What stands in the way of archiving here, as a code; for people who set it up."""
        found = await self._repository()
        if not isinstance(found, CannotTell) and found.get("archived") is True:
            return "repository_archived"
        wrong = await self.authority()
        return None if wrong is None else wrong.code

    async def _repository(self) -> JsonObject | CannotTell:
        """What the token is told about the repository, if it may push to it."""
        found = await self._object("")
        if not isinstance(found, dict):
            return CannotTell(code="not_authorised") if isinstance(found, Missing) else found
        permissions = found.get("permissions")
        may_push = isinstance(permissions, dict) and permissions.get("push") is True
        return found if may_push else CannotTell(code="not_authorised")

    async def _tree(self, sha: str) -> tuple[Entry, ...] | CannotTell:
        found = await self._object(f"/git/trees/{quote(sha)}")
        if not isinstance(found, dict):
            return _lagging(found)
        rows = found.get("tree")
        if found.get("truncated") is True:
            return CannotTell(code="tree_too_large")
        try:
            if not isinstance(rows, list):
                raise Unreadable
            return tuple(_entry(_object(row)) for row in rows)
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def _object(self, path: str) -> JsonObject | Missing | CannotTell:
        found = await self._get(path)
        return CannotTell(code="unreadable_answer") if isinstance(found, list) else found

    async def _get(
        self, path: str, params: Mapping[str, str] | None = None
    ) -> JsonObject | list[JsonValue] | Missing | CannotTell:
        reply = await self._system.get(self.path + path, params)
        if isinstance(reply, NoReply):
            return CannotTell(code=reply.code)
        if reply.status != 200:
            return _not_read(reply)
        try:
            value = parse(reply.body)
        except Unreadable:
            return CannotTell(code="unreadable_answer")
        return value if isinstance(value, dict | list) else CannotTell(code="unreadable_answer")


def _not_read(reply: Reply) -> Missing | CannotTell:
    refused = refusal(reply)
    if refused is None:
        return CannotTell(code=f"http_{reply.status}", retry_after_s=reply.retry_after_s)
    if refused.code == "repository_not_found":
        return Missing()
    return CannotTell(code=refused.code, retry_after_s=refused.retry_after_s)


def _lagging(found: JsonObject | list[JsonValue] | Missing | CannotTell) -> CannotTell:
    if isinstance(found, CannotTell):
        return found
    return CannotTell(code="not_yet_visible" if isinstance(found, Missing) else "unreadable_answer")


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise Unreadable
    return value


def _entry(row: JsonObject) -> Entry:
    return Entry(name=text(row, "path"), mode=text(row, "mode"), sha=text(row, "sha"))


def parse_pull(value: JsonValue) -> Pull:
    """A pull request as it is answered; raises Unreadable."""
    row = _object(value)
    number, head, body = row.get("number"), _object(row.get("head")), row.get("body")
    if isinstance(number, bool) or not isinstance(number, int):
        raise Unreadable
    repository = head.get("repo")  # null when a fork was deleted
    return Pull(
        number=number,
        state=text(row, "state"),
        merged=isinstance(row.get("merged_at"), str),
        head_sha=text(head, "sha"),
        head_branch=text(head, "ref"),
        head_repository=text(repository, "full_name") if isinstance(repository, dict) else "",
        body=body if isinstance(body, str) else "",
        page=text(row, "html_url"),
    )
