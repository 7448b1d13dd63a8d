"""Requests that a gateway must refuse: one row each, as bytes on the wire, with the status and code of the refusal.

A row is made for one gateway and one good token, so that only what the row names is wrong with it. `{port}`, `{token}`
and `{other}` (a second agent's token) in it are filled in.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.e2e.http_world import ENVELOPE, MODERN, Request, calling, tool_call

MIB: Final = 1024 * 1024
GOOD: Final[Mapping[str, Any]] = tool_call()
MESSAGE: Final = json.dumps(GOOD).encode()


Known = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`code` None: the HTTP layer answers by itself, in words of its own."""

    name: str
    raw: Callable[[Known], bytes]
    status: int
    code: str | None
    ends: bool = False


def rows() -> tuple[Row, ...]:
    return (
        *_methods(),
        *_places(),
        *_names(),
        *_lengths(),
        *_bearers(),
        *_misplaced(),
        *_bodies(),
        *_modern(),
        *_calls(),
    )


def _filled(text: str, known: Known) -> str:
    for name, value in known.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _row(
    name: str, status: int, code: str | None, message: Any = GOOD, *, more: tuple[str, ...] = (), **changes: str | None
) -> Row:
    """A good request but for the given headers and message."""

    def raw(known: Known) -> bytes:
        body = message if isinstance(message, bytes) else _filled(json.dumps(message), known).encode()
        named = {key: None if value is None else _filled(value, known) for key, value in changes.items()}
        request = calling(int(known["port"]), known["token"], body, **named)
        lines = tuple(_filled(line, known) for line in more)
        return Request(headers=request.headers, more=lines, body=request.body).raw()

    return Row(name=name, raw=raw, status=status, code=code)


def _line(name: str, status: int, code: str | None, method: str, path: str) -> Row:
    """A good request but for its first line."""

    def raw(known: Known) -> bytes:
        request = calling(int(known["port"]), known["token"], MESSAGE)
        return Request(method=method, path=_filled(path, known), headers=request.headers, body=MESSAGE).raw()

    return Row(name=name, raw=raw, status=status, code=code)


def _exact(name: str, status: int, code: str | None, lines: str, *, ends: bool = False) -> Row:
    """Bytes as they stand."""

    def raw(known: Known) -> bytes:
        return _filled(lines, known).replace("\n", "\r\n").encode("latin-1")

    return Row(name=name, raw=raw, status=status, code=code, ends=ends)


def _methods() -> Iterator[Row]:
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
        yield _line(f"method {method}", 405, "method_not_allowed", method, "/mcp")
    yield _line("POST to a health address", 405, "method_not_allowed", "POST", "/healthz")


def _places() -> Iterator[Row]:
    for path in (
        "/",
        "/mcp/",
        "/MCP",
        "/mcp/../mcp",
        "/mcp;x",
        "/.well-known/oauth-protected-resource",
        "//mcp",
        "/metrics",
    ):
        yield _line(f"path {path}", 404, "not_found", "POST", path)
    yield _line("percent-encoded path", 404, "not_found", "POST", "/%6dcp%00")
    yield _line("query", 400, "query_not_allowed", "POST", "/mcp?debug=1")


def _names() -> Iterator[Row]:
    hosts = {
        "foreign": "evil.example",
        "foreign with our port": "evil.example:{port}",
        "ours as a suffix": "evil-127.0.0.1:{port}",
        "ours as a prefix": "127.0.0.1.evil.example",
        "user and password": "127.0.0.1@evil.example",
        "all addresses": "0.0.0.0:{port}",
    }
    for name, host in hosts.items():
        yield _row(f"host {name}", 421, "host_not_allowed", Host=host)
    yield _row("host empty", 421, "host_not_allowed", Host="")
    yield _row("host absent", 400, None, Host=None)
    yield _row("host twice", 400, None, more=("Host: 127.0.0.1",))
    for origin in (
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "file://",
        "https://127.0.0.1:{port}",
    ):
        yield _row(f"origin {origin}", 403, "origin_not_allowed", Origin=origin)
    yield _row(
        "origin twice", 400, "duplicate_header", Origin="http://localhost", more=("Origin: https://evil.example",)
    )
    yield _exact(
        "a foreign host asks for health", 421, "host_not_allowed", "GET /healthz HTTP/1.1\nHost: evil.example\n\n"
    )


