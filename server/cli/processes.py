"""`serve`, `worker`, `sandbox`: what runs until it is told to stop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from server.cli.options import HomeOption, JsonOption
from server.cli.output import CommandFailed
from server.cli.setup import installed

TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="The agent's token (else REMIT_TOKEN_FILE); reopened on every call.")
]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("serve")(serve)
    app.command("worker")(worker)
    app.command("sandbox")(sandbox)


def serve(
    home: HomeOption = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Only the gateway; run `remit worker` elsewhere.")
    ] = False,
    token_file: TokenFile = None,
    as_json: JsonOption = False,
) -> None:
    """Serve an agent over stdin and stdout (MCP)."""
    from server.config import load_config
    from server.mcp_stdio import take_wire
    from server.running import run_gateway
    from server.telemetry import start_logging

    config = load_config(home, token_file=token_file)
    wire = take_wire()
    formatter = start_logging(config.log_level)
    asyncio.run(run_gateway(config, wire, installed(), formatter, with_worker=not no_worker))


def worker(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Carry out what was accepted, until a signal."""
    from server.config import load_config
    from server.running import run_worker
    from server.telemetry import start_logging

    config = load_config(home)
    asyncio.run(run_worker(config, start_logging(config.log_level)))


def sandbox(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Run the home's sandbox in the foreground."""
    import os

    from server.config import child_environment, load_config
    from server.sandbox_process import command, is_listening

    config = load_config(home)
    if is_listening(config):
        raise CommandFailed("already_running", "The sandbox of this home is running already.", "Nothing to do.")
    words = command(config)
    os.execve(words[0], words, child_environment())  # noqa: S606 (our own interpreter and module, no shell)
