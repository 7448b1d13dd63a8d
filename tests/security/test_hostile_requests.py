"""Every hostile request is refused with its status and code, in bounded time, and the server goes on.

None ends in a 500, none hangs, none leaves its text in an answer or a line of the log.
"""

import contextlib
import re
import select
import socket
import sqlite3
import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.e2e.http_world import Reachable, calling, reachable, receive, token_of, tool_call
from tests.e2e.world import Home
from tests.security.hostile_requests import Row, rows

CORPUS: Final = rows()
ANSWER_MAX_S: Final = 30.0
SLOW_MAX_S: Final = 60.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.made(tmp_path_factory.mktemp("hostile") / "home")


@pytest.fixture(scope="module")
def gateway(home: Home) -> Iterator[Reachable]:
    with reachable(home, "--no-worker") as at:
        yield at


@pytest.fixture(scope="module")
def token(home: Home) -> str:
    return token_of(home, "--uses", "500")


@pytest.fixture(scope="module")
def other(home: Home) -> str:
    return token_of(home, agent="other")


def test_the_corpus_is_as_wide_as_it_claims() -> None:
    assert len(CORPUS) >= 60
    assert len({row.name for row in CORPUS}) == len(CORPUS)


@pytest.mark.behaviour("threat.33")
@pytest.mark.behaviour("threat.40")
@pytest.mark.behaviour("http.hostile")
@pytest.mark.parametrize("row", CORPUS, ids=[row.name for row in CORPUS])
def test_a_hostile_request_is_refused_with_its_code(gateway: Reachable, token: str, other: str, row: Row) -> None:
    raw = row.raw({"port": str(gateway.port), "token": token, "other": other})
    told = gateway.send(raw, within_s=ANSWER_MAX_S)
    assert (told.status, told.code if row.code else None) == (row.status, row.code)
    assert (told.status == 401) == ("www-authenticate" in told.headers)
    assert told.ended or not row.ends
    assert not {token, other} & set(re.findall(r"[\w.-]{100,}", told.body.decode("latin-1")))
    healthy = gateway.get("/healthz")
    assert healthy.status == 200


def test_the_log_of_it_all_repeats_no_token_and_no_traceback(gateway: Reachable, token: str, other: str) -> None:
    log = gateway.logged()
    assert token not in log
    assert other not in log
    assert "Traceback" not in log
    assert "RuntimeError" not in log


def test_a_token_that_stood_elsewhere_is_burnt(home: Home, gateway: Reachable, token: str) -> None:
    leaked = token_of(home, agent="leaky")
    raw = calling(gateway.port, token, tool_call(), Cookie=f"session={leaked}").raw()
    assert gateway.send(raw).code == "credential_misplaced"
    told = gateway.send(calling(gateway.port, leaked, tool_call()).raw())
    assert (told.status, told.code) == (200, "revoked")


def test_what_is_wrong_with_a_token_is_said_in_the_header_that_hosts_read(gateway: Reachable, token: str) -> None:
    absent = gateway.send(calling(gateway.port, None, tool_call()).raw())
    assert absent.headers["www-authenticate"] == 'Bearer realm="remit"'
    forged = gateway.send(calling(gateway.port, token[:-4] + "AAAA", tool_call()).raw())
    wanted = 'Bearer realm="remit", error="invalid_token", error_description="bad_signature"'
    assert (forged.status, forged.headers["www-authenticate"]) == (401, wanted)


def drip(conn: socket.socket, bit: bytes, pause_s: float = 0.5) -> None:
    """Send a little now and then, until the server has enough: it answers or closes."""
    began = time.monotonic()
    while not select.select([conn], [], [], pause_s)[0]:
        assert time.monotonic() - began < SLOW_MAX_S, "the server waits for ever"
        conn.sendall(bit)


def closed(conn: socket.socket) -> bool:
    """Whether the server ended the connection, without a word."""
    try:
        return conn.recv(65_536) == b""
    except ConnectionError:
        return True


def test_a_head_that_drips_in_ends_the_connection(gateway: Reachable) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=ANSWER_MAX_S) as conn:
        conn.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        drip(conn, b"a")
        assert closed(conn)


def test_a_second_head_that_drips_in_ends_the_connection_too(gateway: Reachable, token: str) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=ANSWER_MAX_S) as conn:
        conn.sendall(calling(gateway.port, token, tool_call()).raw())
        assert receive(conn).status == 200
        drip(conn, b"P")
        assert closed(conn)


def test_a_body_that_drips_in_is_refused(gateway: Reachable, token: str) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=ANSWER_MAX_S) as conn:
        conn.sendall(calling(gateway.port, token, b"", Content_Length="100000").raw())
        drip(conn, b"a")
        refused = receive(conn)
    assert (refused.status, b"body_too_slow" in refused.body) == (408, True)


def test_nobody_unproven_makes_the_server_read_a_body(gateway: Reachable) -> None:
    """32 MiB are announced and never sent: the refusal does not wait for them."""
    raw = calling(gateway.port, None, b"", Content_Length=str(32 * 1024 * 1024)).raw()
    assert gateway.send(raw, within_s=ANSWER_MAX_S).status == 401


@pytest.mark.behaviour("threat.51")
def test_refusals_of_strangers_do_not_fill_the_journal(home: Home, gateway: Reachable) -> None:
    def filed() -> int:
        with contextlib.closing(sqlite3.connect(home.path / "remit.db")) as conn:
            return int(conn.execute("SELECT count(*) FROM refusals WHERE intent = 'http'").fetchone()[0])

    forged = "eyJ0eXAiOiJhdCtqd3QiLCJhbGciOiJFZERTQSJ9.e30.x"
    unproven = calling(gateway.port, "a.b.c", tool_call()).raw()
    leaking = calling(gateway.port, None, tool_call(), Cookie=f"token={forged}").raw()
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=ANSWER_MAX_S) as conn:
        for _ in range(400):
            conn.sendall(unproven)
            assert receive(conn).status == 401
            conn.sendall(leaking)
            assert receive(conn).code == "credential_misplaced"
    assert filed() <= 700
