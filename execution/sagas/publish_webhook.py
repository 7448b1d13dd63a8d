"""Telling a program that an article is live: one signed request, after everything else succeeded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from execution.core.command import Context
from execution.core.definition import Action, OnRefused, Prepared, Step
from execution.core.failures import FailureClass, Unprepared
from execution.core.states import EffectClass, Repeat
from execution.ports import Event, Ports
from execution.sagas.publish_params import PublishParams, resource
from execution.sagas.publish_wordpress import PUBLISH
from execution.sagas.purging import live_address

SYSTEM: Final = "webhook"
SEND: Final = "SEND_WEBHOOK"
KIND: Final = "article.published"
_GMT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def event_id(context: Context) -> str:
    """From the business key: every try of the same notification carries the same."""
    return f"msg_{context.marker}"


def event_of(context: Context) -> Event:
    """What the receiver is told. Raises Unprepared before the publication."""
    params = PublishParams.of(context.params)
    live = context.receipts.get(PUBLISH)
    if live is None:
        raise Unprepared(FailureClass.PERMANENT, "publication_missing")
    at = str(live.data.get("modified_gmt", ""))
    return Event(
        event_id=event_id(context),
        kind=KIND,
        at=f"{at}Z" if _GMT.fullmatch(at) else "",
        data={
            "site": params.site,
            "article_id": params.article_id,
            "version": params.version,
            "title": params.title,
            "url": live_address(live.reference, params.url),
        },
    )


async def _send(ports: Ports, context: Context) -> Prepared:
    receiver = ports.webhooks.get(PublishParams.of(context.params).webhook)
    if receiver is None:
        raise Unprepared(FailureClass.PERMANENT, "webhook_not_configured")
    return receiver.send(event_of(context))


def _evidence(context: Context) -> Mapping[str, str]:
    return {"receiver": PublishParams.of(context.params).webhook, "webhook_id": event_id(context)}


SEND_WEBHOOK: Final[Step[Ports]] = Step(
    name=SEND,
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
    when=lambda params: bool(params["webhook"]),
    on_refused=OnRefused.REVIEW,
    on_exhausted=OnRefused.REVIEW,
    evidence=_evidence,
    summary="tell the approved receiver that the article is live",
    manual="ask whoever runs the receiver to look for the webhook-id: it stands in the question",
)
