"""A WordPress post as the REST interface answers it (context=edit), and what follows from it. Values only.

A *version* is opaque to everybody else: `1.<status>.<modified_gmt>.<state>.<raw>`, where `raw` hashes what a reader
sees (title, content and excerpt as the site stores them) and `state` hashes that with slug, status, terms and featured
image. WordPress has no entity tags and its modification time has a resolution of one second, hence both. What the
must-use plugin compares an If-Match with is made of the same parts, so that a version means the same with and without.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from adapters.answers import JsonObject, Unreadable, integer, parse, text
from capabilities.strict_json import JsonValue
from execution.core.failures import Receipt
from execution.ports import Article, Marked

TRASHED: Final = "__trashed"
KEY: Final = "_remit_key"
DESCRIPTION: Final = "_remit_description"
DUPLICATES_LOOKED_FOR: Final = 4
"""`X`, `X-2` … `X-5`: what WordPress makes of a slug that is created again."""
_MARKED: Final = re.compile(r"remit-([a-z2-7]{16,52})(?:-[0-9]+)?")
_STRUCTURED: Final = re.compile(r'<script type="application/ld\+json">.*?</script>', re.DOTALL)
_NOTICE: Final = re.compile(rb"\s*(?:<br|<b>|PHP |Notice|Warning|Deprecated)")
_JSON_AFTER_NOTICE: Final = re.compile(rb'(?:>|\n)\s*(\[\]|\[?\{")')


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One row. title, content and excerpt are raw. keyed: the site has the plugin; key, description: what it keeps."""

    post_id: int
    status: str
    slug: str
    title: str
    content: str
    excerpt: str
    link: str
    modified_gmt: str
    date_gmt: str
    categories: tuple[int, ...]
    tags: tuple[int, ...]
    featured_media: int = 0
    keyed: bool = False
    key: str = ""
    description: str = ""

    @property
    def raw_hash(self) -> str:
        """Hash of title, content and excerpt as the site stores them."""
        return digest(self.title, self.content, self.excerpt)

    @property
    def version(self) -> str:
        """What is expected of the post at our next write."""
        return f"1.{self.status}.{self.modified_gmt}.{self._state(self.raw_hash, self.status)}.{self.raw_hash}"

    def kept_beside(self, version: str) -> bool:
        """Whether terms, image and slug are what they were at that version of the same post."""
        parts = version.split(".")
        return len(parts) == 5 and parts[3] == self._state(raw_hash=parts[4], status=parts[1])

    def _state(self, raw_hash: str, status: str) -> str:
        terms = [",".join(map(str, sorted(ids))) for ids in (self.categories, self.tags)]
        return digest(raw_hash, self.slug, status, *terms, str(self.featured_media))[:32]

    @property
    def is_trashed(self) -> bool:
        return self.status == "trash"

    def receipt(self, difference: tuple[str, ...] = ()) -> Receipt:
        """What goes into the journal; `differs` names the fields that the site stores differently from the article."""
        data: dict[str, str | int | bool | None] = {
            "status": self.status,
            "slug": self.slug,
            "raw_hash": self.raw_hash,
            "modified_gmt": self.modified_gmt,
            "key_strategy": "plugin" if self.key else "slug",
        }
        if self.status == "publish":
            data["published_at"] = self.date_gmt
        if difference:
            data["differs"] = ",".join(difference)
        return Receipt(resource_id=str(self.post_id), version=self.version, reference=self.link, data=data)


def marker_slug(marker: str) -> str:
    """The slug that a draft of ours carries."""
    return f"remit-{marker}"


def marked(row: JsonValue) -> Marked | None:
    """What carries a marker in its slug, whoever made it; None for any other post. Raises Unreadable."""
    if not isinstance(row, dict):
        raise Unreadable
    found = _MARKED.fullmatch(text(row, "slug"))
    return found and Marked(marker=found[1], resource_id=str(integer(row, "id")), state=text(row, "status"))


