"""The steps in the customer's own table of publications: staged before the pivot, published after it.

One row serves all of them, under one key of ours that no other installation or tenant can make.
"""

from __future__ import annotations

from typing import Final

from execution.core.command import Context
from execution.core.definition import Action, LookupContract, OnRefused, Prepared, Step
from execution.core.failures import FailureClass, Foreign, Present, Receipt, Sighting, Unprepared
from execution.core.retry import RetryPolicy
from execution.core.states import EffectClass, Repeat
from execution.ports import Ports, PublicationRecord, Publications
from execution.sagas.publish_params import PublishParams, resource
from execution.sagas.publish_wordpress import PUBLISH, draft_marker, draft_of

SYSTEM: Final = "publications"
STAGE: Final = "STAGE_PUBLICATION_RECORD"
CANCEL: Final = "CANCEL_PUBLICATION_RECORD"
RECORD: Final = "RECORD_PUBLICATION"

_LOOKUP: Final = LookupContract(
    strength="strong",
    covers="every row of the table with our key, whoever wrote it",
    authority="the query names the table: without the right to read it fails instead of finding nothing",
    cache_bypass="a read of its own on the database that is written to",
)


def _table(ports: Ports) -> Publications:
    if ports.publications is None:
        raise Unprepared(FailureClass.PERMANENT, "publications_not_configured")
    return ports.publications


def record_key(context: Context) -> str:
    """The row's key: the marker of this version's draft, the same from every step."""
    return draft_marker(context)


def _row(context: Context, post_id: str, url: str) -> PublicationRecord:
    params = PublishParams.of(context.params)
    return PublicationRecord(
        key=record_key(context),
        site=params.site,
        article_id=params.article_id,
        version=params.version,
        title=params.title,
        content_hash=params.content_sha256,
        post_id=post_id,
        url=url,
        command_id=context.root_id,
    )


async def _stage(ports: Ports, context: Context) -> Prepared:
    return _table(ports).stage(_row(context, draft_of(context).resource_id, ""))


async def _cancel(ports: Ports, context: Context) -> Prepared:
    return _table(ports).cancel(key=record_key(context))


async def _record(ports: Ports, context: Context) -> Prepared:
    live = context.receipts.get(PUBLISH)
    if live is None:
        raise Unprepared(FailureClass.PERMANENT, "publication_missing")
    return _table(ports).record(_row(context, live.resource_id, live.reference))


async def _find_staged(ports: Ports, context: Context) -> Sighting:
    """As staged, or as the later step of the same saga left it: the row has moved on, it has not drifted. A journal
    that went back may not know that step, and the row bears our key."""
    if RECORD in context.receipts:
        return await _find_published(ports, context)
    seen = await _table(ports).observe(key=record_key(context), status="staged")
    if isinstance(seen, Foreign) and seen.code == "already_published" and seen.receipt is not None:
        return Present(receipt=seen.receipt)
    return seen


async def _verify_staged(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_staged(ports, context)


async def _find_cancelled(ports: Ports, context: Context) -> Sighting:
    return await _table(ports).observe(key=record_key(context), status="cancelled")


async def _verify_cancelled(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_cancelled(ports, context)


async def _find_published(ports: Ports, context: Context) -> Sighting:
    return await _table(ports).observe(key=record_key(context), status="published")


async def _verify_published(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_published(ports, context)


STAGE_PUBLICATION_RECORD: Final[Step[Ports]] = Step(
    name=STAGE,
    effect=EffectClass.COMPENSABLE,
    action=Action(
        system=SYSTEM,
        operation="stage",
        forward=_stage,
        observe=_find_staged,
        verify=_verify_staged,
        repeat=Repeat.BY_KEY,
        lookup=_LOOKUP,
    ),
    compensation=Action(
        system=SYSTEM,
        operation="cancel",
        forward=_cancel,
        observe=_find_cancelled,
        verify=_verify_cancelled,
        repeat=Repeat.BY_KEY,
        retry=RetryPolicy(attempts_max=5, base_s=2.0),
        lookup=_LOOKUP,
    ),
    compensation_type=CANCEL,
    compensable_while="the row is still staged",
    resource=resource,
    when=lambda params: bool(params["publications"]),
    receipt_columns=("status",),
    summary="announce the publication in the customer's table",
    manual="look up the row by its key; set its status to cancelled when nothing was published",
)

RECORD_PUBLICATION: Final[Step[Ports]] = Step(
    name=RECORD,
    effect=EffectClass.RETRYABLE,
    action=Action(
        system=SYSTEM,
        operation="record",
        forward=_record,
        observe=_find_published,
        verify=_verify_published,
        repeat=Repeat.BY_KEY,
        retry=RetryPolicy(attempts_max=10, base_s=2.0),
        lookup=_LOOKUP,
    ),
    resource=resource,
    requires=(PUBLISH,),
    when=lambda params: bool(params["publications"]),
    on_refused=OnRefused.REVIEW,
    on_exhausted=OnRefused.REVIEW,
    finish_only=True,
    receipt_columns=("status",),
    summary="note post id and address of what went live in the customer's table",
    manual="set the row to published with post id and address from the status of this command",
)
