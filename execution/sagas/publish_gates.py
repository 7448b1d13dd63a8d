"""The gates of a publication: is it in order, and does a person say yes to exactly this?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from execution.core.command import Context
from execution.core.definition import ApprovalGate, CheckGate, Finding
from execution.core.failures import Absent, CannotTell, Present, Receipt
from execution.ports import Ports
from execution.sagas.publish_checks import findings
from execution.sagas.publish_image import look_at_image
from execution.sagas.publish_params import IMAGE, Mode, PublishParams, artifact_ref, content_of
from execution.sagas.publish_wordpress import (
    DRAFT_CHANGED,
    PUBLISH,
    compare_target,
    draft_marker,
    draft_of,
    look_at_draft,
    site_of,
    target_of,
)
from execution.sagas.vanishing import nowhere

VALIDATE: Final = "VALIDATE_PUBLICATION"
APPROVAL: Final = "HUMAN_APPROVAL"
SHOWN_DIFFERENTLY: Final = frozenset({"title", "content", "excerpt"})
"""What a site may store its own way: the approver sees it, no code judges it."""
NOWHERE_KEPT: Final = SHOWN_DIFFERENTLY | {"meta_description"}
"""Core WordPress has no place for a meta description: the approver is told so, nobody can mend it."""


async def validate(ports: Ports, context: Context) -> tuple[Finding, ...] | CannotTell:
    """The article as frozen, the draft as it stands in the site now, and the place where it is to appear."""
    params = PublishParams.of(context.params)
    html = await content_of(ports.artifacts, params)
    found = list(findings(params, html))
    for look in (_draft_unchanged, _image_unchanged, _place_free):
        seen = await look(ports, context, params)
        if isinstance(seen, CannotTell):
            return seen
        found += seen
    return tuple(found)


async def _draft_unchanged(ports: Ports, context: Context, params: PublishParams) -> tuple[Finding, ...] | CannotTell:
    """Read back: what the site holds is what it stored when we created the draft, and it stored all of it."""
    draft = draft_of(context)
    seen = await look_at_draft(ports, context, draft_marker(context), draft.resource_id)
    if isinstance(seen, CannotTell):
        return seen
    if nowhere(seen):
        return CannotTell(code="draft_gone")
    if not isinstance(seen, Present):
        return (Finding(code="draft_gone", where="content"),)
    if seen.receipt.data.get("raw_hash") != draft.data.get("raw_hash") or not seen.receipt.data.get("raw_hash"):
        return (Finding(code=DRAFT_CHANGED, where="content"),)
    shown = SHOWN_DIFFERENTLY if site_of(ports, context).key_strategy == "plugin" else NOWHERE_KEPT
    dropped = [name for name in seen.difference if name == "structured_data" or not (seen.complete or name in shown)]
    return tuple(Finding(code="not_stored", where=name) for name in dropped)


async def _image_unchanged(ports: Ports, context: Context, params: PublishParams) -> tuple[Finding, ...] | CannotTell:
    """The image that the draft shows is still there, as it was uploaded."""
    if params.featured_image is None:
        return ()
    seen = await look_at_image(ports, context)
    if isinstance(seen, CannotTell):
        return seen
    if nowhere(seen):
        return CannotTell(code="image_gone")
    if not isinstance(seen, Present):
        return (Finding(code="image_gone", where="featured_image"),)
    return () if seen.complete else (Finding(code="image_incomplete", where="featured_image"),)


async def _place_free(ports: Ports, context: Context, params: PublishParams) -> tuple[Finding, ...] | CannotTell:
    """Nobody else holds the public slug, and what a later version writes over is still what was expected there."""
    site = site_of(ports, context)
    own = {draft_of(context).resource_id, params.post_id}
    holder = await site.find_public(slug=params.slug)
    if isinstance(holder, CannotTell):
        return holder
    if isinstance(holder, Present) and holder.receipt.resource_id not in own:
        return (Finding(code="slug_taken", where="slug"),)
    if params.mode is Mode.FIRST or params.post_id is None:
        return ()
    live = await site.read(post_id=params.post_id)
    if isinstance(live, CannotTell):
        return live
    if isinstance(live, Present) and live.receipt.version == params.base_version:
        return ()
    return (Finding(code="live_changed" if isinstance(live, Present) else "live_gone", where="base_version"),)


async def subject(ports: Ports, context: Context) -> Mapping[str, Any] | CannotTell:
    """What a person approves: what would be done, where, to whom, and how the site stored it.

    CannotTell when the draft is neither what our receipt says nor what a ruling accepted: nobody shall approve
    something else than what goes live.
    """
    draft = draft_of(context)
    seen = await look_at_draft(ports, context, draft_marker(context), draft.resource_id)
    if isinstance(seen, CannotTell):
        return seen
    if not isinstance(seen, Present):
        return CannotTell(code="draft_gone" if isinstance(seen, Absent) else f"draft_{seen.code}")
    if not _is_baseline(seen.receipt, draft, context):
        return CannotTell(code=DRAFT_CHANGED)
    params = PublishParams.of(context.params)
    target, image = target_of(context, params), context.receipts.get(IMAGE)
    return {
        **_proposed(params),
        "image": None if image is None else {"media_id": image.resource_id, "url": image.reference},
        "baseline": {
            "post_id": draft.resource_id,
            "raw_hash": seen.receipt.data.get("raw_hash"),
            "version": seen.receipt.version,
            "preview": draft.reference,
        },
        "target": {
            "site": params.site,
            "slug": params.slug,
            "url": params.url,
            "mode": params.mode.value,
            "post_id": target.post_id,
            "expected_version": target.expected_version,
        },
        "difference": list(seen.difference),
    }


def _is_baseline(seen: Receipt, draft: Receipt, context: Context) -> bool:
    """As we left it, or exactly the version that a person's ruling took as the new starting point."""
    return seen.data.get("raw_hash") == draft.data.get("raw_hash") or seen.version == context.expected_version


def _proposed(params: PublishParams) -> dict[str, Any]:
    return {
        "title": params.title,
        "site": params.site,
        "article_id": params.article_id,
        "version": params.version,
        "proposal_hash": params.proposal_hash,
        "content_ref": artifact_ref(params.content_sha256),
        "content_sha256": params.content_sha256,
        "content_bytes": params.content_bytes,
        "content_format": params.content_format,
        "source_ref": artifact_ref(params.source_sha256),
        "featured_image": params.featured_image,
        "image_type": params.image_type,
        "image_bytes": params.image_bytes,
        "excerpt": params.excerpt,
        "meta_description": params.meta_description,
        "categories": list(params.categories),
        "tags": list(params.tags),
        "sources": list(params.sources),
        "structured_data": params.structured_data,
        "publish_at": params.publish_at,
        "publish_at_local": params.publish_at_local,
        "recipients": list(params.recipients),
        "webhooks": [params.webhook] if params.webhook else [],
        "removed": list(params.removed),
        "hidden": list(params.hidden),
        "policy_version": params.policy_version,
    }


VALIDATE_PUBLICATION: Final[CheckGate[Ports]] = CheckGate(
    name=VALIDATE,
    check=validate,
    compare=compare_target,
    compares=frozenset({DRAFT_CHANGED, "live_changed"}),
    summary="title, address, content, links, structured data and the stored draft are in order",
)

HUMAN_APPROVAL: Final[ApprovalGate[Ports]] = ApprovalGate(
    name=APPROVAL,
    guards=PUBLISH,
    subject=subject,
    summary="a person says yes to exactly these bytes, this address, this time and these recipients",
)
