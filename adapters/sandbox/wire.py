"""An HTTP/1.1 server small enough to misbehave on purpose, with two limits that are real.

    H  a request that is not complete this long after it began (or a new connection that says nothing) is dropped
    M  what a request does is killed after this; nothing of it happens later

A client that goes away does not stop its request: like PHP behind a front, it runs to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlsplit

HEAD_BYTES_MAX: Final = 64 * 1024
BODY_BYTES_MAX: Final = 32 * 1024 * 1024
KEEP_ALIVE_S: Final = 20.0
ENDLESS_CHUNK: Final = b"x" * 65_536
_ABORT: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A complete request. Header names are lower case; of a repeated query parameter the last counts."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def line(self) -> str:
        """What faults are matched against."""
        return f"{self.method} {self.path}"


class Manner(Enum):
    """How an answer reaches the client, or does not."""

    WHOLE = auto()
    DROP = auto()
    RESET = auto()
    HANG = auto()
    STALL = auto()
    TRUNCATE = auto()
    ENDLESS = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer and the manner of its delivery."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    manner: Manner = Manner.WHOLE


Handler = Callable[[Request], Awaitable[Response]]


class HttpServer:
    """Serves one handler on loopback."""

    def __init__(self, handler: Handler, *, incomplete_s: float, max_run_s: float) -> None:
        self._handler = handler
        self._incomplete_s, self._max_run_s = incomplete_s, max_run_s
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; `port` 0 takes a free one."""
        self._server = await asyncio.start_server(self._accept, host, port, limit=HEAD_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        connections = tuple(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            wait_s = self._incomplete_s
            while (request := await self._receive(reader, wait_s)) is not None:
                if not await self._deliver(await self._run(request), reader, writer):
                    break
                wait_s = KEEP_ALIVE_S
        except (TimeoutError, OSError, EOFError, ValueError):
            reset(writer)
        finally:
            with contextlib.suppress(OSError):
                writer.close()

    async def _receive(self, reader: asyncio.StreamReader, wait_s: float) -> Request | None:
        """The next request; None when the client is done. Raises what an incomplete or malformed one deserves."""
        async with asyncio.timeout(wait_s):
            first = await reader.read(1)
        if not first:
            return None
        async with asyncio.timeout(self._incomplete_s):
            head = first + await reader.readuntil(b"\r\n\r\n")
            start, *lines = head[:-4].decode("latin-1").split("\r\n")
            method, target, _ = start.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            length = int(headers.get("content-length", "0"))
            if not 0 <= length <= BODY_BYTES_MAX or "transfer-encoding" in headers:
                raise ValueError("a body needs a length")
            body = await reader.readexactly(length)
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        return Request(method=method, path=parts.path, query=query, headers=headers, body=body)

    async def _run(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(self._max_run_s):
                return await self._handler(request)
        except TimeoutError:
            return Response(
                status=504, body=b"<html>504 Gateway Time-out</html>", headers={"Content-Type": "text/html"}
            )

    async def _deliver(self, response: Response, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection goes on."""
        half = response.body[: len(response.body) // 2]
        match response.manner:
            case Manner.WHOLE:
                writer.write(_head(response, len(response.body)) + response.body)
                await writer.drain()
                return True
            case Manner.DROP:
                return False
            case Manner.RESET:
                reset(writer)
            case Manner.HANG:
                await reader.read()
            case Manner.STALL:
                writer.write(_head(response, len(response.body)) + half)
                await writer.drain()
                await reader.read()
            case Manner.TRUNCATE:
                writer.write(_head(response, len(response.body)) + half)
                await writer.drain()
            case Manner.ENDLESS:
                writer.write(_head(response, 10 * 2**30))
                while not writer.is_closing():
                    writer.write(ENDLESS_CHUNK)
                    await writer.drain()
        return False


def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with a reset."""
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    writer.transport.abort()


def _head(response: Response, length: int) -> bytes:
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = ""
    headers = {"Content-Type": "application/json; charset=UTF-8", **response.headers, "Content-Length": str(length)}
    lines = [f"HTTP/1.1 {response.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
