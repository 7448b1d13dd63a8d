"""The port `Monitoring`: over a table in a real SQLite file, and over the stand-in of a Healthchecks service.

Checks are counted where they lie, without the adapter.
"""

import asyncio
import json
import sqlite3
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from adapters.database_checks import SqlMonitoring
from adapters.monitoring import Healthchecks
from adapters.sandbox.faults import parse_fault
from adapters.sandbox.healthchecks import API_KEY, CHECKS_MAX, PATH
from adapters.sandbox.running import Sandbox, SandboxSettings
from execution.core.failures import (
    Absent,
    CannotTell,
    FailureClass,
    Landed,
    Lost,
    Present,
    Refused,
    Unprepared,
    Unsent,
)
from execution.ports import Check, Monitoring
from tests.conformance.beds import carry_out
from tests.services import free_port

CHECK = Check(
    key="remit-abcdefghijklmnopqrstuvwx",
    name="How to brew „coffee“",
    url="https://blog.example/how-to-brew/",
    tags=("remit", "site:blog"),
    site="blog",
    article_id="article-0028",
    version=1,
)
LATER = replace(CHECK, version=2, url="https://blog.example/how-to-brew-coffee/", name="How to brew coffee")
REGISTER = f"POST {PATH}"
DEADLINE_S = 0.6
SETTINGS = SandboxSettings(incomplete_s=0.5, max_run_s=1.0)
HTML = "<html>busy</html>"


@dataclass(frozen=True, slots=True)
class Bed:
    """A system that holds checks. checks: (key, name) of each, as it lies there."""

    monitoring: Monitoring
    checks: Callable[[], list[tuple[str, str]]]


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    running = Sandbox(tmp_path / "sandbox.db", time.time, SETTINGS)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def service(sandbox: Sandbox) -> AsyncIterator[Healthchecks]:
    adapter = Healthchecks(f"{sandbox.url}/healthchecks", API_KEY, SETTINGS.bounds(), read_s=DEADLINE_S)
    yield adapter
    await adapter.aclose()


@pytest.fixture
async def table(tmp_path: Path) -> AsyncIterator[SqlMonitoring]:
    monitoring = SqlMonitoring(f"sqlite:///{tmp_path}/checks.db")
    monitoring.create_table()
    yield monitoring
    await monitoring.aclose()


@pytest.fixture(params=["sql", "healthchecks"])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Bed:
    if request.param == "sql":
        return Bed(request.getfixturevalue("table"), lambda: rows(tmp_path / "checks.db"))
    sandbox: Sandbox = request.getfixturevalue("sandbox")
    return Bed(request.getfixturevalue("service"), lambda: stored(sandbox))


