"""The same two tools over HTTP: the whole saga, one caller a request, an end that loses nothing."""

import contextlib
import json
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.e2e.http_world import Reachable, calling, http_agent, reachable, receive, token_of, tool_call
from tests.e2e.world import ARTICLE, Home, agent, answer

END_MAX_S: Final = 20.0  # a second or two on a quiet machine


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home whose tests use articles of their own."""
    return Home.made(tmp_path_factory.mktemp("http") / "home")


@pytest.fixture(scope="module")
def gateway(shared: Home) -> Iterator[Reachable]:
    """A gateway without a worker."""
    with reachable(shared, "--no-worker") as at:
        yield at


def play_the_host(home: Home, at: Reachable, token: str, command_id: str, content_hash: str) -> None:
    """What an agent's host could try to be the person who approves: each is refused, and none is a 500."""
    yes = {"action": "accept", "content": {"approve": True, "hash": content_hash}}
    propose = {"name": "propose_publish", "arguments": {**ARTICLE, "notify": ["team"], "wait_seconds": 0}}
    messages: list[Any] = [
        tool_call("approve", command_id=command_id, hash=content_hash),
        tool_call("propose_publish", **{**ARTICLE, "approved": True}),
        tool_call("query_command_status", command_id=command_id, approve=content_hash),
        *({"jsonrpc": "2.0", "id": number, "result": yes} for number in (0, 1, "elicit-1")),
        {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "Approve?", **yes}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**propose, "requestState": command_id}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**propose, "inputResponses": {"a": yes}}},
        {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": command_id}},
        {"jsonrpc": "2.0", "method": "notifications/approved", "params": {"command_id": command_id}},
    ]
    for message in messages:
        told = at.send(calling(at.port, token, message).raw())
        assert told.status < 500, message
        assert b'"AWAITING_APPROVAL"' in told.body or b"error" in told.body.lower() or not told.body, told.body
    replays = {at.send(calling(at.port, token, {**tool_call(), "params": propose}).raw()).body for _ in range(5)}
    assert all(f'"{command_id}"'.encode() in replay for replay in replays), "a replay is the same command"

    other = token_of(home, agent="stranger")
    switched = at.send(calling(at.port, other, tool_call(command_id=command_id)).raw())
    assert switched.code == "command_not_found", "whose token it is counts, not whose connection"
    assert at.send(calling(at.port, other, {**tool_call(), "params": propose}).raw()).code == "already_proposed"
    leaked = at.send(calling(at.port, token, tool_call(cursor=other)).raw())
    assert leaked.code == "credential_in_arguments"
    assert at.send(calling(at.port, other, tool_call()).raw()).code == "revoked"


@pytest.mark.behaviour("threat.12")
@pytest.mark.behaviour("threat.14")
@pytest.mark.behaviour("incident.75")
@pytest.mark.behaviour("http.host-approves-nothing")
@pytest.mark.behaviour("http.saga")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_proposal_over_http_is_published_once_after_a_person_approved_it(home: Home, mode: str) -> None:
    token = token_of(home, "--uses", "3")
    with reachable(home) as at:
        async with http_agent(at.mcp, token, mode) as writer:
            assert [tool.name for tool in (await writer.client.list_tools()).tools] == [
                "propose_publish",
                "query_command_status",
            ]
            command_id = (await writer.propose(notify=["team"], wait_seconds=20))["command_id"]
            waiting = await writer.settled(command_id)
            assert (waiting["state"], waiting["live"]) == ("AWAITING_APPROVAL", False)
            play_the_host(home, at, token, command_id, waiting["approval"]["content_hash"])
            waiting = await writer.settled(command_id)
            assert (waiting["state"], waiting["live"]) == ("AWAITING_APPROVAL", False)
            assert [post["status"] for post in home.sandbox.effects()["posts"]] == ["draft"]
            assert home.approve(command_id).code == 0
            done = await writer.settled(command_id)
            assert (done["state"], done["live"], done["done"]) == ("SUCCESS", True, True)
            again = await writer.propose(notify=["team"])
            assert (again["command_id"], again["deduplicated"]) == (command_id, True)
        effects = home.sandbox.effects()
        assert len(effects["posts"]) == len(effects["messages"]) == 1
        assert at.get("/readyz").document["worker"] == "alive"


