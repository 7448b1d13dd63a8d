"""Withdrawing an article: ARTICLE_WITHDRAW, version 1. The semantic compensation of a publication, never a delete.

An operator sets it in motion and a person approves what exactly would be taken down. Before the pivot nothing has been
done; after it recovery goes forward only. What is withdrawn can be published again by a later version, over the same
post, under the version that the withdrawal left there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from execution.catalog import Intent
from execution.core.command import Context, Saga
from execution.core.definition import ApprovalGate, SagaDefinition
from execution.core.duty import After, FollowUp
from execution.core.failures import Absent, CannotTell, Present
from execution.ports import Ports
from execution.proposal import Proposal
from execution.sagas.publish_article import FINISH_BY_HAND
from execution.sagas.publish_plan import PublishSettings, policy
from execution.sagas.publish_wordpress import site_of
from execution.sagas.withdraw_correction import SEND_CORRECTION, SEND_CORRECTION_WEBHOOK
from execution.sagas.withdraw_params import WithdrawParams, plan
from execution.sagas.withdraw_steps import (
    INDEX_MONITORING,
    MARK_PUBLICATION_WITHDRAWN,
    OPEN_INCIDENT,
    PURGE_WITHDRAWN,
    UNPUBLISH,
    UNPUBLISH_WORDPRESS_POST,
)

WITHDRAW: Final = "withdraw_article"


async def subject(ports: Ports, context: Context) -> Mapping[str, Any] | CannotTell:
    """What a person approves: what would be taken down, as it stands there now, why, and who would be told."""
    params = WithdrawParams.of(context.params)
    seen = await site_of(ports, context).read(post_id=params.post_id)
    if isinstance(seen, CannotTell):
        return seen
    found = seen.receipt if isinstance(seen, Present | Absent) else None
    expected = context.expected_version or params.base_version
    return {
        "title": params.title,
        "site": params.site,
        "article_id": params.article_id,
        "version": params.version,
        "proposal_hash": params.proposal_hash,
        "publication": params.publication,
        "reason": params.reason,
        "recipients": list(params.recipients),
        "webhooks": [params.webhook] if params.webhook else [],
        "purge": list(params.purge),
        "policy_version": params.policy_version,
        "baseline": {
            "post_id": params.post_id,
            "status": found.data.get("status") if found else "gone",
            "raw_hash": found.data.get("raw_hash") if found else None,
            "version": found.version if found else None,
        },
        "target": {
            "site": params.site,
            "slug": params.slug,
            "url": params.url,
            "mode": "withdraw",
            "post_id": params.post_id,
            "expected_version": expected,
        },
        "difference": [] if found and found.version == expected else ["changed since it was published"],
    }


WITHDRAWAL_APPROVAL: Final[ApprovalGate[Ports]] = ApprovalGate(
    name="WITHDRAWAL_APPROVAL",
    guards=UNPUBLISH,
    subject=subject,
    summary="a person says yes to taking exactly this down",
)

ASK_SEARCH_ENGINES: Final = FollowUp(
    name="ASK_SEARCH_ENGINES",
    owner="whoever keeps the site",
    what="ask search engines and archives to drop its address: the copies that they keep are out of reach from here",
    after=frozenset({After.DONE, After.GAPS}),
)

ARTICLE_WITHDRAW_V1: Final[SagaDefinition[Ports]] = SagaDefinition(
    name="ARTICLE_WITHDRAW",
    version=1,
    intent=WITHDRAW,
    operation="withdraw",
    past="withdrawn",
    summary="take down what a command published, say why, and tell whoever was told of the publication",
    target="site/{site}/{article_id}",
    follow_ups=(ASK_SEARCH_ENGINES, FINISH_BY_HAND),
    takes_down=True,
    parts=(
        WITHDRAWAL_APPROVAL,
        UNPUBLISH_WORDPRESS_POST,
        OPEN_INCIDENT,
        *PURGE_WITHDRAWN,
        MARK_PUBLICATION_WITHDRAWN,
        INDEX_MONITORING,
        SEND_CORRECTION,
        SEND_CORRECTION_WEBHOOK,
    ),
)


def withdrawal_of(publication: Saga, *, reason: str) -> Proposal:
    """The proposal that takes down what that command published. The reason is its payload."""
    root = publication.root
    return Proposal(
        intent=WITHDRAW,
        site=root.site,
        object_id=root.object_id,
        version=root.object_version,
        generation=root.generation,
        arguments={"publication": root.command_id, "reason": reason},
        content=reason.encode(),
        content_media_type="text/plain",
        reason=reason,
    )


def intent(settings: PublishSettings) -> Intent:
    """The intent `withdraw_article`, which operators alone can have."""
    return Intent(
        name=ARTICLE_WITHDRAW_V1.intent,
        operation=ARTICLE_WITHDRAW_V1.operation,
        system="remit",
        object_kind="article",
        definition=replace(ARTICLE_WITHDRAW_V1, deadline_s=settings.deadline_s, approval_ttl_s=settings.approval_ttl_s),
        plan=partial(plan, settings),
        policy=partial(policy, settings),
    )
