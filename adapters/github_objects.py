"""Git objects and their names, computed here before anything is sent. Pure.

A name is the SHA-1 of what it names, so that storing an object again makes the same object, and so that the name of a
commit is known before the commit is. Formats: git's gitformat documentation ("Git Internals - Git Objects").
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

FILE_MODE: Final = "100644"
TREE_MODE: Final = "040000"
MARKER_TRAILER: Final = "Remit-Marker"
ARTIFACT_TRAILER: Final = "Remit-Artifact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of a tree. mode: six octal digits, as the REST interface spells them."""

    name: str
    mode: str
    sha: str

    @property
    def is_tree(self) -> bool:
        return self.mode == TREE_MODE


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a commit says it is from."""

    name: str
    email: str

    def line(self, at_s: int) -> str:
        return f"{self.name} <{self.email}> {at_s} +0000"

    def fields(self, at_s: int) -> dict[str, str]:
        """As the REST interface takes it."""
        date = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"name": self.name, "email": self.email, "date": date}


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit with one parent, author and committer the same."""

    tree: str
    parent: str
    identity: Identity
    at_s: int
    message: str

    def names(self) -> tuple[str, ...]:
        """Its possible names: a service may store the message as given, or end its last line."""
        return tuple(object_sha("commit", self._body(end)) for end in ("", "\n"))

    def _body(self, end: str) -> bytes:
        signed = self.identity.line(self.at_s)
        head = f"tree {self.tree}\nparent {self.parent}\nauthor {signed}\ncommitter {signed}\n\n"
        return (head + self.message + end).encode()


def object_sha(kind: str, body: bytes) -> str:
    """The name of an object of that kind: blob, tree, commit."""
    return hashlib.sha1(b"%b %d\0" % (kind.encode(), len(body)) + body, usedforsecurity=False).hexdigest()


def blob_sha(content: str) -> str:
    """The name of a file's content."""
    return object_sha("blob", content.encode())


def tree_body(entries: Iterable[Entry]) -> bytes:
    """A tree as it is stored: in the order of names, a folder's read as if it ended with a slash."""
    ordered = sorted(entries, key=lambda entry: entry.name.encode() + (b"/" if entry.is_tree else b""))
    lines = (b"%b %b\0" % (e.mode.lstrip("0").encode(), e.name.encode()) + bytes.fromhex(e.sha) for e in ordered)
    return b"".join(lines)


def folders_of(paths: Iterable[str]) -> tuple[str, ...]:
    """Every folder that leads to one of these files, the outermost (the root, "") first."""
    found = {""}
    for path in paths:
        parts = path.split("/")[:-1]
        found |= {"/".join(parts[: n + 1]) for n in range(len(parts))}
    return tuple(sorted(found, key=lambda folder: (folder.count("/") + bool(folder), folder)))


def tree_with(folders: Mapping[str, Iterable[Entry]], files: Mapping[str, str]) -> str:
    """The name of the tree that has these files (path → content) beside what stands in the given folders already."""
    made: dict[str, dict[str, Entry]] = {
        folder: {entry.name: entry for entry in folders.get(folder, ())} for folder in folders_of(files)
    }
    for path, content in files.items():
        folder, _, name = path.rpartition("/")
        made[folder][name] = Entry(name=name, mode=FILE_MODE, sha=blob_sha(content))
    for folder in sorted(made, key=lambda each: -each.count("/") - bool(each)):
        sha = object_sha("tree", tree_body(made[folder].values()))
        if not folder:
            return sha
        above, _, name = folder.rpartition("/")
        made[above][name] = Entry(name=name, mode=TREE_MODE, sha=sha)
    raise AssertionError("the root is a folder too")


def message_of(subject: str, marker: str, artifact_hash: str) -> str:
    """A commit's message with our trailers. Its last line is not ended (`Commit.names`)."""
    return f"{subject}\n\n{MARKER_TRAILER}: {marker}\n{ARTIFACT_TRAILER}: sha256:{artifact_hash}"


def marker_in(message: str) -> str:
    """The marker in a commit's trailers (its last paragraph); empty when there is none."""
    trailers = message.rstrip().rpartition("\n\n")[2].splitlines()
    found = [line.removeprefix(f"{MARKER_TRAILER}: ") for line in trailers if line.startswith(f"{MARKER_TRAILER}: ")]
    return found[0].strip() if len(found) == 1 else ""