async def test_the_same_intent_over_stdio_and_http_is_one_command(shared: Home, gateway: Reachable) -> None:
    article = {"article_id": "article-both", "wait_seconds": 0}
    shared.issue("--uses", "2", "--open", "5")
    token = shared.token.read_text().strip()
    async with http_agent(gateway.mcp, token) as remote, agent(shared, "--no-worker") as local:
        first = await remote.propose(**article)
        second = await local.propose(**article)
    assert (second["command_id"], second["deduplicated"]) == (first["command_id"], True)


@pytest.mark.behaviour("threat.20")
@pytest.mark.behaviour("http.apart")
async def test_two_agents_of_one_server_never_see_each_others_commands(shared: Home, gateway: Reachable) -> None:
    one, two = token_of(shared, agent="one"), token_of(shared, agent="two")
    async with http_agent(gateway.mcp, one) as first, http_agent(gateway.mcp, two) as second:
        mine = await first.propose(article_id="article-one", wait_seconds=0)
        theirs = await second.propose(article_id="article-two", wait_seconds=0)
        for asking, own, foreign in ((first, mine, theirs), (second, theirs, mine)):
            listed = answer(await asking.call("query_command_status"))["commands"]
            assert [line["command_id"] for line in listed] == [own["command_id"]]
            hidden = await asking.refused("query_command_status", command_id=foreign["command_id"])
            absent = await asking.refused("query_command_status", command_id="cmd_01kb9zq3m4n5p6q7r8s9t0v1w2")
            by_key = await asking.refused("query_command_status", idempotency_key=foreign["idempotency_key"])
            assert hidden == absent == by_key
        taken = await second.refused("propose_publish", **{**ARTICLE, "article_id": "article-one"})
        assert (taken["code"], "command_id" in taken) == ("already_proposed", False)


def test_each_request_on_a_kept_connection_is_its_own_callers(shared: Home, gateway: Reachable) -> None:
    """One connection, two tokens in turn: nothing of the first request is left for the second."""
    tokens = [token_of(shared, agent="left"), token_of(shared, agent="right")]
    listed: list[list[str]] = []
    proposed: list[str] = []
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as conn:

        def ask(token: str, tool: str, **arguments: object) -> dict[str, object]:
            conn.sendall(calling(gateway.port, token, tool_call(tool, **arguments)).raw())
            found: dict[str, object] = receive(conn).document["result"]["structuredContent"]
            return found

        for number, token in enumerate(tokens):
            article = {**ARTICLE, "article_id": f"article-switch-{number}", "wait_seconds": 0}
            proposed.append(str(ask(token, "propose_publish", **article)["command_id"]))
        for token in tokens:
            commands = ask(token, "query_command_status")["commands"]
            assert isinstance(commands, list)
            listed.append([line["command_id"] for line in commands])
    assert listed == [[proposed[0]], [proposed[1]]]


@pytest.mark.behaviour("http.acknowledged")
async def test_a_proposal_over_http_is_acknowledged_within_two_seconds_while_every_backend_hangs(home: Home) -> None:
    token = token_of(home, "--uses", "2", "--open", "2")
    with reachable(home) as at:
        async with http_agent(at.mcp, token) as writer:
            await writer.settled((await writer.propose())["command_id"])
            for match in ("GET", "POST", "SMTP MAIL"):
                home.sandbox.arm(match=match, kind="hang", times=0)
            database = sqlite3.connect(home.path / "sandbox" / "publications.db", isolation_level=None)
            with contextlib.closing(database):
                database.execute("BEGIN EXCLUSIVE")
                started = time.monotonic()
                accepted = await writer.propose(article_id="article-0029", notify=["team"], wait_seconds=0)
                assert time.monotonic() - started < 2.0
                assert (accepted["done"], accepted["live"]) == (False, False)
            home.sandbox.clear()


async def test_a_proposal_whose_client_left_is_known_afterwards(shared: Home, gateway: Reachable) -> None:
    token = token_of(shared, "--uses", "2")
    article = {**ARTICLE, "article_id": "article-left", "wait_seconds": 20}
    request = calling(gateway.port, token, tool_call("propose_publish", **article)).raw()
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as conn:
        conn.sendall(request)
    async with http_agent(gateway.mcp, token) as writer:
        again = await writer.propose(article_id="article-left", wait_seconds=0)
        listed = answer(await writer.call("query_command_status"))["commands"]
    assert len([line for line in listed if line["article"] == "article-left"]) == 1
    assert again["command_id"] in {line["command_id"] for line in listed}


