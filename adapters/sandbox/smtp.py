"""The stand-in for a mail relay: aiosmtpd storing what it accepts, with the same fault switches.

Faults match `SMTP MAIL`, `SMTP RCPT someone@example.test` and `SMTP DATA`: status_before (refused with `status`),
drop_before, hang, drop_after and hang_after (after DATA was stored), reset_before, reset_after, delay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from email.parser import BytesHeaderParser
from typing import Final

from aiosmtpd.smtp import SMTP, Envelope, Session

from adapters.sandbox.faults import Fault, FaultBook, FaultKind
from adapters.sandbox.state import SandboxState

OK: Final = "250 OK"
BYTES_MAX: Final = 8 * 1024 * 1024
_BEFORE: Final = (FaultKind.STATUS_BEFORE, FaultKind.DROP_BEFORE, FaultKind.RESET_BEFORE, FaultKind.HANG)
_AFTER: Final = (FaultKind.DROP_AFTER, FaultKind.RESET_AFTER, FaultKind.HANG_AFTER, FaultKind.DELAY)


class MailRelay:
    """Listens on loopback and stores messages."""

    def __init__(
        self, state: SandboxState, faults: FaultBook, now: Callable[[], float], *, incomplete_s: float, max_run_s: float
    ) -> None:
        self._state, self._faults, self._now = state, faults, now
        self._incomplete_s, self._max_run_s = incomplete_s, max_run_s
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; `port` 0 takes a free one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, host, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    def _protocol(self) -> SMTP:
        return SMTP(
            self,
            hostname="sandbox.invalid",
            ident="sandbox",
            data_size_limit=BYTES_MAX,
            enable_SMTPUTF8=True,
            timeout=max(self._incomplete_s, 1.0),
            loop=asyncio.get_running_loop(),
        )

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if refused := await self._before(server, "SMTP MAIL"):
            return refused
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return OK

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if refused := await self._before(server, f"SMTP RCPT {address}"):
            return refused
        envelope.rcpt_tos.append(address)
        return OK

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if refused := await self._before(server, "SMTP DATA"):
            return refused
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        message_id = BytesHeaderParser().parsebytes(content).get("Message-ID", "")
        with self._state.transaction():
            self._state.add_message(message_id, envelope.mail_from or "", envelope.rcpt_tos, content, self._now())
        fault = await self._faults.take("SMTP DATA", *_AFTER)
        if fault is not None:
            await self._strike(server, fault)
        return OK

    async def _before(self, server: SMTP, line: str) -> str | None:
        fault = await self._faults.take(line, *_BEFORE)
        if fault is None:
            return None
        if fault.kind is FaultKind.STATUS_BEFORE:
            return f"{fault.status} refused"
        await self._strike(server, fault)
        return "421 closing"

    async def _strike(self, server: SMTP, fault: Fault) -> None:
        if fault.kind is FaultKind.DELAY:
            await asyncio.sleep(fault.seconds)
        elif fault.kind in (FaultKind.HANG, FaultKind.HANG_AFTER):
            await self._faults.wait_until_cleared()
        elif isinstance(server.transport, asyncio.Transport):
            server.transport.abort()
