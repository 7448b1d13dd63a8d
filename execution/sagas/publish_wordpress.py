"""The WordPress steps of a publication: a draft of our own, the pivot that makes it public, and the draft's removal.

A first version publishes the post that its draft created. A later version stages a draft as well, which is the baseline
that people approve and is thrown away afterwards; its pivot writes the approved bytes over the post that is live, under
the version that was expected there. Either way the request of the pivot carries every approved byte, never just a
status, so that an edit made in between cannot go live unapproved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from execution.core.command import Context
from execution.core.definition import Action, LookupContract, OnRefused, Prepared, Step, ThreeWay
from execution.core.failures import Absent, CannotTell, FailureClass, Foreign, Present, Receipt, Sighting, Unprepared
from execution.core.retry import RetryPolicy
from execution.core.states import EffectClass, Repeat
from execution.ports import Ports, WordPress
from execution.sagas.publish_params import Mode, PublishParams, article_of, artifact_ref, resource, step_marker
from execution.sagas.vanishing import nowhere, once_told

SYSTEM: Final = "wordpress"
DRAFT: Final = "CREATE_WORDPRESS_DRAFT"
TRASH_DRAFT: Final = "TRASH_WORDPRESS_DRAFT"
PUBLISH: Final = "PUBLISH_WORDPRESS_POST"
TRASH_STAGED: Final = "TRASH_STAGED_DRAFT"
DRAFT_OPERATION: Final = "draft"
DRAFT_CHANGED: Final = "draft_changed"

_BY_MARKER: Final = LookupContract(
    strength="strong",
    covers="every post of the site, whoever created it: by stored id, by marker, by public slug, trash included",
    authority="a read as the account itself (users/me, context=edit) must show that it sees the drafts of others",
    cache_bypass="authenticated, context=edit",
)
_BY_ID: Final = LookupContract(
    strength="strong",
    covers="the one post, by stored id, whoever changed it",
    authority="the post itself answers with context=edit; its absence counts only as the account that may see it",
    cache_bypass="authenticated, context=edit",
)


def site_of(ports: Ports, context: Context) -> WordPress:
    """The site's port. Raises Unprepared when this process has none for it."""
    site = ports.wordpress.get(context.site)
    if site is None:
        raise Unprepared(FailureClass.PERMANENT, "site_not_configured")
    return site


def draft_of(context: Context) -> Receipt:
    """The receipt of our draft. Raises Unprepared when there is none."""
    receipt = context.receipts.get(DRAFT)
    if receipt is None:
        raise Unprepared(FailureClass.PERMANENT, "draft_missing")
    return receipt


def draft_marker(context: Context) -> str:
    """The marker that our draft carries."""
    return step_marker(context, SYSTEM, DRAFT_OPERATION)


async def look_at_draft(ports: Ports, context: Context, marker_: str, known_id: str | None) -> Sighting:
    """Our draft, or who stands in its place. The post that this version is to write over stands in nobody's way."""
    params = PublishParams.of(context.params)
    article = await article_of(ports, context)
    seen = await site_of(ports, context).observe_draft(marker=marker_, article=article, known_id=known_id)
    if isinstance(seen, Foreign) and seen.code == "slug_taken" and seen.receipt is not None:
        return Absent() if seen.receipt.resource_id == params.post_id else seen
    return seen


async def _create(ports: Ports, context: Context) -> Prepared:
    article = await article_of(ports, context)
    return await site_of(ports, context).create_draft(marker=context.marker, article=article)


async def _complete(ports: Ports, context: Context) -> Prepared:
    draft, article = draft_of(context), await article_of(ports, context)
    return await site_of(ports, context).complete_draft(
        post_id=draft.resource_id, expected_version=draft.version, article=article
    )


async def _find_draft(ports: Ports, context: Context) -> Sighting:
    known = context.receipts.get(DRAFT)
    seen = await look_at_draft(ports, context, context.marker, known.resource_id if known else None)
    published = context.receipts.get(PUBLISH)
    if known is None and published is not None and isinstance(seen, Foreign) and seen.receipt is not None:
        return Present(receipt=published) if seen.receipt.resource_id == published.resource_id else seen
    return _thrown_away(seen, known) if known is not None and TRASH_STAGED in context.receipts else seen


