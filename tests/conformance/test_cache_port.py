"""The port `Cache` over the stand-in, whose front really serves old copies; requests against the vendor's contract."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.answers import Reply
from adapters.cloudflare import CloudflareCache
from adapters.public_pages import NEAR, PublicPages, Served, judged
from adapters.sandbox.cloudflare import TOKEN, ZONE
from adapters.sandbox.faults import parse_fault
from adapters.sandbox.running import Sandbox, SandboxSettings
from adapters.wordpress import WordPressSite
from execution.core.failures import (
    Absent,
    CannotTell,
    FailureClass,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Unprepared,
    Unsent,
)
from tests.conformance.beds import carry_out, fresh_article, fresh_marker
from tests.testbeds.openapi import Contract
from tests.unit.adapters.raw_server import answering, reply, serving

PURGE = "POST /cloudflare/client/v4/zones/"
PATH = f"/client/v4/zones/{ZONE}/purge_cache"
DEADLINE_S = 0.6
SETTINGS = SandboxSettings(incomplete_s=0.5, max_run_s=1.0, front=True)
CONTRACT = Contract.of("cloudflare_purge.openapi.json")
CONTENT_HTML = {"Content-Type": "text/html"}
HTML = "<html>busy</html>"


class Front:
    """The sandbox with its front, and a clock that a test turns forward."""

    def __init__(self, folder: Path) -> None:
        self.ahead_s = 0.0
        self.sandbox = Sandbox(folder / "sandbox.db", lambda: time.time() + self.ahead_s, SETTINGS)

    @property
    def url(self) -> str:
        return self.sandbox.url

    def cache(self, token: str = TOKEN, zone: str = ZONE, *, looks: bool = True) -> CloudflareCache:
        pages = PublicPages((self.url,), read_s=DEADLINE_S) if looks else None
        return CloudflareCache(zone, token, SETTINGS.bounds(), pages=pages, url=f"{self.url}/cloudflare")

    def arm(self, match: str = PURGE, **fault: Any) -> None:
        self.sandbox.faults.arm(parse_fault(json.dumps({"match": match, **fault}).encode()))

    @property
    def purges(self) -> list[list[str]]:
        """The addresses of every purge that was accepted."""
        found = self.sandbox.effects()["purges"]
        assert isinstance(found, list)
        return [purge["addresses"] for purge in found]

    async def read(self, address: str) -> tuple[str, str]:
        """A reader opens a page: its cache status and its text."""
        return await asyncio.to_thread(_opened, address)

    async def publish(self, content: str, post_id: str | None = None, slug: str = "an-article") -> str:
        """Put an article on the site, or write over it; its id."""
        site = WordPressSite(self.url, "editor1", "sandbox-editor1", SETTINGS.bounds())
        article = fresh_article(content=content, slug=slug)
        if post_id is None:
            draft = await carry_out(await site.create_draft(marker=fresh_marker(), article=article))
            assert isinstance(draft, Landed)
            post_id = draft.receipt.resource_id
        write = await site.publish(post_id=post_id, expected_version="", article=article)
        assert isinstance(await carry_out(write), Landed)
        await site.aclose()
        return post_id


def _opened(address: str) -> tuple[str, str]:
    try:
        with urllib.request.urlopen(address, timeout=10) as page:
            return page.headers["CF-Cache-Status"], page.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.headers["CF-Cache-Status"], ""


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    running = Front(tmp_path)
    await running.sandbox.start()
    yield running
    await running.sandbox.stop()


async def purged(cache: CloudflareCache, *addresses: str) -> Receipt:
    answer = await carry_out(cache.purge(addresses))
    assert isinstance(answer, Landed)
    return answer.receipt


async def test_a_page_is_served_old_until_it_is_purged_and_then_new(front: Front) -> None:
    cache, page = front.cache(), f"{front.url}/an-article/"
    post_id = await front.publish("<p>one</p>")
    assert (await front.read(page))[0] == "MISS"
    await front.publish("<p>two</p>", post_id)
    assert "<p>one</p>" in (await front.read(page))[1]
    receipt = await purged(cache, page)
    seen = await cache.observe((page,), receipt)
    assert isinstance(seen, Present)
    assert (seen.seen, seen.receipt.data["cache"], seen.receipt.resource_id) == (True, "fresh", ZONE)
    status, text = await front.read(page)
    assert (status, "<p>two</p>" in text) == ("HIT", True)
    assert front.purges == [[page]]
    await cache.aclose()


@pytest.mark.behaviour("threat.31")
@pytest.mark.behaviour("cache.accepted-is-not-removed")
async def test_a_purge_that_was_accepted_and_removed_nothing_is_seen(front: Front) -> None:
    cache, page = front.cache(), f"{front.url}/an-article/"
    post_id = await front.publish("<p>one</p>")
    await front.read(page)
    await front.publish("<p>two</p>", post_id)
    front.ahead_s = 60.0
    front.arm(kind="ignore")
    receipt = await purged(cache, page)
    assert await cache.observe((page,), receipt) == Absent(
        receipt=replace(receipt, data={**receipt.data, "cache": "old"})
    )
    assert isinstance(await cache.observe((page,), await purged(cache, page)), Present)
    await cache.aclose()


async def test_an_old_copy_of_what_the_site_still_shows_is_as_good_as_a_new_one(front: Front) -> None:
    cache, page = front.cache(), f"{front.url}/an-article/"
    await front.publish("<p>one</p>")
    await front.read(page)
    front.ahead_s = 60.0
    front.arm(kind="ignore")
    seen = await cache.observe((page,), await purged(cache, page))
    assert isinstance(seen, Present)
    assert seen.seen
    await cache.aclose()


async def test_where_nobody_can_look_the_success_says_so(front: Front) -> None:
    receipt = Receipt(resource_id=ZONE, data={"addresses": 1, "purged_at": ""})
    assert await front.cache(looks=False).observe((f"{front.url}/a/",), receipt) == Present(receipt=receipt, seen=False)
    cache = front.cache()
    for address in ("https://elsewhere.example/a/", "not an address"):
        seen = await cache.observe((address,), receipt)
        assert isinstance(seen, Present)
        assert (seen.seen, seen.receipt.data["cache"]) == (False, "not_known")
    await cache.aclose()


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"kind": "status_before", "status": 503, "body": HTML}, "http_503"),
        ({"kind": "status_before", "status": 429, "body": HTML}, "http_429"),
        ({"kind": "hang"}, "no_answer_in_time"),
        ({"kind": "truncate"}, "connection_lost"),
    ],
)
async def test_a_page_that_cannot_be_read_just_now_tells_nothing(
    front: Front, fault: dict[str, Any], code: str
) -> None:
    cache, page = front.cache(), f"{front.url}/an-article/"
    await front.publish("<p>one</p>")
    receipt = await purged(cache, page)
    front.arm("GET /an-article/", **fault)
    seen = await cache.observe((page,), receipt)
    assert isinstance(seen, CannotTell)
    assert seen.code == code
    await cache.aclose()


@pytest.mark.parametrize(
    ("status", "age", "served"),
    [
        ("MISS", None, Served.FRESH),
        ("expired", None, Served.FRESH),
        ("REVALIDATED", 4_000, Served.FRESH),
        ("BYPASS", None, Served.FRESH),
        ("DYNAMIC", None, Served.FRESH),
        ("STALE", None, Served.OLD),
        ("STALE", 600, Served.OLD),
        ("UPDATING", 600, Served.OLD),
        ("UPDATING", 1, Served.FRESH),
        ("HIT", 0, Served.FRESH),
        ("HIT", 60, Served.FRESH),
        ("HIT", 61, Served.UNTOLD),
        ("HIT", 60 + NEAR.seconds, Served.UNTOLD),
        ("HIT", 61 + NEAR.seconds, Served.OLD),
        ("HIT", None, Served.UNTOLD),
        ("NONE", 0, Served.UNTOLD),
        ("", 0, Served.UNTOLD),
    ],
)
def test_the_age_of_a_copy_is_told_by_the_clock_of_the_cache(status: str, age: int | None, served: Served) -> None:
    """The page was served a minute after the purge."""
    receipt = Receipt(resource_id=ZONE, data={"purged_at": "Mon, 30 Nov 2026 12:00:00 GMT"})
    headers = {"cf-cache-status": status, "date": "Mon, 30 Nov 2026 12:01:00 GMT"}
    headers |= {} if age is None else {"age": str(age)}
    assert judged(Reply(status=200, body=b"", headers=headers), receipt) is served


@pytest.mark.parametrize("age", ["-1", "nan", "9" * 20, "1.5", "٣", ""])
def test_a_malformed_age_tells_nothing(age: str) -> None:
    receipt = Receipt(resource_id=ZONE, data={"purged_at": "Mon, 30 Nov 2026 12:00:00 GMT"})
    headers = {"cf-cache-status": "HIT", "date": "Mon, 30 Nov 2026 12:01:00 GMT", "age": age}
    assert judged(Reply(status=200, body=b"", headers=headers), receipt) is Served.UNTOLD


@pytest.mark.parametrize(
    ("fault", "code", "purges"),
    [
        ({"kind": "drop_before"}, "connection_lost", 0),
        ({"kind": "reset_before"}, "connection_lost", 0),
        ({"kind": "hang"}, "no_answer_in_time", 0),
        ({"kind": "status_before", "status": 503, "body": HTML}, "http_503", 0),
        ({"kind": "status_before", "status": 301, "headers": {"Location": "/elsewhere"}}, "http_301", 0),
        ({"kind": "status_before", "status": 403, "body": HTML}, "http_403", 0),
        ({"kind": "drop_after"}, "connection_lost", 1),
        ({"kind": "reset_after"}, "connection_lost", 1),
        ({"kind": "hang_after"}, "no_answer_in_time", 1),
        ({"kind": "stall"}, "no_answer_in_time", 1),
        ({"kind": "truncate"}, "connection_lost", 1),
        ({"kind": "endless"}, "answer_too_large", 1),
        ({"kind": "status_after", "status": 500, "body": '{"success": false, "errors": []}'}, "http_500", 1),
        ({"kind": "status_after", "status": 403, "body": HTML}, "http_403", 1),
        ({"kind": "status_after", "status": 403, "body": '{"success": false, "errors": []}'}, "http_403", 1),
        ({"kind": "status_after", "status": 403, "body": '{"code": 10000}'}, "http_403", 1),
        ({"kind": "status_after", "status": 200, "headers": CONTENT_HTML, "body": HTML}, "http_200", 1),
        ({"kind": "status_after", "status": 200, "body": '{"success": "true", "errors": []}'}, "http_200", 1),
        ({"kind": "late_commit", "seconds": 0.8}, "no_answer_in_time", 1),
    ],
)
async def test_what_is_no_answer_of_the_api_is_doubt_and_the_purge_is_simply_made_again(
    front: Front, fault: dict[str, Any], code: str, purges: int
) -> None:
    cache, page = front.cache(), f"{front.url}/an-article/"
    front.arm(**fault)
    assert await carry_out(cache.purge((page,)), DEADLINE_S) == Lost(code=code)
    await purged(cache, page)
    async with asyncio.timeout(5.0):
        while len(front.purges) < purges + 1:
            await front.read(front.url)
    assert len(front.purges) == purges + 1
    await cache.aclose()


def envelope(*codes: int) -> str:
    return json.dumps(
        {
            "success": False,
            "errors": [{"code": code, "message": "canary text"} for code in codes],
            "messages": [],
            "result": None,
        }
    )


TRANSIENT, PERMANENT = FailureClass.TRANSIENT, FailureClass.PERMANENT


@pytest.mark.parametrize(
    ("status", "body", "failure", "code", "asked"),
    [
        (429, HTML, TRANSIENT, "rate_limited", 7.0),
        (429, envelope(10429), TRANSIENT, "rate_limited", 7.0),
        (403, envelope(1015), TRANSIENT, "rate_limited", 7.0),
        (400, envelope(971), TRANSIENT, "rate_limited", 7.0),
        (403, envelope(10000), PERMANENT, "not_authenticated", None),
        (401, envelope(10000), PERMANENT, "not_authenticated", None),
        (403, envelope(9109), PERMANENT, "not_authenticated", None),
        (400, envelope(6003), PERMANENT, "not_authenticated", None),
        (404, envelope(7003, 7000), PERMANENT, "zone_not_found", None),
        (400, envelope(1012), PERMANENT, "addresses_refused", None),
    ],
)
async def test_a_documented_refusal_is_one(
    front: Front, status: int, body: str, failure: FailureClass, code: str, asked: float | None
) -> None:
    front.arm(kind="status_before", status=status, body=body, headers={"Retry-After": "7"})
    answer = await carry_out(front.cache().purge((f"{front.url}/a/",)))
    assert answer == Refused(failure=failure, code=code, retry_after_s=asked)
    assert "canary" not in repr(answer)
    assert front.purges == []


@pytest.mark.parametrize(
    ("token", "zone", "code"), [("wrong", ZONE, "not_authenticated"), (TOKEN, "0" * 32, "not_authenticated")]
)
async def test_a_wrong_token_or_zone_is_refused_for_good(front: Front, token: str, zone: str, code: str) -> None:
    answer = await carry_out(front.cache(token, zone).purge((f"{front.url}/a/",)))
    assert answer == Refused(failure=PERMANENT, code=code)
    assert front.purges == []


async def test_an_api_that_is_not_there_is_unsent(front: Front) -> None:
    write = front.cache().purge((f"{front.url}/a/",))
    await front.sandbox.stop()
    assert await carry_out(write) == Unsent(code="connect_failed")


def test_a_zone_is_its_id_and_not_its_name() -> None:
    with pytest.raises(ValueError, match="32 hexadecimal"):
        CloudflareCache("blog.example", TOKEN, SETTINGS.bounds())


def test_a_token_travels_protected() -> None:
    with pytest.raises(ValueError, match="https"):
        CloudflareCache(ZONE, TOKEN, SETTINGS.bounds(), url="http://api.example.test")


@pytest.mark.parametrize(
    "addresses",
    [(), ("ftp://a.example/",), ("https://a.example/ b",), ("https://a.example/ü",), ("https://a.example/\r\nX: y",)],
)
def test_what_is_no_address_is_never_sent(addresses: tuple[str, ...]) -> None:
    with pytest.raises(Unprepared) as caught:
        CloudflareCache(ZONE, TOKEN, SETTINGS.bounds()).purge(addresses)
    assert caught.value.failure is PERMANENT


def test_the_same_purge_is_the_same_bytes() -> None:
    cache = CloudflareCache(ZONE, TOKEN, SETTINGS.bounds())
    one, two = [cache.purge(("https://a.example/",)).request_digest for _ in range(2)]
    assert one == two != cache.purge(("https://a.example/b/",)).request_digest


@pytest.mark.parametrize("count", [1, 30, 100])
async def test_what_is_sent_keeps_to_the_contract(count: int) -> None:
    """The bytes as they leave, judged by the OpenAPI document."""
    named = tuple(f"https://blog.example/a-{number}/?q=%C3%BC" for number in range(count))
    accepted = b'{"success": true, "errors": [], "messages": [], "result": {"id": "x"}}'
    async with serving(answering(reply(200, accepted))) as server:
        cache = CloudflareCache(ZONE, TOKEN, SETTINGS.bounds(), url=server.url)
        assert isinstance(await carry_out(cache.purge(named)), Landed)
        (request,) = server.requests
    method, path, headers, body = taken_apart(request)
    assert CONTRACT.request(method, path, headers, body) == []
    assert json.loads(body) == {"files": list(named)}


async def test_what_the_stand_in_answers_keeps_to_the_contract(front: Front) -> None:
    cases = [
        (TOKEN, {"files": [f"{front.url}/a/"]}, 200),
        ("wrong", {"files": [f"{front.url}/a/"]}, 403),
        (TOKEN, {}, 400),
        (TOKEN, {"files": [f"{front.url}/a/"] * 101}, 400),
    ]
    for token, body, status in cases:
        assert await asyncio.to_thread(_posted, f"{front.url}/cloudflare{PATH}", token, body) == (status, [])


def _posted(url: str, token: str, body: Any) -> tuple[int, list[str]]:
    request = urllib.request.Request(url, data=json.dumps(body).encode(), method="POST")
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, CONTRACT.answer("POST", PATH, answer.status, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, CONTRACT.answer("POST", PATH, error.code, error.read())


def taken_apart(request: bytes) -> tuple[str, str, dict[str, str], bytes]:
    """Method, path, headers by lower-case name, body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return method, path, headers, body
