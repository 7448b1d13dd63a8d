"""The correction of a withdrawal: one message and one signed event, to whoever was told of the publication.

Nobody can take either back, so both go out last, and neither says why: the reason is written for those who keep the
site, not for its readers.
"""

from __future__ import annotations

from typing import Final

from execution.core.command import Context
from execution.core.definition import Step
from execution.core.failures import FailureClass, Unprepared
from execution.ports import Event, Message, Ports
from execution.sagas.telling import by_mail, by_webhook, event_id, message_id, moment_of
from execution.sagas.withdraw_params import WithdrawParams
from execution.sagas.withdraw_steps import UNPUBLISH

CORRECT: Final = "SEND_CORRECTION"
CORRECT_BY_WEBHOOK: Final = "SEND_CORRECTION_WEBHOOK"
KIND: Final = "article.withdrawn"


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


SEND_CORRECTION: Final[Step[Ports]] = by_mail(
    name=CORRECT,
    operation="correct",
    message=correction_of,
    summary="tell those who were told of the publication that it is withdrawn",
)

SEND_CORRECTION_WEBHOOK: Final[Step[Ports]] = by_webhook(
    name=CORRECT_BY_WEBHOOK,
    operation="correct",
    event=event_of,
    summary="tell the receiver that was told of the publication that it is withdrawn",
)