def _lengths() -> Iterator[Row]:
    head = "POST /mcp HTTP/1.1\nHost: 127.0.0.1:{port}\nAuthorization: Bearer {token}\nAccept: */*\n"
    head += "Content-Type: application/json\n"
    both = head + "Content-Length: 4\nTransfer-Encoding: chunked\n\n0\n\n"
    yield _exact("length and chunks", 400, "ambiguous_length", both, ends=True)
    yield _exact(
        "chunks and length", 400, "ambiguous_length", head + "Transfer-Encoding: chunked\nContent-Length: 4\n\n0\n\n"
    )
    yield _exact("two lengths", 400, None, head + "Content-Length: 4\nContent-Length: 5\n\nabcd", ends=True)
    yield _exact("two equal lengths are one", 400, "not_json", head + "Content-Length: 4\nContent-Length: 4\n\nabcd")
    yield _exact("a negative length", 400, None, head + "Content-Length: -1\n\n", ends=True)
    yield _exact("a length in words", 400, None, head + "Content-Length: four\n\n", ends=True)
    yield _exact("a signed length", 400, None, head + "Content-Length: +4\n\nabcd", ends=True)
    yield _exact("a length of 18 digits", 413, "payload_too_large", head + f"Content-Length: {'9' * 18}\n\n")
    yield _exact("an obscure encoding", 400, None, head + "Transfer-Encoding: xchunked\n\n0\n\n", ends=True)
    yield _exact("chunked twice", 400, None, head + "Transfer-Encoding: chunked, chunked\n\n0\n\n", ends=True)
    yield _exact("a chunk that is no chunk", 400, None, head + "Transfer-Encoding: chunked\n\nzz\nab\n0\n\n", ends=True)
    yield _exact(
        "a folded header", 421, "host_not_allowed", "POST /mcp HTTP/1.1\nHost: 127.0.0.1\n Content-Length: 1\n\n"
    )
    yield _exact("a space before the colon", 400, None, "POST /mcp HTTP/1.1\nHost : 127.0.0.1\n\n", ends=True)
    yield _exact("a head without end", 400, None, "POST /mcp HTTP/1.1\nX: " + "a" * 70_000, ends=True)
    yield _exact("a line that is no request", 400, None, "HELLO\n\n", ends=True)
    yield _exact("another protocol", 421, "host_not_allowed", "PRI * HTTP/2.0\n\nSM\n\n")


def _bearers() -> Iterator[Row]:
    forms = {
        "absent": (None, "no_token"),
        "empty": ("", "no_token"),
        "without scheme": ("{token}", "no_token"),
        "basic": ("Basic dXNlcjpwYXNz", "no_token"),
        "digest": ('Digest username="x"', "no_token"),
        "scheme alone": ("Bearer", "malformed_token"),
        "scheme and spaces": ("Bearer   ", "malformed_token"),
        "quoted": ('Bearer "{token}"', "malformed_token"),
        "scheme twice": ("Bearer Bearer {token}", "malformed_token"),
        "two tokens": ("Bearer {token} {token}", "malformed_token"),
        "a list": ("Bearer {token},{token}", "malformed_token"),
        "a parameter": ("Bearer token={token}", "malformed_token"),
        "not ASCII": ("Bearer \xe9", "malformed_token"),
        "a tab": ("Bearer\t{token}", "no_token"),
        "unsigned": ("Bearer eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0.e30.", "unsupported_algorithm"),
        "cut": ("Bearer {token}x", "malformed_token"),
        "long": ("Bearer " + "a" * 20_000, "malformed_token"),
    }
    for name, (value, code) in forms.items():
        yield _row(f"bearer {name}", 401, code, Authorization=value)
    yield _row("authorization twice", 400, "duplicate_header", more=("Authorization: Bearer {token}",))
    yield _row("another authorization", 400, "duplicate_header", more=("Authorization: Basic dXNlcjpwYXNz",))


