"""The steps of a withdrawal at the site and in the customer's tables: post, cache, check, incident, row.

The pivot carries the status and nothing else, under the version that was left there: what a person wrote in between
makes it a conflict and is never lost. What comes after it can be repeated until it is done.
"""

from __future__ import annotations

from typing import Final

from execution.core.command import Context
from execution.core.definition import Action, LookupContract, OnRefused, Prepared, Step
from execution.core.failures import FailureClass, Receipt, Sighting, Unprepared
from execution.core.identity import marker
from execution.core.retry import RetryPolicy
from execution.core.states import EffectClass, Repeat
from execution.ports import Check, Incident, Ports, Publications
from execution.sagas.publish_cache import purge_step
from execution.sagas.publish_monitoring import BY_KEY, check_key, monitoring_of
from execution.sagas.publish_monitoring import SYSTEM as MONITORING
from execution.sagas.publish_params import effect_key, resource
from execution.sagas.publish_wordpress import DRAFT_OPERATION, site_of
from execution.sagas.publish_wordpress import SYSTEM as WORDPRESS
from execution.sagas.purging import BATCHES_MAX, batch
from execution.sagas.withdraw_params import WithdrawParams

UNPUBLISH: Final = "UNPUBLISH_WORDPRESS_POST"
INCIDENT: Final = "OPEN_INCIDENT"
MARK: Final = "MARK_PUBLICATION_WITHDRAWN"
INDEX: Final = "INDEX_MONITORING"
PUBLICATIONS: Final = "publications"

_BY_ID: Final = LookupContract(
    strength="strong",
    covers="the one post, by stored id, whoever changed it",
    authority="the post itself answers with context=edit; its absence counts only as the account that may see it",
    cache_bypass="authenticated, context=edit",
)
_BY_ROW: Final = LookupContract(
    strength="strong",
    covers="every row with our key, whoever wrote it",
    authority="the query names the table: without the right to read it fails instead of finding nothing",
    cache_bypass="a read of its own on the database that is written to",
)


async def _unpublish(ports: Ports, context: Context) -> Prepared:
    params = WithdrawParams.of(context.params)
    expected = context.expected_version or params.base_version
    return site_of(ports, context).unpublish(post_id=params.post_id, expected_version=expected)


async def _find_unpublished(ports: Ports, context: Context) -> Sighting:
    params = WithdrawParams.of(context.params)
    expected = context.expected_version or params.base_version
    return await site_of(ports, context).observe_unpublished(post_id=params.post_id, expected_version=expected)


