"""Reading a WordPress site: what it answers, never more than that, and with proof that we may see what we ask for.

Every read is authenticated with context=edit (an anonymous answer is an error there, never an empty list), goes past
page caches, and names the statuses it wants: the default hides drafts, and `any` hides the trash.
"""

from __future__ import annotations

import html
import secrets
from dataclasses import dataclass
from typing import Final

from adapters.answers import NoReply, Reply, Unreadable
from adapters.http import HttpSystem
from adapters.wordpress_posts import Post, error_code, parse_answer, parse_list, parse_post
from capabilities.strict_json import JsonValue
from execution.core.failures import CannotTell

API: Final = "/wp-json/wp/v2"
PER_PAGE: Final = 100
TERMS_MAX: Final = 20
PLUGIN_VERSION: Final = 1
_UNAUTHORISED: Final = frozenset((401, 403))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """WordPress answers that no such post exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """What the account may see and do."""

    edit_posts: bool
    edit_others_posts: bool
    publish_posts: bool
    upload_files: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTerm:
    """The site has no category or tag of that name."""


class WordPressReader:
    """Reads of one site."""

    def __init__(self, system: HttpSystem) -> None:
        self._system = system

    async def by_id(self, post_id: str) -> Post | Gone | CannotTell:
        """The post as it is now, whatever its status."""
        found = await self.one("posts", post_id)
        try:
            return found if isinstance(found, Gone | CannotTell) else parse_post(found)
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def by_slugs(self, slugs: tuple[str, ...]) -> tuple[Post, ...] | CannotTell:
        """Posts with one of these slugs in any status, trash included. The caller checks every row."""
        return await self._rows({"slug": ",".join(slugs)})

    async def by_key(self, key: str) -> tuple[Post, ...] | CannotTell:
        """Posts with that business key, where the plugin is installed. Without it the filter is ignored: rows of others
        come back, so each row is checked here."""
        rows = await self._rows({"remit_key": key})
        return rows if isinstance(rows, CannotTell) else tuple(row for row in rows if row.key == key)

    async def authority(self) -> Authority | CannotTell:
        """Who we are to the site, asked of the site."""
        reply = await self._get("/users/me", {})
        if isinstance(reply, CannotTell):
            return reply
        try:
            refused, value = _refused(reply), parse_answer(reply.body)
        except Unreadable:
            return CannotTell(code="unreadable_answer")
        if refused is not None:
            return refused
        granted = value.get("capabilities") if isinstance(value, dict) else None
        if not isinstance(granted, dict):
            return CannotTell(code="unreadable_answer")
        return Authority(
            edit_posts=granted.get("edit_posts") is True,
            edit_others_posts=granted.get("edit_others_posts") is True,
            publish_posts=granted.get("publish_posts") is True,
            upload_files=granted.get("upload_files") is True,
        )

    async def has_plugin(self) -> bool | CannotTell:
        """Whether the site has the must-use plugin that holds business keys."""
        reply = await self._system.get("/wp-json/remit/v1/plugin", {"remit_at": secrets.token_hex(8)})
        if isinstance(reply, NoReply):
            return CannotTell(code=reply.code)
        if reply.status == 404 and error_code(reply.body, 404) == "rest_no_route":
            return False
        try:
            found = _refused(reply) or parse_answer(reply.body)
        except Unreadable:
            return CannotTell(code="unreadable_answer")
        if isinstance(found, CannotTell):
            return found
        return isinstance(found, dict) and found.get("version") == PLUGIN_VERSION

    async def term_ids(self, taxonomy: str, names: tuple[str, ...]) -> tuple[int, ...] | UnknownTerm | CannotTell:
        """Ids of the `categories` or `tags` of these names."""
        found: list[int] = []
        for name in names[:TERMS_MAX]:
            term = await self._term_id(taxonomy, name)
            if not isinstance(term, int):
                return term
            found.append(term)
        return tuple(found) if len(names) <= TERMS_MAX else UnknownTerm()

    async def _term_id(self, taxonomy: str, name: str) -> int | UnknownTerm | CannotTell:
        stored = html.escape(name, quote=False)  # WordPress keeps names as HTML, and searches what it keeps
        reply = await self._get(f"/{taxonomy}", {"search": stored, "per_page": str(PER_PAGE)})
        if isinstance(reply, CannotTell):
            return reply
        try:
            return _refused(reply) or _term_named(parse_answer(reply.body), name)
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def _rows(self, params: dict[str, str]) -> tuple[Post, ...] | CannotTell:
        rows = await self.listed("posts", {**params, "status": "any,trash", "orderby": "id", "order": "asc"})
        try:
            return rows if isinstance(rows, CannotTell) else tuple(map(parse_post, rows))
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def one(self, kind: str, object_id: str) -> JsonValue | Gone | CannotTell:
        """An object of that kind (posts, media …) as it is now."""
        if not object_id.isdecimal():
            return Gone()
        reply = await self._get(f"/{kind}/{object_id}", {})
        if isinstance(reply, CannotTell):
            return reply
        if reply.status == 404 and error_code(reply.body, 404) == "rest_post_invalid_id":
            return Gone()
        try:
            return _refused(reply) or parse_answer(reply.body)
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def listed(self, kind: str, params: dict[str, str]) -> list[JsonValue] | CannotTell:
        """One page of objects of that kind."""
        reply = await self._get(f"/{kind}", {**params, "per_page": str(PER_PAGE)})
        if isinstance(reply, CannotTell):
            return reply
        try:
            return _refused(reply) or parse_list(reply.body)
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def unpublished(self, limit: int) -> list[JsonValue] | CannotTell:
        """Id, slug and status of posts that readers do not see and that do not lie in the trash, the newest first."""
        wanted = {"status": "draft,pending,private,future", "orderby": "date", "_fields": "id,slug,status"}
        found: list[JsonValue] = []
        while len(found) < limit:
            rows = await self.listed("posts", {**wanted, "offset": str(len(found))})
            if isinstance(rows, CannotTell):
                return rows
            found += rows
            if len(rows) < PER_PAGE:
                break
        return found[:limit]

    async def _get(self, path: str, params: dict[str, str]) -> Reply | CannotTell:
        """A page cache keys by the whole URL: a parameter that WordPress ignores makes each read its own."""
        reply = await self._system.get(API + path, {"context": "edit", **params, "remit_at": secrets.token_hex(8)})
        return CannotTell(code=reply.code) if isinstance(reply, NoReply) else reply


def _refused(reply: Reply) -> CannotTell | None:
    if reply.status == 200:
        return None
    if reply.status in _UNAUTHORISED or _status_forbidden(reply):
        return CannotTell(code="not_authorised")
    code = "rate_limited" if reply.status == 429 else f"http_{reply.status}"
    return CannotTell(code=code, retry_after_s=reply.retry_after_s)


def _status_forbidden(reply: Reply) -> bool:
    """Asking for drafts without the right to: 400, in older versions by its own name, later wrapped."""
    code = error_code(reply.body, reply.status)
    return code == "rest_forbidden_status" or (code == "rest_invalid_param" and b"rest_forbidden_status" in reply.body)


def _term_named(value: JsonValue, name: str) -> int | UnknownTerm:
    if not isinstance(value, list):
        raise Unreadable
    for row in value:
        shown, term_id = (row.get("name"), row.get("id")) if isinstance(row, dict) else (None, None)
        if isinstance(shown, str) and isinstance(term_id, int) and html.unescape(shown).casefold() == name.casefold():
            return term_id
    return UnknownTerm()
