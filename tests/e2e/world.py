"""One installation as an outsider meets it: a home on disk, the `remit` command, an MCP client process, the sandbox.

Everything goes through processes, files, pipes and sockets. Commands are processes that are forked from one which has
loaded the program already; what serves is started as anybody would start it.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult

from server.cli.main import main
from tests.desk import Finished
from tests.stage.processes import commanded

REMIT: Final = (sys.executable, "-m", "server")
COMMAND_MAX_S: Final = 60.0
ANSWER_MAX_S: Final = 60.0
ROUNDS_MAX: Final = 40
ARTICLE: Final[Mapping[str, Any]] = {
    "article_id": "article-0028",
    "version": 1,
    "site": "blog",
    "title": "How to brew coffee",
    "content": "# How to brew coffee\n\nUse fresh water.",
}


@dataclass(frozen=True, slots=True)
class Home:
    """A home made by `remit init`."""

    path: Path

    @classmethod
    def made(cls, path: Path) -> "Home":
        home = cls(path)
        assert home.remit("init", "--operator", "olivia").code == 0
        return home

    @property
    def token(self) -> Path:
        return self.path / "tokens" / "writer"

    @property
    def operator_key(self) -> Path:
        return self.path / "operators" / "olivia.pem"

    def remit(self, *arguments: str, as_json: bool = True) -> Finished:
        words = [*arguments, "--home", str(self.path), *(["--json"] if as_json else [])]
        return Finished(*commanded(main, words, COMMAND_MAX_S))

    def issue(self, *options: str, agent: str = "writer") -> Any:
        issued = self.remit("token", "issue", "--agent", agent, "--out", str(self.token), *options)
        assert issued.code == 0, issued.stdout
        return issued.document

    def stored(self, name: str, content: bytes) -> str:
        """The reference under which a person stores a file."""
        file = self.path.parent / name
        file.write_bytes(content)
        put = self.remit("artifact", "put", str(file))
        assert put.code == 0, put.stdout
        ref: str = put.document["ref"]
        return ref

    def approve(self, command_id: str) -> Finished:
        shown = self.remit("approve", command_id, "--show").document
        key = ("--operator-key", str(self.operator_key))
        return self.remit("approve", command_id, "--hash", shown["content_hash"], *key)

    def serving(self, *options: str) -> list[str]:
        return [*REMIT, "serve", "--home", str(self.path), "--token-file", str(self.token), *options]

    @property
    def sandbox(self) -> "Sandbox":
        ports = json.loads((self.path / "sandbox" / "state.ports.json").read_text())
        return Sandbox(ports["url"])


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Its control endpoint."""

    url: str

    def effects(self) -> Any:
        return self._ask("GET", "/__effects")

    def arm(self, **fault: Any) -> None:
        self._ask("PUT", "/__faults", fault)

    def clear(self) -> None:
        self._ask("DELETE", "/__faults")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())


def environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REMIT_")}
    root = str(Path(__file__).parents[2])
    return kept | {"PYTHONPATH": root} | extra


class Agent:
    """An MCP client of a `remit serve` process."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(tool, arguments)

    async def propose(self, **changes: Any) -> dict[str, Any]:
        return answer(await self.call("propose_publish", **{**ARTICLE, **changes}))

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.call(tool, **arguments)
        assert result.is_error, result
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    async def settled(self, command_id: str) -> dict[str, Any]:
        """The status once waiting is of no more use; every round waits inside the server."""
        for _ in range(ROUNDS_MAX):
            found = answer(await self.call("query_command_status", command_id=command_id, wait_seconds=5))
            if found["next_action"] != "wait":
                return found
        raise AssertionError(f"still {found['state']}")


def answer(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result
    assert isinstance(result.structured_content, dict)
    return result.structured_content


@contextlib.asynccontextmanager
async def agent(
    home: Home, *options: str, mode: str = "auto", log: IO[str] | None = None, extra: Mapping[str, str] = {}
) -> AsyncIterator[Agent]:
    """A client process's view: connected, until the block ends."""
    command, *arguments = home.serving(*options)
    parameters = StdioServerParameters(command=command, args=arguments, env=environment(**extra))
    with tempfile.TemporaryFile("w+") as nowhere:
        async with Client(stdio_client(parameters, errlog=log or nowhere), mode=mode) as client:  # type: ignore[arg-type]  # the SDK declares TextIO
            yield Agent(client)


class Served:
    """A `remit serve` process with its pipes in the hands of the test."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: IO[bytes]) -> None:
        self.process = process
        self._log = log
        self._read = b""

    def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def request(self, number: int, method: str, **params: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())

    def receive(self) -> Any:
        """The next line; every line of stdout must be one JSON document."""
        assert self.process.stdout is not None
        deadline_s = time.monotonic() + ANSWER_MAX_S
        while b"\n" not in self._read:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline_s - time.monotonic()))
            assert ready, "no answer"
            chunk = os.read(self.process.stdout.fileno(), 65_536)
            assert chunk, "the process closed its end"
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)

    def handshake(self) -> None:
        info = {"name": "test", "version": "0"}
        self.request(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        assert self.receive()["result"]["serverInfo"]["name"] == "remit"
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def call(self, number: int, tool: str, **arguments: Any) -> Any:
        self.request(number, "tools/call", name=tool, arguments=arguments)
        received = self.receive()
        assert received["id"] == number
        return received["result"]

    def ended(self, within_s: float) -> tuple[int, str]:
        """Exit code, and everything that was written to stderr."""
        code = self.process.wait(timeout=within_s)
        self._log.seek(0)
        return code, self._log.read().decode()


@contextlib.contextmanager
def served(home: Home, *options: str, command: list[str] | None = None, **variables: str) -> Iterator[Served]:
    """The process, killed at the end if it still runs."""
    with tempfile.TemporaryFile() as log:  # a pipe that nobody reads would fill and hold the process up
        process = subprocess.Popen(
            command or home.serving(*options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(**variables),
        )
        try:
            yield Served(process, log)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait(timeout=10)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
