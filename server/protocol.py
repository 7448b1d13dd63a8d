"""The protocol server: the one place that says what is offered and how messages are read, over every transport.

Below: the tools, which know nothing of MCP. Above: `mcp_stdio` and `mcp_http`, which carry messages, and `connect`,
which offers the same tools of a gateway elsewhere. Both protocol eras (initialize, and 2026-07-28) are the SDK's.

A message is read strictly before the SDK sees it: what two parsers could understand differently (duplicate members,
NaN, huge numbers, lone surrogates) is no message, nor is a batch. What a handler fails with stays here: the peer is
told a fixed sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import mcp_types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from capabilities import strict_json
from capabilities.strict_json import StrictJsonError
from execution.tracing import stored
from server.arguments import NESTING_MAX
from server.callers import Caller
from server.errors import GatewayRefused, Refusal, refusal, refused
from server.results import problem, text
from server.tools import INSTRUCTIONS, Answer, Call, Tools, ToolText

MESSAGE_BYTES_MAX: Final = 32 * 1024 * 1024
MESSAGE_DEPTH_MAX: Final = 2 * NESTING_MAX
MESSAGE_VALUES_MAX: Final = 5_000
"""Each value costs every later pass over the message far more than its bytes; no call needs a tenth of these."""
ID_CHARS_MAX: Final = 128
TOOLS_FRESH_MS: Final = 60_000
LIST_TOOLS: Final = "tools/list"

log = logging.getLogger("remit.mcp")

Context = ServerRequestContext[Any, Any]
Message = mcp_types.JSONRPCMessage
Listing = Callable[[], Awaitable[Sequence[mcp_types.Tool]]]
Calling = Callable[[Context, mcp_types.CallToolRequestParams], Awaitable[mcp_types.CallToolResult]]


def build(tools: Tools, version: str, caller_of: Callable[[Context], Caller]) -> Server[Any]:
    """The protocol server over the tools of this process. `caller_of` says whose call a request is."""

    async def listing() -> Sequence[mcp_types.Tool]:
        return [listed(tool) for tool in tools.texts]

    async def calling(context: Context, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        if params.request_state is not None or params.input_responses is not None:
            return refused_result(refusal("request_state_unknown"))
        call = Call(
            name=params.name,
            arguments=params.arguments or {},
            caller=caller_of(context),
            envelope=context.params or {},
            trace_id=stored(context.meta or {}),
        )
        return _result(await tools.call(call))

    return server_of(version, listing, calling)


def server_of(version: str, listing: Listing, calling: Calling) -> Server[Any]:
    """A protocol server that lists and calls in the given way."""

    async def list_tools(
        context: Context, params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=list(await listing()))

    async def call_tool(context: Context, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        try:
            return await calling(context, params)
        except MCPError:
            raise
        except Exception as error:  # the edge of the program: what went wrong is ours to know alone
            log.error("a call of %s failed", params.name[:ID_CHARS_MAX], exc_info=error)
            raise MCPError(code=mcp_types.INTERNAL_ERROR, message="The server failed; its log says where.") from None

    return Server(
        "remit",
        version=version,
        title="Remit",
        instructions=INSTRUCTIONS,
        cache_hints={LIST_TOOLS: CacheHint(ttl_ms=TOOLS_FRESH_MS, scope="private")},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def parse_message(raw: bytes) -> Message:
    """One JSON-RPC message. Raises GatewayRefused: not_json, batch_not_supported, not_a_message."""
    try:
        value = strict_json.loads(
            raw,
            bytes_max=MESSAGE_BYTES_MAX,
            depth_max=MESSAGE_DEPTH_MAX,
            values_max=MESSAGE_VALUES_MAX,
            allow_floats=True,
        )
    except StrictJsonError as error:
        raise GatewayRefused(refusal("not_json", fix=f"Send one JSON-RPC message as strict JSON ({error}).")) from None
    if isinstance(value, list):
        raise refused("batch_not_supported")
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        raise refused("not_a_message") from None
    if isinstance(message, mcp_types.JSONRPCNotification) and isinstance(value, Mapping) and "id" in value:
        raise refused("not_a_message")  # an id of another type: taken for a notification it would never be answered
    if isinstance(message, mcp_types.JSONRPCRequest) and len(str(message.id)) > ID_CHARS_MAX:
        raise refused("not_a_message")
    return message


def error_body(found: Refusal) -> Mapping[str, Any]:
    """A refusal of a message that reached no tool: a JSON-RPC error to nobody in particular."""
    code = mcp_types.PARSE_ERROR if found.code == "not_json" else mcp_types.INVALID_REQUEST
    data = problem(found).model_dump(mode="json", exclude_none=True)
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": found.code, "data": data}}


def refused_result(found: Refusal) -> mcp_types.CallToolResult:
    """A refusal as the result of a call."""
    return _result(Answer(result=problem(found), refused=True))


def listed(tool: ToolText) -> mcp_types.Tool:
    """A tool as the protocol lists it."""
    return mcp_types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        output_schema=dict(tool.output_schema),
        annotations=mcp_types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=not tool.read_only,
            idempotent_hint=tool.idempotent,
            open_world_hint=not tool.read_only,
        ),
    )


def _result(answer: Answer) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(type="text", text=text(answer.result))],
        structured_content=answer.result.model_dump(mode="json", exclude_none=True),
        is_error=answer.refused,
    )
