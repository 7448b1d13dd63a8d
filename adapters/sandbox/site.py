"""A WordPress site's REST interface over the sandbox's state: what it answers to whom, and what it does to the rows.

Facts and their sources: the comments name the WordPress function that behaves so. Fronts and faults are not known here.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape, unescape
from typing import Final

from adapters.sandbox.accounts import (
    CAPABILITIES,
    STATUSES,
    Account,
    RestError,
    forbidden,
    may_edit,
    may_read,
    need,
    statuses_asked,
)
from adapters.sandbox.content import slugify, stored_content, stored_title, unique_slug
from adapters.sandbox.state import SandboxState, StoredPost, Term
from adapters.sandbox.wire import Request, Response
from capabilities.strict_json import JsonValue

API: Final = "/wp-json/wp/v2"
TRASHED: Final = "__trashed"
FUTURE_AFTER_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What a fault does to one request: the age of what it reads, whether the slug gets a suffix, whether it is
    answered as done and not done."""

    stale_s: float = 0.0
    rename: bool = False
    ignore: bool = False


class Site:
    """One site. `now` is Unix seconds; `plugin`: the must-use plugin that holds a business key is installed."""

    def __init__(
        self, state: SandboxState, accounts: tuple[Account, ...], now: Callable[[], float], *, plugin: bool = False
    ) -> None:
        self._state, self._accounts, self._now, self._plugin = state, accounts, now, plugin

    def answer(self, request: Request, at: Circumstances) -> Response:
        """Process one request."""
        try:
            return self._route(request, at)
        except RestError as error:
            body: JsonValue = {
                "code": error.code,
                "message": error.message,
                "data": {"status": error.status, **error.data},
            }
            return _json(error.status, body)

    def _route(self, request: Request, at: Circumstances) -> Response:
        path = request.path.removeprefix(API).rstrip("/")
        if not request.path.startswith("/wp-json"):
            return self._page(request)
        account = self._account(request)
        if found := re.fullmatch(r"/posts/(\d+)", path):
            return self._route_one(int(found[1]), request, account, at)
        match request.method:
            case "GET" if path == "/posts":
                return self._list(request, account, at)
            case "POST" if path == "/posts":
                return self._create(request, account, at)
            case "GET" if path == "/users/me":
                return _me(request, account)
            case "GET" | "POST" if path in ("/categories", "/tags"):
                return self._terms(path[1:], request, account)
            case "GET" if path == "":
                return _json(
                    200, {"namespace": "wp/v2", "routes": {f"{API}/posts": ["biz_key"] if self._plugin else []}}
                )
            case _:
                raise RestError(404, "rest_no_route", "No route was found matching the URL and request method.")

    def _route_one(self, post_id: int, request: Request, account: Account | None, at: Circumstances) -> Response:
        match request.method:
            case "GET":
                return self._one(post_id, request, account, at)
            case "POST" | "PUT" | "PATCH":
                return self._update(post_id, request, account, at)
            case "DELETE":
                return self._delete(post_id, request, account)
            case _:
                raise RestError(404, "rest_no_route", "No route was found matching the URL and request method.")

    def _account(self, request: Request) -> Account | None:
        """A wrong password makes a request anonymous, it does not refuse it."""
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        try:
            login, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        wanted = (login, password.replace(" ", ""))
        known = (a for a in self._accounts if (a.login, a.app_password.replace(" ", "")) == wanted)
        return next(known, None) if scheme.lower() == "basic" else None

    # Reading: WP_REST_Posts_Controller::get_items, get_item

    def _list(self, request: Request, account: Account | None, at: Circumstances) -> Response:
        statuses = statuses_asked(request, account)
        if request.query.get("context") == "edit":
            need(account, "edit_posts", "rest_forbidden_context", "not allowed to edit posts in this post type")
        wanted = {slugify(slug) for slug in request.query["slug"].split(",")} if "slug" in request.query else None
        key = request.query.get("biz_key") if self._plugin else None
        rows = [
            post
            for post in self._state.posts(self._as_of(at))
            if post.status in statuses
            and (wanted is None or post.slug in wanted)
            and (key is None or post.meta.get("biz_key") == key)
            and may_read(account, post)
        ]
        if request.query.get("order", "desc") == "desc":
            rows.reverse()
        per_page = int(request.query.get("per_page", "10"))
        shown = [self._row(post, request) for post in rows[:per_page]]
        return _json(200, shown, {"X-WP-Total": str(len(rows))})

    def _one(self, post_id: int, request: Request, account: Account | None, at: Circumstances) -> Response:
        post = self._state.post(post_id, self._as_of(at))
        if post is None:
            raise RestError(404, "rest_post_invalid_id", "Invalid post ID.")
        if request.query.get("context") == "edit" and not may_edit(account, post):
            raise forbidden(account, "rest_forbidden_context", "not allowed to edit this post")
        if not may_read(account, post):
            raise forbidden(account, "rest_forbidden", "not allowed to do that")
        return _json(200, self._row(post, request))

    def _as_of(self, at: Circumstances) -> float | None:
        return self._now() - at.stale_s if at.stale_s else None

    # Writing: create_item, update_item, delete_item; wp_insert_post, wp_trash_post

    def _create(self, request: Request, account: Account | None, at: Circumstances) -> Response:
        fields = _fields(request)
        writer = need(account, "edit_posts", "rest_cannot_create", "not allowed to create posts as this user")
        meta = self._meta(fields)
        now = int(self._now())
        blank = StoredPost(post_id=0, author=writer.login, status="draft", modified=now, meta=meta)
        post = self._changed(blank, fields, writer, at)
        if not (post.title or post.content or post.excerpt):
            raise RestError(400, "empty_content", "Content, title, and excerpt are empty.")
        holder = next((p for p in self._state.posts() if meta and p.meta.get("biz_key") == meta.get("biz_key")), None)
        if holder is not None:
            raise RestError(409, "biz_key_exists", "exists", id=holder.post_id)
        with self._state.transaction():
            post = replace(post, post_id=self._state.next_id())
            self._state.put(post, self._now())
            self._state.count_write(request.line, self._now())
        return _json(201, self._row(post, request, edit=True), {"Location": f"{API}/posts/{post.post_id}"})

    def _update(self, post_id: int, request: Request, account: Account | None, at: Circumstances) -> Response:
        post = self._editable(post_id, account, "rest_cannot_edit", "not allowed to edit this post")
        assert account is not None
        fields = _fields(request)
        expected = request.headers.get("if-match")
        if self._plugin and expected is not None and expected.strip('"') != _seal(post):
            raise RestError(412, "stale", "expected version differs")
        post = replace(post, modified=int(self._now()), meta={**post.meta, **self._meta(fields)})
        post = self._changed(post, fields, account, at)
        with self._state.transaction():
            self._state.put(post, self._now())
            self._state.count_write(request.line, self._now())
        return _json(200, self._row(post, request, edit=True))

    def _delete(self, post_id: int, request: Request, account: Account | None) -> Response:
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
        return _json(200, {"deleted": True, "previous": shown} if force else self._row(post, request, edit=True))

    def _editable(self, post_id: int, account: Account | None, code: str, message: str) -> StoredPost:
        post = self._state.post(post_id)
        if post is None:
            raise RestError(404, "rest_post_invalid_id", "Invalid post ID.")
        if not may_edit(account, post):
            raise forbidden(account, code, message)
        return post

    def _changed(
        self, post: StoredPost, fields: Mapping[str, JsonValue], account: Account, at: Circumstances
    ) -> StoredPost:
        unfiltered = account.may("unfiltered_html")
        status = fields.get("status", "draft" if post.status == "trash" else post.status)
        if status not in STATUSES:
            raise RestError(400, "rest_invalid_param", "Invalid parameter(s): status")
        if status in ("publish", "future", "private") and not account.may("publish_posts"):
            raise forbidden(account, "rest_cannot_publish", "not allowed to publish posts in this post type")
        title, content = _text(fields, "title", post.title), _text(fields, "content", post.content)
        date = _date(fields, post.date)
        now = int(self._now())
        if status == "publish":
            date = now if date is None else date
            status = "future" if date > now + FUTURE_AFTER_S else status
        slug = slugify(_text(fields, "slug", post.slug.removesuffix(TRASHED) if post.status == "trash" else post.slug))
        if status == "pending" and not account.may("publish_posts"):
            slug = ""
        if not slug and status in ("publish", "future", "private"):
            slug = slugify(title)
        taken = self._state.slugs(post.post_id)
        slug = unique_slug(slug, taken | {slug} if at.rename else taken)
        return replace(
            post,
            status=str(status),
            slug=slug,
            title=stored_title(title, unfiltered=unfiltered),
            content=stored_content(content, unfiltered=unfiltered),
            excerpt=stored_content(_text(fields, "excerpt", post.excerpt), unfiltered=unfiltered),
            date=date,
            categories=self._term_ids(fields, "categories", post.categories),
            tags=self._term_ids(fields, "tags", post.tags),
        )

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
        return {name: value for name, value in meta.items() if name.startswith("biz_") and isinstance(value, str)}

    def _terms(self, taxonomy: str, request: Request, account: Account | None) -> Response:
        if request.method == "GET":
            sought = request.query.get("search", "").casefold()
            found = [_term(t) for t in self._state.terms(taxonomy) if sought in escape(t.name, quote=False).casefold()]
            return _json(200, found)
        need(account, "manage_terms" if taxonomy == "categories" else "edit_posts", "rest_cannot_create", "not allowed")
        name = _text(_fields(request), "name", "")
        same = next((t for t in self._state.terms(taxonomy) if t.name.casefold() == name.casefold()), None)
        if same is not None:
            raise RestError(400, "term_exists", "A term with the name provided already exists.", term_id=same.term_id)
        return _json(201, _term(self._state.add_term(taxonomy, name, slugify(name))))

    def _page(self, request: Request) -> Response:
        slug = request.path.strip("/")
        if not slug and request.method == "GET":
            listed = "".join(
                f"<li>{escape(unescape(p.title))}</li>" for p in self._state.posts() if p.status == "publish"
            )
            index = f"<html><head><title>Blog</title></head><body><ul>{listed}</ul></body></html>"
            return Response(status=200, body=index.encode(), headers={"Content-Type": "text/html; charset=UTF-8"})
        post = next((p for p in self._state.posts() if p.slug == slug and p.status == "publish"), None)
        headers = {"Content-Type": "text/html; charset=UTF-8"}
        if post is None or request.method != "GET":
            return Response(status=404, body=b"<html><title>Page not found</title></html>", headers=headers)
        page = f"<html><head><title>{escape(unescape(post.title))}</title></head><body>{post.content}</body></html>"
        return Response(status=200, body=page.encode(), headers=headers)

    def _row(self, post: StoredPost, request: Request, *, edit: bool = False) -> JsonValue:
        base = f"http://{request.headers.get('host', '127.0.0.1')}"
        live = post.status == "publish"
        date = post.modified if post.date is None else post.date
        row: dict[str, JsonValue] = {
            "id": post.post_id,
            "date": _iso(date),
            "date_gmt": _iso(date),
            "modified": _iso(post.modified),
            "modified_gmt": _iso(post.modified),
            "slug": post.slug,
            "status": post.status,
            "type": "post",
            "link": f"{base}/{post.slug}/" if live else f"{base}/?p={post.post_id}",
            "author": next(a.user_id for a in self._accounts if a.login == post.author),
            "featured_media": 0,
            "categories": list(post.categories),
            "tags": list(post.tags),
            "meta": dict(post.meta) if self._plugin else [],
        }
        for name, raw in (("title", post.title), ("content", post.content), ("excerpt", post.excerpt)):
            shown: dict[str, JsonValue] = {"rendered": f"<!-- rendered -->{raw}"}
            row[name] = {**shown, "raw": raw} if edit or request.query.get("context") == "edit" else shown
        return row