def _misplaced() -> Iterator[Row]:
    """The misplaced token is somebody else's: it is burnt, and the caller's own stays good."""
    yield _line("token in the query", 400, "credential_misplaced", "POST", "/mcp?access_token={other}")
    yield _line("token as the query", 400, "credential_misplaced", "POST", "/mcp?{other}")
    yield _row("token in a cookie", 400, "credential_misplaced", Cookie="token={other}")
    yield _row("token in a cookie alone", 400, "credential_misplaced", Cookie="token={other}", Authorization=None)
    yield _row("token in a header of its own", 400, "credential_misplaced", X_Token="{other}")
    yield _row("token in the user agent", 400, "credential_misplaced", User_Agent="agent/{other}")
    yield _row("token as the session", 400, "credential_misplaced", Mcp_Session_Id="{other}")


def _bodies() -> Iterator[Row]:
    wrong = {
        "empty": b"",
        "text": b"hello",
        "half": MESSAGE[:-1],
        "two messages": MESSAGE + MESSAGE,
        "a trailing comma": MESSAGE[:-1] + b",}",
        "UTF-16": MESSAGE.decode().encode("utf-16"),
        "a byte order mark": b"\xef\xbb\xbf" + MESSAGE,
        "invalid UTF-8": MESSAGE.replace(b"query", b"qu\xff\xfe"),
        "NaN": b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
        "a huge number": b'{"jsonrpc":"2.0","id":1' + b"0" * 5_000 + b',"method":"ping"}',
        "an infinite number": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999}}',
        "two ids": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        "two methods": b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}',
        "two names": MESSAGE.replace(b'"name":', b'"name":"propose_publish","name":'),
        "a lone surrogate": MESSAGE.replace(b"query", b"\\ud800"),
        "10,000 brackets": b"[" * 10_000 + b"]" * 10_000,
        "10,000 objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        "100,000 values": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[' + b"[]," * 100_000 + b"0]}}",
        "100,000 members": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{'
        + b",".join(b'"%d":0' % number for number in range(100_000))
        + b"}}",
        "deep parameters": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + b"[" * 100 + b"]" * 100 + b"}}",
    }
    for name, body in wrong.items():
        yield _row(f"body {name}", 400, "not_json", body)
    yield _row("batch", 400, "batch_not_supported", [GOOD, GOOD])
    yield _row("empty batch", 400, "batch_not_supported", [])
    shapes: dict[str, Any] = {
        "a number": 7,
        "null": None,
        "no version": {"id": 1, "method": "ping"},
        "another version": {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        "no method": {"jsonrpc": "2.0", "id": 1},
        "an id that is a list": {"jsonrpc": "2.0", "id": [1], "method": "ping"},
        "an id with a fraction": {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        "an id that is true": {"jsonrpc": "2.0", "id": True, "method": "ping"},
        "an id that is null": {"jsonrpc": "2.0", "id": None, "method": "ping"},
        "an id of 10,000 characters": {"jsonrpc": "2.0", "id": "x" * 10_000, "method": "ping"},
        "a method that is a number": {"jsonrpc": "2.0", "id": 1, "method": 7},
        "parameters that are a list": {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]},
        "a response": {"jsonrpc": "2.0", "id": 1, "result": {"approve": True}},
        "an error": {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    }
    for name, message in shapes.items():
        yield _row(f"message {name}", 400, "not_a_message", message)
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
    ):
        yield _row(f"content type {kind}", 415, "content_type_not_supported", Content_Type=kind)
    yield _row("no content type", 415, "content_type_not_supported", Content_Type=None)
    yield _row("gzip", 415, "content_type_not_supported", Content_Encoding="gzip")
    yield _row("accepts text only", 406, "not_acceptable", Accept="text/html")
    yield _row("accepts nothing", 406, "not_acceptable", Accept=None)
    yield _row("33 MiB", 413, "payload_too_large", b'{"x":"' + b"x" * (33 * MIB) + b'"}')
    yield _row("a session of somebody", 404, "session_unknown", Mcp_Session_Id="0123456789abcdef")
    yield _row("a session with control characters", 404, "session_unknown", Mcp_Session_Id="a\tb")


def _modern() -> Iterator[Row]:
    named = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/call", "Mcp_Name": "query_command_status"}

    def row(name: str, status: int, code: str, message: Any, more: tuple[str, ...] = (), **changes: str | None) -> Row:
        return _row(name, status, code, message, more=more, **{**named, **changes})

    def call(**params: Any) -> Any:
        return {**GOOD, "params": {**GOOD["params"], "_meta": dict(ENVELOPE), **params}}

    yield row("name in the header differs", 400, "-32020", call(), Mcp_Name="propose_publish")
    yield row("method in the header differs", 400, "-32020", call(), Mcp_Method="tools/list")
    yield row("no name in a header", 400, "-32020", call(), Mcp_Name=None)
    yield row("version in the header differs", 400, "-32020", call(), MCP_Protocol_Version="2099-01-01")
    yield row("name in an encoded header differs", 400, "-32020", call(), Mcp_Name="=?base64?cHJvcG9zZQ==?=")
    yield row("no envelope", 400, "-32602", GOOD)
    yield row("an unknown method", 404, "-32601", {**call(), "method": "tools/approve"}, Mcp_Method="tools/approve")
    unknown = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    yield row("an unknown version", 400, "-32022", call(_meta=unknown), MCP_Protocol_Version="2099-01-01")
    twice = ("Mcp-Protocol-Version: 2025-06-18",)
    yield row("two versions", 400, "duplicate_header", call(), more=twice)
    yield row("a forged request state", 200, "request_state_unknown", call(requestState="approved"))
    answer = {"approve": {"action": "accept", "content": {"approve": True}}}
    yield row("an answer nobody asked for", 200, "request_state_unknown", call(inputResponses=answer))


def _calls() -> Iterator[Row]:
    """Well-formed requests whose call is refused: a result, not a status."""
    yield _row("an unknown tool", 200, "unknown_tool", tool_call("approve"))
    yield _row("an unknown argument", 200, "unknown_argument", tool_call(approve=True))
    yield _row("a number for a text", 200, "invalid_argument", tool_call(command_id=7))
    yield _row("a text for a number", 200, "invalid_argument", tool_call(wait_seconds="7"))
    yield _row("a wait beyond its limit", 200, "invalid_argument", tool_call(wait_seconds=86_400))
    yield _row("a command of nobody", 200, "command_not_found", tool_call(command_id="cmd_01kb9zq3m4n5p6q7r8s9t0v1w2"))
    yield _row("a path for an id", 200, "invalid_argument", tool_call(command_id="../../etc/passwd"))
    yield _row("a token in an argument", 200, "credential_in_arguments", tool_call(cursor="{other}"))
    meta = {**GOOD, "params": {**GOOD["params"], "_meta": {"token": "{other}"}}}
    yield _row("a token in _meta", 200, "credential_in_arguments", meta)
    crowd = {**GOOD, "params": {**GOOD["params"], "_meta": {"token": "{other}", "crowd": ["a"] * 4_000}}}
    yield _row("a token before a crowd", 200, "credential_in_arguments", crowd)
    absent: dict[str, Any] = {
        "tools/approve": {},
        "resources/read": {"uri": "file:///etc/passwd"},
        "prompts/get": {"name": "x"},
        "logging/setLevel": {"level": "debug"},
        "sampling/createMessage": {},
    }
    for method, params in absent.items():
        yield _row(f"method {method}", 200, "-32601", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
