"""The sandbox as a process of its own: started when the configuration says so, ended with whoever started it.

Its state lies in the home and outlives it. When somebody else already runs it on the configured port, that one is used.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from server.config import Config, ConfigError, child_environment

START_MAX_S: Final = 15.0
END_MAX_S: Final = 3.0
POLL_S: Final = 0.02

log = logging.getLogger("remit.sandbox")


def command(config: Config) -> list[str]:
    """How the sandbox of this home is started."""
    section = config.settings.sandbox
    state = config.path(section.state)
    return [
        *(sys.executable, "-m", "adapters.sandbox", "--state", str(state), "--port-file", str(port_file(config))),
        *("--http-port", str(section.http_port), "--smtp-port", str(section.smtp_port)),
        *("--scale", str(config.settings.engine.time_scale)),
        *(["--front"] if any(site.cloudflare for site in config.settings.site.values()) else []),
    ]


def port_file(config: Config) -> Path:
    """Written by the sandbox when it is ready."""
    return config.path(config.settings.sandbox.state).with_suffix(".ports.json")


@asynccontextmanager
async def running_sandbox(config: Config, stop: asyncio.Event) -> AsyncIterator[None]:
    """The sandbox runs inside; without `[sandbox] start` nothing happens. `stop` cuts the wait for it short.

    Raises ConfigError when it does not start.
    """
    if not config.settings.sandbox.start or is_listening(config):
        yield
        return
    process = await start(config, stop)
    try:
        yield
    finally:
        await end(process)


def is_listening(config: Config) -> bool:
    """Whether somebody already answers on the configured port."""
    port = config.settings.sandbox.http_port
    if port == 0:
        return False
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def start(config: Config, stop: asyncio.Event) -> asyncio.subprocess.Process:
    """Start it and wait until its ports are open, or until we are to stop."""
    ready = port_file(config)
    ready.unlink(missing_ok=True)
    ready.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *command(config),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=sys.stderr,
        env=child_environment(),
        start_new_session=True,  # Ctrl-C is for us; we end it when we are done
    )
    try:
        async with asyncio.timeout(START_MAX_S):
            while not ready.exists() and not stop.is_set():
                if process.returncode is not None:
                    raise _not_started(config, f"it ended with {process.returncode}")
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        await end(process)
        raise _not_started(config, f"it was not ready within {START_MAX_S:.0f} s") from None
    log.info("sandbox %d is %s", process.pid, "to end before it was ready" if stop.is_set() else "ready")
    return process


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask it to end, then insist."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(END_MAX_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _not_started(config: Config, why: str) -> ConfigError:
    fix = "Choose free ports in [sandbox] (and in the addresses that point at it), or see its lines above."
    return ConfigError(f"{config.home}, [sandbox]", f"the sandbox did not start: {why}", fix)
