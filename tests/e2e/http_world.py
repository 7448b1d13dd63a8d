"""A `remit serve --http` process, MCP clients of it, and requests written byte by byte."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.world import REMIT, Agent, Home, environment

START_MAX_S: Final = 60.0
ANSWER_MAX_S: Final = 60.0
END_MAX_S: Final = 30.0
MODERN: Final = "2026-07-28"
ENVELOPE: Final[Mapping[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
}


@dataclass(frozen=True, slots=True)
class Received:
    """An HTTP answer. `ended`: the server closed the connection after it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    ended: bool = False

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The stable code of a refusal, whoever refused."""
        found = self.document
        if "error" in found:
            data = found["error"].get("data")
            return str(data["code"] if isinstance(data, dict) and "code" in data else found["error"]["code"])
        return str(found["result"]["structuredContent"]["code"])


@dataclass(frozen=True, slots=True)
class Reachable:
    """A gateway over HTTP. `url` has no path."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: IO[bytes]

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @property
    def mcp(self) -> str:
        return self.url + "/mcp"

    def logged(self) -> str:
        self.log.seek(0)
        return self.log.read().decode()

    def get(self, path: str) -> Received:
        return self.send(Request(method="GET", path=path, headers={"Host": f"127.0.0.1:{self.port}"}).raw())

    def send(self, raw: bytes, within_s: float = ANSWER_MAX_S) -> Received:
        """Write the bytes, read one answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=within_s) as conn:
            with contextlib.suppress(ConnectionError):  # refused before everything was read
                conn.sendall(raw)
            return receive(conn)

    def ended(self, within_s: float) -> tuple[int, str]:
        return self.process.wait(timeout=within_s), self.logged()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request; `message` becomes the body unless `body` says otherwise."""

    method: str = "POST"
    path: str = "/mcp"
    headers: Mapping[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    body: bytes = b""

    def raw(self) -> bytes:
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\r\n".join([*lines, *self.more, "", ""]).encode("latin-1") + self.body


def calling(port: int, token: str | None, message: Any, **changes: str | None) -> Request:
    """A well-formed legacy request; headers are changed by name (underscores for dashes), None leaves one out."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    headers: dict[str, str | None] = {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Authorization": None if token is None else f"Bearer {token}",
        "Content-Length": str(len(body)),
    }
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    return Request(headers={name: value for name, value in headers.items() if value is not None}, body=body)


def tool_call(tool: str = "query_command_status", number: Any = 1, **arguments: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": number,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


def receive(conn: socket.socket) -> Received:
    """One HTTP answer; an AssertionError when the connection ends before it is whole."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = conn.recv(65_536)
        assert chunk, f"the connection ended after {data!r}"
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", "-1"))
    while length < 0 or len(body) < length:
        chunk = conn.recv(65_536)
        if not chunk:
            assert length < 0, "the connection ended within the body"
            break
        body += chunk
    answer = body if length < 0 else body[:length]  # what follows answers the bytes behind the request
    return Received(int(first.split()[1]), headers, answer, headers.get("connection") == "close")


def token_of(home: Home, *options: str, agent: str = "writer") -> str:
    """A fresh token of an agent, in a file of its own."""
    out = home.path / "tokens" / f"{agent}-{time.monotonic_ns()}"
    issued = home.remit("token", "issue", "--agent", agent, "--out", str(out), *options)
    assert issued.code == 0, issued.stdout
    return out.read_text().strip()


@contextlib.contextmanager
def reachable(home: Home, *options: str, command: Sequence[str] = REMIT, **variables: str) -> Iterator[Reachable]:
    """A gateway, listening."""
    with listening([*command, "serve", "--http", "--port", "0", "--home", str(home.path), *options], **variables) as at:
        yield at


@contextlib.contextmanager
def listening(words: Sequence[str], **variables: str) -> Iterator[Reachable]:
    """The process, listening; ended afterwards if it still runs."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(**variables)
        )
        try:
            yield Reachable(address_of(process, log), process, log)
        finally:
            process.send_signal(signal.SIGTERM)  # so that it ends the sandbox that it started
            try:
                process.wait(timeout=END_MAX_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=END_MAX_S)


def address_of(process: "subprocess.Popen[bytes]", log: IO[bytes]) -> str:
    """Where a gateway listens, once it says so in its log."""
    deadline_s = time.monotonic() + START_MAX_S
    while time.monotonic() < deadline_s:
        log.seek(0)
        found = re.search(r"listening at (http://[^\" ]+)", log.read().decode())
        if found:
            return found.group(1)
        assert process.poll() is None, "it ended at start"
        time.sleep(0.02)
    raise AssertionError("not listening in time")


@contextlib.asynccontextmanager
async def http_agent(url: str, token: str, mode: str = "auto") -> AsyncIterator[Agent]:
    """An MCP client with a fixed header."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=ANSWER_MAX_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield Agent(client)


@contextlib.asynccontextmanager
async def as_configured(document: str) -> AsyncIterator[Agent]:
    """An agent whose host was told what was printed."""
    entry = json.loads(document)["mcpServers"]["remit"]
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=environment())
    with tempfile.TemporaryFile("w+") as nowhere:
        async with Client(stdio_client(parameters, errlog=nowhere)) as client:
            yield Agent(client)
