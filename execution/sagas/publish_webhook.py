"""Telling a program that an article is live: one signed request, after everything else succeeded."""

from __future__ import annotations

from typing import Final

from execution.core.command import Context
from execution.core.definition import Step
from execution.core.failures import FailureClass, Unprepared
from execution.ports import Event, Ports
from execution.sagas.publish_params import PublishParams
from execution.sagas.publish_wordpress import PUBLISH
from execution.sagas.purging import live_address
from execution.sagas.telling import by_webhook, event_id, moment_of

SEND: Final = "SEND_WEBHOOK"
KIND: Final = "article.published"


def event_of(context: Context) -> Event:
    """What the receiver is told. Raises Unprepared before the publication."""
    params = PublishParams.of(context.params)
    live = context.receipts.get(PUBLISH)
    if live is None:
        raise Unprepared(FailureClass.PERMANENT, "publication_missing")
    return Event(
        event_id=event_id(context),
        kind=KIND,
        at=moment_of(live),
        data={
            "site": params.site,
            "article_id": params.article_id,
            "version": params.version,
            "title": params.title,
            "url": live_address(live.reference, params.url),
        },
    )


SEND_WEBHOOK: Final[Step[Ports]] = by_webhook(
    name=SEND,
    operation="notify",
    event=event_of,
    summary="tell the approved receiver that the article is live",
)
