"""What hosts are told works as it is printed; `remit connect` reaches a gateway elsewhere and never guesses."""

import json
import shlex
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from tests.e2e.http_world import Reachable, http_agent, reachable, token_of
from tests.e2e.world import ARTICLE, REMIT, Agent, Home, answer, environment, served
from tests.testbeds.fault_proxy import Armed, Fault, fault_proxy_before

HOSTS: Final = ("claude-desktop", "claude-code", "cursor", "vscode", "inspector")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.made(tmp_path_factory.mktemp("connect") / "home")


@pytest.fixture(scope="module")
def gateway(shared: Home) -> Iterator[Reachable]:
    with reachable(shared, "--no-worker") as at:
        yield at


def configured(home: Home, host: str, *options: str) -> Any:
    """The configuration as a person sees it: the whole of stdout, and nothing else there."""
    words = ("token", "issue", "--agent", "writer", "--uses", "20", "--open", "20", "--for", host, *options)
    done = home.remit(*words, as_json=False)
    assert done.code == 0, done.stderr
    return json.loads(done.stdout)


def entry_of(document: Any) -> dict[str, Any]:
    [servers] = [document[name] for name in ("servers", "mcpServers") if name in document]
    found: dict[str, Any] = servers["remit"]
    return found


def printed(command: str) -> str:
    words = shlex.split(command)
    return subprocess.run(words, capture_output=True, text=True, check=True, env=environment()).stdout


async def asked(entry: dict[str, Any]) -> Any:
    """Start the very command of an entry, as a host does, and ask for the latest commands."""
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=environment())
    async with Client(stdio_client(parameters)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["propose_publish", "query_command_status"]
        return answer(await client.call_tool("query_command_status", {}))["commands"]


@pytest.mark.behaviour("hosts.configured")
@pytest.mark.parametrize("way", ["connect", "stdio"])
async def test_the_command_that_a_host_is_given_starts_and_serves(shared: Home, gateway: Reachable, way: str) -> None:
    url = ("--url", gateway.mcp) if way == "connect" else ()
    entries = [entry_of(configured(shared, host, "--transport", way, *url)) for host in HOSTS]
    commands = {(entry["command"], *entry["args"]) for entry in entries}
    assert len(commands) == 1  # so that running one of them is running each of them
    paths = [word for word in commands.pop() if word.startswith("/")]
    assert all(Path(path).is_absolute() for path in paths)
    assert stat.S_IMODE(shared.token.stat().st_mode) == 0o600
    assert await asked(entries[0]) == []


async def test_the_header_that_a_host_sends_is_accepted(shared: Home, gateway: Reachable) -> None:
    token_file = shared.token
    for host in ("claude-code", "cursor", "vscode", "inspector"):
        document = configured(shared, host, "--transport", "http", "--url", gateway.mcp)
        entry, token = entry_of(document), token_file.read_text().strip()
        assert (token in json.dumps(document)) == (host == "inspector")
        if host == "claude-code":
            headers = json.loads(printed(entry["headersHelper"]))
        else:
            filled = json.dumps(entry["headers"]).replace("${env:REMIT_TOKEN}", token)
            headers = json.loads(filled.replace("${input:remit-token}", token))
        async with http_agent(entry["url"], headers["Authorization"].removeprefix("Bearer ")) as writer:
            assert answer(await writer.call("query_command_status"))["commands"] == []


def test_a_host_that_cannot_send_headers_is_said_before_anything_is_issued(shared: Home) -> None:
    before = len(shared.remit("token", "ls").document["tokens"])
    words = ("token", "issue", "--agent", "writer", "--for", "claude-desktop", "--transport", "http")
    assert (shared.remit(*words).code, shared.remit(*words[:4], "--transport", "http").code) == (2, 2)
    assert shared.remit(*words[:6], "--url", "http://remit.example.org/mcp").code == 2
    assert len(shared.remit("token", "ls").document["tokens"]) == before


@pytest.mark.parametrize(
    "url",
    [
        "http://remit.example.org/mcp",
        "http://127.0.0.1.evil.example/mcp",
        "https://user:password@remit.example.org/mcp",
        "https://remit.example.org/mcp?token=x",
        "ftp://127.0.0.1/mcp",
        "127.0.0.1:8765",
        "https://",
    ],
)
def test_a_token_is_not_sent_in_the_clear(tmp_path: Path, url: str) -> None:
    words = [*REMIT, "connect", url, "--token-file", str(tmp_path / "token")]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert "https://" in done.stderr


def connected(url: str, token_file: Path, mode: str) -> Client:
    command, *words = REMIT
    words += ["connect", url, "--token-file", str(token_file)]
    parameters = StdioServerParameters(command=command, args=words, env=environment())
    return Client(stdio_client(parameters), mode=mode)


@pytest.mark.behaviour("connect.saga")
async def test_a_proposal_through_connect_is_published_once_after_a_person_approved_it(home: Home) -> None:
    home.issue("--uses", "2")
    with reachable(home) as at:
        async with connected(at.mcp, home.token, "legacy") as client:
            writer = Agent(client)
            command_id = (await writer.propose(notify=["team"]))["command_id"]
            assert (await writer.settled(command_id))["state"] == "AWAITING_APPROVAL"
            assert home.approve(command_id).code == 0
            done = await writer.settled(command_id)
            assert (done["state"], done["live"]) == ("SUCCESS", True)
        effects = home.sandbox.effects()
        assert len(effects["posts"]) == len(effects["messages"]) == 1


async def test_a_lost_answer_is_not_known_and_is_found_out_by_asking(shared: Home, gateway: Reachable) -> None:
    shared.issue("--uses", "20", "--open", "20", agent="lost")
    article = {**ARTICLE, "article_id": "article-lost", "wait_seconds": 0}
    with fault_proxy_before(gateway.url) as proxy:
        async with connected(proxy.url + "/mcp", shared.token, "2026-07-28") as client:
            writer = Agent(client)
            proxy.arm(Armed(fault=Fault.DROP_AFTER, match="POST /mcp"))
            told = await writer.refused("propose_publish", **article)
            assert (told["code"], told["retryable"]) == ("outcome_unknown", True)
            assert proxy.landed("POST /mcp") == 1
            [known] = answer(await writer.call("query_command_status"))["commands"]
            assert known["article"] == "article-lost"
            again = await writer.propose(**article)
            assert (again["command_id"], again["deduplicated"]) == (known["command_id"], True)


def test_what_is_no_message_and_the_end_of_input_are_its_own_business(shared: Home, gateway: Reachable) -> None:
    token = token_of(shared)
    file = shared.path / "tokens" / "own"
    file.write_text(token)
    file.chmod(0o600)
    words = [*REMIT, "connect", gateway.mcp, "--token-file", str(file)]
    with served(shared, command=words) as process:
        process.handshake()
        process.send(b"not json")
        assert process.receive()["error"]["data"]["code"] == "not_json"
        file.unlink()
        assert process.call(2, "query_command_status")["structuredContent"]["code"] == "token_file_unreadable"
        assert process.process.stdin is not None
        process.process.stdin.close()
        code, log = process.ended(30.0)
    assert (code, "Traceback" in log, token in log) == (0, False, False)


async def test_the_address_of_a_gateway_is_asked_over_http(gateway: Reachable) -> None:
    """No OAuth metadata: a host that finds some would drop the header that it was configured with."""
    async with httpx2.AsyncClient(timeout=60) as client:
        for name in ("oauth-protected-resource", "oauth-protected-resource/mcp", "oauth-authorization-server"):
            found = await client.get(f"{gateway.url}/.well-known/{name}")
            assert found.status_code == 404
