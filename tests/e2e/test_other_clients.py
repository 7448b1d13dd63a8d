"""Clients that other people have: older releases of the MCP library, and the Inspector. The whole saga through each."""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import unavailable
from tests.e2e.http_world import reachable, token_of
from tests.e2e.world import ARTICLE, ROUNDS_MAX, Home, environment
from tests.testbeds.clients import OLDER, inspector, missing_clients, older_python

SCRIPT: Final = Path(__file__).parents[1] / "testbeds" / "clients" / "older.py"
END_MAX_S: Final = 60.0


@pytest.fixture(autouse=True)
def clients() -> None:
    if absent := missing_clients():
        unavailable(f"not installed: {', '.join(absent)}; run `make services` once")


class OlderAgent:
    """A process with an older client in it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.began = self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"tool": tool, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def settled(self, command_id: str) -> dict[str, Any]:
        for _ in range(ROUNDS_MAX):
            answer: dict[str, Any] = self.call("query_command_status", command_id=command_id, wait_seconds=5)["answer"]
            if answer["next_action"] != "wait":
                return answer
        raise AssertionError("it does not settle")


@contextlib.contextmanager
def older(version: str, *words: str) -> Iterator[OlderAgent]:
    plain = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [older_python(version), str(SCRIPT), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=plain,
        )
        with process:
            try:
                yield OlderAgent(process)
                assert process.stdin is not None
                process.stdin.close()
                process.wait(timeout=END_MAX_S)
            finally:
                process.kill()


def publish(agent: OlderAgent, home: Home) -> None:
    assert (agent.began["server"], agent.began["tools"]) == ("remit", ["propose_publish", "query_command_status"])
    command_id = agent.call("propose_publish", **ARTICLE, notify=["team"])["answer"]["command_id"]
    assert agent.settled(command_id)["state"] == "AWAITING_APPROVAL"
    assert home.approve(command_id).code == 0
    done = agent.settled(command_id)
    assert (done["state"], done["live"]) == ("SUCCESS", True)
    again = agent.call("propose_publish", **ARTICLE, notify=["team"])["answer"]
    assert (again["command_id"], again["deduplicated"]) == (command_id, True)
    refused = agent.call("propose_publish", **{**ARTICLE, "title": "Another"})
    assert (refused["error"], refused["answer"]["code"]) == (True, "idempotency_conflict")
    effects = home.sandbox.effects()
    assert len(effects["posts"]) == len(effects["messages"]) == 1


@pytest.mark.behaviour("mcp.older-clients")
@pytest.mark.parametrize("version", OLDER)
def test_an_older_client_publishes_once_over_http(home: Home, version: str) -> None:
    token = token_of(home, "--uses", "3")
    with reachable(home) as at, older(version, "http", at.mcp, token) as agent:
        publish(agent, home)


@pytest.mark.behaviour("mcp.older-clients")
@pytest.mark.parametrize("version", OLDER[:1])
def test_an_older_client_publishes_once_over_stdio(home: Home, version: str) -> None:
    home.issue("--uses", "3")
    remit = Path(__file__).parents[2]  # an older client hands its servers few variables on: no PYTHONPATH
    start = f"import sys; sys.path.insert(0, {str(remit)!r}); from server.cli.main import main; main(sys.argv[1:])"
    python, _, _, *words = home.serving()
    with older(version, "stdio", python, "-c", start, *words) as agent:
        publish(agent, home)


def asked(*words: str) -> Any:
    done = inspector(*words, environment=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.behaviour("mcp.inspector")
def test_the_inspector_lists_and_calls_over_http_with_a_header(home: Home) -> None:
    token = token_of(home)
    arguments = [f"{name}={value}" for name, value in ARTICLE.items()]
    with reachable(home, "--no-worker") as at:
        way = ("--transport", "http", "--server-url", at.mcp, "--header", f"Authorization: Bearer {token}")
        listed = asked(*way, "--method", "tools/list")
        assert [tool["name"] for tool in listed["tools"]] == ["propose_publish", "query_command_status"]
        call = ("--method", "tools/call", "--tool-name", "propose_publish", "--tool-arg", *arguments, "wait_seconds=0")
        proposed = asked(*way, *call)["structuredContent"]
        asking = ("--method", "tools/call", "--tool-name", "query_command_status")
        found = asked(*way, *asking, "--tool-arg", f"command_id={proposed['command_id']}")["structuredContent"]
        assert found["command_id"] == proposed["command_id"]


@pytest.mark.behaviour("hosts.configured")
@pytest.mark.parametrize("way", ["connect", "stdio", "http"])
def test_the_inspector_takes_the_configuration_that_is_printed_for_it(home: Home, tmp_path: Path, way: str) -> None:
    file = tmp_path / "mcp.json"
    with reachable(home, "--no-worker") as at:
        url = () if way == "stdio" else ("--url", at.mcp)
        words = ("token", "issue", "--agent", "writer", "--for", "inspector", "--transport", way, *url)
        printed = home.remit(*words, as_json=False)
        assert printed.code == 0, printed.stderr
        file.write_text(printed.stdout)
        asking = ("--method", "tools/call", "--tool-name", "query_command_status")
        found = asked("--config", str(file), "--server", "remit", *asking)
        assert found["structuredContent"] == {"commands": []}
