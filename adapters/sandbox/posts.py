"""Posts of the stand-in's site: who may read and write them, and what becomes of what is written.

Facts and their sources: the comments name the WordPress function that behaves so. What WordPress writes after the row
(terms, featured image, the plugin's seal) is lost when its process ends in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from adapters.sandbox.accounts import STATUSES, Account, RestError, forbidden, may_edit, may_read, need, statuses_asked
from adapters.sandbox.content import slugify, stored_content, stored_title, unique_slug
from adapters.sandbox.rest import (
    API,
    TRASHED,
    Circumstances,
    answer_json,
    date_of,
    died,
    fields_of,
    invalid,
    invalid_id,
    iso,
    page_of,
    text_of,
)
from adapters.sandbox.state import SandboxState, StoredPost
from adapters.sandbox.wire import Request, Response
from capabilities.strict_json import JsonValue

FUTURE_AFTER_S: Final = 60
KEY: Final = "_remit_key"
DESCRIPTION: Final = "_remit_description"


class Posts:
    """The endpoint /posts. `now` is Unix seconds; `plugin`: the must-use plugin that holds a business key is there."""

    def __init__(
        self, state: SandboxState, accounts: tuple[Account, ...], now: Callable[[], float], *, plugin: bool
    ) -> None:
        self._state, self._accounts, self._now, self._plugin = state, accounts, now, plugin

    # Reading: WP_REST_Posts_Controller::get_items, get_item

    def list(self, request: Request, account: Account | None, at: Circumstances) -> Response:
        statuses = statuses_asked(request, account)
        if request.query.get("context") == "edit":
            need(account, "edit_posts", "rest_forbidden_context", "not allowed to edit posts in this post type")
        wanted = {slugify(slug) for slug in request.query["slug"].split(",")} if "slug" in request.query else None
        key = request.query.get("remit_key") if self._plugin else None
        sought = request.query.get("search", "").casefold()
        rows = [
            post
            for post in self._state.posts(at.as_of(self._now()))
            if post.status in statuses
            and (wanted is None or post.slug in wanted)
            and (key is None or post.meta.get(KEY) == key)
            and sought in f"{post.title} {post.excerpt} {post.content}".casefold()
            and iso(post.modified) > request.query.get("modified_after", "")
            and may_read(account, post)
        ]
        if request.query.get("order", "desc") == "desc":
            rows.reverse()
        shown = [self._row(post, request) for post in page_of(rows, request)]
        return answer_json(200, shown, {"X-WP-Total": str(len(rows))})

    def one(self, post_id: int, request: Request, account: Account | None, at: Circumstances) -> Response:
        post = self._state.post(post_id, at.as_of(self._now()))
        if post is None:
            raise invalid_id()
        if request.query.get("context") == "edit" and not may_edit(account, post):
            raise forbidden(account, "rest_forbidden_context", "not allowed to edit this post")
        if not may_read(account, post):
            raise forbidden(account, "rest_forbidden", "not allowed to do that")
        return answer_json(200, self._row(post, request))

    # Writing: create_item, update_item, delete_item; wp_insert_post, wp_trash_post

    def create(self, request: Request, account: Account | None, at: Circumstances) -> Response:
        fields = fields_of(request)
        writer = need(account, "edit_posts", "rest_cannot_create", "not allowed to create posts as this user")
        meta = self._meta(fields)
        kept = {name: value for name, value in meta.items() if name == KEY or not at.dies}
        now = int(self._now())
        blank = StoredPost(post_id=0, author=writer.login, status="draft", modified=now, meta=kept)
        post = self._changed(blank, fields, writer, at)
        if not (post.title or post.content or post.excerpt):
            raise RestError(400, "empty_content", "Content, title, and excerpt are empty.")
        holder = next((p for p in self._state.posts() if meta and p.meta.get(KEY) == meta.get(KEY)), None)
        if holder is not None:
            raise RestError(409, "remit_key_exists", "A post with this key exists.", id=holder.post_id)
        with self._state.transaction():
            post = replace(post, post_id=self._state.next_id())
            self._state.put(post, self._now())
            self._state.count_write(request.line, self._now())
        if at.dies:
            return died()
        return answer_json(201, self._row(post, request, edit=True), {"Location": f"{API}/posts/{post.post_id}"})

    def update(self, post_id: int, request: Request, account: Account | None, at: Circumstances) -> Response:
        post = self._editable(post_id, account, "rest_cannot_edit", "not allowed to edit this post")
        assert account is not None
        fields = fields_of(request)
        expected = request.headers.get("if-match")
        if self._plugin and expected is not None and expected.strip('"') != _expected(post):
            raise RestError(412, "remit_stale", "The post is not as expected.")
        meta = {} if at.dies else self._meta(fields)
        post = replace(post, modified=int(self._now()), meta={**post.meta, **meta})
        post = self._changed(post, fields, account, at)
        with self._state.transaction():
            self._state.put(post, self._now())
            self._state.count_write(request.line, self._now())
        return died() if at.dies else answer_json(200, self._row(post, request, edit=True))

    def delete(self, post_id: int, request: Request, account: Account | None) -> Response:
        post = self._editable(post_id, account, "rest_cannot_delete", "not allowed to delete this post")
        force = request.query.get("force") in ("true", "1")
        if post.status == "trash" and not force:
            raise RestError(410, "rest_already_trashed", "The post has already been deleted.")
        shown = self._row(post, request, edit=True)
        with self._state.transaction():
            if force:
                self._state.remove(post_id, self._now())
            else:
                slug = post.slug + TRASHED if post.slug else ""
                post = replace(post, status="trash", slug=slug, modified=int(self._now()))
                self._state.put(post, self._now())
            self._state.count_write(request.line, self._now())
        return answer_json(200, {"deleted": True, "previous": shown} if force else self._row(post, request, edit=True))

    def _editable(self, post_id: int, account: Account | None, code: str, message: str) -> StoredPost:
        post = self._state.post(post_id)
        if post is None:
            raise invalid_id()
        if not may_edit(account, post):
            raise forbidden(account, code, message)
        return post

    def _changed(
        self, post: StoredPost, fields: Mapping[str, JsonValue], account: Account, at: Circumstances
    ) -> StoredPost:
        unfiltered = account.may("unfiltered_html")
        status = fields.get("status", "draft" if post.status == "trash" else post.status)
        if status not in STATUSES:
            raise invalid("status")
        if status in ("publish", "future", "private") and not account.may("publish_posts"):
            raise forbidden(account, "rest_cannot_publish", "not allowed to publish posts in this post type")
        title, content = text_of(fields, "title", post.title), text_of(fields, "content", post.content)
        date = date_of(fields, post.date)
        now = int(self._now())
        if status == "publish":
            date = now if date is None else date
            status = "future" if date > now + FUTURE_AFTER_S else status
        slug = slugify(
            text_of(fields, "slug", post.slug.removesuffix(TRASHED) if post.status == "trash" else post.slug)
        )
        if status == "pending" and not account.may("publish_posts"):
            slug = ""
        if not slug and status in ("publish", "future", "private"):
            slug = slugify(title)
        taken = self._state.slugs(post.post_id)
        slug = unique_slug(slug, taken | {slug} if at.rename else taken)
        post = replace(
            post,
            status=str(status),
            slug=slug,
            title=stored_title(title, unfiltered=unfiltered),
            content=stored_content(content, unfiltered=unfiltered),
            excerpt=stored_content(text_of(fields, "excerpt", post.excerpt), unfiltered=unfiltered),
            date=date,
        )
        if at.dies:
            return post
        return replace(
            post,
            categories=self._term_ids(fields, "categories", post.categories),
            tags=self._term_ids(fields, "tags", post.tags),
            featured_media=self._featured(fields, post.featured_media),
        )

    def _featured(self, fields: Mapping[str, JsonValue], before: int) -> int:
        """An image that does not exist is dropped without a word: WP_REST_Posts_Controller::handle_featured_media."""
        given = fields.get("featured_media", before)
        return given if isinstance(given, int) and (given == 0 or self._state.image(given) is not None) else before

    def _term_ids(self, fields: Mapping[str, JsonValue], taxonomy: str, before: tuple[int, ...]) -> tuple[int, ...]:
        given = fields.get(taxonomy)
        if not isinstance(given, list):
            return before
        known = {term.term_id for term in self._state.terms(taxonomy)}
        return tuple(item for item in given if isinstance(item, int) and item in known)

    def _meta(self, fields: Mapping[str, JsonValue]) -> dict[str, str]:
        """Unregistered meta is dropped without a word."""
        meta = fields.get("meta")
        if not self._plugin or not isinstance(meta, dict):
            return {}
        return {name: value for name, value in meta.items() if name in (KEY, DESCRIPTION) and isinstance(value, str)}

    def _row(self, post: StoredPost, request: Request, *, edit: bool = False) -> JsonValue:
        base = f"http://{request.headers.get('host', '127.0.0.1')}"
        live, editing = post.status == "publish", edit or request.query.get("context") == "edit"
        date = post.modified if post.date is None else post.date
        row: dict[str, JsonValue] = {
            "id": post.post_id,
            "date": iso(date),
            "date_gmt": iso(date),
            "modified": iso(post.modified),
            "modified_gmt": iso(post.modified),
            "slug": post.slug,
            "status": post.status,
            "type": "post",
            "link": f"{base}/{post.slug}/" if live else f"{base}/?p={post.post_id}",
            "author": next(a.user_id for a in self._accounts if a.login == post.author),
            "featured_media": post.featured_media,
            "categories": list(post.categories),
            "tags": list(post.tags),
            "meta": {KEY: "", DESCRIPTION: "", **post.meta} if editing and self._plugin else [],
        }
        for name, raw in (("title", post.title), ("content", post.content), ("excerpt", post.excerpt)):
            shown: dict[str, JsonValue] = {"rendered": f"<!-- rendered -->{raw}"}
            row[name] = {**shown, "raw": raw} if editing else shown
        return row


def _expected(post: StoredPost) -> str:
    """What the plugin compares an If-Match with."""
    texts = [text.encode() for text in (post.title, post.content, post.excerpt)]
    seen = hashlib.sha256(b"".join(b"%d:%b" % (len(text), text) for text in texts)).hexdigest()
    return f"{post.status}/{iso(post.modified)}/{seen}"