def _thrown_away(seen: Sighting, draft: Receipt) -> Sighting:
    """The draft lies in the trash where a later step of the same saga put it; another of ours is one too many."""
    match seen:
        case Foreign(code="trashed" | "gone"):
            return Present(receipt=draft)
        case Present(receipt=receipt, rows=rows) if receipt.resource_id != draft.resource_id:
            return Present(receipt=draft, rows=rows + 1)
        case Present(receipt=receipt):
            return Foreign(code="untrashed", receipt=receipt)
        case _:
            return seen


async def _compare_draft(ports: Ports, context: Context) -> ThreeWay | CannotTell:
    return await _compare(ports, context, draft_of(context).resource_id)


async def compare_target(ports: Ports, context: Context) -> ThreeWay | CannotTell:
    """The post that the pivot writes to, or the staged draft when that is what somebody changed."""
    if await staged_drift(ports, context) == DRAFT_CHANGED:
        return await _compare(ports, context, draft_of(context).resource_id)
    return await _compare(ports, context, target_of(context, PublishParams.of(context.params)).post_id)


async def _compare(ports: Ports, context: Context, post_id: str) -> ThreeWay | CannotTell:
    """What stands there beside what is to be written, and what was approved for it last."""
    params, article = PublishParams.of(context.params), await article_of(ports, context)
    ours = {"title": article.title, "content": article.content, "excerpt": article.excerpt}
    live = await site_of(ports, context).texts(post_id=post_id)
    if isinstance(live, CannotTell):
        return live
    if post_id != params.post_id or not params.base:
        return ThreeWay(baseline=ours, live=live, ours=ours)
    content = await ports.artifacts.get(artifact_ref(params.base["content_sha256"]))
    baseline = {**params.base, "content": content.decode()}
    return ThreeWay(baseline={name: baseline[name] for name in ours}, live=live, ours=ours)


