"""HTTP exchanges, classed by what they prove about the effect. The only module that speaks HTTP to the outside.

Reads go through one keep-alive client per system. A write has a connection of its own, opened (TLS finished) before the
fence and used for this write alone (`adapters.writes`; an effect that takes several requests sends them on it in turn):

    write = system.write(method, path, body, judge=…)
    await write.connect()        before the fence: None, or Unsent
    ... the attempt is committed ...
    await write.send(20.0)       on that connection or not at all
    await write.close()          an abandoned connection is reset, so that the kernel does not go on delivering it

Nothing connects after the fence, nothing is retried, no redirect is followed, no proxy is taken from the environment,
no cookie is kept, no body is decompressed, and every body, head and wait has a limit. What the system says never leaves
an adapter as text: only stable codes do.

What a write proves: no connection, or one that the peer had closed before the first byte → `Unsent`. Anything that
goes wrong after that → `Lost`. A complete answer is judged by the system's adapter, which knows what that system
documents as a refusal; what it leaves open falls to `undocumented`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import httpcore
import httpx

from adapters.addresses import is_public
from adapters.answers import BODY_BYTES_MAX, NoReply, Reply, retry_after_s
from adapters.writes import ONLY, Connection, HttpWrite, Judge, Planned, Preparation, bounds_in_turn
from execution.core.failures import FailureClass, Refused, Unsent
from execution.core.quiescence import Bounds

CONNECT_S: Final = 5.0
READ_S: Final = 10.0
READ_CONNECTIONS_MAX: Final = 8
KEEP_ALIVE_S: Final = 20.0
TCP_USER_TIMEOUT_S: Final = 30
"""Unacknowledged bytes are given up by the kernel after this; the default is about 15 minutes (Linux tcp(7))."""
_ABORT: Final = struct.pack("ii", 1, 0)
_GRACEFUL: Final = struct.pack("ii", 0, 0)
_TCP_ESTABLISHED: Final = 1
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For addresses without TLS; it trusts nobody."""


