"""A trace goes with a proposal: kept with it, shown with it, and what is done later is exported with a link to it."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.http_world import http_agent, reachable, token_of
from tests.e2e.world import ARTICLE, Home, answer

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
META: Any = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "tracestate": "congo=t61rcWkgMzE"}


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what an exporter sends."""

    received: list[bytes]

    def do_POST(self) -> None:
        self.received.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        return


@contextlib.contextmanager
def collecting() -> Iterator[tuple[str, list[bytes]]]:
    received: list[bytes] = []

    class Handler(Collector):
        pass

    Handler.received = received
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces", received
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.behaviour("trace.linked")
async def test_a_trace_is_kept_shown_and_linked(home: Home) -> None:
    token = token_of(home, "--uses", "2", "--open", "2")
    with collecting() as (endpoint, received):
        with (home.path / "remit.toml").open("a") as file:
            file.write(f'\n[traces]\nendpoint = "{endpoint}"\n')
        with reachable(home) as at:
            async with http_agent(at.mcp, token) as writer:
                proposed = answer(await writer.client.call_tool("propose_publish", dict(ARTICLE), meta=META))
                assert "trace_id" not in proposed
                command_id = proposed["command_id"]
                await writer.settled(command_id)
                asked = {"command_id": command_id, "detail": "detailed"}
                assert answer(await writer.call("query_command_status", **asked))["trace_id"] == TRACE
                forged: Any = {"traceparent": "00-" + "0" * 32 + "-00f067aa0ba902b7-01"}
                other = {**ARTICLE, "article_id": "article-other", "wait_seconds": 0}
                found = answer(await writer.client.call_tool("propose_publish", other, meta=forged))
                assert home.remit("why", command_id, as_json=False).stdout.count(TRACE) == 1
                assert "trace" not in home.remit("why", found["command_id"], as_json=False).stdout
        sent = b"".join(received)
    assert bytes.fromhex(TRACE) in sent
    assert b"remit Execute" in sent
    assert b"CREATE_WORDPRESS_DRAFT" in sent
    assert token.encode() not in sent
    assert b"Use fresh water" not in sent
