"""The stand-ins' state: one SQLite file that survives them, because effects are counted there.

Every version of a post is kept with its time, so that a read can answer the state of some seconds ago.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from adapters.sandbox.git import GitStore
from capabilities.strict_json import JsonValue

FAR_FUTURE: Final = 1e12
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS post (seq INTEGER PRIMARY KEY, id INTEGER NOT NULL, at REAL NOT NULL, body TEXT);
CREATE INDEX IF NOT EXISTS post_by_id ON post (id, seq);
CREATE TABLE IF NOT EXISTS term (id INTEGER PRIMARY KEY, taxonomy TEXT NOT NULL, name TEXT NOT NULL,
  slug TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS accepted_write (seq INTEGER PRIMARY KEY, line TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS message (seq INTEGER PRIMARY KEY, message_id TEXT NOT NULL, sender TEXT NOT NULL,
  recipients TEXT NOT NULL, content BLOB NOT NULL, at REAL NOT NULL);
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
    meta: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    term_id: int
    taxonomy: str
    name: str
    slug: str


class SandboxState:
    """Opens, or makes, the file."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=10.0)
        self._db.execute("PRAGMA busy_timeout = 10000")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(SCHEMA)
        self.git = GitStore(self._db)
        self._current = {post.post_id: post for post in self._posts_as_of(FAR_FUTURE)}

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
            self._current = {post.post_id: post for post in self._posts_as_of(FAR_FUTURE)}
            raise
        self._db.execute("COMMIT")

    def posts(self, as_of: float | None = None) -> tuple[StoredPost, ...]:
        """All posts by id, as they are or as they were."""
        return tuple(self._current.values()) if as_of is None else self._posts_as_of(as_of)

    def post(self, post_id: int, as_of: float | None = None) -> StoredPost | None:
        """One post, None when there is none."""
        if as_of is None:
            return self._current.get(post_id)
        return next((post for post in self._posts_as_of(as_of) if post.post_id == post_id), None)

    def _posts_as_of(self, as_of: float) -> tuple[StoredPost, ...]:
        rows = self._db.execute(
            "SELECT body FROM post WHERE seq IN (SELECT max(seq) FROM post WHERE at <= ? GROUP BY id) ORDER BY id",
            (as_of,),
        )
        return tuple(_post(body) for (body,) in rows if body is not None)

    def slugs(self, but: int | None) -> set[str]:
        """Every slug in use by another post."""
        return {post.slug for post in self._current.values() if post.post_id != but}

    def next_id(self) -> int:
        """The id of the next post."""
        (highest,) = self._db.execute("SELECT max(id) FROM post").fetchone()
        return int(highest or 0) + 1

    def put(self, post: StoredPost, at: float) -> None:
        """A new version of a post."""
        self._db.execute(
            "INSERT INTO post (id, at, body) VALUES (?, ?, ?)", (post.post_id, at, json.dumps(asdict(post)))
        )
        self._current[post.post_id] = post

    def remove(self, post_id: int, at: float) -> None:
        """Gone for good."""
        self._db.execute("INSERT INTO post (id, at, body) VALUES (?, ?, NULL)", (post_id, at))
        self._current.pop(post_id, None)

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

    def effects(self) -> dict[str, JsonValue]:
        """Everything that happened, for whoever counts."""
        lines = self._db.execute("SELECT line, count(*) FROM accepted_write GROUP BY line ORDER BY line")
        messages = self._db.execute("SELECT message_id, sender, recipients, content FROM message ORDER BY seq")
        return {
            "posts": [_effect(post) for post in self.posts()],
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
    }
