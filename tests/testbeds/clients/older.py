"""An agent with an older release of the MCP library, run by that release's own interpreter.

    older.py stdio COMMAND ARGUMENT…      older.py http URL TOKEN

Reads one call a line from stdin, `{"tool": …, "arguments": …}`, and writes one result a line to stdout. The first line
is what the connection brought: server, protocol version, tools.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def main(how, *words):
    async with AsyncExitStack() as stack:
        if how == "stdio":
            parameters = StdioServerParameters(command=words[0], args=list(words[1:]))
            streams = await stack.enter_async_context(stdio_client(parameters))
        else:
            headers = {"Authorization": f"Bearer {words[1]}"}
            streams = await stack.enter_async_context(streamablehttp_client(words[0], headers=headers))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        began = await session.initialize()
        tools = await session.list_tools()
        names = [tool.name for tool in tools.tools]
        say({"server": began.serverInfo.name, "version": str(began.protocolVersion), "tools": names})
        while line := await asyncio.to_thread(sys.stdin.readline):
            call = json.loads(line)
            result = await session.call_tool(call["tool"], call["arguments"])
            say({"error": bool(result.isError), "answer": json.loads(result.content[0].text)})


def say(document):
    print(json.dumps(document), flush=True)


asyncio.run(main(*sys.argv[1:]))
