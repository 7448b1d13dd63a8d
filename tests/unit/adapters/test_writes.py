"""A write of several requests in turn: one connection, the effect last, and what is proven when it breaks off."""

import asyncio

import pytest

from adapters.answers import Reply, parse_object, text, undocumented
from adapters.http import HttpSystem
from adapters.writes import HttpWrite, Preparation
from execution.core.definition import asks_to_write, tells_writing
from execution.core.failures import Answer, FailureClass, Landed, Lost, Receipt, Refused, Unsent
from execution.core.quiescence import Bounds
from tests.unit.adapters.raw_server import Behaviour, RawServer, answering, reply, reset, serving

DEADLINE_S = 5.0
WITHIN_S = 10.0
TREE, COMMIT = reply(201, b'{"sha":"t"}'), reply(201, b'{"sha":"c"}')
BRANCH = reply(201, b'{"sha":"c"}')
LANDED = Landed(receipt=Receipt(resource_id="c"))
BOUNDS = Bounds(max_run_s=1.0, max_run_source="test", incomplete_s=3.0, incomplete_source="test")


def made(answer: Reply) -> str | Answer:
    return text(parse_object(answer.body), "sha") if answer.status == 201 else undocumented(answer)


def judge(answer: Reply) -> Answer:
    return Landed(receipt=Receipt(resource_id=made_of(answer))) if answer.status == 201 else undocumented(answer)


def made_of(answer: Reply) -> str:
    return text(parse_object(answer.body), "sha")


def in_turn(
    url: str, *, token: str = "a", commit: bytes = b"commit", names: tuple[str, ...] = ("c", "c2")
) -> HttpWrite:
    system = HttpSystem(url, bounds=BOUNDS, headers={"Authorization": token})
    preparations = (
        Preparation(request=system.plan("POST", "/trees", b"tree"), made=made),
        Preparation(request=system.plan("POST", "/commits", commit), made=made),
    )
    effects = {name: system.plan("POST", "/refs", f"branch {name}".encode()) for name in names}
    return system.write_in_turn(preparations, effects, judge=judge, within_s=WITHIN_S)


async def attempt(url: str, deadline_s: float = DEADLINE_S) -> Answer:
    write = in_turn(url)
    try:
        return await write.connect() or await write.send(deadline_s)
    finally:
        await write.close()


def lines(server: RawServer) -> list[bytes]:
    """Target and body of every request that the server has seen."""
    return [request.split(b" ")[1] + b" " + request.rpartition(b"\r\n\r\n")[2] for request in server.requests]


async def test_the_requests_go_out_in_turn_on_the_connection_opened_before_the_fence() -> None:
    async with serving(answering(TREE, COMMIT, BRANCH)) as server:
        write = in_turn(server.url)
        assert await write.connect() is None
        assert (await asyncio.wait_for(server.accepted.wait(), DEADLINE_S), server.requests) == (True, [])
        assert await write.send(DEADLINE_S) == LANDED
        assert server.connects == 1
        assert lines(server) == [b"/trees tree", b"/commits commit", b"/refs branch c"]


async def test_the_last_preparation_chooses_among_effects_that_were_all_known_before() -> None:
    async with serving(answering(TREE, reply(201, b'{"sha":"c2"}'), BRANCH)) as server:
        assert await attempt(server.url) == LANDED
        assert lines(server)[-1] == b"/refs branch c2"


async def test_a_preparation_that_made_something_else_lets_no_effect_follow() -> None:
    async with serving(answering(TREE, reply(201, b'{"sha":"other"}'), BRANCH)) as server:
        assert await attempt(server.url) == Refused(failure=FailureClass.PERMANENT, code="prepared_differently")
        assert len(server.requests) == 2


