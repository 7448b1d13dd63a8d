"""Publishing an article: SEO_ARTICLE_PUBLISH, version 1.

One module per family of steps; this one puts them in order. Before the pivot everything can be unwound: the staged row
is cancelled, the draft trashed, the image and the archived branch deleted. The pivot makes the approved bytes public.
After it recovery goes forward only: the cache forgets old copies, the page is watched, the row is completed, the staged
draft of a later version thrown away, and the messages, which nobody can take back, go out last. A step whose system is
not configured, or that a proposal did not ask for, is not part of that proposal's saga.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from execution.catalog import Intent
from execution.core.definition import SagaDefinition
from execution.core.duty import After, FollowUp
from execution.ports import Ports
from execution.sagas.publish_archive import ARCHIVE_CONTENT_VERSION, OPEN_ARCHIVE_PULL_REQUEST
from execution.sagas.publish_cache import PURGE_STEPS
from execution.sagas.publish_gates import HUMAN_APPROVAL, VALIDATE_PUBLICATION
from execution.sagas.publish_image import UPLOAD_FEATURED_IMAGE
from execution.sagas.publish_monitoring import REGISTER_MONITORING
from execution.sagas.publish_notification import SEND_NOTIFICATION
from execution.sagas.publish_plan import PublishSettings, plan, policy
from execution.sagas.publish_records import RECORD_PUBLICATION, STAGE_PUBLICATION_RECORD
from execution.sagas.publish_webhook import SEND_WEBHOOK
from execution.sagas.publish_wordpress import CREATE_WORDPRESS_DRAFT, PUBLISH_WORDPRESS_POST, TRASH_STAGED_DRAFT

FINISH_BY_HAND: Final = FollowUp(
    name="FINISH_BY_HAND",
    owner="operators",
    what="do by hand what was given up: `remit card` says how, step by step",
    after=frozenset({After.GAPS}),
)
TAKE_AWAY_BY_HAND: Final = FollowUp(
    name="TAKE_AWAY_BY_HAND",
    owner="operators",
    what="take away by hand what was not undone: `remit card` says where to look, step by step",
    after=frozenset({After.REMAINS}),
)

SEO_ARTICLE_PUBLISH_V1: Final[SagaDefinition[Ports]] = SagaDefinition(
    name="SEO_ARTICLE_PUBLISH",
    version=1,
    intent="propose_publish",
    operation="publish",
    past="published",
    summary="publish one version of an article, as a person approved it",
    target="site/{site}/{article_id}",
    follow_ups=(FINISH_BY_HAND, TAKE_AWAY_BY_HAND),
    parts=(
        ARCHIVE_CONTENT_VERSION,
        OPEN_ARCHIVE_PULL_REQUEST,
        UPLOAD_FEATURED_IMAGE,
        CREATE_WORDPRESS_DRAFT,
        STAGE_PUBLICATION_RECORD,
        VALIDATE_PUBLICATION,
        HUMAN_APPROVAL,
        PUBLISH_WORDPRESS_POST,
        *PURGE_STEPS,
        REGISTER_MONITORING,
        RECORD_PUBLICATION,
        TRASH_STAGED_DRAFT,
        SEND_NOTIFICATION,
        SEND_WEBHOOK,
    ),
)


def intent(settings: PublishSettings) -> Intent:
    """The intent `propose_publish` of an installation with that configuration."""
    return Intent(
        name=SEO_ARTICLE_PUBLISH_V1.intent,
        operation=SEO_ARTICLE_PUBLISH_V1.operation,
        system="remit",
        object_kind="article",
        stored=("featured_image",),
        definition=replace(
            SEO_ARTICLE_PUBLISH_V1,
            deadline_s=settings.deadline_s,
            approval_ttl_s=settings.approval_ttl_s,
            max_lateness_s=settings.max_lateness_s,
        ),
        plan=partial(plan, settings),
        policy=partial(policy, settings),
    )
