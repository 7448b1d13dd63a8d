"""The stand-ins together: the site behind its front, what stands below a prefix of the path, and the mail relay.

PUT    /__faults                       arm a fault (adapters.sandbox.faults)
GET    /__faults                       what is armed, and what has struck
DELETE /__faults                       disarm everything, release what is paused
GET    /__wait?kind=K&timeout_s=T      200 once a fault of that kind has struck, else 408
GET    /__effects                      everything that was accepted, straight from the state
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from adapters.sandbox import cloudflare, healthchecks, webhooks
from adapters.sandbox.accounts import ACCOUNTS, Account
from adapters.sandbox.cloudflare import CachingFront
from adapters.sandbox.faults import Fault, FaultBook, FaultKind, MalformedFault, parse_fault
from adapters.sandbox.github import PREFIX as GITHUB
from adapters.sandbox.github import GitHub
from adapters.sandbox.rest import Circumstances
from adapters.sandbox.site import Site
from adapters.sandbox.smtp import MailRelay
from adapters.sandbox.state import SandboxState
from adapters.sandbox.wire import HttpServer, Manner, Request, Response
from execution.core.quiescence import Bounds

INCOMPLETE_S: Final = 3.0
MAX_RUN_S: Final = 5.0
_BEFORE: Final = (FaultKind.DROP_BEFORE, FaultKind.RESET_BEFORE, FaultKind.STATUS_BEFORE, FaultKind.HANG)
_AFTER: Final = {
    FaultKind.DROP_AFTER: Manner.DROP,
    FaultKind.RESET_AFTER: Manner.RESET,
    FaultKind.HANG_AFTER: Manner.HANG,
    FaultKind.STALL: Manner.STALL,
    FaultKind.TRUNCATE: Manner.TRUNCATE,
    FaultKind.ENDLESS: Manner.ENDLESS,
    FaultKind.STATUS_AFTER: Manner.WHOLE,
    FaultKind.DELAY: Manner.WHOLE,
    FaultKind.PAUSE_AFTER_COMMIT: Manner.WHOLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """scale multiplies the two limits H (incomplete_s) and M (max_run_s); plugin: the site holds business keys.
    front: pages of the site are served through the caching front."""

    host: str = "127.0.0.1"
    http_port: int = 0
    smtp_port: int = 0
    incomplete_s: float = INCOMPLETE_S
    max_run_s: float = MAX_RUN_S
    scale: float = 1.0
    plugin: bool = False
    front: bool = False
    accounts: tuple[Account, ...] = ACCOUNTS

    def bounds(self) -> Bounds:
        """What may honestly be declared about both stand-ins, and for loopback about the way to them."""
        return Bounds(
            max_run_s=self.max_run_s * self.scale,
            max_run_source="the sandbox ends a request after this",
            incomplete_s=self.incomplete_s * self.scale,
            incomplete_source="the sandbox drops an incomplete request after this",
            transit_s=1.0 * self.scale,
            pause_s=1.0 * self.scale,
            stale_s=0.0,
            clock_s=0.5 * self.scale,
        )


class System(Protocol):
    """A stand-in behind a prefix of the path."""

    def answer(self, request: Request, at: Circumstances) -> Response: ...


class Sandbox:
    """Start it inside a running event loop; `now` is Unix seconds."""

    def __init__(self, state: Path, now: Callable[[], float], settings: SandboxSettings | None = None) -> None:
        self.settings = settings or SandboxSettings()
        self.faults = FaultBook()
        self._state = SandboxState(state)
        self._site = Site(self._state, self.settings.accounts, now, plugin=self.settings.plugin)
        h, m = self.settings.incomplete_s * self.settings.scale, self.settings.max_run_s * self.settings.scale
        self._front = CachingFront(self._state, now)
        self._systems: dict[str, System] = {
            cloudflare.PREFIX: cloudflare.Api(self._state, now),
            f"{GITHUB}/": GitHub(self._state, now),
            healthchecks.PREFIX: healthchecks.Api(self._state),
            webhooks.PREFIX: webhooks.Receivers(self._state, now),
        }
        self._http = HttpServer(self._handle, incomplete_s=h, max_run_s=m)
        self._mail = MailRelay(self._state, self.faults, now, incomplete_s=h, max_run_s=m)

    @property
    def url(self) -> str:
        return f"http://{self.settings.host}:{self._http.port}"

    @property
    def http_port(self) -> int:
        return self._http.port

    @property
    def smtp_port(self) -> int:
        return self._mail.port

    def effects(self) -> dict[str, object]:
        """What `GET /__effects` answers."""
        return dict(self._state.effects())

    async def start(self) -> None:
        """Listen on both ports."""
        await self._http.start(self.settings.host, self.settings.http_port)
        await self._mail.start(self.settings.host, self.settings.smtp_port)

    async def stop(self) -> None:
        """End every connection and close the file."""
        self.faults.clear()
        await self._http.stop()
        await self._mail.stop()
        self._state.close()

    async def _handle(self, request: Request) -> Response:
        if request.path.startswith("/__"):
            return await self._control(request)
        if fault := await self.faults.take(request.line, *_BEFORE):
            return _before(fault)
        response = await self._process(request)
        if fault := await self.faults.take(request.line, *_AFTER):
            return await self._after(fault, response)
        return response

    async def _process(self, request: Request) -> Response:
        if fault := await self.faults.take(request.line, FaultKind.LATE_COMMIT):
            await asyncio.sleep(fault.seconds)
        stale = await self.faults.take(request.line, FaultKind.STALE)
        renamed = await self.faults.take(request.line, FaultKind.RENAME)
        ignored = await self.faults.take(request.line, FaultKind.IGNORE)
        dies = await self.faults.take(request.line, FaultKind.DIE)
        at = Circumstances(
            stale_s=stale.seconds if stale else 0.0,
            rename=renamed is not None,
            ignore=ignored is not None,
            dies=dies is not None,
        )
        response = self._answer(request, at)
        if await self.faults.take(request.line, FaultKind.REPLAY):
            self._answer(request, at)
        return response

    def _answer(self, request: Request, at: Circumstances) -> Response:
        """By the path's prefix; what has none is the site's."""
        for prefix, system in self._systems.items():
            if request.path.startswith(prefix):
                return system.answer(request, at)
        if self.settings.front and not request.path.startswith("/wp-json"):
            return self._front.page(request, lambda: self._site.answer(request, at))
        return self._site.answer(request, at)

    async def _after(self, fault: Fault, response: Response) -> Response:
        if fault.kind is FaultKind.STATUS_AFTER:
            return Response(status=fault.status, headers=fault.headers, body=fault.body.encode())
        if fault.kind is FaultKind.DELAY:
            await asyncio.sleep(fault.seconds)
        if fault.kind is FaultKind.PAUSE_AFTER_COMMIT:
            if fault.signal:
                await asyncio.to_thread(Path(fault.signal).touch)
            await self.faults.wait_until_cleared()
        return replace(response, manner=_AFTER[fault.kind])

    async def _control(self, request: Request) -> Response:
        match request.method, request.path:
            case "PUT", "/__faults":
                try:
                    self.faults.arm(parse_fault(request.body))
                except MalformedFault:
                    return _json(400, {"error": "malformed_fault"})
            case "DELETE", "/__faults":
                self.faults.clear()
            case "GET", "/__wait":
                timeout_s = float(request.query.get("timeout_s", "10"))
                return _json(200 if await self.faults.struck(request.query.get("kind", ""), timeout_s) else 408, {})
            case "GET", "/__effects":
                return _json(200, self.effects())
            case "GET", "/__faults":
                pass
            case _:
                return _json(404, {"error": "unknown_control"})
        return _json(200, dict(self.faults.shown()))


def _before(fault: Fault) -> Response:
    manner = {FaultKind.DROP_BEFORE: Manner.DROP, FaultKind.RESET_BEFORE: Manner.RESET, FaultKind.HANG: Manner.HANG}
    return Response(
        status=fault.status,
        headers=fault.headers,
        body=fault.body.encode(),
        manner=manner.get(fault.kind, Manner.WHOLE),
    )


def _json(status: int, value: dict[str, object]) -> Response:
    return Response(status=status, body=json.dumps(value).encode())
