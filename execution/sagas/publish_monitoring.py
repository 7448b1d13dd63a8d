"""Having the published page watched: one check for each article, which a later version takes over."""

from __future__ import annotations

from typing import Final

from execution.core.command import Context
from execution.core.definition import Action, LookupContract, OnRefused, Prepared, Step
from execution.core.failures import FailureClass, Receipt, Sighting, Unprepared
from execution.core.identity import BusinessKey, marker
from execution.core.retry import RetryPolicy
from execution.core.states import EffectClass, Repeat
from execution.ports import Check, Monitoring, Ports
from execution.sagas.publish_params import PublishParams, resource
from execution.sagas.publish_wordpress import PUBLISH
from execution.sagas.purging import live_address

SYSTEM: Final = "monitoring"
REGISTER: Final = "REGISTER_MONITORING"
EVERY_VERSION: Final = 0

_LOOKUP: Final = LookupContract(
    strength="strong",
    covers="every check with our key, whoever made it; several are counted",
    authority="the same credential that writes; without it the answer is an error and no empty list",
    cache_bypass="a read of its own on the system that is written to",
)


def _monitoring(ports: Ports) -> Monitoring:
    if ports.monitoring is None:
        raise Unprepared(FailureClass.PERMANENT, "monitoring_not_configured")
    return ports.monitoring


def check_key(context: Context) -> str:
    """One per article: no version and no generation is in it."""
    params = PublishParams.of(context.params)
    key = BusinessKey(
        tenant=context.tenant,
        system=SYSTEM,
        operation="check",
        site=params.site,
        object_id=params.article_id,
        version=EVERY_VERSION,
    )
    return f"remit-{marker(context.installation, key)}"


def check_of(context: Context) -> Check:
    """What is to be watched. Raises Unprepared before the publication and when nobody knows the address."""
    params = PublishParams.of(context.params)
    live = context.receipts.get(PUBLISH)
    if live is None:
        raise Unprepared(FailureClass.PERMANENT, "publication_missing")
    url = live_address(live.reference, params.url)
    if not url:
        raise Unprepared(FailureClass.PERMANENT, "address_unknown")
    return Check(
        key=check_key(context),
        name=params.title,
        url=url,
        tags=("remit", f"site:{params.site}", *params.monitoring_tags),
        site=params.site,
        article_id=params.article_id,
        version=params.version,
    )


async def _register(ports: Ports, context: Context) -> Prepared:
    return _monitoring(ports).register(check_of(context))


async def _find(ports: Ports, context: Context) -> Sighting:
    return await _monitoring(ports).observe(check_of(context))


async def _verify(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find(ports, context)


REGISTER_MONITORING: Final[Step[Ports]] = Step(
    name=REGISTER,
    effect=EffectClass.RETRYABLE,
    action=Action(
        system=SYSTEM,
        operation="register",
        forward=_register,
        observe=_find,
        verify=_verify,
        repeat=Repeat.BY_KEY,
        retry=RetryPolicy(attempts_max=10, base_s=2.0),
        lookup=_LOOKUP,
    ),
    resource=resource,
    requires=(PUBLISH,),
    when=lambda params: bool(params["monitoring"]),
    on_refused=OnRefused.REVIEW,
    on_exhausted=OnRefused.REVIEW,
    finish_only=True,
    summary="have the published page watched",
    manual="look for the check by its key remit-… among the checks of the project; make it by hand when it is missing",
)
