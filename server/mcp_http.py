"""MCP over Streamable HTTP, for both protocol eras: every request by itself, one JSON answer each, no session.

What stands here is the door; what is behind it is the same server as over stdin and stdout. In this order: Host and
Origin (on every address), the path, the method, headers that two readers could read differently, a token where none
belongs, **the bearer token** (401: hosts fetch another one), the body (bounded in size and time), one strict JSON-RPC
message. Only then the SDK sees the request. Whatever is refused here is a JSON-RPC error whose `data` is the same
problem that tools answer with; nothing of the request is repeated.

No OAuth metadata is published: some hosts would drop the header that they were configured with.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import mcp_types
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capabilities.errors import CredentialError
from capabilities.token import Capability
from server.callers import bearer
from server.errors import GatewayRefused, Refusal, from_credential, refusal
from server.gateway import Gateway
from server.health import Health
from server.protocol import MESSAGE_BYTES_MAX, Context, build, error_body, parse_message
from server.settings import HttpSection
from server.tools import Tools

BODY_S_MAX: Final = 20.0
REQUEST_S_MAX: Final = 60.0
"""A call waits 20 s at most; an answer that nobody reads ends with the request."""
BODIES_BYTES_MAX: Final = 8 * MESSAGE_BYTES_MAX
"""What all bodies under way may hold together."""
ALIVE: Final = "/healthz"
READY: Final = "/readyz"
CAPABILITY: Final = "remit.capability"
REALM: Final = 'Bearer realm="remit"'

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
_SECURITY: Final = {421: "host_not_allowed", 403: "origin_not_allowed", 400: "content_type_not_supported"}

log = logging.getLogger("remit.http")


class HttpRefused(Exception):
    """The request was refused at the door."""

    def __init__(self, status: int, found: Refusal, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(found.code)
        self.status = status
        self.refusal = found
        self.headers = headers or {}


def security_of(section: HttpSection) -> TransportSecuritySettings:
    """Which Host and Origin headers pass."""
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=list(section.hosts()),
        allowed_origins=list(section.origins()),
    )


def app_of(tools: Tools, section: HttpSection, health: Health, version: str) -> ASGIApp:
    """The application: the door, and the protocol server behind it."""
    security = security_of(section)
    server = build(tools, version, lambda context: lambda: _capability(context))
    protocol = server.streamable_http_app(
        streamable_http_path=section.path,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MESSAGE_BYTES_MAX,
        transport_security=security,
        host=section.host,
    )
    return Door(protocol, tools.gateway, section.path, security, health)


def _capability(context: Context) -> Capability:
    """What the door found in the header of this very request."""
    found = context.request.scope[CAPABILITY] if context.request is not None else None
    assert isinstance(found, Capability), "the door lets nobody through unproven"
    return found


@dataclass(slots=True)
class Bodies:
    """The memory that bodies under way take."""

    held: int = 0

    def take(self, size: int) -> None:
        if self.held + size > BODIES_BYTES_MAX:
            raise HttpRefused(503, refusal("busy", retry_after_s=1), {"Retry-After": "1"})
        self.held += size

    def give(self, size: int) -> None:
        self.held -= size


class Door:
    """Everything that happens to a request before the protocol server sees it."""

    def __init__(
        self, inner: ASGIApp, gateway: Gateway, path: str, security: TransportSecuritySettings, health: Health
    ) -> None:
        self._inner = inner
        self._gateway = gateway
        self._path = path
        self._security = TransportSecurityMiddleware(security)
        self._health = health
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                await self._enter(Request(scope, receive), scope, receive, send)
        except HttpRefused as error:
            await _answer(error)(scope, receive, send)
        except ClientDisconnect:
            log.debug("a client left before its request was whole")
        except TimeoutError:
            log.warning("a request was given up after %.0f s", REQUEST_S_MAX)

    async def _enter(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(request)
        match request.url.path:
            case self._path:
                await self._call(request, scope, receive, send)
            case "/healthz":
                await _told(request, True, {"process": "alive"})(scope, receive, send)
            case "/readyz":
                await _told(request, *await self._health.ready())(scope, receive, send)
            case _:
                raise HttpRefused(404, refusal("not_found"))

    async def _guard(self, request: Request) -> None:
        """Host and Origin, on every path."""
        _unambiguous(request)
        answer = await self._security.validate_request(request)
        if answer is not None:
            raise HttpRefused(answer.status_code, refusal(_SECURITY[answer.status_code]))

    async def _call(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        if request.method != "POST":
            raise HttpRefused(405, refusal("method_not_allowed"), {"Allow": "POST"})
        await self._nothing_misplaced(request)
        scope[CAPABILITY] = await self._authenticated(request)
        _acceptable(request)
        async with self._body(request) as body:
            _one_message(body)
            await self._inner(scope, _replay(body, receive), send)

    async def _nothing_misplaced(self, request: Request) -> None:
        """No token anywhere but in the one header: not in the address, a cookie, or a header of its own."""
        elsewhere = [value for name, value in request.headers.items() if name != "authorization"]
        try:
            await self._gateway.inspect("http", {"at": [request.url.query, *elsewhere]}, "credential_misplaced")
        except GatewayRefused as error:
            raise HttpRefused(400, error.refusal) from None
        if request.url.query:
            raise HttpRefused(400, refusal("query_not_allowed"))

    async def _authenticated(self, request: Request) -> Capability:
        try:
            value = request.headers.get("authorization")
            return await self._gateway.authenticate(bearer(None if value is None else value.encode("latin-1")))
        except CredentialError as error:
            found = (await self._gateway.stranger(from_credential(error))).refusal
        except GatewayRefused as error:
            found = error.refusal
        asked = (
            REALM if found.code == "no_token" else f'{REALM}, error="invalid_token", error_description="{found.code}"'
        )
        raise HttpRefused(401, found, {"WWW-Authenticate": asked})

    @asynccontextmanager
    async def _body(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The whole body. Its bytes count as held until the block ends."""
        declared = request.headers.get("content-length")
        if declared is not None and int(declared) > MESSAGE_BYTES_MAX:
            raise _too_large()
        body = bytearray()
        try:
            await self._fill(body, request)
            yield bytes(body)
        finally:
            self._bodies.give(len(body))

    async def _fill(self, body: bytearray, request: Request) -> None:
        try:
            async with asyncio.timeout(BODY_S_MAX):
                async for chunk in request.stream():
                    if len(body) + len(chunk) > MESSAGE_BYTES_MAX:
                        raise _too_large()
                    self._bodies.take(len(chunk))
                    body += chunk
        except TimeoutError:
            raise HttpRefused(408, refusal("body_too_slow")) from None


