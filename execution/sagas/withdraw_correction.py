"""The correction of a withdrawal: one message and one signed event, to whoever was told of the publication.

Nobody can take either back, so both go out last, and neither says why: the reason is written for those who keep the
site, not for its readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from execution.core.command import Context
from execution.core.definition import Action, OnRefused, Prepared, Step
from execution.core.failures import FailureClass, Unprepared
from execution.core.states import EffectClass, Repeat
from execution.ports import Event, Message, Ports
from execution.sagas.publish_params import resource
from execution.sagas.publish_webhook import SYSTEM as WEBHOOK
from execution.sagas.publish_webhook import event_id, moment_of
from execution.sagas.withdraw_params import WithdrawParams
from execution.sagas.withdraw_steps import UNPUBLISH

CORRECT: Final = "SEND_CORRECTION"
CORRECT_BY_WEBHOOK: Final = "SEND_CORRECTION_WEBHOOK"
KIND: Final = "article.withdrawn"


def message_id(context: Context) -> str:
    """From the business key: every try of the same correction carries the same."""
    return f"<remit.{context.marker}@{WithdrawParams.of(context.params).mail_domain}>"


def correction_of(context: Context) -> Message:
    """The message."""
    params = WithdrawParams.of(context.params)
    return Message(
        message_id=message_id(context),
        recipients=params.recipients,
        subject=f"Withdrawn: {params.title}",
        text=f"{params.title}\n{params.url}\n\nThis article was withdrawn and is no longer public.\n\n"
        f"{params.article_id}, version {params.version}, on {params.site}\n",
    )


async def _correct(ports: Ports, context: Context) -> Prepared:
    if ports.mail is None:
        raise Unprepared(FailureClass.PERMANENT, "mail_not_configured")
    return ports.mail.send(correction_of(context))


def event_of(context: Context) -> Event:
    """What the receiver is told. Raises Unprepared before the article is down."""
    params = WithdrawParams.of(context.params)
    down = context.receipts.get(UNPUBLISH)
    if down is None:
        raise Unprepared(FailureClass.PERMANENT, "withdrawal_missing")
    return Event(
        event_id=event_id(context),
        kind=KIND,
        at=moment_of(down),
        data={
            "site": params.site,
            "article_id": params.article_id,
            "version": params.version,
            "title": params.title,
            "url": params.url,
        },
    )


async def _tell(ports: Ports, context: Context) -> Prepared:
    receiver = ports.webhooks.get(WithdrawParams.of(context.params).webhook)
    if receiver is None:
        raise Unprepared(FailureClass.PERMANENT, "webhook_not_configured")
    return receiver.send(event_of(context))


def _evidence(context: Context) -> Mapping[str, str]:
    return {"receiver": WithdrawParams.of(context.params).webhook, "webhook_id": event_id(context)}


SEND_CORRECTION: Final[Step[Ports]] = Step(
    name=CORRECT,
    effect=EffectClass.IRREVERSIBLE,
    action=Action(
        system="mail",
        operation="correct",
        forward=_correct,
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
    summary="tell those who were told of the publication that it is withdrawn",
    manual="ask a recipient whether the message with that Message-ID arrived before it is sent again",
)

SEND_CORRECTION_WEBHOOK: Final[Step[Ports]] = Step(
    name=CORRECT_BY_WEBHOOK,
    effect=EffectClass.IRREVERSIBLE,
    action=Action(
        system=WEBHOOK,
        operation="correct",
        forward=_tell,
        observe=None,
        looks_first=False,
        repeat=Repeat.NEVER,
    ),
    resource=resource,
    when=lambda params: bool(params["webhook"]),
    on_refused=OnRefused.REVIEW,
    on_exhausted=OnRefused.REVIEW,
    evidence=_evidence,
    summary="tell the receiver that was told of the publication that it is withdrawn",
    manual="ask whoever runs the receiver to look for the webhook-id: it stands in the question",
)
