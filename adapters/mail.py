"""Mail through an SMTP relay: the port `Mail`. It cannot be asked afterwards, so what each step proves matters most.

    before DATA                     nothing was accepted, whatever goes wrong (RFC 5321 §4.1.1.4)
    DATA answered with 4xx or 5xx   refused; 421 is a relay that goes away, and proves nothing once the text was sent
    DATA answered with 250          accepted for the recipients that RCPT accepted
    anything else after DATA        Lost: never sent again by a machine

A recipient refused for good (5xx) does not keep the others from their message; the receipt names how many there were.
A recipient refused for now (4xx) sends nobody anything: all are tried again together.
One connection per message: a late 250 would answer the next command.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import socket
import ssl
import struct
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import formatdate
from enum import StrEnum
from typing import Final

import aiosmtplib
from aiosmtplib import (
    SMTPDataError,
    SMTPException,
    SMTPRecipientRefused,
    SMTPResponseException,
)

from execution.core.definition import Prepared
from execution.core.failures import Answer, FailureClass, Landed, Lost, Receipt, Refused, Unprepared, Unsent
from execution.core.quiescence import Bounds
from execution.ports import Message, Severity, Symptom

CONNECT_S: Final = 10.0
QUIT_S: Final = 1.0
RECIPIENTS_MAX: Final = 100
TEXT_CHARS_MAX: Final = 1024 * 1024
TCP_USER_TIMEOUT_S: Final = 30
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_MESSAGE_ID: Final = re.compile(r"<[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+>")
_UNFIT_FOR_A_HEADER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_ABORT: Final = struct.pack("ii", 1, 0)
_FIXES: Final = {
    "connect_failed": "Look at host, port and tls in [mail], and whether the relay can be reached from this machine.",
    "not_authenticated": "Look at user and password_file in [mail].",
    "tls_or_login_not_offered": "The relay does not offer what [mail] asks for: look at tls, user and port.",
}
_SERVICE_GOES_AWAY: Final = 421


class Security(StrEnum):
    """How the connection is protected. NONE is for a relay on loopback."""

    NONE = "none"
    STARTTLS = "starttls"
    TLS = "tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Credentials for AUTH."""

    username: str
    password: str


class SmtpMail:
    """See the module. `sender` is the From and envelope address."""

    system: Final = "mail"

    def __init__(
        self,
        host: str,
        port: int,
        sender: str,
        *,
        bounds: Bounds | None = None,
        security: Security = Security.STARTTLS,
        login: Login | None = None,
        client_name: str = "localhost",
        connect_s: float = CONNECT_S,
        ca_file: str | None = None,
    ) -> None:
        if not _ADDRESS.fullmatch(sender):
            raise ValueError("sender must be a plain address")
        if security is Security.NONE and host not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError("mail leaves this machine: use starttls or tls")
        self._host, self._port, self._sender = host, port, sender
        self._bounds = bounds or Bounds()
        self._security, self._login, self._client_name = security, login, client_name
        self._connect_s = connect_s
        self._tls = ssl.create_default_context(cafile=ca_file) if security is not Security.NONE else None

    @property
    def bounds(self) -> Bounds:
        return self._bounds

    def send(self, message: Message) -> Prepared:
        """Raises Unprepared for what cannot be a header or an address."""
        recipients = unique_recipients(message.recipients)
        return SmtpWrite(self, self._sender, recipients, message.message_id, encode(message, self._sender, recipients))

    async def probe(self) -> tuple[Symptom, ...]:
        """Greeting, protection and login, without a message."""
        opened = await self.open()
        if not isinstance(opened, aiosmtplib.SMTP):
            code = "connect_failed" if isinstance(opened, Landed) else opened.code
            return (Symptom(code=code, severity=Severity.PROBLEM, fix=_FIXES.get(code, _FIXES["connect_failed"])),)
        await _quit(opened)
        _abort(opened)
        login = "logged in" if self._login else "no login"
        return (Symptom(code="relay_ready", detail=f"protection {self._security}, {login}"),)

    async def open(self) -> aiosmtplib.SMTP | Answer:
        """A connection ready for MAIL: greeted, protected, logged in."""
        client = aiosmtplib.SMTP(
            hostname=self._host,
            port=self._port,
            local_hostname=self._client_name,
            timeout=self._connect_s,
            use_tls=self._security is Security.TLS,
            start_tls=False,
            tls_context=self._tls,
        )
        try:
            async with asyncio.timeout(self._connect_s):
                await self._greet(client)
        except aiosmtplib.SMTPAuthenticationError as error:
            _abort(client)
            return _refused(error.code, "not_authenticated")
        except aiosmtplib.SMTPNotSupported:
            _abort(client)
            return Refused(failure=FailureClass.PERMANENT, code="tls_or_login_not_offered")
        except (SMTPException, OSError, TimeoutError, ValueError):
            _abort(client)
            return Unsent(code="connect_failed")
        _limit_retransmission(client)
        return client

    async def _greet(self, client: aiosmtplib.SMTP) -> None:
        await client.connect()
        await client.ehlo()
        if self._security is Security.STARTTLS:
            if not client.supports_extension("starttls"):
                raise aiosmtplib.SMTPNotSupported("starttls")
            await client.starttls()
            await client.ehlo()
        if self._login is not None:
            if not client.supports_extension("auth"):
                raise aiosmtplib.SMTPNotSupported("auth")
            await client.login(self._login.username, self._login.password)


