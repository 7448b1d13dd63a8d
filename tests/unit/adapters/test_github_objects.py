"""Names of Git objects, compared with what git itself makes of them."""

import os
import subprocess
from pathlib import Path

import pytest

from adapters.github_objects import (
    Commit,
    Entry,
    Identity,
    blob_sha,
    folders_of,
    marker_in,
    message_of,
    tree_with,
)

ANNA = Identity(name="Anna Ä", email="anna@example.test")
AT_S = 1_700_000_000
FILES = {
    "remit/blog/a/v1/source.md": "# Hé\r\nllo 🎉",
    "remit/blog/a/v1/content.html": "<p>x</p>\n",
    "remit/blog/a.b/v1/metadata.json": "{}",
}
STANDING = {
    "README.md": "read me\n",
    "remit.txt": "a file beside the folder\n",
    "remit/blog/a/v0/source.md": "before\n",
}


def git(folder: Path, *words: str, given: str | None = None) -> str:
    identity = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in signed().items()}
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        input=given,
        capture_output=True,
        check=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **identity},
    )
    return done.stdout.strip()


def signed() -> dict[str, str]:
    return {"NAME": ANNA.name, "EMAIL": ANNA.email, "DATE": f"{AT_S} +0000"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    add(tmp_path, STANDING)
    git(tmp_path, "commit", "--quiet", "--message=before")
    return tmp_path


def add(repository: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_bytes(content.encode())
    git(repository, "-c", "core.autocrlf=false", "add", "--all")


def folders(repository: Path) -> dict[str, tuple[Entry, ...]]:
    found = {}
    for folder in folders_of(FILES):
        listed = git(repository, "ls-tree", f"HEAD:{folder}") if (repository / folder).is_dir() else ""
        rows = [line.partition("\t") for line in listed.splitlines()]
        found[folder] = tuple(
            Entry(name=name, mode=head.split(" ")[0], sha=head.split(" ")[2]) for head, _, name in rows
        )
    return found


def test_a_file_has_the_name_that_git_gives_it(repository: Path) -> None:
    for content in FILES.values():
        assert blob_sha(content) == git(repository, "hash-object", "--stdin", given=content)


def test_a_tree_beside_what_stands_has_the_name_that_git_gives_it(repository: Path) -> None:
    before = folders(repository)
    add(repository, FILES)
    assert tree_with(before, FILES) == git(repository, "write-tree")


def test_a_tree_of_its_own_has_the_name_that_git_gives_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    add(tmp_path, FILES)
    assert tree_with({}, FILES) == git(tmp_path, "write-tree")


@pytest.mark.parametrize(("end", "which"), [("", 0), ("\n", 1)])
def test_a_commit_has_the_name_that_git_gives_it_with_or_without_its_last_line_end(
    repository: Path, end: str, which: int
) -> None:
    tree, parent = git(repository, "write-tree"), git(repository, "rev-parse", "HEAD")
    message = message_of("Archive a", "m" * 24, "h" * 64)
    commit = Commit(tree=tree, parent=parent, identity=ANNA, at_s=AT_S, message=message)
    text = f"tree {tree}\nparent {parent}\nauthor {ANNA.line(AT_S)}\ncommitter {ANNA.line(AT_S)}\n\n{message}{end}"
    assert commit.names()[which] == git(repository, "hash-object", "-t", "commit", "--stdin", given=text)
    if end:
        assert commit.names()[which] == git(repository, "commit-tree", tree, "-p", parent, "-m", message)


def test_every_folder_on_the_way_is_named_the_outermost_first() -> None:
    assert folders_of(["a/b/c", "a/d"]) == ("", "a", "a/b")


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (message_of("Archive a", "abc", "h"), "abc"),
        (message_of("Archive a", "abc", "h") + "\n", "abc"),
        ("Remit-Marker: abc\n\nnot in the last paragraph", ""),
        ("Archive a\n\nRemit-Marker: abc\nRemit-Marker: abd", ""),
        ("Archive a", ""),
        ("", ""),
    ],
)
def test_a_marker_is_read_from_the_trailers_alone(message: str, found: str) -> None:
    assert marker_in(message) == found
