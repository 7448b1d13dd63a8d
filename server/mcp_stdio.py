"""MCP over stdin and stdout, for both protocol eras.

stdout carries JSON-RPC and nothing else: the wire is moved to descriptors of its own before anything is served, and
descriptor 1 becomes stderr, so that a stray print of any library misses it. A line that is no message is answered with
an error; one of more than 32 MiB ends the connection. EOF and the caller's `stop` (a signal) end it within a second or
two: acceptances under way are awaited, nothing else is.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from server.errors import GatewayRefused
from server.protocol import MESSAGE_BYTES_MAX, error_body, parse_message

DRAIN_S: Final = 1.0
_CHUNK_BYTES: Final = 65_536

log = logging.getLogger("remit.mcp")

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


async def serve(
    server: Server[Any], wire: Wire, stop: asyncio.Event, drained: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Serve one client until EOF or `stop`; sets `stop` at the end. `drained` waits for what must not be cut off."""
    no_more = asyncio.Event()
    session = asyncio.create_task(_session(server, wire, no_more), name="mcp session")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    silent = asyncio.create_task(no_more.wait(), name="end of input")
    try:
        await asyncio.wait({session, stopped, silent}, return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            await asyncio.wait({session, stopped}, timeout=DRAIN_S, return_when=asyncio.FIRST_COMPLETED)
        if drained is not None:
            async with asyncio.timeout(DRAIN_S):
                await drained()
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
                try:
                    message = parse_message(line)
                except GatewayRefused as error:
                    await out(json.dumps(error_body(error.refusal)))
                else:
                    await to_server.send(SessionMessage(message))
        except LineTooLong:
            log.error("a line of more than %d bytes ended the connection", MESSAGE_BYTES_MAX)
        except anyio.BrokenResourceError:
            log.debug("the session ended while a message was being read")
        finally:
            no_more.set()


async def _write(from_server: MemoryObjectReceiveStream[SessionMessage], out: Lines) -> None:
    async with from_server:
        async for message in from_server:
            await out(message.message.model_dump_json(by_alias=True, exclude_unset=True))


async def read_lines(descriptor: int, bytes_max: int = MESSAGE_BYTES_MAX) -> AsyncGenerator[bytes, None]:
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
