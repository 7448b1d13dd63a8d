"""What an HTTP exchange proves, against a server that counts connections and misbehaves byte by byte."""

import asyncio
import gzip
import socket
from pathlib import Path

import pytest

from adapters.answers import NoReply, Reply, Unreadable, parse_object, undocumented
from adapters.http import TCP_USER_TIMEOUT_S, HttpSystem, _Connection
from execution.core.failures import Answer, FailureClass, Landed, Lost, Receipt, Refused, Unsent
from execution.core.quiescence import Bounds
from tests.unit.adapters.raw_server import Behaviour, RawServer, answering, reply, reset, self_signed, serving

LANDED = Landed(receipt=Receipt(resource_id="1"))
DEADLINE_S = 5.0


def judge(answer: Reply) -> Answer:
    """A system that documents 201 with an object."""
    if answer.status == 201:
        return Landed(receipt=Receipt(resource_id=str(parse_object(answer.body)["id"])))
    return undocumented(answer)


def system(url: str, **settings: object) -> HttpSystem:
    return HttpSystem(url, bounds=Bounds(), headers={"Authorization": "Basic canary"}, **settings)  # type: ignore[arg-type]  # keyword arguments of the constructor


async def attempt(url: str, deadline_s: float = DEADLINE_S, **settings: object) -> Answer:
    """Connect and send one write."""
    write = system(url, **settings).write("POST", "/things", b'{"a":1}', judge=judge)
    try:
        return await write.connect() or await write.send(deadline_s)
    finally:
        await write.close()


@pytest.mark.parametrize("secure", [False, True])
async def test_a_write_uses_the_connection_opened_before_the_fence_and_no_other(tmp_path: Path, secure: bool) -> None:
    tls, trusted = self_signed(tmp_path) if secure else (None, None)
    async with serving(answering(reply(201, b'{"id":1}')), tls) as server:
        write = system(server.url, ca_file=trusted).write("POST", "/things", b'{"a":1}', judge=judge)
        assert await write.connect() is None
        await asyncio.wait_for(server.accepted.wait(), DEADLINE_S)  # TLS: the client is ready first
        assert (server.connects, server.requests) == (1, [])
        assert await write.send(DEADLINE_S) == LANDED
        assert server.connects == 1
        assert server.requests[0].startswith(b"POST /things HTTP/1.1\r\n")
        assert server.requests[0].endswith(b'\r\n\r\n{"a":1}')


async def test_a_write_without_an_opened_connection_is_unsent_and_opens_none() -> None:
    async with serving(answering(reply(201, b'{"id":1}'))) as server:
        write = system(server.url).write("POST", "/things", b"{}", judge=judge)
        assert await write.send(DEADLINE_S) == Unsent(code="no_connection")
        assert server.connects == 0


async def test_a_connection_serves_one_write_only() -> None:
    async with serving(answering(reply(201, b'{"id":1}'), reply(201, b'{"id":2}'))) as server:
        write = system(server.url).write("POST", "/things", b"{}", judge=judge)
        await write.connect()
        await write.send(DEADLINE_S)
        assert await write.send(DEADLINE_S) == Unsent(code="no_connection")
        assert (server.connects, len(server.requests)) == (1, 1)


async def test_a_refused_connect_is_unsent() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert await attempt(f"http://127.0.0.1:{taken.getsockname()[1]}") == Unsent(code="connect_failed")


async def test_a_name_that_does_not_resolve_is_unsent() -> None:
    assert await attempt("https://nobody.invalid") == Unsent(code="connect_failed")


async def test_a_certificate_that_nobody_trusts_is_unsent(tmp_path: Path) -> None:
    tls, _ = self_signed(tmp_path)
    async with serving(answering(reply(201)), tls) as server:
        assert await attempt(server.url) == Unsent(code="connect_failed")
        assert server.requests == []


