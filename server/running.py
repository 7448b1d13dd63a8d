"""The two long-running processes, a gateway on stdio and a worker. Each ends cleanly, with what it started.

A gateway needs no production credential; with a worker in the same process (the embedded default) it has them all.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING, Final

from execution.bus.memory import MemoryBus
from execution.store.errors import StoreError
from execution.store.meta import tick
from server.app import Installation, opened
from server.config import TOKEN_FILE_VARIABLE, Config
from server.sandbox_process import running_sandbox
from server.telemetry import JsonFormatter

if TYPE_CHECKING:
    from server.mcp_stdio import Wire

GRACE_EMBEDDED_S: Final = 1.0
GRACE_WORKER_S: Final = 10.0
TICK_S: Final = 10.0

log = logging.getLogger("remit.server")


async def run_gateway(config: Config, wire: Wire, version: str, formatter: JsonFormatter, *, with_worker: bool) -> None:
    """Serve one agent over stdio until EOF or a signal."""
    from server.mcp_stdio import serve

    stop = asyncio.Event()
    async with opened(config) as at:
        warn_about_credentials(config)
        if config.token_file is None:
            log.warning("no token file is named, so every call will be refused: set %s", TOKEN_FILE_VARIABLE)
        bus = MemoryBus()
        tools = at.tools(wake=bus.publish if with_worker else None)
        tasks = [asyncio.create_task(serve(tools, version, wire, stop), name="gateway")]
        if with_worker:
            tasks.append(asyncio.create_task(_work(at, stop, formatter, bus, GRACE_EMBEDDED_S), name="worker"))
        await _until_one_ends(tasks, stop)


async def run_worker(config: Config, formatter: JsonFormatter) -> None:
    """Work until a signal."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with opened(config) as at:
        await _work(at, stop, formatter, MemoryBus(), GRACE_WORKER_S)


async def _until_one_ends(tasks: list[asyncio.Task[None]], stop: asyncio.Event) -> None:
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()


async def _work(
    at: Installation, stop: asyncio.Event, formatter: JsonFormatter, bus: MemoryBus, grace_s: float
) -> None:
    from server.outside import outside_of, secrets_of

    formatter.hide(secrets_of(at.config))
    async with running_sandbox(at.config, stop):
        outside = outside_of(at)
        ticking = asyncio.create_task(_tick(at), name="tick")
        try:
            log.info("worker is up")
            await at.worker(outside.ports, bus).run(stop, grace_s=grace_s)
        finally:
            ticking.cancel()
            await outside.aclose()


async def _tick(at: Installation) -> None:
    """Keep the clock's high-water mark and the journal's length on record, so that going back is noticed."""
    while True:
        try:
            await tick(at.store, at.clock.now_ms())
        except StoreError as error:
            log.warning("the store could not be reached: %s", error.code)
        await asyncio.sleep(TICK_S)


def warn_about_credentials(config: Config) -> None:
    """Once at start: what the agent's own user could read, the agent could read."""
    readable = [path.name for path in config.credential_files() if os.access(path, os.R_OK)]
    if readable:
        log.warning(
            "credentials are readable by this user, under whom the agent's host runs too: %s. An agent with a shell "
            "could use them. For production run `remit serve --no-worker` here and `remit worker` under another user",
            ", ".join(readable),
        )
