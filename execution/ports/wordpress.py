"""One WordPress site, and an article as it is to be stored there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from execution.core.definition import Prepared
from execution.core.failures import CannotTell, Sighting
from execution.core.quiescence import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """The exact content of one version, as it is to be stored by the site.

    content: final HTML or block markup. slug: the public slug. excerpt and meta_description may be empty. Terms are
    names; the site's adapter resolves them. featured_media: id of its image in the site's media library; empty: the
    post keeps the one it has.
    """

    title: str
    content: str
    slug: str
    excerpt: str = ""
    meta_description: str = ""
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    featured_media: str = ""


class WordPress(Protocol):
    """One WordPress site.

    Drafts carry our marker: a slug `remit-<marker>` (slug strategy), or private meta where the must-use plugin is
    installed. `draft_id` is the stored post id. Receipts have resource_id = post id, version = an opaque string over
    (modified_gmt, hash of the raw state), reference = public URL (or the preview URL of a draft), and data: status,
    slug, raw_hash (hash of title, content, excerpt as the site stores them), modified_gmt.

    Observing a publication compares what is live with the approved article and the expected version:
    Present = live with our content; Absent(receipt) = still as expected before our write; Foreign = somebody changed it
    (`changed`), the public slug is taken by another post (`slug_taken`) or the post is gone (`gone`).
    """

    @property
    def bounds(self) -> Bounds: ...

    @property
    def key_strategy(self) -> str:
        """ "slug" or "plugin": which one is in force."""
        ...

    async def create_draft(self, *, marker: str, article: Article) -> Prepared:
        """Reads the ids of the article's terms first, so that the exact bytes are known.

        Raises `Unprepared`: BUSINESS `unknown_term`, TRANSIENT when the terms could not be read. The same holds for
        `publish` and `update`.
        """
        ...

    async def observe_draft(self, *, marker: str, article: Article, known_id: str | None) -> Sighting:
        """Any status, trash included (a trashed draft of ours is Foreign `trashed`, a vanished one `gone`).

        Without a draft of ours, another holder of the public slug is Foreign `slug_taken` with the holder's receipt;
        a later version's saga knows that holder as its own live post. `complete` is false while terms, featured image
        or status are not as asked, `mendable` while terms or image can be added; `difference` names every field that
        the site stores differently from the article.
        """
        ...

    async def complete_draft(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        """What the site writes after the row: terms and featured image, of a draft that lacks them."""
        ...

    async def publish(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        """Title, content, slug, excerpt and status=publish of a draft, in one request, with the approved bytes."""
        ...

    async def update(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        """The approved bytes over a live post (a later version)."""
        ...

    async def observe_publication(
        self, *, post_id: str, expected_version: str, article: Article, baseline_hash: str = ""
    ) -> Sighting:
        """`baseline_hash`: raw_hash of the approved draft's receipt, as the site stores the approved bytes; empty means
        that the expected version is that draft's own. Live under another slug: complete is false, difference `slug`."""
        ...

    def trash(self, *, post_id: str, expected_version: str) -> Prepared: ...

    async def observe_trashed(self, *, post_id: str, expected_version: str) -> Sighting:
        """Present = in the trash (or gone); Absent = still there as expected; Foreign = changed or live: hands off."""
        ...

    async def read(self, *, post_id: str) -> Sighting:
        """The post as it is now (authenticated, uncached): Present(receipt) or Absent."""
        ...

    async def texts(self, *, post_id: str) -> Mapping[str, str] | CannotTell:
        """Title, content and excerpt as they stand now, for a person to compare; empty when there is no such post."""
        ...

    async def find_public(self, *, slug: str) -> Sighting:
        """Whoever holds the public slug: Present(receipt) or Absent."""
        ...