async def _verify_unpublished(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_unpublished(ports, context)


def _tables(ports: Ports) -> Publications:
    if ports.publications is None:
        raise Unprepared(FailureClass.PERMANENT, "publications_not_configured")
    return ports.publications


def _publication_key(context: Context) -> str:
    """The row of a publication has the marker of its draft as its key."""
    params = WithdrawParams.of(context.params)
    published = effect_key(context, params.article_id, params.version, params.publication_generation)
    return marker(context.installation, published.of(WORDPRESS, DRAFT_OPERATION))


def incident_of(context: Context) -> Incident:
    """What is written down. Its key comes from the withdrawal's own, so that each withdrawal is one incident."""
    params = WithdrawParams.of(context.params)
    return Incident(
        key=context.marker,
        publication_key=_publication_key(context),
        site=params.site,
        article_id=params.article_id,
        version=params.version,
        post_id=params.post_id,
        url=params.url,
        reason=params.reason,
        command_id=context.root_id,
    )


async def _open_incident(ports: Ports, context: Context) -> Prepared:
    return _tables(ports).open_incident(incident_of(context))


async def _find_incident(ports: Ports, context: Context) -> Sighting:
    return await _tables(ports).observe_incident(incident_of(context))


async def _verify_incident(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_incident(ports, context)


async def _mark(ports: Ports, context: Context) -> Prepared:
    return _tables(ports).withdraw(key=_publication_key(context))


async def _find_marked(ports: Ports, context: Context) -> Sighting:
    return await _tables(ports).observe(key=_publication_key(context), status="withdrawn")


async def _verify_marked(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_marked(ports, context)


def check_of(context: Context) -> Check:
    """The article's one check, which now watches that its page is gone; a later version takes it over again."""
    params = WithdrawParams.of(context.params)
    return Check(
        key=check_key(context, params.site, params.article_id),
        name=f"Withdrawn: {params.title}",
        url=params.url,
        tags=("remit", "withdrawn", f"site:{params.site}", *params.monitoring_tags),
        site=params.site,
        article_id=params.article_id,
        version=params.version,
    )


async def _index(ports: Ports, context: Context) -> Prepared:
    return monitoring_of(ports).register(check_of(context))


async def _find_index(ports: Ports, context: Context) -> Sighting:
    return await monitoring_of(ports).observe(check_of(context))


async def _verify_index(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_index(ports, context)


UNPUBLISH_WORDPRESS_POST: Final[Step[Ports]] = Step(
    name=UNPUBLISH,
    effect=EffectClass.PIVOT,
    action=Action(
        system=WORDPRESS,
        operation="unpublish",
        forward=_unpublish,
        observe=_find_unpublished,
        verify=_verify_unpublished,
        repeat=Repeat.NEVER,
        lookup=_BY_ID,
        per_site=True,
    ),
    resource=resource,
    on_refused=OnRefused.UNWIND,
    on_exhausted=OnRefused.REVIEW,
    receipt_columns=("status", "slug", "raw_hash", "modified_gmt"),
    summary="take the article down: set its post to draft, its words untouched",
    manual="look whether the public page is gone; the post stands among the site's drafts",
)

OPEN_INCIDENT: Final[Step[Ports]] = Step(
    name=INCIDENT,
    effect=EffectClass.RETRYABLE,
    action=Action(
        system=PUBLICATIONS,
        operation="incident",
        forward=_open_incident,
        observe=_find_incident,
        verify=_verify_incident,
        repeat=Repeat.BY_KEY,
        retry=RetryPolicy(attempts_max=10, base_s=2.0),
        lookup=_BY_ROW,
    ),
    resource=resource,
    requires=(UNPUBLISH,),
    when=lambda params: bool(params["incidents"]),
    on_refused=OnRefused.REVIEW,
    on_exhausted=OnRefused.REVIEW,
    finish_only=True,
    receipt_columns=("status",),
    summary="write down in the customer's table what was taken down and why",
    manual="insert the row of the incident by hand, with the reason from this command",
)

MARK_PUBLICATION_WITHDRAWN: Final[Step[Ports]] = Step(
    name=MARK,
    effect=EffectClass.RETRYABLE,
    action=Action(
        system=PUBLICATIONS,
        operation="withdraw",
        forward=_mark,
        observe=_find_marked,
        verify=_verify_marked,
        repeat=Repeat.BY_KEY,
        retry=RetryPolicy(attempts_max=10, base_s=2.0),
        lookup=_BY_ROW,
    ),
    resource=resource,
    requires=(UNPUBLISH,),
    when=lambda params: bool(params["recorded"]),
    on_refused=OnRefused.REVIEW,
    on_exhausted=OnRefused.REVIEW,
    finish_only=True,
    receipt_columns=("status",),
    summary="mark the publication withdrawn in the customer's table",
    manual="set the row of the publication to withdrawn by hand",
)


def _addresses(context: Context, number: int) -> tuple[str, ...]:
    params = WithdrawParams.of(context.params)
    return batch(params.purge, number, params.purge_batch)


PURGE_WITHDRAWN: Final[tuple[Step[Ports], ...]] = tuple(
    purge_step(number, after=UNPUBLISH, operation="purge_withdrawn", addresses=_addresses)
    for number in range(1, BATCHES_MAX + 1)
)

INDEX_MONITORING: Final[Step[Ports]] = Step(
    name=INDEX,
    effect=EffectClass.RETRYABLE,
    action=Action(
        system=MONITORING,
        operation="index",
        forward=_index,
        observe=_find_index,
        verify=_verify_index,
        repeat=Repeat.BY_KEY,
        retry=RetryPolicy(attempts_max=10, base_s=2.0),
        lookup=BY_KEY,
    ),
    resource=resource,
    requires=(UNPUBLISH,),
    when=lambda params: bool(params["monitored"]),
    on_refused=OnRefused.REVIEW,
    on_exhausted=OnRefused.REVIEW,
    finish_only=True,
    receipt_columns=("slug",),
    summary="have the article's check say that its page must be gone",
    manual="look for the check by its key remit-… and mark it withdrawn, or take it away",
)
