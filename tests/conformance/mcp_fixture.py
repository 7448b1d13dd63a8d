"""A gateway for the MCP conformance suite: `python -m tests.conformance.mcp_fixture TOKEN_FILE serve --http …`.

It is the real one but for two things. Nobody need bring a token (the suite cannot): the door takes the file's. And it
has what the suite's own checks ask for and the product has no use for: empty lists of prompts and resources, and the
tool `test_missing_capability`. On loopback, for tests.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mcp_types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from capabilities.token import Capability
from server import mcp_http, protocol
from server.cli.main import main
from server.protocol import Calling, Context, Listing, server_of

DIAGNOSTIC = "test_missing_capability"
_DIAGNOSTIC = mcp_types.Tool(
    name=DIAGNOSTIC, description="Needs a capability that nobody declares.", input_schema={"type": "object"}
)
FRESH: dict[str, Any] = {"ttl_ms": 60_000, "cache_scope": "private"}
Paginated = mcp_types.PaginatedRequestParams


def with_fixtures(version: str, listing: Listing, calling: Calling) -> Server[Any]:
    """The product's server, and what only the suite wants."""

    async def also_listing() -> Sequence[mcp_types.Tool]:
        return [*await listing(), _DIAGNOSTIC]

    async def also_calling(context: Context, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        if params.name != DIAGNOSTIC:
            return await calling(context, params)
        wanted: Any = {"requiredCapabilities": {"sampling": {}}}
        code = mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY
        raise MCPError(code=code, message="sampling is needed", data=wanted)

    async def prompts(context: Context, params: Paginated) -> mcp_types.ListPromptsResult:
        return mcp_types.ListPromptsResult(prompts=[], **FRESH)

    async def resources(context: Context, params: Paginated) -> mcp_types.ListResourcesResult:
        return mcp_types.ListResourcesResult(resources=[], **FRESH)

    async def templates(context: Context, params: Paginated) -> mcp_types.ListResourceTemplatesResult:
        return mcp_types.ListResourceTemplatesResult(resource_templates=[], **FRESH)

    server = server_of(version, also_listing, also_calling)
    server.add_request_handler("prompts/list", Paginated, prompts)
    server.add_request_handler("resources/list", Paginated, resources)
    server.add_request_handler("resources/templates/list", Paginated, templates)
    return server


class OpenDoor(mcp_http.Door):
    """A door that asks for no token."""

    token = ""

    async def _authenticated(self, request: Request) -> Capability:
        return await self._gateway.authenticate(self.token)


if __name__ == "__main__":
    token_file, *words = sys.argv[1:]
    OpenDoor.token = Path(token_file).read_text().strip()
    mcp_http.Door = OpenDoor  # type: ignore[misc]  # what the suite cannot do: bring a token
    protocol.server_of = with_fixtures
    main(words)