class HttpSystem:
    """One system: its base URL, its credentials, its limits. Holds one client for reads.

    url: scheme, host, port and an optional path prefix; https, or http on loopback unless `plain_http` allows more.
    headers: sent with every request, credentials included; they are not part of a request's digest. public_only: what
    the name leads to is looked at when a write connects, and a private address is refused.
    """

    def __init__(
        self,
        url: str,
        *,
        bounds: Bounds,
        headers: Mapping[str, str],
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        body_bytes_max: int = BODY_BYTES_MAX,
        plain_http: bool = False,
        public_only: bool = False,
        ca_file: str | None = None,
    ) -> None:
        base = httpx.URL(url.rstrip("/"))
        if base.scheme not in ("http", "https") or not base.host or base.userinfo or base.query or base.fragment:
            raise ValueError("url must be http(s)://host[:port][/prefix] without credentials or query")
        if base.scheme == "http" and not plain_http and base.host not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError("credentials travel in every request: use https")
        self.bounds = bounds
        self.url = str(base)
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "remit", "Accept": "application/json", **headers}
        self._connect_s, self._read_s, self._body_bytes_max = connect_s, read_s, body_bytes_max
        self._public_only = public_only
        self._tls = _tls_context(ca_file) if base.scheme == "https" else _NO_TLS
        self._reader: httpx.AsyncClient | None = None
        self._writer = _client(_OnePreparedConnection(self._tls), self._headers)

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Reply | NoReply:
        """Read; never raises for what the world does. `path` is below the base URL and starts with a slash."""
        if self._reader is None:
            limits = httpx.Limits(max_connections=READ_CONNECTIONS_MAX, keepalive_expiry=KEEP_ALIVE_S)
            transport = httpx.AsyncHTTPTransport(verify=self._tls, trust_env=False, retries=0, limits=limits)
            self._reader = _client(transport, self._headers)
        request = self._reader.build_request("GET", self.url + path, params=params)
        request.headers["Cache-Control"] = "no-cache, no-store"
        return await self._exchange(self._reader, request, self._read_s)

    def write(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        judge: Judge,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        write_s: float | None = None,
    ) -> HttpWrite:
        """A prepared write; `judge` reads a complete answer, and may raise `Unreadable` for one that is none.

        write_s: for a body that is too long to leave at once: its last byte leaves within this of its first, or the
        connection is reset. Its bounds say so.
        """
        planned = self.plan(method, path, body, content_type=content_type, headers=headers)
        return HttpWrite(self, self.bounds, {ONLY: planned}, judge, write_s=write_s)

    def write_in_turn(
        self, preparations: tuple[Preparation, ...], effects: Mapping[str, Planned], *, judge: Judge, within_s: float
    ) -> HttpWrite:
        """A prepared write of several requests, the last of which begins at most `within_s` after the fence."""
        return HttpWrite(self, bounds_in_turn(self.bounds, within_s), effects, judge, preparations)

    def plan(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Planned:
        """One request of a write in turn."""
        extra = {**({"Content-Type": content_type} if body else {}), **(headers or {})}
        return _Planned(self._writer.build_request(method, self.url + path, content=body, headers=extra), body)

    async def open(self) -> Connection | Unsent | Refused:
        """A fresh connection with TLS finished."""
        target = httpx.URL(self.url)
        secure = target.scheme == "https"
        stream: httpcore.AsyncNetworkStream | None = None
        try:
            async with asyncio.timeout(self._connect_s):
                port = target.port or (443 if secure else 80)
                stream = await httpcore.AnyIOBackend().connect_tcp(target.host, port, socket_options=_socket_options())
                if self._public_only and not is_public(str(stream.get_extra_info("server_addr")[0])):
                    await _release(stream)
                    return Refused(failure=FailureClass.PERMANENT, code="private_address")
                if secure:
                    stream = await stream.start_tls(self._tls, server_hostname=target.host)
                return _Connection(stream)
        except (TimeoutError, httpcore.TimeoutException):
            await _release(stream)
            return Unsent(code="connect_timeout")
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError, UnicodeError):
            await _release(stream)
            return Unsent(code="connect_failed")

    async def exchange(
        self, planned: Planned, connection: Connection, written: Callable[[], None], deadline_s: float, write_s: float
    ) -> Reply | NoReply:
        """Send one request of a write on its connection; its last byte leaves within `write_s` of its first."""
        assert isinstance(planned, _Planned)
        assert isinstance(connection, _Connection)
        planned.request.extensions["stream"] = _Opened(connection.stream, written, write_s)
        return await self._exchange(self._writer, planned.request, deadline_s)

    async def aclose(self) -> None:
        """Close the kept connections."""
        if self._reader is not None:
            await self._reader.aclose()
            self._reader = None

    async def _exchange(self, client: httpx.AsyncClient, request: httpx.Request, deadline_s: float) -> Reply | NoReply:
        try:
            async with asyncio.timeout(deadline_s):
                response = await client.send(request, stream=True)
                try:
                    return await self._collect(response)
                finally:
                    await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            return NoReply(code="connect_failed", sent=False)
        except (TimeoutError, httpx.TimeoutException):
            return NoReply(code="no_answer_in_time")
        except (httpx.HTTPError, httpx.InvalidURL, OSError):
            return NoReply(code="connection_lost")

    async def _collect(self, response: httpx.Response) -> Reply | NoReply:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            return NoReply(code="unreadable_encoding")
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > self._body_bytes_max:
                return NoReply(code="answer_too_large")
        return Reply(
            status=response.status_code,
            body=bytes(body),
            retry_after_s=retry_after_s(response.headers.get("retry-after"), response.headers.get("date")),
            headers=dict(response.headers),
            last=response.http_version != "HTTP/1.1" or "close" in response.headers.get("connection", "").lower(),
        )


class _Planned:
    """A request of a write; see `adapters.writes.Planned`."""

    def __init__(self, request: httpx.Request, body: bytes) -> None:
        self.request = request
        self.digest = hashlib.sha256(b"%b %b\n%b" % (request.method.encode(), request.url.raw_path, body)).hexdigest()


