"""Telling people and programs: what is sent at most once.

Nobody can take a message back, and nothing can look for it from here. So it is sent last, never again by itself, and a
person who is asked about it is told which id to look for; the id follows from the business key and is the same on every
try.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from execution.core.command import Context
from execution.core.definition import Action, OnRefused, Prepared, Step
from execution.core.failures import FailureClass, Receipt, Unprepared
from execution.core.states import EffectClass, Repeat
from execution.ports import Event, Message, Ports
from execution.sagas.publish_params import resource

MAIL: Final = "mail"
WEBHOOK: Final = "webhook"
_GMT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def message_id(context: Context) -> str:
    """What people look for in a mailbox."""
    return f"<remit.{context.marker}@{context.params['mail_domain']}>"


def event_id(context: Context) -> str:
    """What whoever runs a receiver looks for."""
    return f"msg_{context.marker}"


def moment_of(written: Receipt) -> str:
    """When the site says that it wrote the post; empty when it does not say."""
    at = str(written.data.get("modified_gmt", ""))
    return f"{at}Z" if _GMT.fullmatch(at) else ""


def by_mail(*, name: str, operation: str, message: Callable[[Context], Message], summary: str) -> Step[Ports]:
    """One message to the approved lists. `message` raises Unprepared while it would not be true."""

    async def send(ports: Ports, context: Context) -> Prepared:
        if ports.mail is None:
            raise Unprepared(FailureClass.PERMANENT, "mail_not_configured")
        return ports.mail.send(message(context))

    return Step(
        name=name,
        effect=EffectClass.IRREVERSIBLE,
        action=Action(
            system=MAIL, operation=operation, forward=send, observe=None, looks_first=False, repeat=Repeat.NEVER
        ),
        resource=resource,
        when=lambda params: bool(params["recipients"]),
        on_refused=OnRefused.REVIEW,
        on_exhausted=OnRefused.REVIEW,
        receipt_columns=("accepted",),
        evidence=lambda context: {"message_id": message_id(context)},
        summary=summary,
        manual="ask a recipient whether the message with that Message-ID arrived before it is sent again",
    )


def by_webhook(*, name: str, operation: str, event: Callable[[Context], Event], summary: str) -> Step[Ports]:
    """One signed request to the approved receiver. `event` raises Unprepared while it would not be true."""

    async def send(ports: Ports, context: Context) -> Prepared:
        receiver = ports.webhooks.get(context.params["webhook"])
        if receiver is None:
            raise Unprepared(FailureClass.PERMANENT, "webhook_not_configured")
        return receiver.send(event(context))

    return Step(
        name=name,
        effect=EffectClass.IRREVERSIBLE,
        action=Action(
            system=WEBHOOK, operation=operation, forward=send, observe=None, looks_first=False, repeat=Repeat.NEVER
        ),
        resource=resource,
        when=lambda params: bool(params["webhook"]),
        on_refused=OnRefused.REVIEW,
        on_exhausted=OnRefused.REVIEW,
        evidence=_to_look_for,
        summary=summary,
        manual="ask whoever runs the receiver to look for the webhook-id: it stands in the question",
    )


def _to_look_for(context: Context) -> Mapping[str, str]:
    return {"receiver": context.params["webhook"], "webhook_id": event_id(context)}
