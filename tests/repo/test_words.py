"""The repository speaks of itself alone, and works for anybody who clones it."""

import json
import re
from typing import Final

import pytest

from tests.repo.tree import files, text

# Written in pieces where this file would find itself.
MACHINE: Final = re.compile(
    "|".join(("/" + "work/", "/root/[.]", "/opt/" + "pypi", "[.]library" + "/", "work" + "place"))
)
REGISTRIES: Final = re.compile(
    "|".join(
        (
            "pypi" + r"\.org",
            "python" + r"hosted\.org",
            "registry" + r"\.npmjs",
            "proxy" + r"\.golang",
            "deb" + r"\.debian\.org",
            "index" + "-url[ =]http",
        )
    )
)
TRACKER: Final = re.compile(r"(?i)\bissue[ -]" + r"tracker|\b(issue|ticket) ?#\d+|\bsub-?" + "agent")
LOCKS: Final = ("requirements.lock", "requirements-dev.lock")
NODE_LOCK: Final = "tests/testbeds/github/package-lock.json"


def test_no_file_speaks_of_the_place_where_it_was_written() -> None:
    patterns = (MACHINE, REGISTRIES, TRACKER)
    assert [
        (path, match.group()) for path in files() for words in patterns for match in words.finditer(text(path))
    ] == []


@pytest.mark.behaviour("threat.48")
@pytest.mark.parametrize("path", LOCKS)
def test_a_lock_pins_by_hash_and_names_no_address(path: str) -> None:
    pins = [line for line in text(path).splitlines() if not line.startswith((" ", "#"))]
    assert "://" not in text(path)
    assert [line for line in pins if "==" not in line or not line.endswith("\\")] == []


def test_the_lock_of_the_emulator_pins_by_hash_and_names_no_address() -> None:
    assert "://" not in text(NODE_LOCK)
    pins = {name: pin for name, pin in json.loads(text(NODE_LOCK))["packages"].items() if name}
    assert [
        name for name, pin in pins.items() if not pin["integrity"].startswith("sha512-") or "version" not in pin
    ] == []
