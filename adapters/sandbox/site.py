"""A WordPress site's REST interface over the sandbox's state: what it answers to whom, and what it does to the rows.

Posts are in `adapters.sandbox.posts`, the media library in `adapters.sandbox.media`. Fronts and faults are not known
here.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from html import escape, unescape

from adapters.sandbox.accounts import CAPABILITIES, Account, RestError, need
from adapters.sandbox.content import slugify
from adapters.sandbox.media import UPLOADS, Media
from adapters.sandbox.posts import DESCRIPTION, Posts
from adapters.sandbox.rest import API, Circumstances, answer_json, fields_of, no_route, text_of
from adapters.sandbox.state import SandboxState, Term
from adapters.sandbox.wire import Request, Response
from capabilities.strict_json import JsonValue


class Site:
    """One site. `now` is Unix seconds; `plugin`: the must-use plugin that holds a business key is installed."""

    def __init__(
        self, state: SandboxState, accounts: tuple[Account, ...], now: Callable[[], float], *, plugin: bool = False
    ) -> None:
        self._state, self._accounts, self._plugin = state, accounts, plugin
        self._posts, self._media = Posts(state, accounts, now, plugin=plugin), Media(state, accounts, now)

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
            return answer_json(error.status, body)

    def _route(self, request: Request, at: Circumstances) -> Response:
        path = request.path.removeprefix(API).rstrip("/")
        if not request.path.startswith("/wp-json"):
            return self._page(request)
        account = self._account(request)
        if found := re.fullmatch(r"/(posts|media)/(\d+)(/post-process)?", path):
            return self._route_one(found[1], int(found[2]), bool(found[3]), request, account, at)
        match request.method:
            case "GET" if path == "/posts":
                return self._posts.list(request, account, at)
            case "POST" if path == "/posts":
                return self._posts.create(request, account, at)
            case "GET" if path == "/media":
                return self._media.list(request, account, at)
            case "POST" if path == "/media":
                return self._media.upload(request, account, at)
            case "GET" if path == "/pages":
                return _pages(request, account)
            case "GET" if path == "/users/me":
                return _me(request, account)
            case "GET" | "POST" if path in ("/categories", "/tags"):
                return self._terms(path[1:], request, account)
            case "GET" if self._plugin and request.path == "/wp-json/remit/v1/plugin":
                need(account, "edit_posts", "rest_forbidden", "not allowed to do that")
                return answer_json(200, {"version": 1})
            case _:
                raise no_route()

    def _route_one(
        self, kind: str, object_id: int, processing: bool, request: Request, account: Account | None, at: Circumstances
    ) -> Response:
        served = self._posts if kind == "posts" else self._media
        match request.method:
            case "POST" if processing and kind == "media":
                return self._media.process(object_id, request, account)
            case "GET" if not processing:
                return served.one(object_id, request, account, at)
            case "POST" | "PUT" | "PATCH" if not processing:
                return served.update(object_id, request, account, at)
            case "DELETE" if not processing:
                return served.delete(object_id, request, account)
            case _:
                raise no_route()

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

    def _terms(self, taxonomy: str, request: Request, account: Account | None) -> Response:
        if request.method == "GET":
            sought = request.query.get("search", "").casefold()
            found = [_term(t) for t in self._state.terms(taxonomy) if sought in escape(t.name, quote=False).casefold()]
            return answer_json(200, found)
        need(account, "manage_terms" if taxonomy == "categories" else "edit_posts", "rest_cannot_create", "not allowed")
        name = text_of(fields_of(request), "name", "")
        same = next((t for t in self._state.terms(taxonomy) if t.name.casefold() == name.casefold()), None)
        if same is not None:
            raise RestError(400, "term_exists", "A term with the name provided already exists.", term_id=same.term_id)
        return answer_json(201, _term(self._state.add_term(taxonomy, name, slugify(name))))

    def _page(self, request: Request) -> Response:
        content = self._state.file(request.path.removeprefix(UPLOADS)) if request.path.startswith(UPLOADS) else None
        if content is not None:
            return Response(status=200, body=content, headers={"Content-Type": "application/octet-stream"})
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
        described = post.meta.get(DESCRIPTION, "") if self._plugin else ""
        meta = f'<meta name="description" content="{escape(described)}">' if described else ""
        head = f"<title>{escape(unescape(post.title))}</title>{meta}"
        page = f"<html><head>{head}</head><body>{post.content}</body></html>"
        return Response(status=200, body=page.encode(), headers=headers)


def _pages(request: Request, account: Account | None) -> Response:
    """There are none; who may not edit them is told so."""
    if request.query.get("context") == "edit":
        need(account, "edit_pages", "rest_forbidden_context", "not allowed to edit posts in this post type")
    return answer_json(200, [])


def _me(request: Request, account: Account | None) -> Response:
    if account is None:
        raise RestError(401, "rest_not_logged_in", "You are not currently logged in.")
    body: dict[str, JsonValue] = {"id": account.user_id, "name": account.login, "slug": account.login}
    if request.query.get("context") == "edit":
        body["roles"] = [account.role]
        body["capabilities"] = {name: True for name in CAPABILITIES if account.may(name)}
    return answer_json(200, body)


def _term(term: Term) -> JsonValue:
    return {"id": term.term_id, "name": escape(term.name, quote=False), "slug": term.slug, "taxonomy": term.taxonomy}
