"""The frozen parameters of a publication: everything that its forward functions, gates and read-backs may read.

Written once at acceptance, as JSON; any worker can go on from it, now or years later. Texts that are large stand in the
content store and are named here by hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Final

from execution.core.command import Context
from execution.core.events import canonical
from execution.core.failures import FailureClass, Unprepared
from execution.core.identity import BusinessKey, marker
from execution.ports import Article, Artifacts, Ports

REF: Final = "artifact://sha256/"
IMAGE: Final = "UPLOAD_FEATURED_IMAGE"
_GENERATION: Final = re.compile(r"#[a-z2-7]{16}")


class Mode(StrEnum):
    """What the pivot does. FIRST publishes the draft's own post. UPDATE writes over the live post and REPUBLISH over
    the withdrawn one, each under its expected version; the draft is only their baseline."""

    FIRST = "first"
    UPDATE = "update"
    REPUBLISH = "republish"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishParams:
    """See the module.

    source: the bytes as proposed. content: what the site is to store (rendered, with structured data). removed: what
    the allow-list took out of raw HTML. hidden: characters that hide, `content:17 U+202E RIGHT-TO-LEFT OVERRIDE`. url:
    where the article is expected to appear, empty when the site's addresses are not configured. featured_image: the
    reference of stored bytes, and beside it what they are; None and empty without one. publish_at: RFC 3339 in UTC, and
    beside it as the site's clock shows it. recipients: addresses of the mail lists in `notify`; webhook: name of the
    one that is a receiver. post_id and base_version: of the post that an UPDATE or REPUBLISH writes over; base: title,
    excerpt and content_sha256 that were approved for it. purge: what the cache is to forget
    (`execution.sagas.purging`); purge_batch: how many of them go into one request. archive, pull_request, publications,
    monitoring: whether the saga has those steps. require: names of optional fields that this site insists on.
    """

    site: str
    article_id: str
    version: int
    mode: Mode
    title: str
    slug: str
    url: str
    content_format: str
    source_sha256: str
    content_sha256: str
    content_bytes: int
    removed: tuple[str, ...]
    hidden: tuple[str, ...]
    excerpt: str
    meta_description: str
    categories: tuple[str, ...]
    tags: tuple[str, ...]
    structured_data: Any
    sources: tuple[str, ...]
    featured_image: str | None
    image_sha256: str
    image_type: str
    image_bytes: int
    publish_at: str | None
    publish_at_local: str | None
    notify: tuple[str, ...]
    recipients: tuple[str, ...]
    webhook: str
    mail_domain: str
    post_id: str | None
    base_version: str | None
    base: Mapping[str, str]
    archive: bool
    pull_request: bool
    publications: bool
    purge: tuple[str, ...]
    purge_batch: int
    monitoring: bool
    monitoring_tags: tuple[str, ...]
    require: tuple[str, ...]
    policy_version: str

    @property
    def proposal_hash(self) -> str:
        """SHA-256 of everything above: one byte of content, metadata, target or recipients changes it."""
        return hashlib.sha256(canonical(asdict(self)).encode()).hexdigest()

    @property
    def resource(self) -> str:
        """What the saga locks and what a token must cover."""
        return resource(asdict(self))

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the hash beside them for people and later steps."""
        values: dict[str, Any] = json.loads(canonical(asdict(self)))
        return {**values, "proposal_hash": self.proposal_hash}

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> PublishParams:
        """The typed view of stored parameters."""
        values = {field.name: params[field.name] for field in fields(cls)}
        frozen = {name: tuple(value) for name, value in values.items() if name in _TUPLES}
        return cls(**{**values, **frozen, "mode": Mode(values["mode"])})


_TUPLES: Final = frozenset(
    {
        "removed",
        "hidden",
        "categories",
        "tags",
        "sources",
        "notify",
        "recipients",
        "purge",
        "monitoring_tags",
        "require",
    }
)


def resource(params: Mapping[str, Any]) -> str:
    """One article on one site, spelt as tokens spell it."""
    return f"site/{params['site']}/{params['article_id']}"


def generation_of(key: str) -> str:
    """The suffix in the key of a deliberate repetition or of one of its steps; empty for a first proposal."""
    generation = _GENERATION.search(key)
    return generation.group() if generation else ""


def artifact_ref(sha256: str) -> str:
    """Where the content store keeps the bytes with that hash."""
    return REF + sha256


async def content_of(artifacts: Artifacts, params: PublishParams) -> str:
    """The content to be stored, exactly as it was frozen. Raises Unprepared when those bytes are missing."""
    content = await artifacts.get(artifact_ref(params.content_sha256))
    if hashlib.sha256(content).hexdigest() != params.content_sha256:
        raise Unprepared(FailureClass.PERMANENT, "artifact_altered")
    return content.decode()


async def article_of(ports: Ports, context: Context) -> Article:
    """The article as the site is to store it, with the image that was uploaded for it."""
    params = PublishParams.of(context.params)
    image = context.receipts.get(IMAGE)
    return Article(
        title=params.title,
        content=await content_of(ports.artifacts, params),
        slug=params.slug,
        excerpt=params.excerpt,
        meta_description=params.meta_description,
        categories=params.categories,
        tags=params.tags,
        featured_media=image.resource_id if image is not None else "",
    )


def step_marker(context: Context, system: str, operation: str) -> str:
    """The marker that an effect of this saga carries, from whichever step or gate it is asked."""
    params = PublishParams.of(context.params)
    key = effect_key(context, params.article_id, params.version, generation_of(context.key))
    return marker(context.installation, key.of(system, operation))


def effect_key(context: Context, article_id: str, version: int, generation: str) -> BusinessKey:
    """The key of a publication of that version, whichever saga asks for it."""
    return BusinessKey(
        tenant=context.tenant,
        system="remit",
        operation="publish",
        site=context.site,
        object_id=article_id,
        version=version,
        generation=generation,
    )