class _Connection:
    """A connection of a write; see `adapters.writes.Connection`."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self.stream = stream

    @property
    def closed_by_peer(self) -> bool:
        """Whether the peer has hung up before the first byte was written: then writing none proves `Unsent`."""
        if not hasattr(socket, "TCP_INFO"):
            return False
        try:
            info = self.stream.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        except OSError:
            return True
        return bool(info[0] != _TCP_ESTABLISHED)

    @property
    def idle(self) -> bool:
        return not (self.closed_by_peer or self.stream.get_extra_info("is_readable"))

    def abortive(self) -> None:
        self._linger(_ABORT)

    def graceful(self) -> None:
        self._linger(_GRACEFUL)

    async def release(self) -> None:
        await _release(self.stream)

    def _linger(self, how: bytes) -> None:
        with contextlib.suppress(OSError):  # the peer may have taken the socket down already
            self.stream.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, how)


class _OnePreparedConnection(httpx.AsyncBaseTransport):
    """Writes each request on the stream that stands in its extensions; refuses to open any."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls  # finished on the stream already; httpcore would load a context of its own

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        stream = request.extensions.get("stream")
        if stream is None:
            raise httpx.ConnectError("a write needs a connection that was opened before its fence", request=request)
        url = httpcore.URL(
            scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path
        )
        connection = httpcore.AsyncHTTPConnection(
            origin=url.origin,
            ssl_context=self._tls,
            network_backend=_OnlyThis(stream),
        )
        try:
            answer = await connection.handle_async_request(
                httpcore.Request(method=request.method, url=url, headers=request.headers.raw, content=request.stream)
            )
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise httpx.ReadError("lost", request=request) from error
        spoken = {"http_version": answer.extensions["http_version"]}
        body = _Body(answer.stream, connection)
        return httpx.Response(answer.status, headers=answer.headers, stream=body, extensions=spoken)


class _OnlyThis(httpcore.AsyncNetworkBackend):
    """Hands out one opened stream, once."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream: httpcore.AsyncNetworkStream | None = stream

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's signature)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream, self._stream = self._stream, None
        if stream is None:
            raise httpcore.ConnectError("no connection may be opened after the fence")
        return stream

    async def sleep(self, seconds: float) -> None:
        raise httpcore.ConnectError("nothing is retried after the fence")


class _Opened(httpcore.AsyncNetworkStream):
    """A stream that is already connected and already speaks TLS. Everything is written within `write_s`, or no more."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, written: Callable[[], None], write_s: float) -> None:
        self._stream = stream
        self._written = written
        self._write_until_s = asyncio.get_running_loop().time() + write_s

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 (httpcore's signature)
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 (httpcore's signature)
        left_s = self._write_until_s - asyncio.get_running_loop().time()
        await self._stream.write(buffer, timeout if math.isinf(left_s) else max(left_s, 0.0))
        self._written()

    async def aclose(self) -> None:
        """Left to the owner of the stream, who knows whether an answer is outstanding."""

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's signature)
    ) -> httpcore.AsyncNetworkStream:
        return self

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: Any, connection: httpcore.AsyncHTTPConnection) -> None:
        self._stream, self._connection = stream, connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._stream:
                yield part
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise httpx.ReadError("lost") from error

    async def aclose(self) -> None:
        await self._stream.aclose()
        await self._connection.aclose()


def _client(transport: httpx.AsyncBaseTransport, headers: Mapping[str, str]) -> httpx.AsyncClient:
    """No proxies or netrc from the environment, no redirects, no cookies; time limits are the caller's."""
    jar = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
    return httpx.AsyncClient(
        transport=transport,
        headers=headers,
        cookies=jar,
        trust_env=False,
        follow_redirects=False,
        timeout=None,  # noqa: S113 (every exchange runs under a total deadline)
    )


@lru_cache(maxsize=16)
def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Verified TLS 1.2+; unlike `create_default_context` it writes no key log that the environment asks for.

    Reading the certificates costs tens of milliseconds: one context serves all adapters that trust the same.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cafile=ca_file)
    return context


def _socket_options() -> list[tuple[int, int, int]]:
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_S * 1000))
    return options


async def _release(stream: httpcore.AsyncNetworkStream | None) -> None:
    if stream is not None:
        with contextlib.suppress(httpcore.NetworkError, OSError):
            await stream.aclose()
