"""An HTTP server whose every wait has an end. TLS is a front's business.

uvicorn bounds the wait for a next request on a kept connection; here also the time in which the head of a request must
arrive, and the number of connections. What a request does after its head is bounded by the application (`mcp_http`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator
from typing import Any, Final, Literal

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEAD_S_MAX: Final = 10.0
HEAD_BYTES_MAX: Final = 32_768
KEEP_ALIVE_S: Final = 15
CONNECTIONS_MAX: Final = 256
BACKLOG: Final = 256
GRACE_S: Final = 5

log = logging.getLogger("remit.http")


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 where a head that does not arrive ends the connection, however slowly its bytes drip in."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Between requests the timer runs; a request under way stops it."""
        if self._under_way():
            self._unwatch()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S_MAX, self._too_slow)

    def _unwatch(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self._under_way() and not self.transport.is_closing():
            self.transport.close()

    def _under_way(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn declares
        return cycle is not None and not cycle.response_complete


class _Server(uvicorn.Server):
    """Signals are the process's own: it sets `stop`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


def url_of(listener: socket.socket, path: str = "") -> str:
    """Where a socket listens."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


async def serve(
    app: ASGIApp, listener: socket.socket, stop: asyncio.Event, *, lifespan: Literal["on", "off"] = "off"
) -> None:
    """Serve until `stop`, then answer what is under way, for at most GRACE_S."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
    )
    server = _Server(config)
    log.info("listening at %s", url_of(listener))
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="http")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        server.should_exit = True
        stopped.cancel()
        await serving