def rows(file: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(file) as database:
        found = database.execute("SELECT key, name FROM remit_checks").fetchall()
    database.close()
    return found


def stored(sandbox: Sandbox) -> list[tuple[str, str]]:
    found = sandbox.effects()["checks"]
    assert isinstance(found, list)
    return [(check["slug"], check["name"]) for check in found]


def arm(sandbox: Sandbox, **fault: Any) -> None:
    sandbox.faults.arm(parse_fault(json.dumps({"match": REGISTER, **fault}).encode()))


async def test_a_check_is_made_once_and_found(bed: Bed) -> None:
    assert await bed.monitoring.observe(CHECK) == Absent()
    made = await carry_out(bed.monitoring.register(CHECK))
    assert isinstance(made, Landed)
    assert await bed.monitoring.observe(CHECK) == Present(receipt=made.receipt)
    again = await carry_out(bed.monitoring.register(CHECK))
    assert again == made
    assert bed.checks() == [(CHECK.key, CHECK.name)]


async def test_a_later_version_takes_the_check_over(bed: Bed) -> None:
    first = await carry_out(bed.monitoring.register(CHECK))
    assert isinstance(first, Landed)
    assert await bed.monitoring.observe(LATER) == Absent(receipt=first.receipt)
    second = await carry_out(bed.monitoring.register(LATER))
    assert isinstance(second, Landed)
    assert second.receipt.resource_id == first.receipt.resource_id
    assert await bed.monitoring.observe(LATER) == Present(receipt=second.receipt)
    assert isinstance(await bed.monitoring.observe(CHECK), Absent)
    assert bed.checks() == [(CHECK.key, LATER.name)]


async def test_checks_of_others_are_neither_found_nor_touched(bed: Bed) -> None:
    other = replace(CHECK, key="remit-another")
    await carry_out(bed.monitoring.register(other))
    assert await bed.monitoring.observe(CHECK) == Absent()
    await carry_out(bed.monitoring.register(CHECK))
    assert sorted(bed.checks()) == [(CHECK.key, CHECK.name), (other.key, other.name)]


async def test_the_same_check_is_the_same_bytes(bed: Bed) -> None:
    one, two = [bed.monitoring.register(CHECK).request_digest for _ in range(2)]
    assert one == two != bed.monitoring.register(LATER).request_digest


async def test_without_a_connection_nothing_is_sent(bed: Bed) -> None:
    assert await bed.monitoring.register(CHECK).send(DEADLINE_S) == Unsent(code="no_connection")
    assert bed.checks() == []


# -- the service -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "code", "checks"),
    [
        ({"kind": "drop_before"}, "connection_lost", 0),
        ({"kind": "reset_before"}, "connection_lost", 0),
        ({"kind": "hang"}, "no_answer_in_time", 0),
        ({"kind": "status_before", "status": 503, "body": HTML}, "http_503", 0),
        ({"kind": "status_before", "status": 301, "headers": {"Location": "/x"}}, "http_301", 0),
        ({"kind": "status_before", "status": 403, "body": HTML}, "http_403", 0),
        ({"kind": "drop_after"}, "connection_lost", 1),
        ({"kind": "reset_after"}, "connection_lost", 1),
        ({"kind": "hang_after"}, "no_answer_in_time", 1),
        ({"kind": "stall"}, "no_answer_in_time", 1),
        ({"kind": "truncate"}, "connection_lost", 1),
        ({"kind": "endless"}, "answer_too_large", 1),
        ({"kind": "status_after", "status": 500, "body": "{}"}, "http_500", 1),
        ({"kind": "status_after", "status": 403, "body": HTML}, "http_403", 1),
        ({"kind": "status_after", "status": 400, "body": HTML}, "http_400", 1),
        ({"kind": "status_after", "status": 200, "body": HTML}, "unreadable_answer", 1),
        ({"kind": "status_after", "status": 201, "body": "{}"}, "unreadable_answer", 1),
        ({"kind": "status_after", "status": 200, "body": '{"slug": "another"}'}, "another_check", 1),
    ],
)
async def test_silence_and_nonsense_are_doubt_and_the_read_back_resolves_it(
    sandbox: Sandbox, service: Healthchecks, fault: dict[str, Any], code: str, checks: int
) -> None:
    arm(sandbox, **fault)
    assert await carry_out(service.register(CHECK), DEADLINE_S) == Lost(code=code)
    assert len(stored(sandbox)) == checks
    assert isinstance(await service.observe(CHECK), Present if checks else Absent)
    assert isinstance(await carry_out(service.register(CHECK)), Landed)
    assert len(stored(sandbox)) == 1


async def test_a_registration_that_lands_late_lands_on_the_same_check(sandbox: Sandbox, service: Healthchecks) -> None:
    arm(sandbox, kind="late_commit", seconds=0.5)
    assert await carry_out(service.register(CHECK), 0.2) == Lost(code="no_answer_in_time")
    assert await service.observe(CHECK) == Absent()
    assert isinstance(await carry_out(service.register(CHECK)), Landed)
    assert await sandbox.faults.struck("late_commit", 5.0)
    seen = await service.observe(CHECK)
    assert isinstance(seen, Present)
    assert (seen.rows, len(stored(sandbox))) == (1, 1)


TRANSIENT, PERMANENT = FailureClass.TRANSIENT, FailureClass.PERMANENT


@pytest.mark.parametrize(
    ("status", "body", "failure", "code", "asked"),
    [
        (429, "", TRANSIENT, "rate_limited", 9.0),
        (401, '{"error": "canary"}', PERMANENT, "not_authenticated", None),
        (400, '{"error": "canary"}', PERMANENT, "check_refused", None),
        (403, "", PERMANENT, "no_more_checks", None),
    ],
)
async def test_a_documented_refusal_is_one(
    sandbox: Sandbox, service: Healthchecks, status: int, body: str, failure: FailureClass, code: str, asked: Any
) -> None:
    arm(sandbox, kind="status_before", status=status, body=body, headers={"Retry-After": "9"})
    answer = await carry_out(service.register(CHECK))
    assert answer == Refused(failure=failure, code=code, retry_after_s=asked)
    assert "canary" not in repr(answer)
    assert stored(sandbox) == []


async def test_a_wrong_key_is_refused_and_reads_no_empty_list(sandbox: Sandbox) -> None:
    service = Healthchecks(f"{sandbox.url}/healthchecks", "wrong", SETTINGS.bounds())
    assert await carry_out(service.register(CHECK)) == Refused(failure=PERMANENT, code="not_authenticated")
    assert await service.observe(CHECK) == CannotTell(code="not_authorised")
    await service.aclose()


async def test_a_service_that_takes_no_more_checks_says_so(sandbox: Sandbox, service: Healthchecks) -> None:
    for number in range(CHECKS_MAX):
        sandbox._state.put_monitor(str(number), {"uuid": str(number), "slug": f"s{number}", "name": ""})
    assert await carry_out(service.register(CHECK)) == Refused(failure=PERMANENT, code="no_more_checks")


