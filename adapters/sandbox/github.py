"""GitHub's REST interface over the sandbox's Git repository: what it answers to whom, and what it does.

Below the path prefix /github, as a server of one's own has it below /api/v3. There is one private repository and an
empty one. Bodies and statuses follow docs.github.com (REST API: Git database, Pulls, Troubleshooting); where the
independent emulator of the conformance suite answers otherwise, this one keeps to the documentation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape
from typing import Final
from urllib.parse import unquote

from adapters.sandbox.git import BASE, NoSuchObject, StoredCommit, StoredPull, person
from adapters.sandbox.rest import Circumstances
from adapters.sandbox.state import SandboxState
from adapters.sandbox.wire import Request, Response
from capabilities.strict_json import JsonValue

PREFIX: Final = "/github"
OWNER: Final = "remit"
REPO: Final = "archive"
EMPTY: Final = "empty"
TOKEN: Final = "sandbox-github"  # noqa: S105 (protects nothing: the stand-in listens on loopback only)
READER_TOKEN: Final = "sandbox-github-reader"  # noqa: S105 (the same)
ENTRIES_MAX: Final = 1000
_NAME: Final = re.compile(
    r"refs/heads/(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))(?![./])[^\x00-\x20\x7f~^:?*\[\\]+(?<![./])"
)

Fields = Mapping[str, JsonValue]


class GitHubError(Exception):
    """An error body {message, errors, documentation_url, status}."""

    def __init__(self, status: int, message: str, errors: list[JsonValue] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.errors = status, message, errors


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One request on its way through the routes. `rest`: what follows the repository in the path."""

    request: Request
    rest: str
    as_of: float | None
    base: str

    @property
    def fields(self) -> Fields:
        try:
            value = json.loads(self.request.body or b"{}")
        except ValueError:
            raise GitHubError(400, "Problems parsing JSON") from None
        if not isinstance(value, dict):
            raise GitHubError(400, "Body should be a JSON object")
        return value


