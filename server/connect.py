"""A gateway elsewhere, offered over stdin and stdout: what runs on an agent's machine, which holds a token file only.

Every call opens the token file anew and is one POST of its own. Nothing is repeated here: a proposal whose answer did
not come is *not known*, is told as that, and the agent asks for its status or proposes the same again, which is safe.
Proven unsent (no connection) and refused (an answer of the gateway itself) are told apart from it. What goes wrong
with the file, the connection or the gateway is the answer of the call; this process goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import mcp_types
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER, encode_header_value
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import ValidationError

from capabilities.errors import CredentialCode, CredentialError, KeyFileError
from server.arguments import WAIT_S_MAX
from server.callers import read_token
from server.errors import GatewayRefused, Refusal, from_credential, from_token_file, refusal
from server.protocol import LIST_TOOLS, Context, listed, refused_result
from server.results import Problem
from server.tools import PROPOSE, QUERY

CALL_TOOL: Final = "tools/call"
CONNECT_S_MAX: Final = 5.0
LIST_S_MAX: Final = 5.0
ANSWER_S_MAX: Final = 15.0
"""Beyond the wait that the call asks for."""
ANSWER_BYTES_MAX: Final = 1_048_576
IDLE_S_MAX: Final = 5.0
"""A kept connection is given up before the gateway would close it."""
READS: Final = frozenset({QUERY.name})
_COMPACT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_TRACE: Final = ("traceparent", "tracestate")
_UNSENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)

log = logging.getLogger("remit.connect")


class Unanswered(Exception):
    """The request may have arrived, and no answer of the gateway came back."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the gateway answered: a result, or a refusal in its own words."""

    status: int
    document: Mapping[str, Any]


