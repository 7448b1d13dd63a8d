"""The long-running processes: gateway, worker, a way to a gateway elsewhere. Each ends cleanly, with what it started.

A gateway serves agents over stdin and stdout (one agent) or over HTTP (any number). It needs no production credential;
with a worker in the same process (the embedded default) it has them all.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from execution.bus.memory import MemoryBus
from execution.ports import Severity
from execution.store.errors import StoreError
from execution.store.meta import tick
from server.app import Installation, opened
from server.config import TOKEN_FILE_VARIABLE, Config
from server.sandbox_process import running_sandbox
from server.telemetry import JsonFormatter, tracing

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from execution.pace import Pace
    from execution.ports import Ports
    from server.mcp_stdio import Wire
    from server.tools import Tools

GRACE_EMBEDDED_S: Final = 1.0
GRACE_WORKER_S: Final = 10.0
TICK_S: Final = 10.0

log = logging.getLogger("remit.server")

Front = Callable[[Installation, "Tools", asyncio.Event], Coroutine[Any, Any, None]]
"""How a gateway is reached: serves until `stop` is set, or sets it."""


def over_stdio(wire: Wire, version: str) -> Front:
    """One agent, whose token lies in a file."""

    async def front(at: Installation, tools: Tools, stop: asyncio.Event) -> None:
        from server.mcp_stdio import serve
        from server.protocol import build

        if at.config.token_file is None:
            log.warning("no token file is named, so every call will be refused: set %s", TOKEN_FILE_VARIABLE)
        caller = at.token_file()
        await serve(build(tools, version, lambda _: caller), wire, stop, tools.drained)

    return front


def over_http(listener: socket.socket, version: str, *, with_worker: bool, metrics: socket.socket | None) -> Front:
    """Any number of agents, each request with its token; `metrics` is where their figures are asked for."""

    async def front(at: Installation, tools: Tools, stop: asyncio.Event) -> None:
        from server.health import Health
        from server.listening import serve
        from server.mcp_http import app_of

        health = Health(store=at.store, clock=at.clock, with_worker=with_worker, stop=stop)
        app = app_of(tools, at.config, health, version)
        try:
            figures = None if metrics is None else (await _figures(at, tools), metrics)
            extra = () if figures is None else (serve(*figures, stop),)
            await asyncio.gather(serve(app, listener, stop, lifespan="on"), *extra)
            await tools.drained()
        finally:
            stop.set()

    return front


async def _figures(at: Installation, tools: Tools) -> ASGIApp:
    from server.http_door import Guard, security_of
    from server.metrics import Metrics, metrics_app

    metrics = Metrics(at.store, at.clock, at.tenant, lambda: tools.deduplicated)
    await metrics.begin()
    return metrics_app(metrics, Guard(security_of(at.config.settings.metrics)))


async def run_gateway(config: Config, front: Front, formatter: JsonFormatter, *, with_worker: bool) -> None:
    """Serve agents until a signal, or until the front ends."""
    stop = stop_on_signals()
    async with _started(config) as at:
        bus = MemoryBus()
        tools = at.tools(wake=bus.publish if with_worker else None, stop=stop)
        tasks = [asyncio.create_task(front(at, tools, stop), name="gateway")]
        if with_worker:
            tasks.append(asyncio.create_task(_work(at, stop, formatter, bus, GRACE_EMBEDDED_S), name="worker"))
        await _until_one_ends(tasks, stop)


async def run_connect(url: str, token_file: Path, wire: Wire, version: str, ca: Path | None) -> None:
    """Offer a gateway elsewhere to one agent over stdio, until EOF or a signal."""
    from server.connect import remote
    from server.mcp_stdio import serve
    from server.protocol import server_of

    stop = stop_on_signals()
    async with remote(url, token_file, version, ca) as gateway:
        await serve(server_of(version, gateway.listing, gateway.calling), wire, stop)


async def run_issuer(config: Config, listener: socket.socket) -> None:
    """Issue tokens to registered clients until a signal."""
    from server.http_door import Guard, security_of
    from server.listening import serve
    from server.token_endpoint import issuer_app

    stop = stop_on_signals()
    async with _started(config) as at:
        app = issuer_app(at, Guard(security_of(config.settings.token_endpoint)))
        await serve(app, listener, stop)


async def run_worker(config: Config, formatter: JsonFormatter) -> None:
    """Work until a signal."""
    stop = stop_on_signals()
    async with _started(config) as at:
        await _work(at, stop, formatter, MemoryBus(), GRACE_WORKER_S)


@asynccontextmanager
async def _started(config: Config) -> AsyncIterator[Installation]:
    with tracing(config.settings.traces.endpoint):
        async with opened(config) as at:
            warn_at_start(config)
            yield at


def stop_on_signals() -> asyncio.Event:
    """Set by SIGTERM and Ctrl-C."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


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
    from server.doctor.clock import note as note_clocks
    from server.outside import outside_of, secrets_of

    formatter.hide(secrets_of(at.config))
    note_clocks(at.config.home, at.clock)
    async with running_sandbox(at.config, stop):
        outside = outside_of(at)
        worker = at.worker(outside.ports, bus)
        beside = [asyncio.create_task(_tick(at), name="tick"), *_audits(at, outside.ports, worker.env.pace)]
        beside += _checkpoints(at)
        for task in beside:
            task.add_done_callback(_say_why)
        try:
            log.info("worker is up")
            await worker.run(stop, grace_s=grace_s)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await outside.aclose()


def _audits(at: Installation, ports: Ports, pace: Pace) -> list[asyncio.Task[None]]:
    """The audit of this process, where the configuration wants one."""
    section = at.config.settings.audit
    if section.every_h is None:
        return []
    from server.alerting import Alerts
    from server.auditing import audit_from_time_to_time

    alerts = Alerts(ports=ports, ids=at.ids, config=at.config, names=section.notify)
    return [asyncio.create_task(audit_from_time_to_time(at, ports, pace, alerts), name="audit")]


def _checkpoints(at: Installation) -> list[asyncio.Task[None]]:
    """The export of this process, where the configuration names a file."""
    if at.config.settings.checkpoints.file is None:
        return []
    from server.checkpoints import export_from_time_to_time

    return [asyncio.create_task(export_from_time_to_time(at), name="checkpoints")]


def _say_why(task: asyncio.Task[None]) -> None:
    """What runs beside the worker does not take it along, and does not end unheard."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended", task.get_name(), exc_info=error)


async def _tick(at: Installation) -> None:
    """Keep the clock's high-water mark and the journal's length on record, so that going back is noticed."""
    while True:
        try:
            await tick(at.store, at.clock.now_ms())
        except StoreError as error:
            log.warning("the store could not be reached: %s", error.code)
        await asyncio.sleep(TICK_S)


def warn_at_start(config: Config) -> None:
    """The cheap part of `remit doctor`: who can read the credentials, and who can change the code that holds them."""
    from server.doctor import at_start

    for checked in at_start(config):
        symptom = checked.symptom
        if symptom.severity in (Severity.WARNING, Severity.PROBLEM):
            log.warning("%s: %s. %s", symptom.code.replace("_", " "), symptom.detail, symptom.fix)
