"""The notification of a publication: one message, to the lists that were approved, after everything else succeeded."""

from __future__ import annotations

from typing import Final

from execution.core.command import Context
from execution.core.definition import Action, OnRefused, Prepared, Step
from execution.core.failures import FailureClass, Unprepared
from execution.core.states import EffectClass, Repeat
from execution.ports import Message, Ports
from execution.sagas.publish_params import PublishParams, resource
from execution.sagas.publish_wordpress import PUBLISH

SYSTEM: Final = "mail"
NOTIFY: Final = "SEND_NOTIFICATION"


def message_id(context: Context) -> str:
    """From the business key: every try of the same notification carries the same."""
    return f"<remit.{context.marker}@{PublishParams.of(context.params).mail_domain}>"


def message_of(context: Context) -> Message:
    """The message. Raises Unprepared before the publication."""
    params = PublishParams.of(context.params)
    live = context.receipts.get(PUBLISH)
    if live is None:
        raise Unprepared(FailureClass.PERMANENT, "publication_missing")
    return Message(
        message_id=message_id(context),
        recipients=params.recipients,
        subject=f"Published: {params.title}",
        text=f"{params.title}\n{live.reference or params.url}\n\n"
        f"{params.article_id}, version {params.version}, on {params.site}\n",
    )


async def _send(ports: Ports, context: Context) -> Prepared:
    if ports.mail is None:
        raise Unprepared(FailureClass.PERMANENT, "mail_not_configured")
    return ports.mail.send(message_of(context))


SEND_NOTIFICATION: Final[Step[Ports]] = Step(
    name=NOTIFY,
    effect=EffectClass.IRREVERSIBLE,
    action=Action(
        system=SYSTEM,
        operation="notify",
        forward=_send,
        observe=None,
        looks_first=False,
        repeat=Repeat.NEVER,
    ),
    resource=resource,
    when=lambda params: bool(params["recipients"]),
    on_refused=OnRefused.REVIEW,
    on_exhausted=OnRefused.REVIEW,
    receipt_columns=("accepted",),
    evidence=lambda context: {"message_id": message_id(context)},
    summary="tell the approved lists that the article is live",
    manual="ask a recipient whether the message with that Message-ID arrived before it is sent again",
)
