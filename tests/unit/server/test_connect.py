"""What an agent is told when a gateway elsewhere does not answer, refuses, or is somebody else; sent once, always."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from server import connect
from server.connect import remote
from server.errors import refusal
from server.protocol import error_body, server_of
from tests.unit.adapters.raw_server import Behaviour, RawServer, answering, reply, reset, self_signed, serving

ARGUMENTS = {"article_id": "a", "version": 1, "site": "blog", "title": "T", "content": "C", "wait_seconds": 0}
RESULT = {"content": [], "structuredContent": {"code": "from_afar"}, "isError": True, "resultType": "complete"}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    return written(tmp_path / "token", b"a.b.c\n")


def written(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


@asynccontextmanager
async def connected(url: str, token_file: Path, ca: str | None = None, mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        remote(url, token_file, "0", None if ca is None else Path(ca)) as gateway,
        Client(server_of("0", gateway.listing, gateway.calling), mode=mode) as client,
    ):
        yield client


async def told(client: Client, tool: str = "propose_publish") -> dict[str, Any]:
    arguments = ARGUMENTS if tool == "propose_publish" else {"wait_seconds": 0}
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    found: dict[str, Any] = result.structured_content
    return found


def rpc(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, **members}).encode()


def failing(act: Callable[[asyncio.StreamWriter], None]) -> Behaviour:
    async def behave(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        act(writer)

    return behave


async def silent(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await server.request(reader)
    await reader.read()


UNANSWERED: dict[str, Behaviour] = {
    "closed": failing(lambda writer: writer.close()),
    "reset": failing(reset),
    "half an answer": failing(lambda writer: writer.write(reply(200, b"x" * 100)[:-50])),
    "half a head": failing(lambda writer: writer.write(b"HTTP/1.1 200 OK\r\nConte")),
    "no HTTP": failing(lambda writer: writer.write(b"hello\r\n\r\n")),
    "no JSON": answering(reply(200, b"<html>")),
    "another JSON": answering(reply(200, b"[1]")),
    "no result": answering(reply(200, rpc(result=7))),
    "a result of another form": answering(reply(200, rpc(result={"content": 7}))),
    "a failed gateway": answering(reply(200, rpc(error={"code": -32603, "message": "x"}))),
    "an error nobody knows": answering(reply(200, rpc(error={"code": 1, "message": "x"}))),
    "a bad gateway of a front": answering(reply(502, b"<html>")),
    "a time-out of a front": answering(reply(504, b"{}")),
    "an internal error of a front": answering(reply(500, b"")),
    "beyond every limit": answering(reply(200, b" " * (connect.ANSWER_BYTES_MAX + 1))),
    "too deep": answering(reply(200, b"[" * 100_000)),
    "accepted without a word": answering(reply(202, b"")),
}


@pytest.mark.behaviour("connect.unknown")
@pytest.mark.parametrize("behaviour", UNANSWERED.values(), ids=UNANSWERED.keys())
async def test_a_proposal_without_an_answer_is_not_known_and_is_sent_once(
    token_file: Path, behaviour: Behaviour
) -> None:
    async with serving(behaviour) as server, connected(server.url + "/mcp", token_file) as client:
        found = await told(client)
        assert (found["code"], found["retryable"]) == ("outcome_unknown", True)
        assert "failed" in found["fix"]
        assert len(server.requests) == 1
    async with serving(behaviour) as server, connected(server.url + "/mcp", token_file) as client:
        assert (await told(client, "query_command_status"))["code"] == "no_answer"


async def test_a_gateway_that_stays_silent_is_not_waited_for_for_ever(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "ANSWER_S_MAX", 0.3)
    async with serving(silent) as server, connected(server.url, token_file) as client:
        assert (await told(client))["code"] == "outcome_unknown"
        assert len(server.requests) == 1


REFUSED: dict[str, tuple[bytes, str]] = {
    "expired": (reply(401, json.dumps(error_body(refusal("expired"))).encode()), "expired"),
    "busy": (reply(503, json.dumps(error_body(refusal("busy"))).encode()), "busy"),
    "moved": (reply(307, b"", "Location: http://127.0.0.1:1/mcp"), "gateway_elsewhere"),
    "not there": (reply(404, b"<html>"), "gateway_elsewhere"),
    "forbidden by a front": (reply(403, b"{}"), "gateway_elsewhere"),
    "not understood": (reply(400, rpc(error={"code": -32600, "message": "x"})), "gateway_elsewhere"),
}


@pytest.mark.parametrize(("answer", "code"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_refusal_is_told_in_the_words_of_who_refused(token_file: Path, answer: bytes, code: str) -> None:
    async with serving(answering(answer)) as server, connected(server.url, token_file) as client:
        assert (await told(client))["code"] == code
        assert (server.connects, len(server.requests)) == (1, 1)


async def test_what_could_not_be_sent_is_not_in_doubt(token_file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with connected(f"http://127.0.0.1:{port}/mcp", token_file) as client:
        assert (await told(client))["code"] == "gateway_unreachable"


async def test_a_certificate_decides_whether_the_token_is_sent(tmp_path: Path, token_file: Path) -> None:
    tls, trusted = self_signed(tmp_path)
    async with serving(answering(reply(200, rpc(result=RESULT))), tls) as server:
        async with connected(server.url, token_file) as client:
            assert (await told(client))["code"] == "gateway_untrusted"
            assert server.requests == []
        async with connected(server.url, token_file, ca=trusted) as client:
            assert await told(client) == {"code": "from_afar"}


def absent(path: Path) -> Path:
    return path / "nothing"


def linked(path: Path) -> Path:
    (path / "link").symlink_to(written(path / "token", b"a.b.c"))
    return path / "link"


def piped(path: Path) -> Path:
    os.mkfifo(path / "pipe", 0o600)
    return path / "pipe"


FILES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "absent": (absent, "token_file_unreadable"),
    "a folder": (lambda path: path, "token_file_not_regular"),
    "a link": (linked, "token_file_unreadable"),
    "a pipe": (piped, "token_file_not_regular"),
    "open to others": (lambda path: written(path / "token", b"a.b.c", 0o644), "token_file_open_permissions"),
    "large": (lambda path: written(path / "token", b"a" * 5_000), "token_file_too_large"),
    "not ASCII": (lambda path: written(path / "token", b"\xff.b.c"), "malformed_token"),
    "two lines": (lambda path: written(path / "token", b"a.b.c\r\nX-Evil: 1"), "malformed_token"),
    "empty": (lambda path: written(path / "token", b""), "malformed_token"),
}


@pytest.mark.behaviour("connect.token-file")
@pytest.mark.parametrize(("make", "code"), FILES.values(), ids=FILES.keys())
async def test_whatever_is_wrong_with_the_token_file_is_the_answer_of_the_call(
    tmp_path: Path, make: Callable[[Path], Path], code: str
) -> None:
    async with serving(answering(reply())) as server, connected(server.url, make(tmp_path)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["propose_publish", "query_command_status"]
        assert (await told(client))["code"] == code
        assert (await told(client, "query_command_status"))["code"] == code
        assert server.connects == 0


async def test_a_token_that_was_replaced_is_used_at_the_next_call(token_file: Path) -> None:
    answer = reply(200, rpc(result=RESULT))
    async with serving(answering(answer, answer)) as server, connected(server.url, token_file) as client:
        await told(client)
        written(token_file, b"d.e.f\n")
        await told(client)
    sent = [next(line for line in head.split(b"\r\n") if line.lower().startswith(b"auth")) for head in server.requests]
    assert sent == [b"Authorization: Bearer a.b.c", b"Authorization: Bearer d.e.f"]


async def test_who_cancels_ends_the_request(token_file: Path) -> None:
    async with serving(silent) as server, connected(server.url, token_file, mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("propose_publish", ARGUMENTS))
        await asyncio.wait_for(server.requested.wait(), 30)
        call.cancel()
        await asyncio.wait_for(server.hung_up.wait(), 30)
        assert len(server.requests) == 1


async def test_the_trace_of_a_call_is_handed_on_and_nothing_else_of_its_meta(token_file: Path) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    async with (
        serving(answering(reply(200, rpc(result=RESULT)))) as server,
        connected(server.url, token_file) as client,
    ):
        meta: Any = {"traceparent": trace, "x": "y"}
        await client.call_tool("propose_publish", ARGUMENTS, meta=meta)
    meta = json.loads(server.requests[0].partition(b"\r\n\r\n")[2])["params"]["_meta"]
    assert meta["traceparent"] == trace
    assert "x" not in meta