async def test_several_checks_with_our_key_are_counted(sandbox: Sandbox, service: Healthchecks) -> None:
    """Two requests at once can leave two; here another client makes the second without `unique`."""
    await carry_out(service.register(CHECK))
    await asyncio.to_thread(_post, sandbox.url, {"name": "by hand", "slug": CHECK.key})
    seen = await service.observe(CHECK)
    assert isinstance(seen, Present)
    assert seen.rows == len(stored(sandbox)) == 2


def _post(url: str, fields: dict[str, str]) -> None:
    request = urllib.request.Request(url + PATH, data=json.dumps(fields).encode(), method="POST")
    request.add_header("X-Api-Key", API_KEY)
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 201


async def test_a_server_that_ignores_the_filter_is_not_believed(sandbox: Sandbox, service: Healthchecks) -> None:
    body = json.dumps({"checks": [{"slug": "another", "uuid": "u", "name": CHECK.name}]})
    arm(sandbox, match=f"GET {PATH}", kind="status_before", status=200, body=body)
    assert await service.observe(CHECK) == Absent()


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"kind": "status_before", "status": 200, "body": HTML}, "unreadable_answer"),
        ({"kind": "status_before", "status": 200, "body": '{"checks": [1]}'}, "unreadable_answer"),
        ({"kind": "status_before", "status": 503, "body": HTML}, "http_503"),
        ({"kind": "status_before", "status": 404, "body": HTML}, "http_404"),
        ({"kind": "status_before", "status": 403, "body": HTML}, "not_authorised"),
        ({"kind": "hang"}, "no_answer_in_time"),
        ({"kind": "truncate"}, "connection_lost"),
    ],
)
async def test_a_read_that_fails_says_so_and_is_never_an_absence(
    sandbox: Sandbox, service: Healthchecks, fault: dict[str, Any], code: str
) -> None:
    await carry_out(service.register(CHECK))
    arm(sandbox, match=f"GET {PATH}", **fault)
    assert await service.observe(CHECK) == CannotTell(code=code)


async def test_a_service_that_is_not_there_is_unsent() -> None:
    service = Healthchecks(f"http://127.0.0.1:{free_port()}", API_KEY, SETTINGS.bounds())
    assert await carry_out(service.register(CHECK)) == Unsent(code="connect_failed")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"key": "Upper"}, "malformed_check"),
        ({"key": ""}, "malformed_check"),
        ({"url": ""}, "malformed_check"),
        ({"tags": ("two words",)}, "malformed_check"),
        ({"tags": ("x" * 100,) * 6}, "too_many_tags"),
    ],
)
def test_what_could_be_no_check_is_never_sent(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(Unprepared, match=code):
        Healthchecks("https://checks.example", API_KEY, SETTINGS.bounds()).register(replace(CHECK, **fields))


async def test_a_title_longer_than_the_service_allows_is_cut(sandbox: Sandbox, service: Healthchecks) -> None:
    long = replace(CHECK, name="x" * 200)
    assert isinstance(await carry_out(service.register(long)), Landed)
    assert isinstance(await service.observe(long), Present)


async def test_a_receipt_does_not_hold_the_address_that_pings(service: Healthchecks) -> None:
    assert "ping" not in repr(await carry_out(service.register(CHECK)))


# -- the table ---------------------------------------------------------------------------------------------------------


async def test_many_at_once_under_one_key_leave_one_row(table: SqlMonitoring, tmp_path: Path) -> None:
    answers = await asyncio.gather(*(carry_out(table.register(CHECK)) for _ in range(8)))
    assert all(isinstance(answer, Landed) for answer in answers)
    assert len(rows(tmp_path / "checks.db")) == 1


async def test_a_missing_table_is_refused_for_good(tmp_path: Path) -> None:
    monitoring = SqlMonitoring(f"sqlite:///{tmp_path}/none.db")
    assert await carry_out(monitoring.register(CHECK)) == Refused(failure=PERMANENT, code="table_missing")
    assert await monitoring.observe(CHECK) == CannotTell(code="table_missing")
    await monitoring.aclose()


async def test_a_commit_whose_answer_is_lost_is_doubt_that_the_read_back_resolves(
    table: SqlMonitoring, tmp_path: Path
) -> None:
    def lose_the_answer(connection: sa.Connection) -> None:
        connection.connection.commit()
        raise sa.exc.OperationalError("COMMIT", {}, ConnectionError("lost"))

    sa.event.listen(sa.Engine, "commit", lose_the_answer)
    try:
        assert await carry_out(table.register(CHECK)) == Lost(code="commit_unknown")
    finally:
        sa.event.remove(sa.Engine, "commit", lose_the_answer)
    assert isinstance(await table.observe(CHECK), Present)
    assert len(rows(tmp_path / "checks.db")) == 1
