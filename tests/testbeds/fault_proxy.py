"""A proxy on loopback between our client and a real HTTP system, which loses, delays and falsifies what it is told to.

One request per connection, `Content-Length` bodies only: what our clients send. It never retries, and what reached the
system is on record, so that a test can tell a lost request from a lost answer.
"""

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

HEAD_BYTES_MAX: Final = 64 * 1024
CHUNK_BYTES: Final = 64 * 1024
UPSTREAM_MAX_S: Final = 60.0
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER: on, zero seconds


class Fault(Enum):
    RESET_BEFORE = "reset_before"  # the connection is reset; the system never saw the request
    ANSWER_BEFORE = "answer_before"  # an answer of our own; the system never saw the request
    DELAY_BEFORE = "delay_before"  # the request lands `delay_s` later, and after `meanwhile`, come what may
    DROP_AFTER = "drop_after"  # the system has answered; the client sees the connection close without a byte
    ANSWER_AFTER = "answer_after"  # the system has answered; the client gets an answer of our own
    DELAY_AFTER = "delay_after"  # the answer arrives `delay_s` later
    TRUNCATE_AFTER = "truncate_after"  # the connection ends in the middle of the answer's body


@dataclass(slots=True, kw_only=True)
class Armed:
    fault: Fault
    match: str  # a prefix of "METHOD /path?query"
    times: int = 1
    delay_s: float = 0.0
    meanwhile: Callable[[], object] = lambda: None
    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"<html>unavailable</html>"

    def answer(self) -> bytes:
        headers = {"Content-Type": "text/html", **self.headers, "Content-Length": str(len(self.body))}
        lines = [f"HTTP/1.1 {self.status} Made up", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request: its "METHOD /path?query", what was done to it, and the system's own status (None: never asked)."""

    line: str
    fault: Fault | None
    status: int | None


class _Server(socketserver.ThreadingTCPServer):
    """A thread for each connection, all of them handed to one function."""

    daemon_threads = True

    def __init__(self, handle: Callable[[socket.socket], None]) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self._handle = handle

    def finish_request(self, request: Any, client_address: Any) -> None:
        self._handle(request)


class FaultProxy:
    """`url` stands for the system's own; `arm` what shall go wrong next; `seen` tells what happened."""

    def __init__(self, upstream: str) -> None:
        address = urlsplit(upstream)
        assert address.hostname is not None
        self._upstream = (address.hostname, address.port or 80)
        self._armed: list[Armed] = []
        self._seen: list[Seen] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = _Server(self._handle)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def arm(self, armed: Armed) -> None:
        with self._lock:
            self._armed.append(armed)

    @property
    def seen(self) -> tuple[Seen, ...]:
        with self._lock:
            return tuple(self._seen)

    def landed(self, match: str) -> int:
        """How many requests that begin with `match` the system itself has answered."""
        return sum(1 for seen in self.seen if seen.line.startswith(match) and seen.status is not None)

    def _handle(self, client: socket.socket) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            request = _read_request(client)
            if request:
                self._exchange(client, request)

    def _exchange(self, client: socket.socket, request: bytes) -> None:
        line = request.split(b" HTTP/", 1)[0].decode()
        armed = self._take(line)
        fault = armed.fault if armed else None
        if armed and fault is Fault.DELAY_BEFORE:
            self._stopping.wait(armed.delay_s)
            armed.meanwhile()
        asked = fault not in {Fault.RESET_BEFORE, Fault.ANSWER_BEFORE}
        answer = self._forward(request) if asked else b""
        with self._lock:
            self._seen.append(Seen(line=line, fault=fault, status=int(answer.split(b" ", 2)[1]) if answer else None))
        if armed and fault is Fault.DELAY_AFTER:
            self._stopping.wait(armed.delay_s)
        _reply(client, armed, answer)

    def _take(self, line: str) -> Armed | None:
        with self._lock:
            for armed in self._armed:
                if armed.times > 0 and line.startswith(armed.match):
                    armed.times -= 1
                    return armed
        return None

    def _forward(self, request: bytes) -> bytes:
        """The system's whole answer; empty when it gave none."""
        head, _, body = request.partition(b"\r\n\r\n")
        kept = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        with socket.create_connection(self._upstream, timeout=UPSTREAM_MAX_S) as system:
            system.sendall(b"\r\n".join([*kept, b"Connection: close", b"", body]))
            chunks = []
            with contextlib.suppress(ConnectionResetError):
                while chunk := system.recv(CHUNK_BYTES):
                    chunks.append(chunk)
        return b"".join(chunks)


def _read_request(client: socket.socket) -> bytes:
    """Head and body of one request; empty when the client leaves before it is complete."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = client.recv(CHUNK_BYTES)
        if not chunk or len(data) > HEAD_BYTES_MAX:
            return b""
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
    assert b"transfer-encoding" not in fields, "only Content-Length bodies"
    missing = int(fields.get(b"content-length", b"0")) - len(body)
    while missing > 0:
        chunk = client.recv(CHUNK_BYTES)
        if not chunk:
            return b""
        data += chunk
        missing -= len(chunk)
    return data


def _reply(client: socket.socket, armed: Armed | None, answer: bytes) -> None:
    match armed.fault if armed else None:
        case Fault.RESET_BEFORE:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        case Fault.DROP_AFTER:
            pass
        case Fault.ANSWER_BEFORE | Fault.ANSWER_AFTER:
            assert armed is not None
            client.sendall(armed.answer())
        case Fault.TRUNCATE_AFTER:
            head, _, body = answer.partition(b"\r\n\r\n")
            client.sendall(head + b"\r\n\r\n" + body[: len(body) // 2])
        case _:
            client.sendall(answer)


@contextlib.contextmanager
def fault_proxy_before(upstream: str) -> Iterator[FaultProxy]:
    proxy = FaultProxy(upstream)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
