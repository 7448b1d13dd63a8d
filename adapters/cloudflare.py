"""Cloudflare's cache in front of one site: the port `execution.ports.Cache`, purging by address.

    {"success": true, …} with 200       accepted: Landed. Not removed yet, and never a claim about what is served
    429, or a code that means "slower"  refused for now; what it asks for with Retry-After is respected
    {"success": false, "errors": […]}   with a 4xx that Cloudflare documents for it: refused; token, zone and addresses
                                        are configuration, so the same again would be refused again
    anything else                       Lost, and harmless: the same addresses are purged again

A 403 or 404 of something in between carries no such envelope and proves nothing.
"""

from __future__ import annotations

import json
import re
from typing import Final

from adapters.answers import JsonObject, NoReply, Reply, Unreadable, parse_object, text, undocumented
from adapters.http import CONNECT_S, READ_S, HttpSystem
from adapters.public_pages import PublicPages
from execution.core.definition import Prepared
from execution.core.failures import Answer, FailureClass, Landed, Lost, Present, Receipt, Refused, Sighting, Unprepared
from execution.core.quiescence import Bounds
from execution.ports import Severity, Symptom

API: Final = "https://api.cloudflare.com"
VERIFY_PATH: Final = "/client/v4/user/tokens/verify"
ADDRESSES_MAX: Final = 500
"""Of one request on the largest plan."""
ADDRESS_CHARS_MAX: Final = 4096
_ZONE: Final = re.compile(r"[0-9a-f]{32}")
_ADDRESS: Final = re.compile(r"https?://[!-~]+")
_SLOWER: Final = frozenset({429, 971, 1015, 1027, 10429})
"""Too many requests, in the words of several of Cloudflare's layers."""
_AUTHENTICATION: Final = frozenset({1000, 6003, 6103, 6111, 9103, 9106, 9107, 9109, 10000, 10001})
_NO_ROUTE: Final = frozenset({1001, 7000, 7003})
_NOT_LOOKED_AT: Final = Symptom(
    code="pages_not_looked_at",
    severity=Severity.NOTE,
    detail="whether a purge worked is never known",
    fix="Set verify = true where this machine can open the public pages.",
)


class CloudflareCache:
    """See the module. `zone` is the zone's id. pages: how readers see the site; None: this machine cannot look."""

    system: Final = "cloudflare"

    def __init__(
        self,
        zone: str,
        token: str,
        bounds: Bounds,
        *,
        pages: PublicPages | None = None,
        url: str = API,
        connect_s: float = CONNECT_S,
        read_s: float = READ_S,
        ca_file: str | None = None,
    ) -> None:
        if not _ZONE.fullmatch(zone):
            raise ValueError("a zone's id is 32 hexadecimal digits")
        self._path = f"/client/v4/zones/{zone}/purge_cache"
        self._pages = pages
        self._system = HttpSystem(
            url,
            bounds=bounds,
            headers={"Authorization": f"Bearer {token}"},
            connect_s=connect_s,
            read_s=read_s,
            ca_file=ca_file,
        )

    @property
    def bounds(self) -> Bounds:
        return self._system.bounds

    async def probe(self) -> tuple[Symptom, ...]:
        """Whether the token is one. Whether it may purge this zone shows only in a purge."""
        reply = await self._system.get(VERIFY_PATH)
        looks = () if self._pages is not None else (_NOT_LOOKED_AT,)
        if isinstance(reply, NoReply):
            return (_broken(reply.code), *looks)
        code = _token_fault(reply)
        return (_broken(code) if code else Symptom(code="token_ready", detail="the token is active"), *looks)

    async def aclose(self) -> None:
        """Close the kept connections."""
        await self._system.aclose()
        if self._pages is not None:
            await self._pages.aclose()

    def purge(self, addresses: tuple[str, ...]) -> Prepared:
        if not 1 <= len(addresses) <= ADDRESSES_MAX:
            raise Unprepared(FailureClass.PERMANENT, "no_or_too_many_addresses")
        if not all(_ADDRESS.fullmatch(address) and len(address) <= ADDRESS_CHARS_MAX for address in addresses):
            raise Unprepared(FailureClass.PERMANENT, "malformed_address")
        body = json.dumps({"files": list(addresses)}, separators=(",", ":")).encode()
        return self._system.write("POST", self._path, body, judge=lambda reply: judge(reply, len(addresses)))

    async def observe(self, addresses: tuple[str, ...], purged: Receipt) -> Sighting:
        if self._pages is None:
            return Present(receipt=purged, seen=False)
        return await self._pages.since(addresses, purged)


def _token_fault(reply: Reply) -> str | None:
    """What is wrong with the token, by the answer to the question whether it is one."""
    try:
        envelope = parse_object(reply.body)
        if reply.status == 200 and envelope.get("success") is True:
            return None if text(envelope, "result", "status") == "active" else "token_not_active"
        return _refusal(_codes(envelope)) if reply.status in (400, 401, 403) else f"http_{reply.status}"
    except Unreadable:
        return "unreadable_answer"


def _broken(code: str) -> Symptom:
    token = "Make an API token with the permission Cache Purge for that zone, and put it into the file."  # noqa: S105 (a sentence)
    elsewhere = "Look whether the API can be reached from this machine."
    about_token = code in ("not_authenticated", "addresses_refused", "token_not_active")
    return Symptom(code=code, severity=Severity.PROBLEM, fix=token if about_token else elsewhere)


def judge(reply: Reply, addresses: int) -> Answer:
    """What the answer to a purge proves."""
    if reply.status == 429:
        return undocumented(reply)
    try:
        envelope = parse_object(reply.body)
        codes = _codes(envelope)
    except Unreadable:
        return undocumented(reply)
    match envelope["success"], reply.status:
        case True, 200:
            purged_at = reply.headers.get("date", "")
            told = Receipt(resource_id=_id(envelope), data={"addresses": addresses, "purged_at": purged_at})
            return Landed(receipt=told)
        case False, _ if codes & _SLOWER:
            return Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=reply.retry_after_s)
        case False, 400 | 401 | 403 | 404 | 405 if codes:
            return Refused(failure=FailureClass.PERMANENT, code=_refusal(codes))
        case _:
            return Lost(code=f"http_{reply.status}")


def _refusal(codes: frozenset[int]) -> str:
    if codes & _AUTHENTICATION:
        return "not_authenticated"
    return "zone_not_found" if codes & _NO_ROUTE else "addresses_refused"


def _codes(envelope: JsonObject) -> frozenset[int]:
    """Numbers of the envelope's errors; raises Unreadable for what is no envelope of Cloudflare's."""
    errors = envelope.get("errors")
    if not isinstance(envelope.get("success"), bool) or not isinstance(errors, list):
        raise Unreadable
    codes = [error.get("code") for error in errors if isinstance(error, dict)]
    if len(codes) != len(errors) or not all(isinstance(code, int) for code in codes):
        raise Unreadable
    return frozenset(code for code in codes if isinstance(code, int))


def _id(envelope: JsonObject) -> str:
    result = envelope.get("result")
    name = result.get("id") if isinstance(result, dict) else None
    return name if isinstance(name, str) else ""