def _me(request: Request, account: Account | None) -> Response:
    if account is None:
        raise RestError(401, "rest_not_logged_in", "You are not currently logged in.")
    body: dict[str, JsonValue] = {"id": account.user_id, "name": account.login, "slug": account.login}
    if request.query.get("context") == "edit":
        body["roles"] = [account.role]
        body["capabilities"] = {name: True for name in CAPABILITIES if account.may(name)}
    return _json(200, body)


def _fields(request: Request) -> dict[str, JsonValue]:
    if not request.body:
        return {}
    try:
        fields = json.loads(request.body)
    except ValueError:
        raise RestError(400, "rest_invalid_json", "Invalid JSON body passed.") from None
    return fields if isinstance(fields, dict) else {}


def _text(fields: Mapping[str, JsonValue], name: str, before: str) -> str:
    value = fields.get(name, before)
    value = value.get("raw") if isinstance(value, dict) else value
    if not isinstance(value, str):
        raise RestError(400, "rest_invalid_param", f"Invalid parameter(s): {name}")
    return value


def _date(fields: Mapping[str, JsonValue], before: int | None) -> int | None:
    given = fields.get("date_gmt", fields.get("date"))
    if not isinstance(given, str):
        return before
    try:
        return int(datetime.fromisoformat(given).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise RestError(400, "rest_invalid_param", "Invalid parameter(s): date") from None


def _seal(post: StoredPost) -> str:
    return f"{_iso(post.modified).replace('T', ' ')}/{post.meta.get('biz_hash', '')}"


def _term(term: Term) -> JsonValue:
    return {"id": term.term_id, "name": escape(term.name, quote=False), "slug": term.slug, "taxonomy": term.taxonomy}


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _json(status: int, value: JsonValue, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status=status, body=json.dumps(value).encode(), headers=headers or {})
