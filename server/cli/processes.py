"""`serve`, `connect`, `worker`, `issuer`, `sandbox`: what runs until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import socket
from logging import getLogger
from pathlib import Path
from typing import Annotated

import typer

from server.cli.options import HomeOption, JsonOption
from server.cli.output import CommandFailed, Exit
from server.cli.setup import installed

TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="The agent's token (else REMIT_TOKEN_FILE); reopened on every call.")
]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("serve")(serve)
    app.command("connect")(connect)
    app.command("worker")(worker)
    app.command("issuer")(issuer)
    app.command("sandbox")(sandbox)


def serve(
    home: HomeOption = None,
    no_worker: Annotated[
        bool, typer.Option("--no-worker", help="Only the gateway; run `remit worker` elsewhere.")
    ] = False,
    http: Annotated[
        bool | None,
        typer.Option("--http/--stdio", help="Over HTTP, or over stdin and stdout; default: [http] enabled."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Listen there instead of [http] host.")] = None,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Instead of [http] port.")] = None,
    token_file: TokenFile = None,
    as_json: JsonOption = False,
) -> None:
    """Serve agents (MCP): one over stdin and stdout, or any number over HTTP."""
    from server.config import load_config
    from server.running import over_http, over_stdio, run_gateway
    from server.telemetry import start_logging

    config = load_config(home, token_file=token_file, http_host=host, http_port=port)
    section = config.settings.http
    if http is None:
        http = section.enabled
    if not http and (host, port) != (None, None):
        raise CommandFailed("usage", "--host and --port are for HTTP.", "Add --http.", Exit.USAGE)
    if http and token_file is not None:
        fix = "Over HTTP every request brings its token; leave --token-file out."
        raise CommandFailed("usage", "--token-file is for stdin and stdout.", fix, Exit.USAGE)
    if http:
        figures = config.settings.metrics
        metrics = _listening(figures.host, figures.port) if figures.enabled else None
        listener = _listening(section.host, section.port)
        front = over_http(listener, installed(), with_worker=not no_worker, metrics=metrics)
    else:
        from server.mcp_stdio import take_wire

        front = over_stdio(take_wire(), installed())
    formatter = start_logging(config.log_level)
    asyncio.run(run_gateway(config, front, formatter, with_worker=not no_worker))


def _listening(host: str, port: int) -> socket.socket:
    """A socket for agents, or for whoever reads figures."""
    from server.listening import bind

    try:
        return bind(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        fix = "If this home is served already, leave it to that, or stop it first; else name another with --port."
        raise CommandFailed("address_in_use", f"Somebody listens at {host} port {port} already.", fix) from None


def connect(
    url: Annotated[str, typer.Argument(help="Address of the gateway, e.g. https://remit.example.org/mcp.")],
    token_file: Annotated[Path, typer.Option("--token-file", help="The agent's token; reopened on every call.")],
    ca: Annotated[
        Path | None, typer.Option("--ca", help="Certificates to trust instead of the system's (PEM).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Offer a gateway elsewhere over stdin and stdout (MCP), for hosts that start processes."""
    from server.config_rules import is_safe_url
    from server.mcp_stdio import take_wire
    from server.running import run_connect
    from server.telemetry import start_logging

    if not is_safe_url(url):
        fix = "Use https://…; http:// only for an address of this machine (127.0.0.1, localhost). No query or password."
        raise CommandFailed("usage", "A token is not sent to that address.", fix, Exit.USAGE)
    wire = take_wire()
    start_logging("info")
    file = token_file.expanduser().absolute()
    if not file.exists():
        getLogger("remit.server").warning("there is no token at %s yet: every call is refused until there is", file)
    asyncio.run(run_connect(url, file, wire, installed(), ca))


def worker(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Carry out what was accepted, until a signal."""
    from server.config import load_config
    from server.running import run_worker
    from server.telemetry import start_logging

    config = load_config(home)
    asyncio.run(run_worker(config, start_logging(config.log_level)))


def issuer(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Issue tokens to registered programs that prove their own key (OAuth 2.1 client credentials)."""
    from server.config import load_config
    from server.running import run_issuer
    from server.telemetry import start_logging

    config = load_config(home)
    section = config.settings.token_endpoint
    if not section.enabled or config.settings.issuer is None:
        fix = "Set [token_endpoint] enabled = true, where [issuer] names the key."
        raise CommandFailed("no_token_endpoint", "This home is not configured to issue tokens to programs.", fix)
    listener = _listening(section.host, section.port)
    start_logging(config.log_level)
    asyncio.run(run_issuer(config, listener))


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