def candidates(slug: str) -> tuple[str, ...]:
    """The slug, the duplicates that WordPress makes of it, and each of them in the trash."""
    names = (slug, *(f"{slug}-{n}" for n in range(2, 2 + DUPLICATES_LOOKED_FOR)))
    return (*names, *(name + TRASHED for name in names))


def same_slug(one: str, other: str) -> bool:
    """WordPress stores what is not ASCII percent-encoded, in lower case."""
    return unquote(one) == unquote(other)


def baseline_part(version: str) -> str:
    """The raw hash inside the version of a post that is not live: what the site made of the approved bytes.

    Empty for a live post: what stands there is what an update replaces.
    """
    parts = version.split(".")
    return parts[4] if len(parts) == 5 and parts[0] == "1" and parts[1] != "publish" else ""


def expected_part(version: str) -> str:
    """The version as the plugin's If-Match spells it; empty for what is none of ours."""
    parts = version.split(".")
    return f"{parts[1]}/{parts[2]}/{parts[4]}" if len(parts) == 5 and parts[0] == "1" else ""


def article_hash(article: Article) -> str:
    """The raw hash that a site storing every byte as given would have; titles are trimmed everywhere."""
    return digest(article.title.strip(), article.content, article.excerpt)


def differing(post: Post, article: Article) -> tuple[str, ...]:
    """Fields of the content that the site stores differently, byte for byte; and structured data that it took out."""
    stored = (("title", post.title), ("content", post.content), ("excerpt", post.excerpt))
    named = tuple(name for name, value in stored if value != getattr(article, name))
    kept = all(script in post.content for script in _STRUCTURED.findall(article.content))
    return named if kept else (*named, "structured_data")


def parse_answer(body: bytes) -> JsonValue:
    """Strict JSON, also behind the notices that a PHP site in debug mode prints first; raises Unreadable."""
    if _NOTICE.match(body) and (found := _JSON_AFTER_NOTICE.search(body)):
        return parse(body[found.start(1) :])
    return parse(body)


def parse_post(value: JsonValue) -> Post:
    """One row of context=edit; raises Unreadable when any of what we rely on is missing."""
    if not isinstance(value, dict):
        raise Unreadable
    meta = value.get("meta")
    return Post(
        post_id=integer(value, "id"),
        status=text(value, "status"),
        slug=text(value, "slug"),
        title=text(value, "title", "raw"),
        content=text(value, "content", "raw"),
        excerpt=text(value, "excerpt", "raw"),
        link=text(value, "link"),
        modified_gmt=text(value, "modified_gmt"),
        date_gmt=_text_or_empty(value, "date_gmt"),
        categories=_ids(value, "categories"),
        tags=_ids(value, "tags"),
        featured_media=integer(value, "featured_media") if "featured_media" in value else 0,
        keyed=isinstance(meta, dict) and KEY in meta,
        key=_text_or_empty(meta, KEY),
        description=_text_or_empty(meta, DESCRIPTION),
    )


def parse_list(body: bytes) -> list[JsonValue]:
    """A list of objects; raises Unreadable."""
    value = parse_answer(body)
    if not isinstance(value, list):
        raise Unreadable
    return value


def error_code(body: bytes, status: int) -> str:
    """The documented `code` of an error body {code, message, data: {status}}; empty when it is not one of those."""
    try:
        value = parse_answer(body)
    except Unreadable:
        return ""
    if not isinstance(value, dict) or not isinstance(code := value.get("code"), str):
        return ""
    data = value.get("data")
    return code if isinstance(data, dict) and data.get("status") == status else ""


def digest(*parts: str) -> str:
    """SHA-256 of the length-prefixed parts."""
    encoded = [part.encode() for part in parts]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in encoded)).hexdigest()


def _ids(source: JsonObject, name: str) -> tuple[int, ...]:
    value = source.get(name, [])
    if not isinstance(value, list):
        raise Unreadable
    return tuple(item for item in value if isinstance(item, int))


def _text_or_empty(source: JsonValue, name: str) -> str:
    value = source.get(name) if isinstance(source, dict) else None
    return value if isinstance(value, str) else ""