def _unambiguous(request: Request) -> None:
    """No header twice that two readers could read differently, no two lengths (RFC 9112 §6.3)."""
    counted = Counter(name for name, _ in request.headers.raw if name in _ONCE)
    if any(count > 1 for count in counted.values()):
        raise HttpRefused(400, refusal("duplicate_header"), {"Connection": "close"})
    if counted[b"content-length"] and counted[b"transfer-encoding"]:
        raise HttpRefused(400, refusal("ambiguous_length"), {"Connection": "close"})


def _acceptable(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or request.headers.get("content-encoding", "identity") != "identity":
        raise HttpRefused(415, refusal("content_type_not_supported"))
    if not check_accept_headers(request)[0]:
        raise HttpRefused(406, refusal("not_acceptable"))
    if "mcp-session-id" in request.headers:
        raise HttpRefused(404, refusal("session_unknown"))


def _one_message(body: bytes) -> None:
    try:
        message = parse_message(body)
    except GatewayRefused as error:
        raise HttpRefused(400, error.refusal) from None
    if not isinstance(message, mcp_types.JSONRPCRequest | mcp_types.JSONRPCNotification):
        raise HttpRefused(400, refusal("not_a_message"))


def _too_large() -> HttpRefused:
    return HttpRefused(413, refusal("payload_too_large", limit=MESSAGE_BYTES_MAX))


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read already, then whatever follows."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed


def _told(request: Request, well: bool, told: Mapping[str, str]) -> Response:
    if request.method not in ("GET", "HEAD"):
        raise HttpRefused(405, refusal("method_not_allowed"), {"Allow": "GET, HEAD"})
    return _json(200 if well else 503, {"ok": well, **told})


def _answer(error: HttpRefused) -> Response:
    return _json(error.status, error_body(error.refusal), error.headers)


def _json(status: int, document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    fixed = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(json.dumps(document), status, {**fixed, **(headers or {})}, "application/json")
