"""What every HTTP address of ours has in common: who may name it, how long a request may take, how it is refused.

Host and Origin are checked on every path of every listener: a page that a person happens to visit must not reach a
server on their machine by a name of its own (DNS rebinding). A refusal is a JSON-RPC error whose `data` is the same
problem that tools answer with; nothing of the request is repeated.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import Refusal, refusal
from server.protocol import error_body
from server.settings import ListenerSection

REQUEST_S_MAX: Final = 60.0
"""A call waits 20 s at most; an answer that nobody reads ends with the request."""
_ONCE: Final = frozenset(
    {
        b"authorization",
        b"host",
        b"origin",
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"transfer-encoding",
        b"accept",
        b"mcp-protocol-version",
        b"mcp-method",
        b"mcp-name",
        b"mcp-session-id",
    }
)
_SECURITY: Final = {421: "host_not_allowed", 403: "origin_not_allowed"}

log = logging.getLogger("remit.http")


class HttpRefused(Exception):
    """The request was refused at the door."""

    def __init__(self, status: int, found: Refusal, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(found.code)
        self.status = status
        self.refusal = found
        self.headers = headers or {}


def security_of(section: ListenerSection) -> TransportSecuritySettings:
    """Which Host and Origin headers pass."""
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=list(section.hosts()),
        allowed_origins=list(section.origins()),
    )


class Guard:
    """The first look at a request. Raises HttpRefused."""

    def __init__(self, security: TransportSecuritySettings) -> None:
        self._security = TransportSecurityMiddleware(security)

    async def __call__(self, request: Request) -> None:
        _unambiguous(request)
        answer = await self._security.validate_request(request)
        if answer is not None:
            raise HttpRefused(answer.status_code, refusal(_SECURITY[answer.status_code]))


def _unambiguous(request: Request) -> None:
    """No header twice that two readers could read differently, no two lengths (RFC 9112 §6.3)."""
    counted = Counter(name for name, _ in request.headers.raw if name in _ONCE)
    if any(count > 1 for count in counted.values()):
        raise HttpRefused(400, refusal("duplicate_header"), {"Connection": "close"})
    if counted[b"content-length"] and counted[b"transfer-encoding"]:
        raise HttpRefused(400, refusal("ambiguous_length"), {"Connection": "close"})


async def bounded(
    work: Awaitable[None],
    scope: Scope,
    receive: Receive,
    send: Send,
    body: Callable[[Refusal], Mapping[str, Any]] = error_body,
) -> None:
    """Let a request be worked on, for a limited time; answer what it was refused with, put into words by `body`."""
    try:
        async with asyncio.timeout(REQUEST_S_MAX):
            await work
    except HttpRefused as error:
        await document(error.status, body(error.refusal), error.headers)(scope, receive, send)
    except ClientDisconnect:
        log.debug("a client left before its request was whole")
    except TimeoutError:
        log.warning("a request was given up after %.0f s", REQUEST_S_MAX)


def answering(
    handle: Callable[[Request], Awaitable[Response]], body: Callable[[Refusal], Mapping[str, Any]] = error_body
) -> ASGIApp:
    """An application that answers each request by itself."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def work() -> None:
            await (await handle(Request(scope, receive)))(scope, receive, send)

        await bounded(work(), scope, receive, send, body)

    return app


def only(request: Request, *methods: str) -> None:
    """Raises HttpRefused for any other method."""
    if request.method not in methods:
        raise HttpRefused(405, refusal("method_not_allowed"), {"Allow": ", ".join(methods)})


def document(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer that is not kept anywhere."""
    fixed = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(json.dumps(body), status, {**fixed, **(headers or {})}, "application/json")
