"""The MCP conformance suite: what must pass passes, and every failure has a reason that somebody wrote down.

Some scenarios pass because a refusal happens to satisfy them ("there is no such tool"). They prove nothing and are not
counted; `VACUOUS` names them, so that nothing passes unnoticed either.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import unavailable
from tests.e2e.http_world import Reachable, reachable, token_of
from tests.e2e.world import Home
from tests.testbeds.clients import conformance, missing_clients

EXPECTED: Final = Path(__file__).with_name("mcp_expected_failures.yaml")
REASONED: Final = re.compile(r"  - [a-z0-9-]+ # \S.{9,}")
REQUIRED: Final[Mapping[str, Mapping[str, int]]] = {
    "2026-07-28": {
        "server-stateless": 25,
        "tools-list": 4,
        "caching": 7,
        "dns-rebinding-protection": 2,
        "http-header-validation": 14,
        "server-sse-multiple-streams": 1,
    },
    "2025-11-25": {"server-initialize": 2, "ping": 2, "tools-list": 3, "dns-rebinding-protection": 2},
}
VACUOUS: Final = {
    "tools-call-simple-text": "an unknown tool is answered with text",
    "tools-call-error": "an unknown tool is an error",
    "sep-2164-resource-not-found": "no resource is ever found",
    "resources-list": "the fixture's empty list",
    "prompts-list": "the fixture's empty list",
    "input-required-result-missing-input-response": "the server never asks back",
    "input-required-result-unsupported-methods": "the server never asks back",
    "input-required-result-ignore-extra-params": "an unknown tool ignores everything",
    "input-required-result-validate-input": "the server never asks back",
    "tasks-status-notifications": "skipped by the suite without tasks",
    "server-sse-multiple-streams": "nothing to check in the old era: every answer is one JSON document",
    "server-session-lifecycle": "there are no sessions",
    "server-sse-polling": "nothing is streamed",
}


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reachable]:
    """A gateway on loopback that asks for no token, with the suite's own fixtures beside the tools."""
    if absent := missing_clients():
        unavailable(f"not installed: {', '.join(absent)}; run `make services` once")
    home = Home.made(tmp_path_factory.mktemp("conformance") / "home")
    token_of(home, "--uses", "500", "--open", "500")
    [token] = (home.path / "tokens").iterdir()
    command = [sys.executable, "-m", "tests.conformance.mcp_fixture", str(token)]
    with reachable(home, "--no-worker", command=command) as at:
        yield at


def expected() -> list[str]:
    lines = [line for line in EXPECTED.read_text().splitlines() if line.startswith("  - ")]
    return [line.split()[1] for line in lines]


def test_every_expected_failure_has_its_reason() -> None:
    lines = [line for line in EXPECTED.read_text().splitlines() if not line.startswith("#") and line != "server:"]
    assert [line for line in lines if not REASONED.fullmatch(line)] == []
    required = {name for revision in REQUIRED.values() for name in revision}
    assert not set(expected()) & (required | set(VACUOUS))


@pytest.mark.behaviour("mcp.conformance")
@pytest.mark.parametrize("revision", REQUIRED)
def test_what_must_pass_passes_and_nothing_else_fails_or_passes_unnoticed(
    unguarded: Reachable, tmp_path: Path, revision: str
) -> None:
    ran = conformance(unguarded.mcp, revision, EXPECTED, tmp_path / "all")
    outcomes = {path.parent.name: json.loads(path.read_text()) for path in (tmp_path / "all").glob("*/checks.json")}
    found = {re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", name): checks for name, checks in outcomes.items()}
    assert found, ran.stdout + ran.stderr
    failed = {name for name, checks in found.items() if count(checks, "FAILURE")}
    assert failed == set(expected()) & set(found)
    for name, passes in REQUIRED[revision].items():
        assert count(found[name], "SUCCESS") >= passes, name
        assert count(found[name], "FAILURE") == 0, name
    assert set(found) - failed - set(REQUIRED[revision]) - set(VACUOUS) == set()


def count(checks: list[dict[str, Any]], status: str) -> int:
    return sum(1 for check in checks if check["status"] == status)
