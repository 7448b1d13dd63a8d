"""The frozen parameters of a withdrawal, and the plan that makes them from what our journal knows of the publication.

What is withdrawn is named by the command that published it, so that nobody takes down a version they did not mean.
Where the post is, under which version it was left, whose row and which lists belong to it: all of that was recorded
when it was published and is read from there, never given by whoever withdraws.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from execution.catalog import Plan, Previous
from execution.core.events import canonical
from execution.proposal import IntakeRefused, Proposal
from execution.sagas.publish_monitoring import REGISTER
from execution.sagas.publish_notification import NOTIFY
from execution.sagas.publish_params import PublishParams, resource
from execution.sagas.publish_plan import PublishSettings
from execution.sagas.publish_records import RECORD
from execution.sagas.publish_webhook import SEND
from execution.sagas.purging import filled, live_address

REASON_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawParams:
    """See the module.

    publication: the command that published it, `publication_generation` its generation. base_version: what must stand
    there until we write. incidents: whether the customer keeps a record of incidents; recorded: whether there is a row
    of the publication to mark. purge: what the cache is to forget, as addresses. monitored: whether a check watches it.
    recipients, webhook: who was told of the publication and is told of its end.
    """

    site: str
    article_id: str
    version: int
    title: str
    slug: str
    url: str
    post_id: str
    base_version: str
    publication: str
    publication_generation: str
    incidents: bool
    recorded: bool
    purge: tuple[str, ...]
    purge_batch: int
    monitored: bool
    monitoring_tags: tuple[str, ...]
    recipients: tuple[str, ...]
    webhook: str
    mail_domain: str
    reason: str
    policy_version: str

    @property
    def proposal_hash(self) -> str:
        """SHA-256 of everything above."""
        return hashlib.sha256(canonical(asdict(self)).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        values: dict[str, Any] = json.loads(canonical(asdict(self)))
        return values

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> WithdrawParams:
        """The typed view of stored parameters."""
        values = {field.name: params[field.name] for field in fields(cls)}
        lists = {name: tuple(values[name]) for name in ("purge", "monitoring_tags", "recipients")}
        return cls(**{**values, **lists})


def plan(settings: PublishSettings, proposal: Proposal, content_sha256: str, previous: Previous) -> Plan:
    """The plan of one withdrawal. Raises IntakeRefused."""
    reason = str(proposal.arguments.get("reason") or "")
    if len(reason) > REASON_CHARS_MAX:
        raise IntakeRefused("too_long", field="reason", limit=REASON_CHARS_MAX, actual=len(reason))
    if proposal.site not in settings.sites:
        raise IntakeRefused("unknown_site", field="site")
    if not previous.live or proposal.arguments.get("publication") != previous.command_id:
        raise IntakeRefused("not_live", field="publication")
    if previous.post_id is None or not previous.external_version:
        raise IntakeRefused("not_live", field="publication")
    published = PublishParams.of(previous.plan)
    rules, url = settings.sites[proposal.site], previous.url or published.url
    frozen = WithdrawParams(
        site=proposal.site,
        article_id=proposal.object_id,
        version=previous.version,
        title=published.title,
        slug=previous.slug or published.slug,
        url=url,
        post_id=previous.post_id,
        base_version=previous.external_version,
        publication=previous.command_id or "",
        publication_generation=previous.generation,
        incidents=settings.publications,
        recorded=settings.publications and RECORD in previous.steps,
        purge=filled(rules.purge, live_address(url, published.url)),
        purge_batch=rules.purge_batch,
        monitored=settings.monitoring and REGISTER in previous.steps,
        monitoring_tags=settings.monitoring_tags,
        recipients=published.recipients if settings.mail and NOTIFY in previous.steps else (),
        webhook=published.webhook if published.webhook in settings.webhooks and SEND in previous.steps else "",
        mail_domain=settings.mail_domain,
        reason=reason,
        policy_version=settings.policy_version,
    )
    params = frozen.to_json()
    resources = (resource(params), f"slug/{frozen.site}/{frozen.slug}")
    return Plan(params=params, resources=resources, base_version=frozen.base_version)
