"""What each fault proves to the adapter, and what it left behind: outcomes beside effects, never outcomes alone."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapters.sandbox.faults import parse_fault
from adapters.sandbox.running import Sandbox, SandboxSettings
from adapters.wordpress import WordPressSite
from execution.core.failures import Absent, CannotTell, FailureClass, Landed, Lost, Present, Refused, Unsent
from tests.conformance.beds import carry_out, fresh_article, fresh_marker

CREATE = "POST /wp-json/wp/v2/posts"
HTML = "<html>maintenance</html>"
DEADLINE_S = 0.6
SETTINGS = SandboxSettings(incomplete_s=0.5, max_run_s=1.0)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    running = Sandbox(tmp_path / "sandbox.db", time.time, SETTINGS)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def site(sandbox: Sandbox) -> AsyncIterator[WordPressSite]:
    adapter = WordPressSite(sandbox.url, "editor1", "sandbox-editor1", SETTINGS.bounds(), read_s=DEADLINE_S)
    yield adapter
    await adapter.aclose()


def arm(sandbox: Sandbox, **fault: Any) -> None:
    sandbox.faults.arm(parse_fault(json.dumps({"match": CREATE, **fault}).encode()))


def posts(sandbox: Sandbox) -> list[dict[str, Any]]:
    found = sandbox.effects()["posts"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("fault", "code", "effects"),
    [
        ({"kind": "drop_before"}, "connection_lost", 0),
        ({"kind": "reset_before"}, "connection_lost", 0),
        ({"kind": "hang"}, "no_answer_in_time", 0),
        ({"kind": "status_before", "status": 503, "headers": {"Retry-After": "1"}}, "http_503", 0),
        ({"kind": "status_before", "status": 301, "headers": {"Location": "/wp-json/wp/v2/posts"}}, "http_301", 0),
        ({"kind": "status_before", "status": 200, "body": HTML}, "http_200", 0),
        ({"kind": "status_before", "status": 403, "body": HTML}, "http_403", 0),
        ({"kind": "drop_after"}, "connection_lost", 1),
        ({"kind": "reset_after"}, "connection_lost", 1),
        ({"kind": "hang_after"}, "no_answer_in_time", 1),
        ({"kind": "stall"}, "no_answer_in_time", 1),
        ({"kind": "truncate"}, "connection_lost", 1),
        ({"kind": "endless"}, "answer_too_large", 1),
        ({"kind": "status_after", "status": 500, "body": "{}"}, "http_500", 1),
        ({"kind": "status_after", "status": 504, "body": HTML}, "http_504", 1),
        ({"kind": "status_after", "status": 403, "body": HTML}, "http_403", 1),
        ({"kind": "status_after", "status": 200, "body": HTML}, "http_200", 1),
        ({"kind": "status_after", "status": 201, "body": HTML}, "unreadable_answer", 1),
        ({"kind": "status_after", "status": 201, "body": "{}"}, "unreadable_answer", 1),
        ({"kind": "status_after", "status": 201, "body": ""}, "unreadable_answer", 1),
        (
            {"kind": "status_after", "status": 403, "body": '{"code":"rest_meta_error","data":{"status":403}}'},
            "http_403",
            1,
        ),
        ({"kind": "delay", "seconds": 0.9}, "no_answer_in_time", 1),
    ],
)
async def test_silence_and_nonsense_are_doubt_and_the_read_back_resolves_it(
    sandbox: Sandbox, site: WordPressSite, fault: dict[str, Any], code: str, effects: int
) -> None:
    arm(sandbox, **fault)
    marker, article = fresh_marker(), fresh_article()
    answer = await carry_out(await site.create_draft(marker=marker, article=article), DEADLINE_S)
    assert answer == Lost(code=code)
    assert len(posts(sandbox)) == effects
    seen = await site.observe_draft(marker=marker, article=article, known_id=None)
    assert isinstance(seen, Present if effects else Absent)


async def test_too_many_requests_is_a_refusal_with_its_wait(sandbox: Sandbox, site: WordPressSite) -> None:
    arm(sandbox, kind="status_before", status=429, headers={"Retry-After": "12"}, body=HTML)
    answer = await carry_out(await site.create_draft(marker=fresh_marker(), article=fresh_article()))
    assert answer == Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=12.0)
    assert posts(sandbox) == []


async def test_a_refused_connect_is_unsent(sandbox: Sandbox, site: WordPressSite) -> None:
    write = await site.create_draft(marker=fresh_marker(), article=fresh_article())
    await sandbox.stop()
    assert await carry_out(write) == Unsent(code="connect_failed")


async def test_a_late_commit_lands_after_the_client_has_gone(sandbox: Sandbox, site: WordPressSite) -> None:
    arm(sandbox, kind="late_commit", seconds=0.5)
    marker, article = fresh_marker(), fresh_article()
    assert await carry_out(await site.create_draft(marker=marker, article=article), 0.2) == Lost(
        code="no_answer_in_time"
    )
    assert await site.observe_draft(marker=marker, article=article, known_id=None) == Absent()
    async with asyncio.timeout(2.0):
        while not isinstance(await site.observe_draft(marker=marker, article=article, known_id=None), Present):
            pass
    assert len(posts(sandbox)) == 1


async def test_a_request_beyond_its_maximum_run_time_is_killed_and_never_lands(
    sandbox: Sandbox, site: WordPressSite
) -> None:
    arm(sandbox, kind="late_commit", seconds=2.0)
    answer = await carry_out(await site.create_draft(marker=fresh_marker(), article=fresh_article()), 1.8)
    assert answer == Lost(code="http_504")
    assert posts(sandbox) == []


async def test_an_incomplete_request_is_dropped_after_the_declared_time(sandbox: Sandbox) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", sandbox.http_port)
    writer.write(f"{CREATE} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf".encode())
    began = time.monotonic()
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 5.0) == b""
    assert time.monotonic() - began >= SETTINGS.incomplete_s * 0.9
    writer.close()
    assert posts(sandbox) == []


async def test_a_stale_read_answers_the_past(sandbox: Sandbox, site: WordPressSite) -> None:
    marker, article = fresh_marker(), fresh_article()
    await carry_out(await site.create_draft(marker=marker, article=article))
    arm(sandbox, match="GET /wp-json/wp/v2/posts", kind="stale", seconds=60)
    assert await site.observe_draft(marker=marker, article=article, known_id=None) == Absent()
    assert isinstance(await site.observe_draft(marker=marker, article=article, known_id=None), Present)


async def test_a_front_that_sends_a_request_twice_leaves_two_rows_that_are_counted(
    sandbox: Sandbox, site: WordPressSite
) -> None:
    arm(sandbox, kind="replay")
    marker, article = fresh_marker(), fresh_article()
    answer = await carry_out(await site.create_draft(marker=marker, article=article))
    assert isinstance(answer, Landed)
    seen = await site.observe_draft(marker=marker, article=article, known_id=answer.receipt.resource_id)
    assert isinstance(seen, Present)
    assert seen.rows == len(posts(sandbox)) == 2


async def test_a_rename_by_the_site_is_seen(sandbox: Sandbox, site: WordPressSite) -> None:
    article = fresh_article()
    draft = await carry_out(await site.create_draft(marker=fresh_marker(), article=article))
    assert isinstance(draft, Landed)
    look = {"post_id": draft.receipt.resource_id, "expected_version": draft.receipt.version}
    arm(sandbox, kind="rename")
    await carry_out(await site.publish(**look, article=article))
    seen = await site.observe_publication(**look, article=article)
    assert isinstance(seen, Present)
    assert (seen.complete, seen.difference) == (False, ("slug",))


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"kind": "status_before", "status": 200, "body": HTML}, "unreadable_answer"),
        ({"kind": "status_before", "status": 200, "body": "{}"}, "unreadable_answer"),
        ({"kind": "status_before", "status": 503, "body": HTML}, "http_503"),
        ({"kind": "status_before", "status": 404, "body": HTML}, "http_404"),
        ({"kind": "status_before", "status": 403, "body": HTML}, "not_authorised"),
        ({"kind": "hang"}, "no_answer_in_time"),
        ({"kind": "truncate"}, "connection_lost"),
    ],
)
async def test_a_read_that_fails_says_so_and_is_never_an_absence(
    sandbox: Sandbox, site: WordPressSite, fault: dict[str, Any], code: str
) -> None:
    arm(sandbox, match="GET /wp-json/wp/v2/posts", times=0, **fault)
    marker, article = fresh_marker(), fresh_article()
    assert await site.observe_draft(marker=marker, article=article, known_id=None) == CannotTell(code=code)
    assert await site.find_public(slug=article.slug) == CannotTell(code=code)
    assert await site.read(post_id="1") == CannotTell(code=code)


async def test_notices_before_the_json_are_read_over(sandbox: Sandbox, site: WordPressSite) -> None:
    body = "<br />\n<b>Notice</b>: Undefined index: {x} in <b>/a.php</b> on line <b>2</b><br />\n[]"
    arm(sandbox, match="GET /wp-json/wp/v2/posts", kind="status_before", status=200, body=body)
    assert await site.observe_draft(marker=fresh_marker(), article=fresh_article(), known_id=None) == Absent()


async def test_a_pause_after_the_commit_holds_the_answer_until_it_is_cleared(
    sandbox: Sandbox, site: WordPressSite, tmp_path: Path
) -> None:
    signal = tmp_path / "committed"
    arm(sandbox, kind="pause_after_commit", signal=str(signal))
    write = await site.create_draft(marker=fresh_marker(), article=fresh_article())
    sending = asyncio.create_task(carry_out(write, 5.0))
    assert await sandbox.faults.struck("pause_after_commit", 5.0)
    assert (len(posts(sandbox)), sending.done()) == (1, False)
    sandbox.faults.clear()
    assert isinstance(await sending, Landed)
    assert signal.exists()


async def test_no_text_of_the_site_leaves_the_adapter(sandbox: Sandbox, site: WordPressSite) -> None:
    canary = "canary-text-of-the-site"
    body = json.dumps({"code": canary, "message": canary, "data": {"status": 400}})
    arm(sandbox, kind="status_before", status=400, body=body)
    answer = await carry_out(await site.create_draft(marker=fresh_marker(), article=fresh_article()))
    assert canary not in repr(answer)
    arm(sandbox, match="GET", kind="status_before", status=400, body=body)
    assert canary not in repr(await site.read(post_id="1"))


async def test_a_write_prepared_twice_is_the_same_bytes(site: WordPressSite) -> None:
    marker, article = fresh_marker(), fresh_article()
    one, two = [(await site.create_draft(marker=marker, article=article)).request_digest for _ in range(2)]
    other = (await site.create_draft(marker=marker, article=fresh_article(title="Other"))).request_digest
    assert one == two != other
