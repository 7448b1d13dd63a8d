"""The stand-ins' state: one SQLite file that survives them, because effects are counted there.

Every version of a post, and of an image, is kept with its time, so that a read can answer the state of some seconds
ago. Posts and images share their ids, as they share a table in WordPress.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from adapters.sandbox.git import GitStore
from capabilities.strict_json import JsonValue

FAR_FUTURE: Final = 1e12
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS version (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, id INTEGER NOT NULL, at REAL NOT NULL,
  body TEXT);
CREATE INDEX IF NOT EXISTS version_by_id ON version (kind, id, seq);
CREATE TABLE IF NOT EXISTS file (path TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS term (id INTEGER PRIMARY KEY, taxonomy TEXT NOT NULL, name TEXT NOT NULL,
  slug TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS accepted_write (seq INTEGER PRIMARY KEY, line TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS message (seq INTEGER PRIMARY KEY, message_id TEXT NOT NULL, sender TEXT NOT NULL,
  recipients TEXT NOT NULL, content BLOB NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS cached_page (url TEXT PRIMARY KEY, headers TEXT NOT NULL, body BLOB NOT NULL,
  at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS purge (seq INTEGER PRIMARY KEY, zone TEXT NOT NULL, addresses TEXT NOT NULL,
  at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS monitor (seq INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS delivery (seq INTEGER PRIMARY KEY, webhook_id TEXT NOT NULL, path TEXT NOT NULL,
  body BLOB NOT NULL, at REAL NOT NULL);
INSERT OR IGNORE INTO term (id, taxonomy, name, slug) VALUES (1, 'categories', 'Uncategorized', 'uncategorized');
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPost:
    """A row of posts. Times are Unix seconds; `date` None: floating, until it is published."""

    post_id: int
    author: str
    status: str
    slug: str = ""
    title: str = ""
    content: str = ""
    excerpt: str = ""
    date: int | None = None
    modified: int
    categories: tuple[int, ...] = (1,)
    tags: tuple[int, ...] = ()
    featured_media: int = 0
    meta: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """A row of the media library. `file`: its path; `processed`: its sizes are known."""

    media_id: int
    author: str
    slug: str
    title: str
    file: str
    media_type: str
    sha256: str
    size: int
    date: int
    modified: int
    status: str = "inherit"
    alt: str = ""
    parent: int = 0
    processed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    term_id: int
    taxonomy: str
    name: str
    slug: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPage:
    """A copy that the caching front keeps, and since when (Unix seconds)."""

    headers: dict[str, str]
    body: bytes
    at: float


class SandboxState:
    """Opens, or makes, the file."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=10.0)
        self._db.execute("PRAGMA busy_timeout = 10000")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(SCHEMA)
        self.git = GitStore(self._db)
        self._images = {image.media_id: image for image in self._images_as_of(FAR_FUTURE)}
        self._posts = {post.post_id: post for post in self._posts_as_of(FAR_FUTURE)}

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            self._images = {image.media_id: image for image in self._images_as_of(FAR_FUTURE)}
            self._posts = {post.post_id: post for post in self._posts_as_of(FAR_FUTURE)}
            raise
        self._db.execute("COMMIT")

    def posts(self, as_of: float | None = None) -> tuple[StoredPost, ...]:
        """All posts by id, as they are or as they were."""
        return tuple(self._posts.values()) if as_of is None else self._posts_as_of(as_of)

    def post(self, post_id: int, as_of: float | None = None) -> StoredPost | None:
        """One post, None when there is none."""
        if as_of is None:
            return self._posts.get(post_id)
        return next((post for post in self._posts_as_of(as_of) if post.post_id == post_id), None)

    def images(self, as_of: float | None = None) -> tuple[StoredImage, ...]:
        """The whole library by id, as it is or as it was."""
        return tuple(self._images.values()) if as_of is None else self._images_as_of(as_of)

    def image(self, media_id: int, as_of: float | None = None) -> StoredImage | None:
        """One image, None when there is none."""
        return next((image for image in self.images(as_of) if image.media_id == media_id), None)

    def _posts_as_of(self, as_of: float) -> tuple[StoredPost, ...]:
        return tuple(_post(body) for body in self._bodies("post", as_of))

    def _images_as_of(self, as_of: float) -> tuple[StoredImage, ...]:
        return tuple(StoredImage(**json.loads(body)) for body in self._bodies("image", as_of))

    def _bodies(self, kind: str, as_of: float) -> Iterator[str]:
        rows = self._db.execute(
            "SELECT body FROM version WHERE seq IN"
            " (SELECT max(seq) FROM version WHERE kind = ? AND at <= ? GROUP BY id) ORDER BY id",
            (kind, as_of),
        )
        return (body for (body,) in rows if body is not None)

    def slugs(self, but: int | None) -> set[str]:
        """Every slug in use by another post."""
        return {post.slug for post in self._posts.values() if post.post_id != but}

    def image_slugs(self, but: int | None) -> set[str]:
        """Every slug in use by another image."""
        return {image.slug for image in self._images.values() if image.media_id != but}

    def next_id(self) -> int:
        """The id of the next post or image."""
        (highest,) = self._db.execute("SELECT max(id) FROM version").fetchone()
        return int(highest or 0) + 1

    def put(self, post: StoredPost, at: float) -> None:
        """A new version of a post."""
        self._put("post", post.post_id, at, json.dumps(asdict(post)))
        self._posts[post.post_id] = post

    def remove(self, post_id: int, at: float) -> None:
        """Gone for good."""
        self._put("post", post_id, at, None)
        self._posts.pop(post_id, None)

    def put_image(self, image: StoredImage, at: float, content: bytes | None = None) -> None:
        """A new version of an image, and with `content` its file."""
        self._put("image", image.media_id, at, json.dumps(asdict(image)))
        if content is not None:
            self._db.execute("INSERT INTO file (path, content) VALUES (?, ?)", (image.file, content))
        self._images[image.media_id] = image

    def remove_image(self, media_id: int, at: float) -> None:
        """Gone for good, its file and every post's pointer to it with it."""
        image = self._images.pop(media_id)
        self._put("image", media_id, at, None)
        self._db.execute("DELETE FROM file WHERE path = ?", (image.file,))
        for post in [post for post in self._posts.values() if post.featured_media == media_id]:
            self.put(replace(post, featured_media=0), at)

    def file(self, path: str) -> bytes | None:
        """The bytes of a file."""
        row = self._db.execute("SELECT content FROM file WHERE path = ?", (path,)).fetchone()
        return None if row is None else bytes(row[0])

    def _put(self, kind: str, object_id: int, at: float, body: str | None) -> None:
        self._db.execute("INSERT INTO version (kind, id, at, body) VALUES (?, ?, ?, ?)", (kind, object_id, at, body))

    def count_write(self, line: str, at: float) -> None:
        """A write was accepted."""
        self._db.execute("INSERT INTO accepted_write (line, at) VALUES (?, ?)", (line, at))

    def terms(self, taxonomy: str) -> tuple[Term, ...]:
        """Categories or tags by id."""
        rows = self._db.execute("SELECT id, taxonomy, name, slug FROM term WHERE taxonomy = ? ORDER BY id", (taxonomy,))
        return tuple(Term(term_id=i, taxonomy=t, name=n, slug=s) for i, t, n, s in rows)

    def add_term(self, taxonomy: str, name: str, slug: str) -> Term:
        """A new category or tag."""
        added = self._db.execute("INSERT INTO term (taxonomy, name, slug) VALUES (?, ?, ?)", (taxonomy, name, slug))
        assert added.lastrowid is not None
        return Term(term_id=added.lastrowid, taxonomy=taxonomy, name=name, slug=slug)

    def add_message(self, message_id: str, sender: str, recipients: list[str], content: bytes, at: float) -> None:
        """A message was accepted."""
        self._db.execute(
            "INSERT INTO message (message_id, sender, recipients, content, at) VALUES (?, ?, ?, ?, ?)",
            (message_id, sender, json.dumps(recipients), content, at),
        )

    def cached_page(self, url: str) -> CachedPage | None:
        """The copy that the front keeps of that page."""
        found = self._db.execute("SELECT headers, body, at FROM cached_page WHERE url = ?", (url,)).fetchone()
        return None if found is None else CachedPage(headers=json.loads(found[0]), body=found[1], at=found[2])

    def cache_page(self, url: str, page: CachedPage) -> None:
        """Keep a copy."""
        self._db.execute(
            "INSERT OR REPLACE INTO cached_page (url, headers, body, at) VALUES (?, ?, ?, ?)",
            (url, json.dumps(page.headers), page.body, page.at),
        )

    def forget_pages(self, urls: list[str]) -> None:
        """Throw these copies away."""
        self._db.executemany("DELETE FROM cached_page WHERE url = ?", [(url,) for url in urls])

    def count_purge(self, zone: str, addresses: list[str], at: float) -> None:
        """A purge was accepted."""
        self._db.execute("INSERT INTO purge (zone, addresses, at) VALUES (?, ?, ?)", (zone, json.dumps(addresses), at))

    def monitors(self) -> list[dict[str, JsonValue]]:
        """All checks, the oldest first."""
        return [json.loads(body) for (body,) in self._db.execute("SELECT body FROM monitor ORDER BY seq")]

    def put_monitor(self, uuid: str, body: dict[str, JsonValue]) -> None:
        """A new check, or a changed one."""
        self._db.execute(
            "INSERT INTO monitor (uuid, body) VALUES (?, ?) ON CONFLICT (uuid) DO UPDATE SET body = excluded.body",
            (uuid, json.dumps(body)),
        )

    def add_delivery(self, webhook_id: str, path: str, body: bytes, at: float) -> None:
        """A webhook with a right signature was taken."""
        self._db.execute(
            "INSERT INTO delivery (webhook_id, path, body, at) VALUES (?, ?, ?, ?)", (webhook_id, path, body, at)
        )

    def effects(self) -> dict[str, JsonValue]:
        """Everything that happened, for whoever counts."""
        lines = self._db.execute("SELECT line, count(*) FROM accepted_write GROUP BY line ORDER BY line")
        messages = self._db.execute("SELECT message_id, sender, recipients, content FROM message ORDER BY seq")
        purges = self._db.execute("SELECT zone, addresses FROM purge ORDER BY seq")
        deliveries = self._db.execute("SELECT webhook_id, path, body FROM delivery ORDER BY seq")
        return {
            "posts": [_effect(post) for post in self.posts()],
            "purges": [{"zone": zone, "addresses": json.loads(addresses)} for zone, addresses in purges],
            "checks": list(self.monitors()),
            "webhooks": [
                {"webhook_id": webhook_id, "path": path, "body": body.decode("utf-8", "replace")}
                for webhook_id, path, body in deliveries
            ],
            "media": [_image_effect(image) for image in self.images()],
            "writes": dict(lines.fetchall()),
            "messages": [
                {
                    "message_id": message_id,
                    "sender": sender,
                    "recipients": json.loads(recipients),
                    "content": content.decode("utf-8", "replace"),
                }
                for message_id, sender, recipients, content in messages
            ],
            **self.git.effects(),
        }


def _post(body: str) -> StoredPost:
    fields = json.loads(body)
    return StoredPost(**{**fields, "categories": tuple(fields["categories"]), "tags": tuple(fields["tags"])})


def _effect(post: StoredPost) -> JsonValue:
    return {
        "id": post.post_id,
        "status": post.status,
        "slug": post.slug,
        "title": post.title,
        "content": post.content,
        "excerpt": post.excerpt,
        "author": post.author,
        "featured_media": post.featured_media,
        "categories": list(post.categories),
        "tags": list(post.tags),
    }


def _image_effect(image: StoredImage) -> JsonValue:
    return {
        "id": image.media_id,
        "slug": image.slug,
        "status": image.status,
        "sha256": image.sha256,
        "size": image.size,
        "alt": image.alt,
        "processed": image.processed,
    }
