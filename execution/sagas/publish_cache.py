"""Purging what the cache in front of the site still holds of an article: after the pivot, in one or several requests.

Each request is a command of its own, so that one which fails is repeated alone. Nothing here ever touches the
publication: what a purge cannot do is said of the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from execution.core.command import Context
from execution.core.definition import Action, LookupContract, OnRefused, Prepared, Step
from execution.core.failures import Absent, FailureClass, Receipt, Sighting, Unprepared
from execution.core.retry import RetryPolicy
from execution.core.states import EffectClass, Repeat
from execution.ports import Cache, Ports
from execution.sagas.publish_params import PublishParams, resource
from execution.sagas.publish_wordpress import PUBLISH
from execution.sagas.purging import BATCHES_MAX, batch, filled, live_address

SYSTEM: Final = "cloudflare"
PURGE: Final = "PURGE_CLOUDFLARE_CACHE"
LAG_S: Final = 30.0

_LOOKUP: Final = LookupContract(
    strength="eventual",
    covers="the first addresses of the request, as the cache nearest to this worker serves them; no other place",
    authority="none is needed: readers see these pages. A purge without its answer counts as not made",
    cache_bypass="the cache is what is asked; a copy that may be old is compared with a read past it",
    lag_s=LAG_S,
)


def _cache(ports: Ports, context: Context) -> Cache:
    cache = ports.caches.get(context.site)
    if cache is None:
        raise Unprepared(FailureClass.PERMANENT, "cloudflare_not_configured")
    return cache


def addresses(context: Context, number: int) -> tuple[str, ...]:
    """What that request names. Raises Unprepared before the publication and when there is nothing to name."""
    params = PublishParams.of(context.params)
    live = context.receipts.get(PUBLISH)
    if live is None:
        raise Unprepared(FailureClass.PERMANENT, "publication_missing")
    named = batch(params.purge, number, params.purge_batch)
    found = filled(named, live_address(live.reference, params.url))
    if not found:
        raise Unprepared(FailureClass.PERMANENT, "address_unknown")
    return found


def _has_batch(params: Mapping[str, Any], number: int) -> bool:
    return bool(batch(params["purge"], number, params["purge_batch"]))


def _purge_step(number: int) -> Step[Ports]:
    suffix = "" if number == 1 else f"_{number}"
    name = PURGE + suffix

    async def purge(ports: Ports, context: Context) -> Prepared:
        return _cache(ports, context).purge(addresses(context, number))

    async def find(ports: Ports, context: Context) -> Sighting:
        purged = context.receipts.get(name)
        return Absent() if purged is None else await verify(ports, context, purged)

    async def verify(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
        return await _cache(ports, context).observe(addresses(context, number), receipt)

    return Step(
        name=name,
        effect=EffectClass.RETRYABLE,
        action=Action(
            system=SYSTEM,
            operation=f"purge{suffix}",
            forward=purge,
            observe=find,
            verify=verify,
            looks_first=False,
            repeat=Repeat.NATURAL,
            retry=RetryPolicy(attempts_max=10, base_s=2.0),
            lookup=_LOOKUP,
        ),
        resource=resource,
        requires=(PUBLISH,),
        when=lambda params: _has_batch(params, number),
        on_refused=OnRefused.REVIEW,
        on_exhausted=OnRefused.REVIEW,
        finish_only=True,
        receipt_columns=("addresses", "cache"),
        summary="make the cache forget old copies of the article and of the pages that list it",
        manual="open the article in a private window; purge its address in the cache's own console when it is old",
    )


PURGE_STEPS: Final[tuple[Step[Ports], ...]] = tuple(_purge_step(number) for number in range(1, BATCHES_MAX + 1))
"""The first is always there where a cache is configured, the others when there is that much to purge."""