class SmtpWrite:
    """One message (`execution.core.definition.Prepared`)."""

    def __init__(
        self, relay: SmtpMail, sender: str, recipients: tuple[str, ...], message_id: str, content: bytes
    ) -> None:
        self._relay, self._sender, self._recipients = relay, sender, recipients
        self._message_id, self._content = message_id, content
        self._client: aiosmtplib.SMTP | None = None
        envelope = "\n".join((sender, *recipients, "")).encode()
        self._digest = hashlib.sha256(envelope + content).hexdigest()

    @property
    def request_digest(self) -> str:
        return self._digest

    @property
    def bounds(self) -> Bounds:
        return self._relay.bounds

    async def connect(self) -> Answer | None:
        await self.close()
        opened = await self._relay.open()
        if not isinstance(opened, aiosmtplib.SMTP):
            return opened
        self._client = opened
        return None

    async def send(self, deadline_s: float) -> Answer:
        client, progress = self._client, _Progress()
        if client is None:
            return Unsent(code="no_connection")
        try:
            async with asyncio.timeout(deadline_s):
                answer = await self._converse(client, progress)
            if isinstance(answer, Landed):
                await _quit(client)
        except (SMTPException, OSError, TimeoutError):
            answer = Lost(code="no_answer_after_data") if progress.data else Unsent(code="lost_before_data")
        finally:
            await self.close()
        return answer

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            _abort(client)

    async def _converse(self, client: aiosmtplib.SMTP, progress: _Progress) -> Answer:
        try:
            await client.mail(self._sender)
        except SMTPResponseException as error:
            return _refused(error.code, "sender_refused")
        refused: list[str] = []
        for recipient in self._recipients:
            try:
                await client.rcpt(recipient)
            except SMTPRecipientRefused as error:
                if not 500 <= error.code <= 599:
                    return _refused(error.code, "recipient_deferred")
                refused.append(recipient)
        if len(refused) == len(self._recipients):
            return Refused(failure=FailureClass.PERMANENT, code="recipients_refused")
        progress.data = True
        try:
            await client.data(self._content)
        except SMTPDataError as error:
            known = 400 <= error.code <= 599 and error.code != _SERVICE_GOES_AWAY
            return _refused(error.code, "message_refused") if known else Lost(code="unexpected_answer")
        return Landed(receipt=self._receipt(refused))

    def _receipt(self, refused: list[str]) -> Receipt:
        accepted = len(self._recipients) - len(refused)
        return Receipt(
            resource_id=self._message_id,
            data={"accepted": accepted, "refused": len(refused), "refused_recipients": ",".join(refused)},
        )


@dataclass(slots=True, kw_only=True)
class _Progress:
    """Whether DATA was begun: from then on silence is doubt."""

    data: bool = False


def unique_recipients(recipients: tuple[str, ...]) -> tuple[str, ...]:
    """Each mailbox once, whatever its spelling in upper and lower case; raises Unprepared for what is no address."""
    unique: dict[str, str] = {}
    for recipient in recipients:
        if not _ADDRESS.fullmatch(recipient):
            raise Unprepared(FailureClass.PERMANENT, "malformed_recipient")
        unique.setdefault(recipient.casefold(), recipient)
    if not 1 <= len(unique) <= RECIPIENTS_MAX:
        raise Unprepared(FailureClass.PERMANENT, "no_or_too_many_recipients")
    return tuple(unique.values())


def encode(message: Message, sender: str, recipients: tuple[str, ...]) -> bytes:
    """The same bytes for the same message. Several recipients do not see each other."""
    if _UNFIT_FOR_A_HEADER.search(message.subject) or not _MESSAGE_ID.fullmatch(message.message_id):
        raise Unprepared(FailureClass.PERMANENT, "malformed_header")
    if len(message.text) > TEXT_CHARS_MAX:
        raise Unprepared(FailureClass.BUSINESS, "message_too_long")
    mail = EmailMessage(policy=SMTP_POLICY)
    mail["From"] = sender
    mail["To"] = recipients[0] if len(recipients) == 1 else "undisclosed-recipients:;"
    mail["Subject"] = message.subject
    mail["Message-ID"] = message.message_id
    if message.date_ms is not None:
        mail["Date"] = formatdate(message.date_ms / 1000, usegmt=True)
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text, cte="quoted-printable" if message.text.isascii() else "base64")
    return mail.as_bytes()


def _refused(code: int, name: str) -> Answer:
    if 400 <= code <= 499:
        return Refused(failure=FailureClass.TRANSIENT, code=name)
    if 500 <= code <= 599:
        return Refused(failure=FailureClass.PERMANENT, code=name)
    return Unsent(code="unexpected_answer")


async def _quit(client: aiosmtplib.SMTP) -> None:
    """A courtesy: the message is accepted already."""
    with contextlib.suppress(SMTPException, OSError, TimeoutError):
        async with asyncio.timeout(QUIT_S):
            await client.quit()


def _abort(client: aiosmtplib.SMTP) -> None:
    """Reset the connection, so that nothing that is still queued is delivered later."""
    transport = client.transport
    if transport is not None:
        with contextlib.suppress(OSError, AttributeError):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        if isinstance(transport, asyncio.Transport):
            transport.abort()
    client.close()


def _limit_retransmission(client: aiosmtplib.SMTP) -> None:
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        raw = client.get_transport_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_S * 1000)
