"""A caching front and the API that purges it, as Cloudflare answers.

The front keeps every page of the site that was served with 200 until it is purged, so that what changed on the site is
really served old: `CF-Cache-Status`, `Age` and `Date` say so. What a client asks for with Cache-Control is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from email.utils import formatdate
from typing import Final
from urllib.parse import urlencode

from adapters.sandbox.rest import Circumstances
from adapters.sandbox.state import CachedPage, SandboxState
from adapters.sandbox.wire import Request, Response
from capabilities.strict_json import JsonValue

PREFIX: Final = "/cloudflare/"
ZONE: Final = "023e105f4ecef8ad9ca31a8372d0c353"
TOKEN: Final = "sandbox-cloudflare"  # noqa: S105 (protects nothing: the stand-in listens on loopback only)
TOKEN_PATH: Final = "/cloudflare/client/v4/user/tokens/verify"  # noqa: S105 (an address)
FILES_MAX: Final = 100
_PATH: Final = re.compile(r"/cloudflare/client/v4/zones/([^/]+)/purge_cache")


class CachingFront:
    """Copies of pages, kept until they are purged. `now` is Unix seconds."""

    def __init__(self, state: SandboxState, now: Callable[[], float]) -> None:
        self._state, self._now = state, now

    def page(self, request: Request, from_the_site: Callable[[], Response]) -> Response:
        """A page, from the copies or from the site."""
        now = self._now()
        date = formatdate(now, usegmt=True)
        url = f"http://{request.headers.get('host', '')}{request.path}"
        url += f"?{urlencode(request.query)}" if request.query else ""
        kept = self._state.cached_page(url)
        if kept is not None and request.method == "GET":
            told = {"CF-Cache-Status": "HIT", "Age": str(int(now - kept.at)), "Date": date}
            return Response(status=200, body=kept.body, headers={**kept.headers, **told})
        page = from_the_site()
        headers = {**page.headers, "CF-Cache-Status": "MISS" if page.status == 200 else "DYNAMIC", "Date": date}
        if page.status == 200 and request.method == "GET":
            self._state.cache_page(url, CachedPage(headers=dict(page.headers), body=page.body, at=now))
        return Response(status=page.status, body=page.body, headers=headers)


class Api:
    """Purging by address in one zone, with the envelope of API version 4."""

    def __init__(self, state: SandboxState, now: Callable[[], float]) -> None:
        self._state, self._now = state, now

    def answer(self, request: Request, at: Circumstances) -> Response:
        """One request."""
        if request.method == "GET" and request.path == TOKEN_PATH:
            return self._token(request)
        found = _PATH.fullmatch(request.path)
        if found is None or not re.fullmatch(r"[0-9a-f]{32}", found[1]):
            return self._refused(404, 7003, "Could not route to that path, perhaps your object identifier is invalid?")
        if request.method != "POST":
            return self._refused(405, 10405, "Method not allowed for this authentication scheme")
        if request.headers.get("authorization") != f"Bearer {TOKEN}" or found[1] != ZONE:
            return self._refused(403, 10000, "Authentication error")
        files = _files(request.body)
        if files is None:
            return self._refused(400, 1012, "Request must contain one of purge_everything, files, tags, hosts")
        if len(files) > FILES_MAX:
            return self._refused(400, 1094, "Too many files in one request")
        with self._state.transaction():
            self._state.count_purge(ZONE, files, self._now())
            if not at.ignore:
                self._state.forget_pages(files)
        return self._envelope(200, {"success": True, "errors": [], "messages": [], "result": {"id": ZONE}})

    def _token(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return self._refused(401, 1000, "Invalid API Token")
        result: JsonValue = {"id": "sandbox", "status": "active"}
        return self._envelope(200, {"success": True, "errors": [], "messages": [], "result": result})

    def _refused(self, status: int, code: int, message: str) -> Response:
        error: JsonValue = {"code": code, "message": message}
        return self._envelope(status, {"success": False, "errors": [error], "messages": [], "result": None})

    def _envelope(self, status: int, body: dict[str, JsonValue]) -> Response:
        headers = {"Date": formatdate(self._now(), usegmt=True)}
        return Response(status=status, body=json.dumps(body).encode(), headers=headers)


def _files(body: bytes) -> list[str] | None:
    """The addresses in a request's body; None when it is not one."""
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    files = fields.get("files") if isinstance(fields, dict) and len(fields) == 1 else None
    if not isinstance(files, list) or not files or not all(isinstance(name, str) for name in files):
        return None
    return [str(name) for name in files]