class Remote:
    """One gateway, as whoever the token file names at each call."""

    def __init__(self, url: str, token_file: Path, client: httpx2.AsyncClient, version: str) -> None:
        self._url = url
        self._token_file = token_file
        self._client = client
        self._info = {"name": "remit-connect", "version": version}
        self._sent = 0

    async def listing(self) -> Sequence[mcp_types.Tool]:
        """The gateway's tools. While it cannot be asked: those that every gateway has, whose calls then say why."""
        try:
            told = await self._exchange(LIST_TOOLS, {}, LIST_S_MAX)
            return mcp_types.ListToolsResult.model_validate(told.document["result"], by_name=False).tools
        except (GatewayRefused, Unanswered, KeyError, ValidationError) as error:
            log.warning("the tools are listed from memory: %s", _reason(error))
            return [listed(PROPOSE), listed(QUERY)]

    async def calling(self, context: Context, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        """Hand one call on."""
        arguments: Mapping[str, Any] = params.arguments or {}
        meta: Mapping[str, Any] = context.meta or {}
        trace = {name: meta[name] for name in _TRACE if isinstance(meta.get(name), str)}
        wanted = {"name": params.name, "arguments": arguments, "_meta": trace}
        try:
            told = await self._exchange(CALL_TOOL, wanted, _wait_s(arguments) + ANSWER_S_MAX)
            return _result(told)
        except GatewayRefused as error:
            return refused_result(error.refusal)
        except Unanswered as error:
            log.warning("no answer to a call of %s: %s", params.name[:64], error)
            return refused_result(refusal("no_answer" if params.name in READS else "outcome_unknown"))

    async def _exchange(self, method: str, params: Mapping[str, Any], seconds: float) -> Told:
        """One request, one answer. Raises GatewayRefused for what was not sent or was refused, and Unanswered."""
        request = self._request(method, params)
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.send(request, stream=True)
                try:
                    return Told(response.status_code, _document(response, await _read(response)))
                finally:
                    await response.aclose()
        except _UNSENT as error:
            code = "gateway_untrusted" if isinstance(_root(error), ssl.SSLError) else "gateway_unreachable"
            raise GatewayRefused(refusal(code)) from None
        except TimeoutError:
            raise Unanswered(f"none within {seconds:.0f} s") from None
        except httpx2.HTTPError as error:
            raise Unanswered(type(error).__name__) from None

    def _request(self, method: str, params: Mapping[str, Any]) -> httpx2.Request:
        self._sent += 1
        envelope = {
            mcp_types.PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
            mcp_types.CLIENT_CAPABILITIES_META_KEY: {},
            mcp_types.CLIENT_INFO_META_KEY: self._info,
        }
        meta = {**params.get("_meta", {}), **envelope}
        message = {"jsonrpc": "2.0", "id": self._sent, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "Authorization": f"Bearer {_token(self._token_file)}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            MCP_PROTOCOL_VERSION_HEADER: LATEST_MODERN_VERSION,
            MCP_METHOD_HEADER: method,
        }
        if "name" in params:
            headers[MCP_NAME_HEADER] = encode_header_value(params["name"])
        return self._client.build_request("POST", self._url, headers=headers, content=json.dumps(message).encode())


@asynccontextmanager
async def remote(url: str, token_file: Path, version: str, ca: Path | None = None) -> AsyncIterator[Remote]:
    """A way to the gateway at `url`. No redirect is followed, no proxy of the environment used, nothing sent twice.

    `ca`: certificates to trust instead of the system's. Raises OSError (ssl.SSLError) when they cannot be read.
    """
    trusted = ssl.create_default_context(cafile=None if ca is None else str(ca))
    limits = httpx2.Limits(max_connections=16, max_keepalive_connections=4, keepalive_expiry=IDLE_S_MAX)
    timeout = httpx2.Timeout(WAIT_S_MAX + ANSWER_S_MAX, connect=CONNECT_S_MAX, pool=CONNECT_S_MAX)
    async with httpx2.AsyncClient(
        verify=trusted, trust_env=False, follow_redirects=False, limits=limits, timeout=timeout
    ) as client:
        yield Remote(url, token_file, client, version)


def _token(path: Path) -> str:
    """What stands in the file, if it can be a token at all: nothing else becomes a header."""
    try:
        raw = read_token(path)
        if not _COMPACT.fullmatch(raw):
            raise CredentialError(CredentialCode.MALFORMED_TOKEN)
        return raw
    except KeyFileError as error:
        raise GatewayRefused(from_token_file(error)) from None
    except CredentialError as error:
        raise GatewayRefused(from_credential(error)) from None


def _wait_s(arguments: Mapping[str, Any]) -> float:
    asked = arguments.get("wait_seconds", WAIT_S_MAX)
    return min(max(asked, 0), WAIT_S_MAX) if type(asked) is int else WAIT_S_MAX


async def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            raise Unanswered("an answer beyond its limit")
    return bytes(body)


def _document(response: httpx2.Response, body: bytes) -> Mapping[str, Any]:
    """The answer of the gateway itself; raises what anything else means."""
    status = response.status_code
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and (status < 500 or _problem(found) is not None):
        return found
    if 300 <= status < 500:
        raise GatewayRefused(refusal("gateway_elsewhere"))
    raise Unanswered(f"status {status} and nothing that can be understood")


def _result(told: Told) -> mcp_types.CallToolResult:
    found = _problem(told.document)
    if found is not None:
        raise GatewayRefused(found)
    if isinstance(told.document.get("result"), dict):
        try:
            return mcp_types.CallToolResult.model_validate(told.document["result"], by_name=False)
        except ValidationError:
            raise Unanswered("a result that can not be understood") from None
    if _code(told.document) == mcp_types.INTERNAL_ERROR or told.status == 200:
        raise Unanswered("the gateway failed")
    raise GatewayRefused(refusal("gateway_elsewhere"))


def _code(document: Mapping[str, Any]) -> Any:
    error = document.get("error")
    return error.get("code") if isinstance(error, dict) else None


def _problem(document: Mapping[str, Any]) -> Refusal | None:
    """The gateway's refusal of a request, before any tool."""
    error = document.get("error")
    data = error.get("data") if isinstance(error, dict) else None
    try:
        found = Problem.model_validate(data)
    except ValidationError:
        return None
    return Refusal(**found.model_dump(exclude={"differing"}))


def _root(error: BaseException) -> BaseException:
    while (below := error.__cause__ or error.__context__) is not None:
        error = below
    return error


def _reason(error: Exception) -> str:
    return error.refusal.code if isinstance(error, GatewayRefused) else type(error).__name__
