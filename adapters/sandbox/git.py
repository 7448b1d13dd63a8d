"""The stand-in's Git repository: objects by name, branches and pull requests with their past, in the sandbox's state.

Objects are what git itself would store, and their names are git's. Branches and pull requests keep every state that
they had, so that a read can answer the past; objects have none.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from adapters.github_objects import Entry, object_sha, tree_body
from capabilities.strict_json import JsonValue

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS git_object (sha TEXT PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS git_branch (seq INTEGER PRIMARY KEY, name TEXT NOT NULL, at REAL NOT NULL, sha TEXT);
CREATE INDEX IF NOT EXISTS git_branch_by_name ON git_branch (name, seq);
CREATE TABLE IF NOT EXISTS pull (seq INTEGER PRIMARY KEY, number INTEGER NOT NULL, at REAL NOT NULL,
  body TEXT NOT NULL);
"""
BASE: Final = "main"
FIRST: Final = (
    "author Sandbox <sandbox@remit.invalid> 1700000000 +0000\n"
    "committer Sandbox <sandbox@remit.invalid> 1700000000 +0000\n\nInitial commit"
)
_PERSON: Final = re.compile(r"(?P<name>.*) <(?P<email>.*)> (?P<at>\d+) (?P<zone>[+-]\d{4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCommit:
    """A commit as it is stored. author and committer: git's own line, `Name <mail> seconds zone`."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: str
    committer: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPull:
    """A pull request within the one repository."""

    number: int
    title: str
    body: str
    head: str
    head_sha: str
    base: str
    state: str = "open"
    merged: bool = False


class NoSuchObject(LookupError):
    """There is no object of that kind and name."""


class GitStore:
    """Opens, or makes, its tables on the sandbox's connection; whoever writes holds a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        db.executescript(SCHEMA)
        if self.branch(BASE) is None:
            readme = Entry(name="README.md", mode="100644", sha=self.put("blob", b"# Archive\n"))
            tree = self.put_tree((readme,))
            self.point(BASE, self.put("commit", f"tree {tree}\n{FIRST}".encode()), 0.0)

    def put(self, kind: str, body: bytes) -> str:
        """Store an object; its name."""
        sha = object_sha(kind, body)
        self._db.execute("INSERT OR IGNORE INTO git_object (sha, kind, body) VALUES (?, ?, ?)", (sha, kind, body))
        return sha

    def put_tree(self, entries: Iterable[Entry]) -> str:
        """Store a tree; its name."""
        return self.put("tree", tree_body(entries))

    def body(self, kind: str, sha: str) -> bytes:
        """An object; raises NoSuchObject."""
        found = self._db.execute("SELECT body FROM git_object WHERE sha = ? AND kind = ?", (sha, kind)).fetchone()
        if found is None:
            raise NoSuchObject(sha)
        return bytes(found[0])

    def tree(self, sha: str) -> tuple[Entry, ...]:
        """The entries of a tree; raises NoSuchObject."""
        entries, rest = [], self.body("tree", sha)
        while rest:
            head, _, rest = rest.partition(b"\0")
            mode, _, name = head.decode().partition(" ")
            entries.append(Entry(name=name, mode=mode.zfill(6), sha=rest[:20].hex()))
            rest = rest[20:]
        return tuple(entries)

    def commit(self, sha: str) -> StoredCommit:
        """A commit; raises NoSuchObject."""
        head, _, message = self.body("commit", sha).decode().partition("\n\n")
        lines = [line.partition(" ") for line in head.splitlines()]
        values: dict[str, str] = {name: value for name, _, value in lines}
        return StoredCommit(
            sha=sha,
            tree=values["tree"],
            parents=tuple(value for name, _, value in lines if name == "parent"),
            author=values["author"],
            committer=values["committer"],
            message=message,
        )

    def history(self, sha: str) -> Iterable[StoredCommit]:
        """That commit and what lies below it, first parents only."""
        names: tuple[str, ...] = (sha,)
        while names:
            commit = self.commit(names[0])
            yield commit
            names = commit.parents

    def with_files(self, tree: str | None, files: Mapping[str, str]) -> str:
        """A tree with these blobs (path → name) beside what that tree has; its name."""
        entries = {entry.name: entry for entry in self.tree(tree)} if tree else {}
        below: dict[str, dict[str, str]] = {}
        for path, sha in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                below.setdefault(name, {})[rest] = sha
            else:
                entries[name] = Entry(name=name, mode="100644", sha=sha)
        for name, inner in below.items():
            here = entries.get(name)
            sha = self.with_files(here.sha if here is not None and here.is_tree else None, inner)
            entries[name] = Entry(name=name, mode="040000", sha=sha)
        return self.put_tree(entries.values())

    def branch(self, name: str, as_of: float | None = None) -> str | None:
        """The commit that a branch points, or pointed, to."""
        return self.branches(as_of).get(name)

    def branches(self, as_of: float | None = None) -> dict[str, str]:
        """All branches by name."""
        rows = self._db.execute(
            "SELECT name, sha FROM git_branch WHERE seq IN"
            " (SELECT max(seq) FROM git_branch WHERE at <= ? GROUP BY name) ORDER BY name",
            (1e12 if as_of is None else as_of,),
        )
        return {name: sha for name, sha in rows if sha is not None}

    def point(self, name: str, sha: str | None, at: float) -> None:
        """Let a branch point there; None removes it, and closes what was to be merged from it."""
        self._db.execute("INSERT INTO git_branch (name, at, sha) VALUES (?, ?, ?)", (name, at, sha))
        for pull in self.pulls():
            if pull.head == name and pull.state == "open":
                moved = replace(pull, state="closed") if sha is None else replace(pull, head_sha=sha)
                self.put_pull(moved, at)

    def pulls(self, as_of: float | None = None) -> tuple[StoredPull, ...]:
        """All pull requests by number."""
        rows = self._db.execute(
            "SELECT body FROM pull WHERE seq IN (SELECT max(seq) FROM pull WHERE at <= ? GROUP BY number)"
            " ORDER BY number",
            (1e12 if as_of is None else as_of,),
        )
        return tuple(StoredPull(**json.loads(body)) for (body,) in rows)

    def put_pull(self, pull: StoredPull, at: float) -> None:
        """A new state of a pull request."""
        row = (pull.number, at, json.dumps(asdict(pull)))
        self._db.execute("INSERT INTO pull (number, at, body) VALUES (?, ?, ?)", row)

    def effects(self) -> dict[str, JsonValue]:
        """Branches beside the base, commits that they or anything else has stored, pull requests."""
        (commits,) = self._db.execute("SELECT count(*) FROM git_object WHERE kind = 'commit'").fetchone()
        branches: list[JsonValue] = [
            {"name": name, "commit": sha, "message": self.commit(sha).message, "files": self._files(sha)}
            for name, sha in self.branches().items()
            if name != BASE
        ]
        pulls: list[JsonValue] = [asdict(pull) for pull in self.pulls()]
        return {"branches": branches, "commits": commits - 1, "pulls": pulls}

    def _files(self, sha: str) -> dict[str, JsonValue]:
        """Path and content of every file of a commit."""
        return {path: self.body("blob", blob).decode() for path, blob in self._below(self.commit(sha).tree, "")}

    def _below(self, tree: str, folder: str) -> Iterable[tuple[str, str]]:
        for entry in self.tree(tree):
            if entry.is_tree:
                yield from self._below(entry.sha, f"{folder}{entry.name}/")
            else:
                yield f"{folder}{entry.name}", entry.sha


def person(line: str) -> tuple[str, str, int]:
    """Name, address and Unix seconds of a commit's author line."""
    found = _PERSON.fullmatch(line)
    assert found is not None, line
    return found["name"], found["email"], int(found["at"])
