"""stdout is the protocol's alone, hostile lines are answered, and the process ends cleanly whatever ends it."""

import contextlib
import json
import signal
import sys

import pytest

from tests.e2e.world import ARTICLE, Home, Served, served

MIB = 1024 * 1024
END_MAX_S = 30.0  # a second or two on a quiet machine


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
        b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":',
        b"\xff\xfe\x00",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    ],
    ids=["text", "empty batch", "batch", "id", "half", "bytes", "deep"],
)
def test_a_line_that_is_no_message_is_answered_and_the_next_one_works(listening: Served, line: bytes) -> None:
    listening.send(line)
    assert "error" in listening.receive()
    assert listening.call(2, "query_command_status")["isError"] is True


@pytest.mark.parametrize(
    "text",
    [
        '{"content": ' + '{"a":' * 5_000 + "1" + "}" * 5_000 + "}",
        '{"title": "\\ud800"}',
        '{"title": "a\\u0000b"}',
        '{"title": "a\\u202eb"}',
        '{"version": 1e400}',
        '{"version": ' + "9" * 5_000 + "}",
        '{"site": "../../etc"}',
        '{"constructor": {"prototype": 1}}',
        '{"title": ["x"]}',
        '{"tags": "[\\"a\\"]"}',
    ],
)
def test_hostile_arguments_get_a_typed_refusal(listening: Served, text: str) -> None:
    arguments = json.dumps(dict(ARTICLE))[:-1] + ", " + text.removeprefix("{")
    params = f'{{"name":"propose_publish","arguments":{arguments}}}'
    listening.send(f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}'.encode())
    received = listening.receive()
    assert "error" in received or received["result"]["structuredContent"]["fix"]
    assert "Traceback" not in repr(received)
    assert listening.call(8, "query_command_status")["isError"] is True


def test_content_beyond_its_limit_is_refused_by_name(home: Home) -> None:
    home.issue()
    with served(home, "--no-worker") as server:
        server.handshake()
        refused = server.call(1, "propose_publish", **{**ARTICLE, "content": "x" * (20 * MIB)})["structuredContent"]
        assert (refused["code"], refused["field"]) == ("limit_exceeded", "content")
        assert (refused["limit"], refused["actual"]) == (MIB, 20 * MIB)


def test_a_line_of_33_mebibytes_ends_the_connection(home: Home) -> None:
    with served(home, "--no-worker") as server:
        server.handshake()
        with contextlib.suppress(BrokenPipeError):  # it does not read to the end
            server.send(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (33 * MIB) + b'"}')
        code, log = server.ended(END_MAX_S)
        assert code == 0
        assert "ended the connection" in log
        assert "Traceback" not in log


def close_input(server: Served) -> None:
    assert server.process.stdin is not None
    server.process.stdin.close()


@pytest.mark.parametrize("worker", [True, False], ids=["embedded", "gateway"])
@pytest.mark.parametrize("how", ["EOF", "SIGTERM", "SIGINT"])
def test_the_process_ends_by_itself_without_a_traceback(home: Home, how: str, worker: bool) -> None:
    with served(home, *([] if worker else ["--no-worker"])) as server:
        server.handshake()
        if how == "EOF":
            close_input(server)
        else:
            server.process.send_signal(getattr(signal, how))
        code, log = server.ended(END_MAX_S)
        assert code == 0
        assert "Traceback" not in log


def test_a_call_that_waits_does_not_hold_up_the_end(home: Home) -> None:
    home.issue()
    with served(home, "--no-worker") as server:
        server.handshake()
        server.request(1, "tools/call", name="propose_publish", arguments={**ARTICLE, "wait_seconds": 20})
        server.request(2, "ping")
        assert server.receive()["id"] == 2
        server.process.send_signal(signal.SIGTERM)
        code, log = server.ended(END_MAX_S)
        assert (code, "Traceback" in log) == (0, False)


def test_a_proposal_whose_call_was_cancelled_is_known_afterwards(home: Home) -> None:
    home.issue()
    with served(home, "--no-worker") as server:
        server.handshake()
        server.request(1, "tools/call", name="propose_publish", arguments={**ARTICLE, "wait_seconds": 20})
        server.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}')
        repeated = None
        for number in range(2, 40):  # the cancelled call may still be answered: by its own number
            server.request(number, "tools/call", name="propose_publish", arguments={**ARTICLE, "wait_seconds": 0})
            received = server.receive()
            while received["id"] == 1:
                received = server.receive()
            repeated = received["result"]["structuredContent"]
            if repeated.get("deduplicated"):
                break
        assert repeated is not None
        assert repeated["deduplicated"] is True


STRAY = """
import os, subprocess, sys
from server import gateway
inspect = gateway.Gateway.inspect
async def noisy(self, *arguments):
    print("stray print")
    os.write(1, b"stray write\\n")
    subprocess.run(["/bin/echo", "stray child"], check=True)
    return await inspect(self, *arguments)
gateway.Gateway.inspect = noisy
from server.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.behaviour("wire.clean")
def test_debug_logs_and_stray_prints_never_reach_stdout(home: Home) -> None:
    home.issue()
    raw = home.token.read_text().strip()
    command = [sys.executable, "-c", STRAY, *home.serving()[3:]]
    with served(home, command=command, REMIT_LOG_LEVEL="debug") as server:
        server.handshake()
        assert server.call(1, "propose_publish", **ARTICLE)["structuredContent"]["command_id"]
        assert server.call(2, "query_command_status")["structuredContent"]["commands"]
        close_input(server)
        assert server.process.stdout is not None
        assert server.process.stdout.read() == b""
        _, log = server.ended(END_MAX_S)
    assert "stray print" in log
    assert "stray child" in log
    assert raw not in log
    logged = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert any(line["level"] == "debug" for line in logged)