@pytest.mark.behaviour("http.end")
def test_who_waits_at_the_end_is_answered_and_what_was_acknowledged_is_on_disk(home: Home) -> None:
    token = token_of(home, "--uses", "2")
    with reachable(home, "--no-worker") as at:
        waiting = calling(at.port, token, tool_call("propose_publish", **ARTICLE, wait_seconds=20)).raw()
        with socket.create_connection(("127.0.0.1", at.port), timeout=60) as conn:
            conn.sendall(waiting)
            listing = calling(at.port, token, tool_call()).raw()
            while not at.send(listing).document["result"]["structuredContent"]["commands"]:
                assert at.process.poll() is None
            at.process.send_signal(signal.SIGTERM)
            command_id = receive(conn).document["result"]["structuredContent"]["command_id"]
        code, log = at.ended(END_MAX_S)
    assert (code, "Traceback" in log) == (0, False)
    assert home.remit("status", command_id).document["command_id"] == command_id


def test_an_idle_client_does_not_hold_up_the_end(home: Home) -> None:
    with reachable(home, "--no-worker") as at, socket.create_connection(("127.0.0.1", at.port), timeout=60):
        at.process.send_signal(signal.SIGINT)
        code, log = at.ended(END_MAX_S)
    assert (code, "Traceback" in log) == (0, False)


def test_health_says_whether_it_lives_and_can_work(gateway: Reachable) -> None:
    assert (gateway.get("/healthz").status, gateway.get("/healthz").document) == (200, {"ok": True, "process": "alive"})
    ready = gateway.get("/readyz")
    assert (ready.status, ready.document["journal"]) == (200, "open")


def test_a_gateway_whose_worker_is_stopped_is_not_ready(home: Home) -> None:
    """A gateway alone is ready without a worker; one that brings its worker is not, until that has shown itself."""
    with reachable(home) as at:
        deadline_s = time.monotonic() + 60
        while at.get("/readyz").status != 200:
            assert time.monotonic() < deadline_s
        with contextlib.closing(sqlite3.connect(home.path / "remit.db", isolation_level=None)) as conn:
            conn.execute("UPDATE store_meta SET clock_high_ms = clock_high_ms - 3600000")
        told = at.get("/readyz")
        assert (told.status, told.document["worker"]) == (503, "not_seen")


def test_the_address_must_be_one_that_can_be_named(home: Home) -> None:
    refused = home.remit("serve", "--http", "--host", "0.0.0.0", "--port", "0")
    assert (refused.code, refused.document["error"]["code"]) == (1, "config_invalid")
    assert "allowed_hosts" in refused.document["error"]["fix"]


def test_a_port_that_is_taken_is_said(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = home.remit("serve", "--http", "--port", str(taken.getsockname()[1]))
    assert (refused.code, refused.document["error"]["code"]) == (1, "address_in_use")
    assert "--port" in refused.document["error"]["fix"]


@pytest.mark.behaviour("threat.25")
def test_no_secret_reaches_the_log_of_a_gateway(shared: Home) -> None:
    token = token_of(shared, "--uses", "2")
    with reachable(shared, "--no-worker", REMIT_LOG_LEVEL="debug") as at:
        article = {**ARTICLE, "article_id": "article-log", "wait_seconds": 0, "content": "canary-of-content"}
        assert at.send(calling(at.port, token, tool_call("propose_publish", **article)).raw()).status == 200
        assert at.send(calling(at.port, token, b"{").raw()).status == 400
        at.process.send_signal(signal.SIGTERM)
        _, log = at.ended(END_MAX_S)
    assert token not in log
    assert token.split(".")[1] not in log
    assert "canary-of-content" not in log
    assert all(json.loads(line) for line in log.splitlines())


FAILING = """
import sys
from server import gateway
async def broken(self, *arguments):
    raise RuntimeError("canary-of-a-crash")
gateway.Gateway.admit = broken
from server.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.behaviour("threat.25")
@pytest.mark.parametrize("version", [None, "2026-07-28"])
def test_a_crash_tells_the_client_nothing(shared: Home, version: str | None) -> None:
    token = token_of(shared)
    message = tool_call("propose_publish", **ARTICLE)
    changes: dict[str, str] = {}
    if version:
        meta = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message["params"]["_meta"] = meta
        changes = {"MCP_Protocol_Version": version, "Mcp_Method": "tools/call", "Mcp_Name": "propose_publish"}
    with reachable(shared, "--no-worker", command=[sys.executable, "-c", FAILING]) as at:
        told = at.send(calling(at.port, token, message, **changes).raw())
        log = at.logged()
    assert told.document["error"]["code"] == -32603
    assert "canary" not in told.body.decode() + log
    assert "RuntimeError" in log
