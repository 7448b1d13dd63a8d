"""The notification of a publication: one message, to the lists that were approved, after everything else succeeded."""

from __future__ import annotations

from typing import Final

from execution.core.command import Context
from execution.core.definition import Step
from execution.core.failures import FailureClass, Unprepared
from execution.ports import Message, Ports
from execution.sagas.publish_params import PublishParams
from execution.sagas.publish_wordpress import PUBLISH
from execution.sagas.telling import by_mail, message_id

NOTIFY: Final = "SEND_NOTIFICATION"


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


SEND_NOTIFICATION: Final[Step[Ports]] = by_mail(
    name=NOTIFY,
    operation="notify",
    message=message_of,
    summary="tell the approved lists that the article is live",
)
