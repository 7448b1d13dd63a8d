"""Every adapter says whether it could do its work, by asking and without leaving a trace; whoever cannot is told."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.cloudflare import CloudflareCache
from adapters.database import SqlPublications
from adapters.database_checks import SqlMonitoring
from adapters.mail import Login, Security, SmtpMail
from adapters.monitoring import Healthchecks
from adapters.public_pages import PublicPages
from adapters.sandbox.cloudflare import TOKEN, ZONE
from adapters.sandbox.healthchecks import API_KEY
from adapters.sandbox.running import Sandbox
from adapters.sandbox.webhooks import SECRET
from adapters.webhook import WebhookEndpoint
from adapters.wordpress import WordPressSite
from execution.performer import Performer
from execution.ports import Ports, Severity, Symptom
from server.doctor.systems import externals, probes
from tests.conformance.beds import PLENTY
from tests.integration.world import NoArtifacts
from tests.services import Mailbox, free_port

SENDER = "remit@example.test"


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    running = Sandbox(tmp_path / "sandbox.db", time.time, PLENTY)
    await running.start()
    yield running
    await running.stop()


def codes(symptoms: tuple[Symptom, ...]) -> list[tuple[str, str]]:
    return [(symptom.code, symptom.severity) for symptom in symptoms]


async def test_a_relay_is_greeted_and_no_message_is_left(smtp: Mailbox) -> None:
    mail = SmtpMail("127.0.0.1", smtp.port, SENDER, security=Security.NONE)
    assert codes(await mail.probe()) == [("relay_ready", "fine")]
    assert smtp.messages == ()


async def test_a_relay_that_is_not_there_or_offers_no_login_is_a_problem(smtp: Mailbox) -> None:
    absent = SmtpMail("127.0.0.1", free_port(), SENDER, security=Security.NONE)
    assert codes(await absent.probe()) == [("connect_failed", "problem")]
    login = Login(username="remit", password="secret-of-the-relay")
    (symptom,) = await SmtpMail("127.0.0.1", smtp.port, SENDER, security=Security.NONE, login=login).probe()
    assert (symptom.code, symptom.severity) == ("tls_or_login_not_offered", Severity.PROBLEM)
    assert "secret-of-the-relay" not in repr(symptom)


async def test_a_table_that_can_be_written_is_ready_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "publications.db"
    table = SqlPublications(f"sqlite:///{file}")
    table.create_table()
    before = file.read_bytes()
    symptoms = await table.probe()
    assert codes(symptoms) == [("table_ready", "fine")] * 2  # publications, and what was withdrawn
    assert len({symptom.detail for symptom in symptoms}) == 2
    assert file.read_bytes() == before
    await table.aclose()


async def test_a_table_that_is_missing_other_or_locked_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "publications.db"
    table = SqlPublications(f"sqlite:///{file}")
    assert codes(await table.probe()) == [("table_missing", "problem")]
    assert not file.exists()
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE remit_publications (key TEXT)")
    assert codes(await table.probe()) == [("table_differs", "problem"), ("table_missing", "problem")]
    database.execute("BEGIN IMMEDIATE")
    assert codes(await table.probe()) == [("database_busy", "problem")]
    database.close()
    await table.aclose()


async def test_a_site_says_which_key_strategy_is_in_force(sandbox: Sandbox) -> None:
    bounds = sandbox.settings.bounds()
    slug = WordPressSite(sandbox.url, "editor1", "sandbox-editor1", bounds)
    (ready,) = await slug.probe()
    assert (ready.code, "key strategy slug" in ready.detail) == ("site_ready", True)
    plugin = WordPressSite(sandbox.url, "editor1", "sandbox-editor1", bounds, plugin=True)
    assert codes(await plugin.probe()) == [("plugin_missing", "problem")]
    stranger = WordPressSite(sandbox.url, "editor1", "wrong-password", bounds)
    (refused,) = await stranger.probe()
    assert (refused.code, refused.severity) == ("not_authorised", Severity.PROBLEM)
    assert "wrong-password" not in repr(refused)
    assert sandbox.effects()["writes"] == {}
    for site in (slug, plugin, stranger):
        await site.aclose()


async def test_a_cache_whose_token_is_one_is_ready_and_nothing_is_purged(sandbox: Sandbox) -> None:
    bounds, url = sandbox.settings.bounds(), f"{sandbox.url}/cloudflare"
    ready = CloudflareCache(ZONE, TOKEN, bounds, url=url, pages=PublicPages((sandbox.url,)))
    assert codes(await ready.probe()) == [("token_ready", "fine")]
    blind = CloudflareCache(ZONE, TOKEN, bounds, url=url)
    assert codes(await blind.probe()) == [("token_ready", "fine"), ("pages_not_looked_at", "note")]
    stranger = CloudflareCache(ZONE, "wrong-token", bounds, url=url, pages=PublicPages((sandbox.url,)))
    (refused,) = await stranger.probe()
    assert (refused.code, refused.severity) == ("not_authenticated", Severity.PROBLEM)
    assert "wrong-token" not in repr(refused)
    absent = CloudflareCache(ZONE, TOKEN, bounds, url=f"http://127.0.0.1:{free_port()}")
    assert codes(await absent.probe())[0] == ("connect_failed", "problem")
    assert sandbox.effects()["purges"] == []
    for cache in (ready, blind, stranger, absent):
        await cache.aclose()


async def test_monitoring_whose_key_opens_the_checks_is_ready_and_none_is_made(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    url = f"{sandbox.url}/healthchecks"
    ready, stranger = (Healthchecks(url, key, sandbox.settings.bounds()) for key in (API_KEY, "wrong-key"))
    assert codes(await ready.probe()) == [("service_ready", "fine")]
    (refused,) = await stranger.probe()
    assert (refused.code, refused.severity, "wrong-key" in repr(refused)) == ("not_authorised", "problem", False)
    assert sandbox.effects()["checks"] == []
    table = SqlMonitoring(f"sqlite:///{tmp_path}/checks.db")
    assert codes(await table.probe()) == [("table_missing", "problem")]
    table.create_table()
    assert codes(await table.probe()) == [("table_ready", "fine")]
    for system in (ready, stranger, table):
        await system.aclose()


async def test_a_receiver_is_connected_to_and_told_nothing(sandbox: Sandbox) -> None:
    def told(url: str) -> WebhookEndpoint:
        return WebhookEndpoint(url, SECRET, sandbox.settings.bounds(), time.time)

    assert codes(await told(f"{sandbox.url}/webhooks/hook").probe()) == [("receiver_ready", "fine")]
    assert codes(await told(f"http://127.0.0.1:{free_port()}/").probe()) == [("connect_failed", "problem")]
    elsewhere = told(f"https://127.0.0.2:{sandbox.http_port}/")
    listener = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.2", sandbox.http_port)
    assert codes(await elsewhere.probe()) == [("private_address", "problem")]
    listener.close()
    assert sandbox.effects()["webhooks"] == []


class Mute:
    """An adapter that has bounds and cannot be asked."""

    bounds = PLENTY.bounds()


class Breaking(Mute):
    """An adapter whose probe raises what the system said."""

    async def probe(self) -> tuple[Symptom, ...]:
        raise RuntimeError("text of the provider")


async def test_adapters_are_found_in_the_ports_whatever_they_are_called() -> None:
    ports = Ports(artifacts=NoArtifacts(), wordpress={"blog": Mute()}, mail=Breaking())  # type: ignore[dict-item, arg-type]  # only what a probe needs
    assert [external.name for external in externals(ports)] == ["wordpress blog", "mail"]
    found = {checked.subject: checked.symptom for checked in await probes(ports)}
    assert found["wordpress blog"].code == "not_probed"
    assert (found["mail"].code, found["mail"].severity) == ("probe_failed", Severity.PROBLEM)
    assert "text of the provider" not in repr(found)


async def test_a_probe_that_hangs_is_cut_off() -> None:
    class Hanging(Mute):
        async def probe(self) -> tuple[Symptom, ...]:
            await asyncio.Event().wait()
            return ()

    performer = Performer(ports=Ports(artifacts=NoArtifacts()), observe_deadline_s=0.05)
    (symptom,) = await performer.probe(Hanging())
    assert (symptom.code, symptom.detail) == ("probe_failed", "deadline")
