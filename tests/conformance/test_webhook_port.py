"""The port `Webhook` over a receiver that checks signatures, judged by another implementation of the specification."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook as Judge
from standardwebhooks import WebhookVerificationError

from adapters.addresses import is_public
from adapters.sandbox.faults import parse_fault
from adapters.sandbox.running import Sandbox, SandboxSettings
from adapters.sandbox.webhooks import SECRET
from adapters.webhook import WebhookEndpoint, encode, signature
from execution.core.failures import Answer, FailureClass, Landed, Lost, Receipt, Refused, Unprepared, Unsent
from execution.core.quiescence import Bounds
from execution.ports import Event
from tests.conformance.beds import carry_out
from tests.services import free_port
from tests.unit.adapters.raw_server import answering, reply, self_signed, serving

EVENT = Event(
    event_id="msg_abcdefghijklmnopqrstuvwx",
    kind="article.published",
    at="2026-11-30T12:00:00Z",
    data={"site": "blog", "version": 1, "title": "Über „Kaffee“ 日本", "url": "https://blog.example/a/"},
)
HOOK = "POST /webhooks/hook"
DEADLINE_S = 0.6
SETTINGS = SandboxSettings(incomplete_s=0.5, max_run_s=1.0)
HTML = " \n<!doctype html><title>soon</title>"
LANDED = Landed(receipt=Receipt(resource_id=EVENT.event_id))


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    running = Sandbox(tmp_path / "sandbox.db", time.time, SETTINGS)
    await running.start()
    yield running
    await running.stop()


def endpoint(url: str, secret: str = SECRET, now_s: float | None = None, **more: Any) -> WebhookEndpoint:
    return WebhookEndpoint(url, secret, Bounds(), lambda: time.time() if now_s is None else now_s, **more)


def hook(sandbox: Sandbox, **more: Any) -> WebhookEndpoint:
    return endpoint(f"{sandbox.url}/webhooks/hook", **more)


def arm(sandbox: Sandbox, **fault: Any) -> None:
    sandbox.faults.arm(parse_fault(json.dumps({"match": HOOK, **fault}).encode()))


def taken(sandbox: Sandbox) -> list[dict[str, Any]]:
    found = sandbox.effects()["webhooks"]
    assert isinstance(found, list)
    return found


def headers_of(request: bytes) -> tuple[dict[str, str], bytes]:
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}, body


def test_the_signature_is_that_of_the_specifications_example() -> None:
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.behaviour("webhook.signed")
async def test_another_implementation_accepts_what_is_sent_and_nothing_that_was_changed() -> None:
    async with serving(answering(reply(204, b""))) as server:
        assert await carry_out(endpoint(f"{server.url}/hook?tenant=a").send(EVENT)) == LANDED
        (request,) = server.requests
    headers, body = headers_of(request)
    assert request.startswith(b"POST /hook?tenant=a HTTP/1.1\r\n")
    assert headers["content-type"] == "application/json"
    assert Judge(SECRET).verify(body, headers) == {"type": EVENT.kind, "timestamp": EVENT.at, "data": dict(EVENT.data)}
    for changed in (
        (body + b" ", headers),
        (body, {**headers, "webhook-id": "msg_other"}),
        (body, {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1)}),
    ):
        with pytest.raises(WebhookVerificationError):
            Judge(SECRET).verify(*changed)


async def test_a_receiver_takes_an_event_under_its_id(sandbox: Sandbox) -> None:
    assert await carry_out(hook(sandbox).send(EVENT)) == LANDED
    (delivery,) = taken(sandbox)
    assert (delivery["webhook_id"], delivery["path"]) == (EVENT.event_id, "/webhooks/hook")
    assert json.loads(delivery["body"])["data"]["title"] == "Über „Kaffee“ 日本"


async def test_another_secret_or_an_old_request_is_not_taken(sandbox: Sandbox) -> None:
    other = "whsec_" + base64.b64encode(b"x" * 32).decode()
    assert await carry_out(hook(sandbox, secret=other).send(EVENT)) == Lost(code="http_401")
    assert await carry_out(hook(sandbox, now_s=time.time() - 600).send(EVENT)) == Lost(code="http_401")
    assert taken(sandbox) == []


def test_a_later_try_of_the_same_event_has_the_same_digest_and_a_new_timestamp() -> None:
    """What is fenced is what is sent; only the proof of who sends it is younger."""
    early, late = (endpoint("https://hook.example/", now_s=now).send(EVENT) for now in (1.7e9, 1.7e9 + 3600))
    assert early.request_digest == late.request_digest
    other = endpoint("https://hook.example/").send(replace(EVENT, at="")).request_digest
    elsewhere = endpoint("https://hook.example/other").send(EVENT).request_digest
    assert len({early.request_digest, other, elsewhere}) == 3


@pytest.mark.parametrize(
    ("fault", "code", "deliveries"),
    [
        ({"kind": "drop_before"}, "connection_lost", 0),
        ({"kind": "reset_before"}, "connection_lost", 0),
        ({"kind": "hang"}, "no_answer_in_time", 0),
        ({"kind": "status_before", "status": 503, "body": HTML}, "http_503", 0),
        ({"kind": "status_before", "status": 404, "body": HTML}, "http_404", 0),
        ({"kind": "status_before", "status": 307, "headers": {"Location": "/webhooks/x"}}, "http_307", 0),
        ({"kind": "drop_after"}, "connection_lost", 1),
        ({"kind": "reset_after"}, "connection_lost", 1),
        ({"kind": "hang_after"}, "no_answer_in_time", 1),
        ({"kind": "stall"}, "no_answer_in_time", 1),
        ({"kind": "truncate"}, "connection_lost", 1),
        ({"kind": "endless"}, "answer_too_large", 1),
        ({"kind": "status_after", "status": 500, "body": "{}"}, "http_500", 1),
        ({"kind": "status_after", "status": 403, "body": HTML}, "http_403", 1),
        ({"kind": "status_after", "status": 400, "body": "{}"}, "http_400", 1),
        ({"kind": "status_after", "status": 200, "body": HTML}, "no_acknowledgement", 1),
    ],
)
async def test_what_is_no_acknowledgement_is_doubt(
    sandbox: Sandbox, fault: dict[str, Any], code: str, deliveries: int
) -> None:
    arm(sandbox, **fault)
    assert await carry_out(hook(sandbox).send(EVENT), DEADLINE_S) == Lost(code=code)
    assert len(taken(sandbox)) == deliveries


async def test_a_request_that_lands_late_is_doubt_and_lands(sandbox: Sandbox) -> None:
    arm(sandbox, kind="late_commit", seconds=0.5)
    assert await carry_out(hook(sandbox).send(EVENT), 0.2) == Lost(code="no_answer_in_time")
    assert taken(sandbox) == []
    async with asyncio.timeout(5.0):
        while not taken(sandbox):
            await carry_out(endpoint(f"{sandbox.url}/elsewhere").send(EVENT))
    assert len(taken(sandbox)) == 1


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        (
            {"kind": "status_before", "status": 410, "body": HTML},
            Refused(failure=FailureClass.PERMANENT, code="receiver_gone"),
        ),
        (
            {"kind": "status_before", "status": 429, "headers": {"Retry-After": "5"}},
            Refused(failure=FailureClass.TRANSIENT, code="rate_limited", retry_after_s=5.0),
        ),
    ],
)
async def test_a_documented_refusal_is_one(sandbox: Sandbox, fault: dict[str, Any], answer: Answer) -> None:
    arm(sandbox, **fault)
    assert await carry_out(hook(sandbox).send(EVENT)) == answer
    assert taken(sandbox) == []


@pytest.mark.parametrize("body", [b"", b"ok", b'{"received":true}'])
async def test_any_word_of_thanks_is_an_acknowledgement(body: bytes) -> None:
    async with serving(answering(reply(202, body))) as server:
        assert await carry_out(endpoint(server.url).send(EVENT)) == LANDED


async def test_a_receiver_that_is_not_there_is_unsent() -> None:
    assert await carry_out(endpoint(f"http://127.0.0.1:{free_port()}/").send(EVENT)) == Unsent(code="connect_failed")


@pytest.mark.behaviour("threat.21")
@pytest.mark.behaviour("webhook.private-addresses")
async def test_a_name_that_leads_to_a_private_address_gets_no_byte(tmp_path: Path) -> None:
    """127.0.0.2 is this machine under a name that the configuration does not call so."""
    tls, trusted = self_signed(tmp_path)
    async with serving(answering(reply(200)), tls) as server:
        url = f"https://127.0.0.2:{server.port}/hook"
        listener = await asyncio.start_server(server.accept, "127.0.0.2", server.port)
        answer = await carry_out(endpoint(url, ca_file=trusted).send(EVENT))
        assert answer == Refused(failure=FailureClass.PERMANENT, code="private_address")
        assert server.requests == []
        told = await carry_out(endpoint(f"https://localhost:{server.port}/hook", ca_file=trusted).send(EVENT))
        assert told == LANDED
        listener.close()


async def test_a_private_receiver_is_reached_when_the_configuration_says_so() -> None:
    async with serving(answering(reply(200))) as server:
        told = endpoint(server.url, private=True)
        assert await carry_out(told.send(EVENT)) == LANDED


@pytest.mark.behaviour("threat.21")
@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("127.1.2.3", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::a00:1", False),
        ("64:ff9b::5db8:d822", True),
        ("2002:a00:1::1", False),
    ],
)
def test_which_addresses_are_everybodys(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://hook.example/", "https"),
        ("http://127.1/", "https"),
        ("ftp://hook.example/", "http"),
        ("https://user:word@hook.example/", "without credentials"),
        ("https://hook.example/#part", "fragment"),
        ("hook.example", "http"),
        ("", "http"),
    ],
)
def test_an_address_that_could_not_be_trusted_is_refused(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        endpoint(url)


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_c2hvcnQ=", "c2FuZGJveC13ZWJob29rLXNlY3JldC0wMDAx", "whsec_!!!"]
)
def test_a_secret_that_is_none_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(ValueError, match="a secret is whsec_") as caught:
        endpoint("https://hook.example/", secret)
    assert not secret.removeprefix("whsec_") or secret not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"event_id": "msg.1"}, "malformed_event"),
        ({"event_id": "msg\r\nX: y"}, "malformed_event"),
        ({"event_id": ""}, "malformed_event"),
        ({"data": {"title": "x" * 70_000}}, "event_too_large"),
    ],
)
def test_what_could_not_be_signed_or_taken_is_never_sent(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(Unprepared, match=code):
        endpoint("https://hook.example/").send(replace(EVENT, **fields))


def test_the_same_event_is_the_same_bytes() -> None:
    assert encode(EVENT) == encode(replace(EVENT)) != encode(replace(EVENT, data={}))
