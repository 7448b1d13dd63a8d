"""One WordPress site: the port `execution.ports.WordPress` over its REST interface.

Ours is what we stored the id of, or what carries our marker: the slug `remit-<marker>` of a draft, and the private meta
`_remit_key` where the must-use plugin (`adapters.wordpress_plugin`) is installed. All else in the way is Foreign.

A receipt never waits for the content to look right: a row that exists is reported with its id, and what differs is
named. Refusals are in `adapters.wordpress_refusals`, the site's images in `adapters.wordpress_media`.

A publication is recognised by its stored id and by its content being either the approved bytes or what the site made of
them when the approved draft was saved (its baseline). Under another slug than the approved one it is Present but not
complete, difference `slug`: the site has renamed it, which a person must know.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from adapters import wordpress_answers as answers
from adapters.answers import Reply, Unreadable
from adapters.http import CONNECT_S, READ_S, HttpSystem
from adapters.wordpress_media import WordPressMedia
from adapters.wordpress_posts import (
    DESCRIPTION,
    KEY,
    Post,
    article_hash,
    baseline_part,
    candidates,
    differing,
    expected_part,
    marked,
    marker_slug,
    same_slug,
)
from adapters.wordpress_probing import symptoms
from adapters.wordpress_rest import API, Gone, UnknownTerm, WordPressReader
from execution.core.definition import Prepared
from execution.core.failures import (
    Absent,
    Answer,
    CannotTell,
    FailureClass,
    Foreign,
    Present,
    Sighting,
    Unprepared,
)
from execution.core.quiescence import Bounds
from execution.ports import Article, Marked, Symptom

_MARKER: Final = re.compile(r"[a-z2-7]{16,52}")


class WordPressSite:
    """See the module. `url` is the site's address (without /wp-json), `app_password` an application password of `user`.

    plugin: the must-use plugin is installed (`key_strategy`). own_posts_only: accept an account that cannot see the
    drafts of others (role author); then nothing that another account created under our marker would be found.
    """

    system: Final = "wordpress"

    def __init__(
        self,
        url: str,
        user: str,
        app_password: str,
        bounds: Bounds,
        *,
        plugin: bool = False,
        own_posts_only: bool = False,
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        ca_file: str | None = None,
    ) -> None:
        login = base64.b64encode(f"{user}:{app_password}".encode()).decode()
        self._system = HttpSystem(
            url,
            bounds=bounds,
            headers={"Authorization": f"Basic {login}"},
            connect_s=connect_s,
            read_s=read_s,
            ca_file=ca_file,
        )
        self._read = WordPressReader(self._system)
        self._plugin, self._own_posts_only = plugin, own_posts_only
        self.media = WordPressMedia(self._system, own_posts_only=own_posts_only)

    @property
    def bounds(self) -> Bounds:
        return self._system.bounds

    @property
    def key_strategy(self) -> str:
        return "plugin" if self._plugin else "slug"

    async def aclose(self) -> None:
        """Close the kept connections."""
        await self._system.aclose()

    async def create_draft(self, *, marker: str, article: Article) -> Prepared:
        if not _MARKER.fullmatch(marker):
            raise Unprepared(FailureClass.PERMANENT, "malformed_marker")
        own = {"slug": marker_slug(marker), "status": "draft", **self._meta(article, marker)}
        return self._write("/posts", {**await self._fields(article), **own}, partial(answers.created, article=article))

    async def complete_draft(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        _checked(post_id)
        fields = {**await self._after_row(article), **self._meta(article)}
        return self._write(
            f"/posts/{post_id}", fields, lambda reply: answers.kept(reply, article), self._if(expected_version)
        )

    async def publish(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        return await self._put_live(post_id, expected_version, article)

    async def update(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        return await self._put_live(post_id, expected_version, article)

    def trash(self, *, post_id: str, expected_version: str) -> Prepared:
        _checked(post_id)
        return self._system.write(
            "DELETE", f"{API}/posts/{post_id}", b"", judge=lambda reply: answers.trashed(reply, post_id)
        )

    async def observe_draft(self, *, marker: str, article: Article, known_id: str | None) -> Sighting:
        known = None if known_id is None else await self._read.by_id(known_id)
        rows = await self._marked(marker, article.slug)
        if isinstance(known, CannotTell) or isinstance(rows, CannotTell):
            return known if isinstance(known, CannotTell) else _cannot(rows)
        names = candidates(marker_slug(marker))
        ours = {row.post_id: row for row in rows if row.slug in names or (self._plugin and row.key == marker)}
        if isinstance(known, Post):
            ours[known.post_id] = known
        if isinstance(known, Gone):
            return Foreign(code="gone")
        alive = [row for _, row in sorted(ours.items()) if not row.is_trashed]
        if alive:
            first = known if isinstance(known, Post) and not known.is_trashed else alive[0]
            return await self._draft(first, len(alive), article)
        if ours:
            return Foreign(code="trashed", receipt=next(iter(ours.values())).receipt())
        if holder := _holder(rows, article.slug):
            return Foreign(code="slug_taken", receipt=holder.receipt())
        return await self._absent()

    async def observe_publication(
        self, *, post_id: str, expected_version: str, article: Article, baseline_hash: str = ""
    ) -> Sighting:
        post = await self._read.by_id(post_id)
        if isinstance(post, CannotTell):
            return post
        if isinstance(post, Gone) or post.is_trashed:
            return Foreign(code="gone", receipt=None if isinstance(post, Gone) else post.receipt())
        approved = {article_hash(article), baseline_hash or baseline_part(expected_version)}
        if post.status == "publish" and post.raw_hash in approved:
            missing = await self._missing(post, article)
            if isinstance(missing, CannotTell):
                return missing
            untouched = post.kept_beside(expected_version)  # what is missing was not written, and nobody wrote there
            seen = answers.live(post, article, missing, self._unkept(article), mendable=bool(missing) and untouched)
            if seen.complete or post.version != expected_version:
                return seen
        if post.version != expected_version:
            return Foreign(code="changed", receipt=post.receipt(), difference=differing(post, article))
        rows = await self._read.by_slugs((article.slug,))
        if isinstance(rows, CannotTell):
            return rows
        if holder := _holder(tuple(row for row in rows if row.post_id != post.post_id), article.slug):
            return Foreign(code="slug_taken", receipt=holder.receipt())
        return Absent(receipt=post.receipt()) if post.keyed or not self._plugin else CannotTell(code="plugin_missing")

    async def observe_trashed(self, *, post_id: str, expected_version: str) -> Sighting:
        post = await self._read.by_id(post_id)
        if isinstance(post, CannotTell):
            return post
        if isinstance(post, Gone):
            return Present(receipt=answers.without_post(post_id, "gone"))
        if post.is_trashed:
            return Present(receipt=post.receipt())
        if post.version == expected_version and post.status != "publish":
            return Absent(receipt=post.receipt())
        return Foreign(code="live" if post.status == "publish" else "changed", receipt=post.receipt())

    def unpublish(self, *, post_id: str, expected_version: str) -> Prepared:
        _checked(post_id)
        judge = partial(answers.unpublished, post_id=post_id)
        return self._write(f"/posts/{post_id}", {"status": "draft"}, judge, self._if(expected_version))

    async def observe_unpublished(self, *, post_id: str, expected_version: str) -> Sighting:
        post = await self._read.by_id(post_id)
        if isinstance(post, CannotTell):
            return post
        if isinstance(post, Gone):
            return Present(receipt=answers.without_post(post_id, "gone"))
        if post.status == "publish" and post.version == expected_version:
            return Absent(receipt=post.receipt())
        if post.status in ("publish", "future"):
            return Foreign(code="changed" if post.status == "publish" else "scheduled", receipt=post.receipt())
        return Present(receipt=post.receipt())

    async def read(self, *, post_id: str) -> Sighting:
        post = await self._read.by_id(post_id)
        if isinstance(post, CannotTell):
            return post
        return await self._absent() if isinstance(post, Gone) else Present(receipt=post.receipt())

    async def texts(self, *, post_id: str) -> Mapping[str, str] | CannotTell:
        post = await self._read.by_id(post_id)
        if isinstance(post, CannotTell):
            return post
        return {} if isinstance(post, Gone) else {"title": post.title, "content": post.content, "excerpt": post.excerpt}

    async def find_public(self, *, slug: str) -> Sighting:
        rows = await self._read.by_slugs((slug,))
        if isinstance(rows, CannotTell):
            return rows
        holder = _holder(rows, slug)
        return await self._absent() if holder is None else Present(receipt=holder.receipt())

    async def check(self) -> tuple[str, ...]:
        """What stands in the way of using this site with this account, as codes; for people who set it up."""
        authority = await self._read.authority()
        if isinstance(authority, CannotTell):
            return (authority.code,)
        wrong = [] if authority.publish_posts else ["cannot_publish"]
        wrong += [] if authority.upload_files else ["cannot_upload"]
        if not authority.edit_others_posts and not self._own_posts_only:
            wrong.append("cannot_see_others")
        plugin = await self._read.has_plugin() if self._plugin else True
        if plugin is not True:
            wrong.append(plugin.code if isinstance(plugin, CannotTell) else "plugin_missing")
        return tuple(wrong)

    async def marked(self, limit: int) -> tuple[Marked, ...] | CannotTell:
        """Drafts; once a post is public it carries its public slug, and once in the trash it is nobody's concern."""
        rows = await self._read.unpublished(limit)
        if isinstance(rows, CannotTell):
            return rows
        try:
            return tuple(found for row in rows if (found := marked(row)) is not None)
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def probe(self) -> tuple[Symptom, ...]:
        return symptoms(await self.check(), self.key_strategy)

    async def _put_live(self, post_id: str, expected_version: str, article: Article) -> Prepared:
        _checked(post_id)
        fields = {**await self._fields(article), "slug": article.slug, "status": "publish", **self._meta(article)}
        judge, headers = partial(answers.put, post_id=post_id, article=article), self._if(expected_version)
        return self._write(f"/posts/{post_id}", fields, judge, headers)

    def _meta(self, article: Article, marker: str = "") -> dict[str, object]:
        """What the plugin keeps for us."""
        key = {KEY: marker} if marker else {}
        return {"meta": {**key, DESCRIPTION: article.meta_description}} if self._plugin else {}

    def _if(self, expected_version: str) -> dict[str, str]:
        expected = expected_part(expected_version) if self._plugin else ""
        return {"If-Match": f'"{expected}"'} if expected else {}

    async def _fields(self, article: Article) -> dict[str, object]:
        texts = {"title": article.title, "content": article.content, "excerpt": article.excerpt}
        return {**texts, **await self._after_row(article)}

    async def _after_row(self, article: Article) -> dict[str, object]:
        """What WordPress writes after the row, and loses when its process ends in between."""
        fields: dict[str, object] = {}
        for taxonomy, names in (("categories", article.categories), ("tags", article.tags)):
            if not names:
                continue
            ids = await self._read.term_ids(taxonomy, names)
            if isinstance(ids, CannotTell):
                raise Unprepared(FailureClass.TRANSIENT, ids.code)
            if isinstance(ids, UnknownTerm):
                raise Unprepared(FailureClass.BUSINESS, "unknown_term")
            fields[taxonomy] = list(ids)
        return {**fields, "featured_media": int(article.featured_media)} if article.featured_media else fields

    def _write(
        self, path: str, fields: dict[str, object], judge: Callable[[Reply], Answer], headers: Mapping[str, str] = {}
    ) -> Prepared:
        body = json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
        return self._system.write("POST", API + path, body, judge=judge, headers=headers)

    async def _marked(self, marker: str, public_slug: str) -> tuple[Post, ...] | CannotTell:
        rows = await self._read.by_slugs((*candidates(marker_slug(marker)), public_slug))
        if isinstance(rows, CannotTell) or not self._plugin:
            return rows
        keyed = await self._read.by_key(marker)
        return keyed if isinstance(keyed, CannotTell) else (*rows, *keyed)

    async def _draft(self, post: Post, rows: int, article: Article) -> Sighting:
        parts = await self._missing(post, article)
        if isinstance(parts, CannotTell):
            return parts
        missing = parts if post.status == "draft" else ("status", *parts)
        named = (*differing(post, article), *self._unkept(article), *missing)
        return Present(
            receipt=post.receipt(named),
            rows=rows,
            complete=not missing,
            mendable=bool(parts) and post.status == "draft",
            difference=named,
        )

    async def _missing(self, post: Post, article: Article) -> tuple[str, ...] | CannotTell:
        """What the post does not have as asked, of what WordPress writes after the row or drops without a word."""
        missing = []
        for taxonomy, names, stored in (
            ("categories", article.categories, post.categories),
            ("tags", article.tags, post.tags),
        ):
            ids = await self._read.term_ids(taxonomy, names) if names else ()
            if isinstance(ids, CannotTell):
                return ids
            if isinstance(ids, UnknownTerm) or not set(ids) <= set(stored):
                missing.append(taxonomy)
        if article.featured_media and str(post.featured_media) != article.featured_media:
            missing.append("featured_image")
        if self._plugin and post.description != article.meta_description:
            missing.append("meta_description")
        return tuple(missing)

    def _unkept(self, article: Article) -> tuple[str, ...]:
        """What this site has no place for: core WordPress knows no meta description."""
        return ("meta_description",) if article.meta_description and not self._plugin else ()

    async def _absent(self) -> Sighting:
        """Absence is worth what the account may see."""
        authority = await self._read.authority()
        if isinstance(authority, CannotTell):
            return authority
        if not authority.edit_posts or not (authority.edit_others_posts or self._own_posts_only):
            return CannotTell(code="cannot_see_others")
        plugin = await self._read.has_plugin() if self._plugin else True
        if plugin is True:
            return Absent()
        return plugin if isinstance(plugin, CannotTell) else CannotTell(code="plugin_missing")


def _cannot(rows: tuple[Post, ...] | CannotTell) -> CannotTell:
    assert isinstance(rows, CannotTell)
    return rows


def _checked(post_id: str) -> None:
    if not post_id.isdecimal():
        raise Unprepared(FailureClass.PERMANENT, "malformed_post_id")


def _holder(rows: tuple[Post, ...], slug: str) -> Post | None:
    """Whoever holds a public slug, a live post before any other."""
    holders = [row for row in rows if same_slug(row.slug, slug) and not row.is_trashed]
    return min(holders, key=lambda row: (row.status != "publish", row.post_id), default=None)
