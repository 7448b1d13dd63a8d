"""What the engine and the sagas need of the world, in their own words.

Adapters implement the system ports; the composition root implements the clock, ids and chance. A modelled system in a
simulation and a stand-in in a test implement the same protocols and pass the same conformance suites.

Every write is a `Prepared` request (execution.core.definition): bytes first, connection second, fence third, send last.
Every read answers a `Sighting` and never raises for what the world does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from execution.core.definition import Prepared
from execution.core.failures import Receipt, Sighting
from execution.core.quiescence import Bounds


class Clock(Protocol):
    """Time. Wall time is compared across processes, awake time measures waits, boot time permission to send."""

    def now_ms(self) -> int:
        """Unix milliseconds."""
        ...

    def awake_s(self) -> float:
        """Seconds that this process's machine was awake (CLOCK_MONOTONIC)."""
        ...

    def boot_s(self) -> float:
        """Seconds since boot, suspends included (CLOCK_BOOTTIME)."""
        ...


class Ids(Protocol):
    """Fresh names."""

    def new(self, prefix: str) -> str:
        """A prefixed lower-case ULID: cmd_01kb9zq3m4n5p6q7r8s9t0v1w2."""
        ...


class Chance(Protocol):
    """Randomness for jitter."""

    def uniform(self) -> float:
        """A number in [0, 1)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """The exact content of one version, as it is to be stored by the site.

    content: final HTML or block markup. slug: the public slug. excerpt and meta_description may be empty. Terms are
    names; the site's adapter resolves them.
    """

    title: str
    content: str
    slug: str
    excerpt: str = ""
    meta_description: str = ""
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


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
        a later version's saga knows that holder as its own live post. `complete` is false while terms or status are not
        as asked; `difference` names every field that the site stores differently from the article.
        """
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

    async def find_public(self, *, slug: str) -> Sighting:
        """Whoever holds the public slug: Present(receipt) or Absent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRecord:
    """A row in the customer's own database about one version of one article."""

    key: str
    site: str
    article_id: str
    version: int
    title: str
    content_hash: str
    post_id: str = ""
    url: str = ""
    command_id: str = ""


class Publications(Protocol):
    """The customer's SQL table of publications, keyed by our key: staged → published | cancelled."""

    @property
    def bounds(self) -> Bounds: ...

    def stage(self, record: PublicationRecord) -> Prepared: ...

    def cancel(self, *, key: str) -> Prepared:
        """staged → cancelled; refused (CONFLICT `not_staged`) when it is published."""
        ...

    def record(self, record: PublicationRecord) -> Prepared:
        """→ published with post id and URL; upsert by key."""
        ...

    async def observe(self, *, key: str, status: str) -> Sighting:
        """Present = a row with that key and status; Absent = none, or an earlier status; Foreign = another status."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A notification. `recipients` are addresses resolved from configured lists, unique; text is plain UTF-8.

    message_id: `<local@domain>`. date_ms: Unix milliseconds of its Date header, taken from the journal so that the
    bytes are the same on every try; None: the relay sets it.
    """

    message_id: str
    recipients: tuple[str, ...]
    subject: str
    text: str
    date_ms: int | None = None


class Mail(Protocol):
    """An SMTP relay. It cannot be asked whether a message was accepted, so there is no observe."""

    @property
    def bounds(self) -> Bounds: ...

    def send(self, message: Message) -> Prepared: ...


class Artifacts(Protocol):
    """Content by hash."""

    async def get(self, ref: str) -> bytes:
        """The bytes of `artifact://sha256/<64 hex>`; raises `Unprepared` (PERMANENT, artifact_missing)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything that saga definitions use, composed by hand in the composition root.

    wordpress: by site name. recipients: configured notification lists by name. sender: From address of notifications.
    """

    artifacts: Artifacts
    wordpress: Mapping[str, WordPress] = field(default_factory=dict)
    publications: Publications | None = None
    mail: Mail | None = None
    recipients: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


__all__ = [
    "Article",
    "Artifacts",
    "Chance",
    "Clock",
    "Ids",
    "Mail",
    "Message",
    "Ports",
    "PublicationRecord",
    "Publications",
    "Receipt",
    "WordPress",
]
