"""MCP over stdin and stdout, for both protocol eras.

stdout carries JSON-RPC and nothing else: the wire is moved to descriptors of its own before anything is served, and
descriptor 1 becomes stderr, so that a stray print of any library misses it. A line that is no message is answered with
a parse error; one of more than 32 MiB ends the connection. EOF, SIGTERM and Ctrl-C end the process within a second or
two: the caller's `stop` is set, acceptances under way are awaited, nothing else is.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import signal
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from server.results import text
from server.tools import INSTRUCTIONS, Answer, Tools, ToolText

LINE_BYTES_MAX: Final = 32 * 1024 * 1024
TOOLS_FRESH_MS: Final = 60_000
DRAIN_S: Final = 1.0
PARSE_ERROR: Final = -32700
_CHUNK_BYTES: Final = 65_536

log = logging.getLogger("remit.mcp")

Context = ServerRequestContext[Any, Any]
Incoming = SessionMessage | Exception


class LineTooLong(Exception):
    """A peer sent a line beyond every limit; there is no telling where the next message begins."""


@dataclass(frozen=True, slots=True)
class Wire:
    """The two ends of the protocol, away from descriptors 0 and 1."""

    reads: int
    writes: int


def take_wire() -> Wire:
    """Keep stdin and stdout for the protocol alone: from here on 0 reads nothing and 1 is stderr."""
    wire = Wire(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return wire


def build(tools: Tools, version: str) -> Server[Any]:
    """The protocol server over the tools."""

    async def list_tools(
        context: Context, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=[_listed(tool) for tool in tools.texts])

    async def call_tool(context: Context, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        answer = await tools.call(params.name, params.arguments or {}, _trace(context))
        return _wire_result(answer)

    return Server(
        "remit",
        version=version,
        title="Remit",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": CacheHint(ttl_ms=TOOLS_FRESH_MS, scope="private")},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve(tools: Tools, version: str, wire: Wire, stop: asyncio.Event) -> None:
    """Serve one client until EOF, a signal, or `stop`; sets `stop` at the end."""
    server = build(tools, version)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    no_more = asyncio.Event()
    session = asyncio.create_task(_session(server, wire, no_more), name="mcp session")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    silent = asyncio.create_task(no_more.wait(), name="end of input")
    try:
        await asyncio.wait({session, stopped, silent}, return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            await asyncio.wait({session, stopped}, timeout=DRAIN_S, return_when=asyncio.FIRST_COMPLETED)
        async with asyncio.timeout(DRAIN_S):
            await tools.drained()
    except TimeoutError:
        log.warning("an acceptance was still under way at the end; its outcome is in the journal")
    finally:
        stop.set()
        await _end(session, stopped, silent)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
            log.error("the connection ended with %s", type(ended).__name__, exc_info=ended)


async def _session(server: Server[Any], wire: Wire, no_more: asyncio.Event) -> None:
    to_server, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    out = await _writer(wire.writes)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, wire.reads, to_server, out, no_more)
            group.start_soon(_write, from_server, out)
            await server.run(incoming, outgoing, server.create_initialization_options())
            group.cancel_scope.cancel()
    except* BrokenPipeError:
        log.info("the client closed its end")


async def _read(
    descriptor: int, to_server: MemoryObjectSendStream[Incoming], out: Lines, no_more: asyncio.Event
) -> None:
    async with to_server, aclosing(read_lines(descriptor)) as lines:
        try:
            async for line in lines:
                message = parse_line(line)
                if message is None:
                    await out(_parse_error())
                else:
                    await to_server.send(SessionMessage(message))
        except LineTooLong:
            log.error("a line of more than %d bytes ended the connection", LINE_BYTES_MAX)
        except anyio.BrokenResourceError:
            log.debug("the session ended while a message was being read")
        finally:
            no_more.set()


async def _write(from_server: MemoryObjectReceiveStream[SessionMessage], out: Lines) -> None:
    async with from_server:
        async for message in from_server:
            await out(message.message.model_dump_json(by_alias=True, exclude_unset=True))


async def read_lines(descriptor: int, bytes_max: int = LINE_BYTES_MAX) -> AsyncGenerator[bytes, None]:
    """Lines of a pipe, each at most `bytes_max` long. Cancellable, unlike a thread that reads. Raises LineTooLong."""
    reader = asyncio.StreamReader(limit=bytes_max)
    async with _feeding(descriptor, reader):
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return  # an unfinished line at the end is no message
            except asyncio.LimitOverrunError:
                raise LineTooLong from None
            if line.strip():
                yield line


@asynccontextmanager
async def _feeding(descriptor: int, reader: asyncio.StreamReader) -> AsyncGenerator[None, None]:
    """Fill the reader: from a pipe, socket or terminal by the event loop, from a file (which never waits) by a task."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor):
        file = os.fdopen(os.dup(descriptor), "rb", 0)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        try:
            yield
        finally:
            transport.close()
    else:
        pump = asyncio.create_task(_pump(descriptor, reader), name="read a file")
        try:
            yield
        finally:
            pump.cancel()


async def _pump(descriptor: int, reader: asyncio.StreamReader) -> None:
    while chunk := await asyncio.to_thread(os.read, descriptor, _CHUNK_BYTES):
        reader.feed_data(chunk)
    reader.feed_eof()


def parse_line(line: bytes) -> mcp_types.JSONRPCMessage | None:
    """One message; None for anything else: not UTF-8, not JSON, a batch, nested too deep, an id of another type."""
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return None
    if isinstance(message, mcp_types.JSONRPCNotification) and "id" in json.loads(line):
        return None  # a request whose id is of another type would be taken for a notification, and never answered
    return message


Lines = Callable[[str], Awaitable[None]]


async def _writer(descriptor: int) -> Lines:
    """A function that writes one whole line at a time, waiting for a slow reader without blocking the loop."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    turn = asyncio.Lock()

    async def write(line: str) -> None:
        async with turn:
            left = memoryview(line.encode() + b"\n")
            while left:
                try:
                    left = left[os.write(descriptor, left) :]
                except BlockingIOError:
                    await _writable(loop, descriptor)

    return write


async def _writable(loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(descriptor, _wake, ready)
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _parse_error() -> str:
    error = {"code": PARSE_ERROR, "message": "not one JSON-RPC message on one line"}
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": error})


def _listed(tool: ToolText) -> mcp_types.Tool:
    return mcp_types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        output_schema=dict(tool.output_schema),
        annotations=mcp_types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=not tool.read_only,
            idempotent_hint=tool.idempotent,
            open_world_hint=not tool.read_only,
        ),
    )


def _wire_result(answer: Answer) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(type="text", text=text(answer.result))],
        structured_content=answer.result.model_dump(mode="json", exclude_none=True),
        is_error=answer.refused,
    )


def _trace(context: Context) -> str | None:
    """W3C trace context, when the client sent one (`_meta.traceparent`)."""
    meta = context.meta or {}
    found = meta.get("traceparent")
    return found if isinstance(found, str) and len(found) <= 64 and found.isascii() else None