async def _reset_at_second(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await server.request(reader)
    writer.write(TREE)
    await writer.drain()
    await server.request(reader)
    reset(writer)


async def _silent_at_second(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await server.request(reader)
    writer.write(TREE)
    await server.request(reader)
    await reader.read()


async def _talkative(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer that nobody asked for arrives with one that was: what follows could be taken for it."""
    await server.request(reader)
    writer.write(TREE)
    await server.request(reader)
    writer.write(COMMIT + BRANCH)
    await writer.drain()
    await reader.read()


@pytest.mark.parametrize(
    ("behaviour", "code", "requests"),
    [
        (answering(reply(500)), "http_500", 1),
        (answering(reply(201, b"<html>")), "unreadable_answer", 1),
        (answering(b""), "connection_lost", 1),
        (answering(reply(302, b"", "Location: /x")), "http_302", 1),
        (answering(reply(201, b'{"sha":"t"}', "Connection: close"), COMMIT, BRANCH), "connection_closed", 1),
        (answering(TREE.replace(b"HTTP/1.1", b"HTTP/1.0"), COMMIT, BRANCH), "connection_closed", 1),
        (_reset_at_second, "connection_lost", 2),
        (_silent_at_second, "no_answer_in_time", 2),
        (answering(TREE, reply(500)), "http_500", 2),
        (answering(TREE, reply(201, b'{"sha":"c"}')[:-2]), "connection_lost", 2),
    ],
)
async def test_whatever_breaks_off_before_the_effect_proves_that_it_was_not_asked_for(
    behaviour: Behaviour, code: str, requests: int
) -> None:
    async with serving(behaviour) as server:
        assert await attempt(server.url, deadline_s=0.5) == Unsent(code=code)
        assert (server.connects, len(server.requests)) == (1, requests)


async def test_an_answer_that_nobody_asked_for_is_never_taken_for_that_to_the_effect() -> None:
    async with serving(_talkative) as server:
        answer = await attempt(server.url, deadline_s=0.5)
        assert isinstance(answer, Unsent | Lost)
        assert server.connects == 1


async def test_a_connection_that_ended_between_two_requests_is_not_replaced() -> None:
    gone = asyncio.Event()

    async def one_only(server: RawServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(TREE)
        await writer.drain()
        writer.transport.abort()
        gone.set()

    async with serving(one_only) as server:
        assert isinstance(await attempt(server.url), Unsent)
        assert (server.connects, len(server.requests)) == (1, 1)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((TREE, COMMIT, reply(500)), Lost(code="http_500")),
        ((TREE, COMMIT, reply(201, b"<html>")), Lost(code="unreadable_answer")),
        ((TREE, COMMIT, b""), Lost(code="connection_lost")),
        (
            (reply(429, b"{}", "Retry-After: 7"),),
            Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=7.0),
        ),
    ],
)
async def test_a_refusal_is_one_wherever_it_comes_and_doubt_begins_with_the_effect(
    answers: tuple[bytes, ...], expected: Answer
) -> None:
    async with serving(answering(*answers)) as server:
        assert await attempt(server.url) == expected


async def test_before_each_further_request_it_asks_whether_there_is_still_time() -> None:
    async with serving(answering(TREE, COMMIT, BRANCH)) as server:
        write = in_turn(server.url)
        assert asks_to_write(write)
        assert tells_writing(write)
        told: list[int] = []
        write.written = lambda: told.append(len(server.requests))
        write.may_write = lambda: len(server.requests) < 2
        await write.connect()
        assert await write.send(DEADLINE_S) == Unsent(code="send_budget")
        assert len(server.requests) == 2
        assert told


def test_its_bounds_say_how_much_later_its_last_byte_may_leave() -> None:
    bounds = in_turn("http://localhost:1").bounds
    assert (bounds.budget_s, bounds.incomplete_s) == (WITHIN_S, 3.0 + WITHIN_S)
    quiet, single = bounds.quiescent_after_s(), BOUNDS.quiescent_after_s()
    assert quiet is not None
    assert single is not None
    assert quiet - single == WITHIN_S - BOUNDS.budget_s


def test_the_digest_covers_every_request_and_every_possible_effect_but_no_credentials() -> None:
    digest = in_turn("http://localhost:1").request_digest
    assert digest == in_turn("http://localhost:1", token="b").request_digest
    assert digest != in_turn("http://localhost:1", commit=b"other").request_digest
    assert digest != in_turn("http://localhost:1", names=("c",)).request_digest
