"""MCP over Streamable HTTP, for both protocol eras: every request by itself, one JSON answer each, no session.

What stands here is the door; what is behind it is the same server as over stdin and stdout. In this order: Host and
Origin (on every address), the path, the method, headers that two readers could read differently, a token where none
belongs, **the bearer token** (401: hosts fetch another one), the body (bounded in size and time), one strict JSON-RPC
message. Only then the SDK sees the request. Whatever is refused here is a JSON-RPC error whose `data` is the same
problem that tools answer with; nothing of the request is repeated.

OAuth metadata (RFC 9728) is published only where a token endpoint is configured: some hosts drop the header that they
were configured with once they find it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import mcp_types
from mcp.server.streamable_http import check_accept_headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capabilities.errors import CredentialError
from capabilities.token import Capability
from server.callers import bearer
from server.config import Config
from server.errors import GatewayRefused, from_credential, refusal
from server.gateway import Gateway
from server.health import Health
from server.http_door import Guard, HttpRefused, bounded, document, only, security_of
from server.protocol import MESSAGE_BYTES_MAX, Context, build, parse_message
from server.token_endpoint import RESOURCE_PATH, resource_metadata
from server.tools import Tools

BODY_S_MAX: Final = 20.0
BODIES_BYTES_MAX: Final = 8 * MESSAGE_BYTES_MAX
"""What all bodies under way may hold together."""
CAPABILITY: Final = "remit.capability"
REALM: Final = 'Bearer realm="remit"'


def app_of(tools: Tools, config: Config, health: Health, version: str) -> ASGIApp:
    """The application: the door, and the protocol server behind it."""
    section = config.settings.http
    server = build(tools, version, lambda context: lambda: _capability(context))
    security = security_of(section)
    protocol = server.streamable_http_app(
        streamable_http_path=section.path,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MESSAGE_BYTES_MAX,
        transport_security=security,
        host=section.host,
    )
    published = Published.of(config) if config.settings.token_endpoint.enabled else None
    return Door(protocol, tools.gateway, section.path, Guard(security), health, published)


def _capability(context: Context) -> Capability:
    """What the door found in the header of this very request."""
    found = context.request.scope[CAPABILITY] if context.request is not None else None
    assert isinstance(found, Capability), "the door lets nobody through unproven"
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a client is told that has no token yet: where the document lies, and what it says (RFC 9728 §3)."""

    paths: frozenset[str]
    url: str
    document: Mapping[str, Any]

    @classmethod
    def of(cls, config: Config) -> Published:
        """For the address under which clients reach this gateway."""
        audience = urlsplit(config.settings.gateway.audience)
        own = RESOURCE_PATH + audience.path
        url = f"{audience.scheme}://{audience.netloc}{own}"
        return cls(paths=frozenset({own, RESOURCE_PATH}), url=url, document=resource_metadata(config))


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
        self, inner: ASGIApp, gateway: Gateway, path: str, guard: Guard, health: Health, published: Published | None
    ) -> None:
        self._inner = inner
        self._gateway = gateway
        self._path = path
        self._guard = guard
        self._health = health
        self._published = published
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        await bounded(self._enter(Request(scope, receive), scope, receive, send), scope, receive, send)

    async def _enter(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(request)
        match request.url.path:
            case self._path:
                await self._call(request, scope, receive, send)
            case "/healthz":
                await _told(request, True, {"process": "alive"})(scope, receive, send)
            case "/readyz":
                await _told(request, *await self._health.ready())(scope, receive, send)
            case path if self._published is not None and path in self._published.paths:
                only(request, "GET", "HEAD")
                await document(200, self._published.document)(scope, receive, send)
            case _:
                raise HttpRefused(404, refusal("not_found"))

    async def _call(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        only(request, "POST")
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
            await self._gateway.misplaced([request.url.query, *elsewhere])
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
        asked = [REALM]
        if found.code != "no_token":
            asked += ['error="invalid_token"', f'error_description="{found.code}"']
        if self._published is not None:
            asked.append(f'resource_metadata="{self._published.url}"')
        raise HttpRefused(401, found, {"WWW-Authenticate": ", ".join(asked)})

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
    only(request, "GET", "HEAD")
    return document(200 if well else 503, {"ok": well, **told})
