"""`python -m adapters.sandbox --state FILE --port-file FILE`: the stand-ins as a process of their own.

The port file is written when both ports are open: {"url", "http_port", "smtp_port", "pid", "incomplete_s", "max_run_s",
"accounts": {login: application password}}. SIGTERM ends the process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import time
from pathlib import Path

from adapters.sandbox.running import INCOMPLETE_S, MAX_RUN_S, Sandbox, SandboxSettings


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m adapters.sandbox", description="Stand-ins on loopback.")
    parser.add_argument("--state", type=Path, required=True, help="SQLite file, made when missing")
    parser.add_argument("--port-file", type=Path, required=True, help="written when the ports are open")
    parser.add_argument("--http-port", type=int, default=0)
    parser.add_argument("--smtp-port", type=int, default=0)
    parser.add_argument("--incomplete-s", type=float, default=INCOMPLETE_S, help="H")
    parser.add_argument("--max-run-s", type=float, default=MAX_RUN_S, help="M")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies H and M")
    parser.add_argument("--plugin", action="store_true", help="the site has the business-key plugin")
    parser.add_argument("--front", action="store_true", help="pages are served through the caching front")
    return parser.parse_args()


async def serve(arguments: argparse.Namespace) -> None:
    """Until SIGTERM or SIGINT."""
    settings = SandboxSettings(
        http_port=arguments.http_port,
        smtp_port=arguments.smtp_port,
        incomplete_s=arguments.incomplete_s,
        max_run_s=arguments.max_run_s,
        scale=arguments.scale,
        plugin=arguments.plugin,
        front=arguments.front,
    )
    sandbox = Sandbox(arguments.state, time.time, settings)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await sandbox.start()
    try:
        announce(arguments.port_file, sandbox)
        await ended.wait()
    finally:
        await sandbox.stop()


def announce(port_file: Path, sandbox: Sandbox) -> None:
    """Write the port file in one step."""
    settings = sandbox.settings
    text = json.dumps(
        {
            "url": sandbox.url,
            "http_port": sandbox.http_port,
            "smtp_port": sandbox.smtp_port,
            "pid": os.getpid(),
            "incomplete_s": settings.incomplete_s * settings.scale,
            "max_run_s": settings.max_run_s * settings.scale,
            "accounts": {account.login: account.app_password for account in settings.accounts},
        }
    )
    fresh = port_file.with_name(port_file.name + ".new")
    fresh.write_text(text)
    fresh.replace(port_file)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parse_arguments()))
