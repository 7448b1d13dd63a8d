"""What documents, build files and package metadata say agrees with what is there.

The test that runs the commands of the README belongs here: `blocks` finds them.
"""

import re
import tomllib
from collections.abc import Iterator
from typing import Final

import pytest

from tests.repo.tree import ROOT, text

TARGET: Final = re.compile(r"^([a-z]+):(?!=)", re.MULTILINE)
FENCE: Final = re.compile(r"^```(console|bash|sh)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(document: str) -> Iterator[tuple[str, str]]:
    """(flags, commands) of each fenced block of shell commands; the flags are what follows the language on its line."""
    for match in FENCE.finditer(text(document)):
        lines = match.group(3).splitlines()
        prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        yield match.group(2).strip(), "\n".join(prompted if match.group(1) == "console" else lines)


def targets() -> set[str]:
    return set(TARGET.findall(text("Makefile")))


def test_every_target_is_phony_and_explained() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", text("Makefile"), re.MULTILINE)
    assert phony is not None
    explained = set(re.findall(r"^([a-z]+):.*## ", text("Makefile"), re.MULTILINE))
    assert set(phony.group(1).split()) == targets() == explained


@pytest.mark.parametrize("document", ["README.md", "CHANGELOG.md"])
def test_documents_name_only_targets_that_exist(document: str) -> None:
    commands = [line for _, block in blocks(document) for line in block.splitlines()]
    named = {target for line in commands for target in re.findall(r"\bmake ([a-z]+)", line)}
    assert named | set(re.findall(r"`make ([a-z]+)", text(document))) <= targets()


@pytest.mark.behaviour("threat.48")
def test_each_declared_dependency_is_locked() -> None:
    project = tomllib.loads(text("pyproject.toml"))
    declared = project["project"]["dependencies"]
    development = [
        *declared,
        *project["dependency-groups"]["dev"],
        *project["project"]["optional-dependencies"]["cluster"],
    ]
    for lock, wanted in (("requirements.lock", declared), ("requirements-dev.lock", development)):
        locked = {line.split("==")[0].split("[")[0] for line in text(lock).splitlines() if "==" in line}
        assert {re.split(r"[\[<>=]", name)[0] for name in wanted} - locked == set()


def test_the_top_level_is_what_the_layout_says() -> None:
    packages = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    found = {entry.parent.name for entry in ROOT.glob("*/__init__.py")}
    assert found == {*packages, "tests"}
