"""Receivers of webhooks below one prefix, which check what the specification asks of a receiver.

A request whose signature or timestamp is not right is answered with 401 and counted nowhere. One that is right is
counted by its id, as often as it comes: whoever receives twice can see it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Final

from adapters.sandbox.rest import Circumstances
from adapters.sandbox.state import SandboxState
from adapters.sandbox.wire import Request, Response

PREFIX: Final = "/webhooks/"
SECRET: Final = "whsec_c2FuZGJveC13ZWJob29rLXNlY3JldC0wMDAx"  # noqa: S105 (protects nothing: loopback only)
TOLERANCE_S: Final = 300


class Receivers:
    """Every path below the prefix is one. `now` is Unix seconds."""

    def __init__(self, state: SandboxState, now: Callable[[], float]) -> None:
        self._state, self._now = state, now

    def answer(self, request: Request, at: Circumstances) -> Response:
        """One request."""
        if request.method != "POST":
            return Response(status=405, body=b"{}")
        event_id, sent_at = request.headers.get("webhook-id", ""), request.headers.get("webhook-timestamp", "")
        if not event_id or not sent_at.isdigit() or abs(self._now() - int(sent_at)) > TOLERANCE_S:
            return Response(status=401, body=b'{"error": "not now"}')
        signed = b"%b.%b.%b" % (event_id.encode(), sent_at.encode(), request.body)
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        given = request.headers.get("webhook-signature", "").split(" ")
        if not any(hmac.compare_digest(wanted, one) for one in given):
            return Response(status=401, body=b'{"error": "wrong signature"}')
        with self._state.transaction():
            self._state.add_delivery(event_id, request.path, request.body, self._now())
        return Response(status=200, body=json.dumps({"received": event_id}).encode())