async def _verify_draft(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await look_at_draft(ports, context, context.marker, receipt.resource_id)


async def _trash(ports: Ports, context: Context) -> Prepared:
    draft = draft_of(context)
    expected = context.expected_version or draft.version
    return site_of(ports, context).trash(post_id=draft.resource_id, expected_version=expected)


async def _find_trashed(ports: Ports, context: Context) -> Sighting:
    draft = draft_of(context)
    expected = context.expected_version or draft.version
    seen = await site_of(ports, context).observe_trashed(post_id=draft.resource_id, expected_version=expected)
    return once_told(seen, context, TRASH_DRAFT, TRASH_STAGED)


async def _verify_trashed(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_trashed(ports, context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The post that the pivot writes to, and the version that must stand there until then."""

    post_id: str
    expected_version: str


def target_of(context: Context, params: PublishParams) -> Target:
    """Our draft's own post for a first version, else the one recorded. A ruling may have moved the expected version."""
    if params.mode is Mode.FIRST:
        draft = draft_of(context)
        return Target(post_id=draft.resource_id, expected_version=context.expected_version or draft.version)
    expected = context.expected_version or params.base_version
    if params.post_id is None or not expected:
        raise Unprepared(FailureClass.PERMANENT, "target_missing")
    return Target(post_id=params.post_id, expected_version=expected)


async def staged_drift(ports: Ports, context: Context) -> str | CannotTell | None:
    """How the draft of a later version differs from what was approved as it was stored; None when it does not.

    A first version needs no such look: its draft is the very post that the pivot writes to.
    """
    if PublishParams.of(context.params).mode is Mode.FIRST:
        return None
    draft = draft_of(context)
    seen = await look_at_draft(ports, context, draft_marker(context), draft.resource_id)
    if isinstance(seen, CannotTell):
        return seen
    if not isinstance(seen, Present):
        return CannotTell(code="draft_gone") if nowhere(seen) else "draft_gone"
    return None if seen.receipt.data.get("raw_hash") == draft.data.get("raw_hash") else DRAFT_CHANGED


async def _publish(ports: Ports, context: Context) -> Prepared:
    drift = await staged_drift(ports, context)
    if isinstance(drift, CannotTell):
        raise Unprepared(FailureClass.TRANSIENT, drift.code, drift.retry_after_s)
    if drift is not None:
        raise Unprepared(FailureClass.CONFLICT, drift)
    params = PublishParams.of(context.params)
    target, article, site = target_of(context, params), await article_of(ports, context), site_of(ports, context)
    write = site.update if params.mode is Mode.UPDATE else site.publish
    return await write(post_id=target.post_id, expected_version=target.expected_version, article=article)


async def _publish_again(ports: Ports, context: Context) -> Prepared:
    """The approved bytes once more, over the post as it was found with them: it lacks what the site writes last."""
    found = context.receipts[PUBLISH]
    write = site_of(ports, context).update
    return await write(
        post_id=found.resource_id, expected_version=found.version, article=await article_of(ports, context)
    )


async def _find_publication(ports: Ports, context: Context) -> Sighting:
    params = PublishParams.of(context.params)
    if params.mode is Mode.FIRST and DRAFT not in context.receipts:
        return await _find_by_address(ports, context)
    target, draft = target_of(context, params), context.receipts.get(DRAFT)
    baseline = draft.data.get("raw_hash") if draft is not None else None
    return await site_of(ports, context).observe_publication(
        post_id=target.post_id,
        expected_version=target.expected_version,
        article=await article_of(ports, context),
        baseline_hash=baseline if isinstance(baseline, str) else "",
    )


async def _find_by_address(ports: Ports, context: Context) -> Sighting:
    """A journal that went back may not know the draft that it made, nor that the draft went public: then the approved
    bytes stand in the post that bears our marker, or under the public address."""
    site, article = site_of(ports, context), await article_of(ports, context)
    seen = await site.observe_draft(marker=draft_marker(context), article=article, known_id=None)
    match seen:
        case Present(receipt=post):
            expected = post.version
        case Foreign(code="slug_taken", receipt=Receipt() as post):
            expected = ""
        case _:
            return seen if isinstance(seen, CannotTell) else Absent()
    return await site.observe_publication(post_id=post.resource_id, expected_version=expected, article=article)


async def _verify_publication(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    """Live with our content under the approved slug: a site that renamed it says so in `difference`."""
    return await _find_publication(ports, context)


CREATE_WORDPRESS_DRAFT: Final[Step[Ports]] = Step(
    name=DRAFT,
    effect=EffectClass.COMPENSABLE,
    action=Action(
        system=SYSTEM,
        per_site=True,
        operation=DRAFT_OPERATION,
        forward=_create,
        observe=_find_draft,
        verify=_verify_draft,
        adopts=False,
        repeat=Repeat.NEVER,
        lookup=_BY_MARKER,
        mend=_complete,
        compare=_compare_draft,
    ),
    compensation=Action(
        system=SYSTEM,
        per_site=True,
        operation="trash_draft",
        forward=_trash,
        observe=_find_trashed,
        verify=_verify_trashed,
        repeat=Repeat.NEVER,
        retry=RetryPolicy(attempts_max=5, base_s=2.0),
        lookup=_BY_ID,
        compare=_compare_draft,
    ),
    compensation_type=TRASH_DRAFT,
    compensable_while="the draft is as we stored it and not public",
    resource=resource,
    receipt_columns=("status", "slug", "raw_hash", "modified_gmt"),
    summary="store the article as a draft that only editors see",
    manual="look for the draft by its slug remit-… in the site's list of posts, trash included",
)

PUBLISH_WORDPRESS_POST: Final[Step[Ports]] = Step(
    name=PUBLISH,
    effect=EffectClass.PIVOT,
    action=Action(
        system=SYSTEM,
        per_site=True,
        operation="publish",
        forward=_publish,
        observe=_find_publication,
        verify=_verify_publication,
        repeat=Repeat.NEVER,
        lookup=_BY_ID,
        mend=_publish_again,
        compare=compare_target,
    ),
    resource=resource,
    on_refused=OnRefused.UNWIND,
    on_exhausted=OnRefused.REVIEW,
    receipt_columns=("status", "slug", "published_at", "raw_hash", "modified_gmt"),
    summary="make the approved bytes public under their address",
    manual="compare the public page with the approved preview; the post's revisions show what stood there before",
)

TRASH_STAGED_DRAFT: Final[Step[Ports]] = Step(
    name=TRASH_STAGED,
    effect=EffectClass.RETRYABLE,
    action=Action(
        system=SYSTEM,
        per_site=True,
        operation="trash_staged",
        forward=_trash,
        observe=_find_trashed,
        verify=_verify_trashed,
        repeat=Repeat.BY_KEY,
        retry=RetryPolicy(attempts_max=5, base_s=2.0),
        lookup=_BY_ID,
    ),
    resource=resource,
    requires=(PUBLISH,),
    when=lambda params: params["mode"] != Mode.FIRST,
    on_refused=OnRefused.REVIEW,
    on_exhausted=OnRefused.REVIEW,
    finish_only=True,
    receipt_columns=("status",),
    summary="throw away the draft that was the baseline of a later version",
    manual="trash the draft with the slug remit-… by hand; the public post does not depend on it",
)
