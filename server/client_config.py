"""What an agent's host has to be told: one JSON document in the host's own form, ready to be pasted.

The default way is `connect`: the host starts `remit connect URL --token-file F` and knows a path, so that a renewed
token takes effect at the next call. `stdio` starts the whole gateway beside the agent. `http` lets the host send the
header itself, each in its own way of keeping a token out of the file; hosts that cannot are refused.

Forms, as these hosts document them: Claude Desktop `claude_desktop_config.json`; Claude Code `.mcp.json`, with
`headersHelper`, a command that prints headers; Cursor `mcp.json`, with `${env:NAME}`; VS Code `mcp.json`, with
`servers` and `inputs`; the MCP Inspector's `--config` file, which has no reference to a secret.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

SERVER: Final = "remit"
TOKEN_VARIABLE: Final = "REMIT_TOKEN"  # noqa: S105 (the name of a variable)
INPUT: Final = "remit-token"


class Host(StrEnum):
    """Who starts agents."""

    CLAUDE_DESKTOP = "claude-desktop"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"
    INSPECTOR = "inspector"


class Way(StrEnum):
    """How the agent reaches the gateway."""

    CONNECT = "connect"
    STDIO = "stdio"
    HTTP = "http"


HEADERLESS: Final = frozenset({Host.CLAUDE_DESKTOP})
"""Hosts that cannot send a header of their own."""
FILES: Final[Mapping[Host, str]] = {
    Host.CLAUDE_DESKTOP: "claude_desktop_config.json",
    Host.CLAUDE_CODE: ".mcp.json",
    Host.CURSOR: ".cursor/mcp.json",
    Host.VSCODE: ".vscode/mcp.json",
    Host.INSPECTOR: "a file for --config FILE --server remit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What leads to a gateway from this machine. Paths are absolute; `remit`: how this very installation is called."""

    remit: tuple[str, ...]
    url: str
    home: Path
    token_file: Path


def configuration(host: Host, way: Way, at: Reach) -> Mapping[str, Any]:
    """The document. For the Inspector over HTTP it holds the token."""
    match way:
        case Way.CONNECT:
            return _started(host, (*at.remit, "connect", at.url, "--token-file", str(at.token_file)))
        case Way.STDIO:
            words = ("serve", "--stdio", "--home", str(at.home), "--token-file", str(at.token_file))
            return _started(host, (*at.remit, *words))
        case Way.HTTP:
            return _called(host, at)


def _started(host: Host, words: tuple[str, ...]) -> Mapping[str, Any]:
    command, *arguments = words
    entry = {"command": command, "args": arguments}
    if host is Host.VSCODE:
        return {"servers": {SERVER: {"type": "stdio", **entry}}}
    return {"mcpServers": {SERVER: entry}}


def _called(host: Host, at: Reach) -> Mapping[str, Any]:
    match host:
        case Host.CLAUDE_DESKTOP:
            raise ValueError("this host cannot send a header")
        case Host.CLAUDE_CODE:
            helper = shlex.join((*at.remit, "token", "header", str(at.token_file)))
            return {"mcpServers": {SERVER: {"type": "http", "url": at.url, "headersHelper": helper}}}
        case Host.CURSOR:
            return {"mcpServers": {SERVER: {"url": at.url, "headers": _header(f"${{env:{TOKEN_VARIABLE}}}")}}}
        case Host.VSCODE:
            entry = {"type": "http", "url": at.url, "headers": _header(f"${{input:{INPUT}}}")}
            asked = {"type": "promptString", "id": INPUT, "description": "Remit token", "password": True}
            return {"inputs": [asked], "servers": {SERVER: entry}}
        case Host.INSPECTOR:
            entry = {"type": "streamable-http", "url": at.url, "headers": _header(at.token_file.read_text().strip())}
            return {"mcpServers": {SERVER: entry}}


def _header(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}
