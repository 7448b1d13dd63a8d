"""Signed HTTP notifications to one receiver: the port `Webhook`, in the form of Standard Webhooks 1.0.0.

    webhook-id          names the notification; the receiver recognises by it what it has already taken
    webhook-timestamp   when this request was made; receivers refuse old ones
    webhook-signature   v1, and base64 of HMAC-SHA256 over `id.timestamp.body`, the exact bytes of the body

Timestamp and signature are made with the request, before its fence, and are not part of its digest: like a password
they prove who sends and not what is sent. So the digest of the same notification stays the same, today and on a later
try, while each request is as young as its receiver asks.

    2xx                    accepted: Landed. A page instead of an acknowledgement is a front's, and Lost
    410                    the receiver wants no more of them: refused for good
    429                    refused for now
    anything else          Lost: a receiver may do its work and then fail; nothing is ever sent again by a machine

The address is an operator's. It is https, or http on this machine itself. Where its name leads is looked at on the very
connection that is used: without a word in the configuration no private address gets a byte.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from adapters.answers import Reply, undocumented
from adapters.http import CONNECT_S, READ_S, HttpSystem
from execution.core.definition import Prepared
from execution.core.failures import Answer, FailureClass, Landed, Lost, Receipt, Refused, Unprepared, Unsent
from execution.core.quiescence import Bounds
from execution.ports import Event, Severity, Symptom

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = (24, 64)
"""The specification's limits."""
BODY_BYTES_MAX: Final = 64 * 1024
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_FIXES: Final = {
    "private_address": "Correct the address, or say private = true when the receiver belongs to your own network.",
}
_ELSEWHERE: Final = "Look at the receiver's address, and whether it can be reached from this machine."
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


class WebhookEndpoint:
    """See the module. `url` is the receiver's whole address, `secret` what both sides know (`whsec_…`).

    now: Unix seconds. private: the receiver may have an address that is not public.
    """

    system: Final = "webhook"

    def __init__(
        self,
        url: str,
        secret: str,
        bounds: Bounds,
        now: Callable[[], float],
        *,
        private: bool = False,
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        ca_file: str | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.fragment:
            raise ValueError("a receiver's address has no fragment")
        self._key, self._now = _key(secret), now
        self._path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        self._system = HttpSystem(
            f"{parts.scheme}://{parts.netloc}",
            bounds=bounds,
            headers={},
            connect_s=connect_s,
            read_s=read_s,
            public_only=not private and parts.hostname not in LOOPBACK,
            ca_file=ca_file,
        )

    @property
    def bounds(self) -> Bounds:
        return self._system.bounds

    async def probe(self) -> tuple[Symptom, ...]:
        """A connection, with TLS finished and not a byte of a request on it."""
        opened = await self._system.open()
        if isinstance(opened, Unsent | Refused):
            return (Symptom(code=opened.code, severity=Severity.PROBLEM, fix=_FIXES.get(opened.code, _ELSEWHERE)),)
        await opened.release()
        return (Symptom(code="receiver_ready", detail="the receiver can be reached; nothing was sent to it"),)

    async def aclose(self) -> None:
        """Close the kept connections."""
        await self._system.aclose()

    def send(self, event: Event) -> Prepared:
        """Raises Unprepared for what could not be sent."""
        if not _ID.fullmatch(event.event_id):
            raise Unprepared(FailureClass.PERMANENT, "malformed_event")
        body, timestamp = encode(event), int(self._now())
        if len(body) > BODY_BYTES_MAX:
            raise Unprepared(FailureClass.BUSINESS, "event_too_large")
        headers = {
            "webhook-id": event.event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._key, event.event_id, timestamp, body),
        }
        return self._system.write(
            "POST", self._path, body, judge=lambda reply: judge(reply, event.event_id), headers=headers
        )


def encode(event: Event) -> bytes:
    """The same bytes for the same event."""
    told = {"type": event.kind, **({"timestamp": event.at} if event.at else {}), "data": dict(event.data)}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


def signature(key: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """Version 1: a symmetric key."""
    signed = b"%b.%d.%b" % (event_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def judge(reply: Reply, event_id: str) -> Answer:
    """What the receiver's answer proves."""
    if 200 <= reply.status <= 299:
        if reply.body.lstrip()[:1] == b"<":
            return Lost(code="no_acknowledgement")
        return Landed(receipt=Receipt(resource_id=event_id))
    if reply.status == 410:
        return Refused(failure=FailureClass.PERMANENT, code="receiver_gone")
    return undocumented(reply)


def _key(secret: str) -> bytes:
    """The key in a `whsec_…` text. Raises ValueError, without showing it."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    shortest, longest = SECRET_BYTES
    if not secret.startswith(PREFIX) or not shortest <= len(key) <= longest:
        raise ValueError(f"a secret is {PREFIX} and base64 of {shortest} to {longest} bytes")
    return key