async def test_a_server_that_does_not_finish_tls_is_unsent_in_time() -> None:
    async def silent(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(silent) as server:
        url = server.url.replace("http:", "https:")
        assert await attempt(url, connect_s=0.2) == Unsent(code="connect_timeout")


@pytest.mark.parametrize("secure", [False, True])
async def test_a_connection_that_the_server_closed_before_the_write_is_unsent(tmp_path: Path, secure: bool) -> None:
    async def close_at_once(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()  # without waiting for the goodbye of TLS, as servers do with idle connections
        await asyncio.sleep(0)

    tls, trusted = self_signed(tmp_path) if secure else (None, None)
    async with serving(close_at_once, tls) as server:
        write = system(server.url, ca_file=trusted).write("POST", "/things", b"{}", judge=judge)
        assert await write.connect() is None
        await asyncio.wait_for(server.hung_up.wait(), DEADLINE_S)
        assert await write.send(DEADLINE_S) == Unsent(code="connection_closed")
        assert server.connects == 1


async def after_request(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The server has the whole request, then resets."""
    await server.request(reader)
    reset(writer)


async def stalled(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await server.request(reader)
    writer.write(reply(201, b'{"id":1}')[:-4])
    await reader.read()


async def trickling(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A byte now and then resets every timeout but a total one."""
    await server.request(reader)
    writer.write(b"HTTP/1.1 201 X\r\nContent-Length: 1000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await server.request(reader)
    writer.write(b"HTTP/1.1 201 X\r\nContent-Length: 10737418240\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 65_536)
        await writer.drain()


@pytest.mark.behaviour("threat.28")
@pytest.mark.behaviour("threat.29")
@pytest.mark.behaviour("threat.30")
@pytest.mark.behaviour("threat.40")
@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (after_request, "connection_lost"),
        (answering(b""), "connection_lost"),
        (stalled, "no_answer_in_time"),
        (trickling, "no_answer_in_time"),
        (endless, "answer_too_large"),
        (answering(reply(201, b'{"id":1}')[:-3]), "connection_lost"),
        (answering(b"HTTP/1.1 garbage\r\n\r\n"), "connection_lost"),
        (answering(b"HTTP/1.1 201 X\r\n" + b"X-Pad: " + b"y" * 200_000 + b"\r\n\r\n"), "connection_lost"),
        (answering(reply(201, b"<html>maintenance</html>")), "unreadable_answer"),
        (answering(reply(201, b'{"id":1,"id":2}')), "unreadable_answer"),
        (answering(reply(201, b'{"id":NaN}')), "unreadable_answer"),
        (answering(reply(201, b"[" * 100_000 + b"]" * 100_000)), "unreadable_answer"),
        (answering(reply(201, gzip.compress(b'{"id":1}'), "Content-Encoding: gzip")), "unreadable_encoding"),
        (answering(reply(302, b"", "Location: /elsewhere"), reply(201, b'{"id":1}')), "http_302"),
        (answering(reply(307, b"", "Location: /things"), reply(201, b'{"id":1}')), "http_307"),
        (answering(reply(500, b'{"code":"boom"}')), "http_500"),
        (answering(reply(503, b"", "Retry-After: 3")), "http_503"),
        (answering(reply(403, b"<html>blocked</html>")), "http_403"),
    ],
)
async def test_whatever_goes_wrong_after_the_write_began_is_lost_and_not_tried_again(
    behaviour: Behaviour, code: str
) -> None:
    async with serving(behaviour) as server:
        assert await attempt(server.url, deadline_s=0.5, body_bytes_max=262_144) == Lost(code=code)
        assert (server.connects, len(server.requests)) == (1, 1)


async def test_too_many_requests_is_a_refusal_that_says_when_to_come_back() -> None:
    async with serving(answering(reply(429, b"<html>slow down</html>", "Retry-After: 7"))) as server:
        expected = Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=7.0)
        assert await attempt(server.url) == expected


async def test_an_abandoned_write_is_reset_so_that_what_was_queued_is_never_delivered() -> None:
    received = bytearray()
    go_on = asyncio.Event()

    async def read_late(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        received.extend(await reader.readuntil(b"\r\n\r\n"))
        await go_on.wait()
        while part := await reader.read(65_536):
            received.extend(part)

    body = b"x" * 8_000_000
    async with serving(read_late) as server:
        write = system(server.url).write("POST", "/things", body, judge=judge)
        assert await write.connect() is None
        assert await write.send(0.3) == Lost(code="no_answer_in_time")
        go_on.set()
        await asyncio.wait_for(server.hung_up.wait(), DEADLINE_S)
        assert server.ended == ["reset"]
        assert len(received) < len(body)


async def test_a_cancelled_write_is_cancelled_and_its_connection_is_gone() -> None:
    async with serving(stalled) as server:
        write = system(server.url).write("POST", "/things", b"{}", judge=judge)
        await write.connect()
        sending = asyncio.create_task(write.send(DEADLINE_S))
        await asyncio.wait_for(server.requested.wait(), DEADLINE_S)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await asyncio.wait_for(server.hung_up.wait(), DEADLINE_S)


async def test_the_kernel_gives_up_unacknowledged_bytes_after_a_known_time() -> None:
    async with serving(answering()) as server:
        opened = await system(server.url).open()
        assert isinstance(opened, _Connection)
        raw = opened.stream.get_extra_info("socket")
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == TCP_USER_TIMEOUT_S * 1000
        await opened.release()


async def test_reads_share_a_connection_and_bypass_caches() -> None:
    async with serving(answering(reply(200, b"[]"), reply(200, b"[]"))) as server:
        reading = system(server.url)
        for _ in range(2):
            assert await reading.get("/things", {"q": "a b"}) == Reply(status=200, body=b"[]")
        await reading.aclose()
        assert server.connects == 1
        assert b"GET /things?q=a+b " in server.requests[0] or b"GET /things?q=a%20b " in server.requests[0]
        assert b"no-cache" in server.requests[0].lower()


async def test_reads_keep_no_cookies() -> None:
    async with serving(answering(reply(200, b"[]", "Set-Cookie: session=1; Path=/"), reply(200, b"[]"))) as server:
        reading = system(server.url)
        for _ in range(2):
            await reading.get("/things")
        await reading.aclose()
        assert b"cookie" not in server.requests[1].lower()


async def test_a_read_never_raises_for_what_the_world_does() -> None:
    async with serving(stalled) as server:
        reading = system(server.url, read_s=0.2)
        assert await reading.get("/things") == NoReply(code="no_answer_in_time")
        await reading.aclose()
    gone = system(server.url)
    assert await gone.get("/things") == NoReply(code="connect_failed", sent=False)
    await gone.aclose()


async def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answering()) as proxy, serving(answering(reply(201, b'{"id":1}'))) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert await attempt(server.url) == LANDED
        assert proxy.connects == 0


def test_the_digest_covers_method_target_and_body_but_no_credentials() -> None:
    def digest(method: str = "POST", path: str = "/things", body: bytes = b"{}", secret: str = "a") -> str:
        headers = {"Authorization": secret}
        return (
            HttpSystem("http://localhost:1", bounds=Bounds(), headers=headers)
            .write(method, path, body, judge=judge)
            .request_digest
        )

    assert digest() == digest(secret="b")
    assert len({digest(), digest(method="PUT"), digest(path="/others"), digest(body=b"{ }")}) == 4


@pytest.mark.parametrize(
    "url", ["ftp://localhost", "http://example.com", "https://user:pw@example.com", "https://example.com/?a=1", "/wp"]
)
def test_an_address_that_would_leak_credentials_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"url must be|use https"):
        system(url)


@pytest.mark.behaviour("threat.32")
def test_an_unreadable_answer_carries_no_text_of_it() -> None:
    with pytest.raises(Unreadable) as caught:
        parse_object(b"<canary-secret>")
    assert "canary" not in repr(caught.value)
    assert caught.value.__cause__ is None


async def deaf(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the connection and reads nothing of what is written."""
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket transport has it
    await asyncio.wait_for(server.hung_up.wait(), DEADLINE_S)


async def test_a_long_body_leaves_within_the_time_that_its_bounds_declare_or_not_at_all() -> None:
    async with serving(deaf) as server:
        known = system(server.url)
        write = known.write("POST", "/things", bytes(64 * 1024 * 1024), judge=judge, write_s=0.3)
        assert write.bounds.budget_s == known.bounds.budget_s + 0.3
        began = asyncio.get_running_loop().time()
        assert await write.connect() is None
        assert await write.send(DEADLINE_S) == Lost(code="connection_lost")
        assert asyncio.get_running_loop().time() - began < DEADLINE_S / 2
        await write.close()
        server.hung_up.set()