class GitHub:
    """The stand-in. `now` is Unix seconds."""

    def __init__(self, state: SandboxState, now: Callable[[], float]) -> None:
        self._state, self._git, self._now = state, state.git, now

    def answer(self, request: Request, at: Circumstances) -> Response:
        """Process one request."""
        try:
            return self._route(request, at)
        except GitHubError as error:
            return _problem(error)
        except NoSuchObject:
            return _problem(GitHubError(404, "Not Found"))

    def _route(self, request: Request, at: Circumstances) -> Response:
        path = request.path.removeprefix(PREFIX)
        if page := re.fullmatch(rf"/{OWNER}/{REPO}/tree/(.+)", path):
            return self._page(unquote(page[1]))
        may_write = self._may_write(request)
        found = re.fullmatch(rf"/repos/{OWNER}/({REPO}|{EMPTY})(/.*)?", path, re.IGNORECASE)
        if found is None or may_write is None:
            raise GitHubError(404, "Not Found")
        rest, is_empty = found[2] or "", found[1].lower() == EMPTY
        if request.method == "GET" and not rest:
            return _json(200, _repository(found[1], may_write))
        if is_empty:
            raise GitHubError(409, "Git Repository is empty.")
        if request.method != "GET" and not may_write:
            raise GitHubError(403, "Resource not accessible by personal access token")
        as_of = self._now() - at.stale_s if at.stale_s else None
        base = f"http://{request.headers.get('host', '127.0.0.1')}{PREFIX}"
        call = _Call(request=request, rest=unquote(rest), as_of=as_of, base=base)
        return self._read(call) if request.method == "GET" else self._written(call)

    def _may_write(self, request: Request) -> bool | None:
        """None: an anonymous client, to whom a private repository does not exist."""
        given = request.headers.get("authorization")
        if given is None:
            return None
        scheme, _, token = given.partition(" ")
        if scheme.lower() not in ("bearer", "token") or token not in (TOKEN, READER_TOKEN):
            raise GitHubError(401, "Bad credentials")
        return token == TOKEN

    # Reading

    def _read(self, call: _Call) -> Response:
        kind, _, name = call.rest.removeprefix("/git/").partition("/")
        match kind, name:
            case "ref", ref if ref.startswith("heads/"):
                return self._ref(ref.removeprefix("heads/"), call.as_of)
            case "matching-refs", ref:
                known = self._git.branches(call.as_of).items()
                return _json(200, [_reference(name, sha) for name, sha in known if f"heads/{name}".startswith(ref)])
            case "commits", sha:
                return _json(200, _git_commit(self._git.commit(sha)))
            case "trees", sha:
                return _json(200, self._tree(sha))
            case "", "commits":
                return self._history(call)
            case "", "pulls":
                return _json(200, [_pull(row, call.base) for row in self._listed(call)])
            case "", pull if number := re.fullmatch(r"pulls/(\d+)", pull):
                return _json(200, _pull(self._pull(int(number[1]), call.as_of), call.base))
            case _:
                raise GitHubError(404, "Not Found")

    def _ref(self, name: str, as_of: float | None) -> Response:
        sha = self._git.branch(name, as_of)
        if sha is None:
            raise GitHubError(404, "Not Found")
        return _json(200, _reference(name, sha))

    def _tree(self, sha: str) -> JsonValue:
        rows: list[JsonValue] = [
            {"path": e.name, "mode": e.mode, "type": "tree" if e.is_tree else "blob", "sha": e.sha}
            for e in self._git.tree(sha)
        ]
        return {"sha": sha, "tree": rows, "truncated": False}

    def _history(self, call: _Call) -> Response:
        asked = call.request.query.get("sha", BASE)
        limit = int(call.request.query.get("per_page", "30"))
        commits = self._git.history(self._git.branch(asked, call.as_of) or asked)
        rows: list[JsonValue] = [
            {"sha": commit.sha, "commit": _git_commit(commit), "parents": _named(commit.parents)}
            for commit, _ in zip(commits, range(limit), strict=False)
        ]
        return _json(200, rows)

    def _listed(self, call: _Call) -> list[StoredPull]:
        """Open ones unless asked otherwise, the newest first; a `head` without its owner is ignored."""
        state, head = call.request.query.get("state", "open"), call.request.query.get("head", "")
        owner, colon, branch = head.partition(":")
        return [
            row
            for row in reversed(self._git.pulls(call.as_of))
            if state in (row.state, "all") and (not colon or (owner.lower(), branch) == (OWNER, row.head))
        ]

    def _pull(self, number: int, as_of: float | None = None) -> StoredPull:
        found = next((row for row in self._git.pulls(as_of) if row.number == number), None)
        if found is None:
            raise GitHubError(404, "Not Found")
        return found

    def _page(self, branch: str) -> Response:
        """What a person sees of a branch."""
        sha, headers = self._git.branch(branch), {"Content-Type": "text/html; charset=UTF-8"}
        if sha is None:
            return Response(status=404, body=b"<html><title>Page not found</title></html>", headers=headers)
        page = f"<html><title>{escape(branch)}</title><pre>{escape(self._git.commit(sha).message)}</pre></html>"
        return Response(status=200, body=page.encode(), headers=headers)

    # Writing

    def _written(self, call: _Call) -> Response:
        with self._state.transaction():
            response = self._write(call)
            self._state.count_write(call.request.line, self._now())
        return response

    def _write(self, call: _Call) -> Response:
        branch = call.rest.removeprefix("/git/refs/heads/")
        match call.request.method, call.rest:
            case "POST", "/git/trees":
                return self._make_tree(call.fields)
            case "POST", "/git/commits":
                return self._make_commit(call.fields)
            case "POST", "/git/refs":
                return self._make_branch(call.fields)
            case "PATCH", rest if rest != branch:
                return self._move_branch(branch, call.fields)
            case "DELETE", rest if rest != branch:
                return self._remove_branch(branch)
            case "POST", "/pulls":
                return self._open_pull(call)
            case "PATCH", rest if number := re.fullmatch(r"/pulls/(\d+)", rest):
                return self._change_pull(self._pull(int(number[1])), call)
            case _:
                raise GitHubError(404, "Not Found")

    def _make_tree(self, fields: Fields) -> Response:
        rows, base = fields.get("tree"), fields.get("base_tree")
        if not isinstance(rows, list) or not 0 < len(rows) <= ENTRIES_MAX:
            raise GitHubError(422, "Invalid tree info")
        blobs = {}
        for row in rows:
            if not isinstance(row, dict) or (row.get("mode"), row.get("type")) != ("100644", "blob"):
                raise GitHubError(422, "tree.mode Must supply a valid tree.mode")
            blobs[_text(row, "path")] = self._git.put("blob", _text(row, "content").encode())
        try:
            return _json(201, self._tree(self._git.with_files(base if isinstance(base, str) else None, blobs)))
        except NoSuchObject:
            raise GitHubError(422, "base_tree is not a valid tree oid") from None

    def _make_commit(self, fields: Fields) -> Response:
        tree, parents = _text(fields, "tree"), fields.get("parents", [])
        assert isinstance(parents, list)
        try:
            self._git.tree(tree)
        except NoSuchObject:
            raise GitHubError(422, "Tree SHA does not exist") from None
        names = [
            self._existing(str(parent), "Parent SHA does not exist or is not a commit object") for parent in parents
        ]
        author = self._signed(fields.get("author"))
        committer = self._signed(fields["committer"]) if "committer" in fields else author
        lines = [f"tree {tree}", *(f"parent {name}" for name in names), f"author {author}", f"committer {committer}"]
        sha = self._git.put("commit", ("\n".join(lines) + "\n\n" + _text(fields, "message")).encode())
        return _json(201, _git_commit(self._git.commit(sha)))

    def _signed(self, given: JsonValue) -> str:
        given = given if isinstance(given, dict) else {}
        date = given.get("date")
        at_s = int(datetime.fromisoformat(date).timestamp()) if isinstance(date, str) else int(self._now())
        return f"{given.get('name', OWNER)} <{given.get('email', 'remit@remit.invalid')}> {at_s} +0000"

    def _existing(self, sha: str, otherwise: str) -> str:
        try:
            return self._git.commit(sha).sha
        except NoSuchObject:
            raise GitHubError(422, otherwise) from None

    def _make_branch(self, fields: Fields) -> Response:
        ref = _text(fields, "ref")
        if not _NAME.fullmatch(ref):
            raise GitHubError(422, f"{ref} is not a valid ref name.")
        name, sha = ref.removeprefix("refs/heads/"), self._existing(_text(fields, "sha"), "Object does not exist")
        standing = self._git.branches()
        if name in standing:
            raise GitHubError(422, "Reference already exists")
        if any(other.startswith(f"{name}/") or name.startswith(f"{other}/") for other in standing):
            raise GitHubError(422, "Reference update failed")
        self._git.point(name, sha, self._now())
        return _json(201, _reference(name, sha))

    def _move_branch(self, name: str, fields: Fields) -> Response:
        before, sha = self._git.branch(name), self._existing(_text(fields, "sha"), "Object does not exist")
        if before is None:
            raise GitHubError(422, "Reference does not exist")
        if fields.get("force") is not True and before not in (commit.sha for commit in self._git.history(sha)):
            raise GitHubError(422, "Update is not a fast forward")
        self._git.point(name, sha, self._now())
        return _json(200, _reference(name, sha))

    def _remove_branch(self, name: str) -> Response:
        if self._git.branch(name) is None:
            raise GitHubError(422, "Reference does not exist")
        if name == BASE:
            raise GitHubError(422, "Repository rule violations found\n\nCannot delete this branch\n\n")
        self._git.point(name, None, self._now())
        return Response(status=204, body=b"")

    def _open_pull(self, call: _Call) -> Response:
        fields = call.fields
        head, base = _text(fields, "head").rpartition(":")[2], _text(fields, "base")
        head_sha, base_sha = self._git.branch(head), self._git.branch(base)
        for field, sha in (("head", head_sha), ("base", base_sha)):
            if sha is None:
                raise _validation({"resource": "PullRequest", "field": field, "code": "invalid"})
        assert head_sha is not None
        if any((row.head, row.base, row.state) == (head, base, "open") for row in self._git.pulls()):
            raise _validation(_custom(f"A pull request already exists for {OWNER}:{head}."))
        if any(commit.sha == head_sha for commit in self._git.history(base_sha or "")):
            raise _validation(_custom(f"No commits between {base} and {head}"))
        number = max((row.number for row in self._git.pulls()), default=0) + 1
        body, title = fields.get("body"), _text(fields, "title")
        pull = StoredPull(number=number, title=title, body=str(body or ""), head=head, head_sha=head_sha, base=base)
        self._git.put_pull(pull, self._now())
        return _json(201, _pull(pull, call.base))

    def _change_pull(self, pull: StoredPull, call: _Call) -> Response:
        state = call.fields.get("state", pull.state)
        if state not in ("open", "closed"):
            raise _validation({"resource": "PullRequest", "field": "state", "code": "invalid"})
        changed = replace(pull, state=str(state))
        self._git.put_pull(changed, self._now())
        return _json(200, _pull(changed, call.base))


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise GitHubError(422, f'Invalid request.\n\n"{name}" wasn\'t supplied.')
    return value


