"""`python -m server.demo.agent SERVER …`: an agent's host, an MCP client that speaks to one server process over stdio.

It holds no credential: the server that it starts reopens the token file on every call. Calls come in on stdin, one JSON
document a line ({"tool", "arguments"}), and answers go out on stdout in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Sequence

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from server.config import child_environment


async def converse(server: Sequence[str]) -> None:
    """Until stdin ends, or SIGTERM comes; the server ends with it."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    command, *arguments = server
    parameters = StdioServerParameters(command=command, args=arguments, env=child_environment())
    async with Client(stdio_client(parameters)) as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            call = json.loads(line)
            result = await client.call_tool(call["tool"], call["arguments"])
            sys.stdout.write(json.dumps({"refused": result.is_error, "answer": result.structured_content}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(converse(sys.argv[1:]))