def _validation(error: JsonValue) -> GitHubError:
    return GitHubError(422, "Validation Failed", [error])


def _custom(message: str) -> JsonValue:
    return {"resource": "PullRequest", "code": "custom", "message": message}


def _repository(name: str, may_write: bool) -> JsonValue:
    permissions: JsonValue = {"admin": False, "push": may_write, "pull": True}
    return {
        "id": 1,
        "name": name,
        "full_name": f"{OWNER}/{name}",
        "private": True,
        "default_branch": BASE,
        "archived": False,
        "permissions": permissions,
    }


def _reference(name: str, sha: str) -> JsonValue:
    return {"ref": f"refs/heads/{name}", "object": {"type": "commit", "sha": sha}}


def _named(names: tuple[str, ...]) -> list[JsonValue]:
    return [{"sha": name} for name in names]


def _git_commit(commit: StoredCommit) -> JsonValue:
    return {
        "sha": commit.sha,
        "tree": {"sha": commit.tree},
        "parents": _named(commit.parents),
        "author": _person(commit.author),
        "committer": _person(commit.committer),
        "message": commit.message,
        "verification": {"verified": False, "reason": "unsigned", "signature": None, "payload": None},
    }


def _person(line: str) -> JsonValue:
    name, email, at_s = person(line)
    return {"name": name, "email": email, "date": datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def _pull(row: StoredPull, base: str) -> JsonValue:
    return {
        "number": row.number,
        "title": row.title,
        "body": row.body,
        "state": row.state,
        "merged_at": "2026-01-01T00:00:00Z" if row.merged else None,
        "html_url": f"{base}/{OWNER}/{REPO}/pull/{row.number}",
        "head": {"ref": row.head, "sha": row.head_sha, "repo": {"full_name": f"{OWNER}/{REPO}"}},
        "base": {"ref": row.base, "repo": {"full_name": f"{OWNER}/{REPO}"}},
    }


def _problem(error: GitHubError) -> Response:
    details: dict[str, JsonValue] = {"errors": error.errors} if error.errors is not None else {}
    body: JsonValue = {
        "message": error.message,
        **details,
        "documentation_url": "https://docs.github.com/rest",
        "status": str(error.status),
    }
    return _json(error.status, body)


def _json(status: int, value: JsonValue) -> Response:
    return Response(status=status, body=json.dumps(value).encode())
