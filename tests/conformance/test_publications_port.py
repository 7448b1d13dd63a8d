"""The port `Publications` over a real SQLite file, whose rows are counted without the adapter."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from adapters.database import SqlPublications
from adapters.database_link import STATEMENT_S
from execution.core.failures import (
    Absent,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Unsent,
)
from execution.ports import PublicationRecord
from tests.conformance.beds import carry_out

RECORD = PublicationRecord(
    key="acme:sql:stage:blog:a:v1", site="blog", article_id="a", version=1, title="T", content_hash="h"
)
LIVE = PublicationRecord(
    key=RECORD.key,
    site="blog",
    article_id="a",
    version=1,
    title="T",
    content_hash="h",
    post_id="7",
    url="https://x.test/a/",
)


def landed(status: str, revision: int) -> Landed:
    return Landed(receipt=Receipt(resource_id=RECORD.key, version=str(revision), data={"status": status}))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "publications.db"


@pytest.fixture
async def table(file: Path) -> AsyncIterator[SqlPublications]:
    publications = SqlPublications(f"sqlite:///{file}")
    publications.create_table()
    yield publications
    await publications.aclose()


def rows(file: Path) -> list[tuple[str, str]]:
    """(status, post id) of every row, read without the adapter."""
    with sqlite3.connect(file) as database:
        found = database.execute("SELECT status, post_id FROM remit_publications").fetchall()
    database.close()
    return found


async def test_a_record_goes_from_staged_to_published_under_one_key(table: SqlPublications, file: Path) -> None:
    assert await table.observe(key=RECORD.key, status="staged") == Absent()
    assert await carry_out(table.stage(RECORD)) == landed("staged", 1)
    assert await table.observe(key=RECORD.key, status="staged") == Present(receipt=landed("staged", 1).receipt)
    assert await table.observe(key=RECORD.key, status="published") == Absent(receipt=landed("staged", 1).receipt)
    assert await carry_out(table.record(LIVE)) == landed("published", 2)
    assert await table.observe(key=RECORD.key, status="published") == Present(receipt=landed("published", 2).receipt)
    assert rows(file) == [("published", "7")]


async def test_the_same_again_changes_nothing(table: SqlPublications, file: Path) -> None:
    for _ in range(2):
        assert await carry_out(table.stage(RECORD)) == landed("staged", 1)
    for _ in range(2):
        assert await carry_out(table.record(LIVE)) == landed("published", 2)
    assert rows(file) == [("published", "7")]


async def test_a_record_may_be_published_without_having_been_staged(table: SqlPublications, file: Path) -> None:
    assert await carry_out(table.record(LIVE)) == landed("published", 1)
    assert rows(file) == [("published", "7")]


async def test_a_cancelled_key_never_comes_back(table: SqlPublications, file: Path) -> None:
    await carry_out(table.stage(RECORD))
    for _ in range(2):
        assert await carry_out(table.cancel(key=RECORD.key)) == landed("cancelled", 2)
    refused = Refused(failure=FailureClass.CONFLICT, code="already_cancelled")
    assert await carry_out(table.stage(RECORD)) == refused
    assert await carry_out(table.record(LIVE)) == refused
    seen = await table.observe(key=RECORD.key, status="published")
    assert seen == Foreign(code="already_cancelled", receipt=landed("cancelled", 2).receipt)
    assert rows(file) == [("cancelled", "")]


async def test_what_is_published_or_not_there_cannot_be_cancelled(table: SqlPublications) -> None:
    refused = Refused(failure=FailureClass.CONFLICT, code="not_staged")
    assert await carry_out(table.cancel(key=RECORD.key)) == refused
    await carry_out(table.record(LIVE))
    assert await carry_out(table.cancel(key=RECORD.key)) == refused


async def test_many_at_once_under_one_key_leave_one_row(table: SqlPublications, file: Path) -> None:
    answers = await asyncio.gather(*(carry_out(table.stage(RECORD)) for _ in range(8)))
    assert set(map(repr, answers)) == {repr(landed("staged", 1))}
    assert rows(file) == [("staged", "")]


async def test_a_database_that_cannot_be_opened_is_unsent_and_cannot_tell(tmp_path: Path) -> None:
    publications = SqlPublications(f"sqlite:///{tmp_path}/no/such/folder/p.db")
    assert await carry_out(publications.stage(RECORD)) == Unsent(code="connect_failed")
    assert await publications.observe(key=RECORD.key, status="staged") == CannotTell(code="database_unavailable")
    await publications.aclose()


async def test_a_missing_table_is_refused_for_good(file: Path) -> None:
    publications = SqlPublications(f"sqlite:///{file}")
    refused = Refused(failure=FailureClass.PERMANENT, code="table_missing")
    assert await carry_out(publications.stage(RECORD)) == refused
    assert await publications.observe(key=RECORD.key, status="staged") == CannotTell(code="table_missing")
    await publications.aclose()


async def test_an_abandoned_transaction_never_commits_later(table: SqlPublications, file: Path) -> None:
    blocker = sqlite3.connect(file, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    answer = await carry_out(table.stage(RECORD), 0.2)
    assert answer == Refused(failure=FailureClass.TRANSIENT, code="no_answer_in_time")
    blocker.execute("COMMIT")
    blocker.close()
    await table.aclose()
    assert rows(file) == []


async def test_a_busy_database_is_refused_within_the_declared_time(table: SqlPublications, file: Path) -> None:
    blocker = sqlite3.connect(file, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    answer = await carry_out(table.stage(RECORD), 3.0 * STATEMENT_S)
    assert answer == Refused(failure=FailureClass.TRANSIENT, code="database_busy")
    blocker.close()
    assert rows(file) == []


async def test_a_commit_whose_answer_is_lost_is_doubt_that_the_read_back_resolves(
    table: SqlPublications, file: Path
) -> None:
    def lose_the_answer(connection: sa.Connection) -> None:
        connection.connection.commit()
        raise sa.exc.OperationalError("COMMIT", {}, ConnectionError("lost"))

    sa.event.listen(sa.Engine, "commit", lose_the_answer)
    try:
        assert await carry_out(table.stage(RECORD)) == Lost(code="commit_unknown")
    finally:
        sa.event.remove(sa.Engine, "commit", lose_the_answer)
    assert await table.observe(key=RECORD.key, status="staged") == Present(receipt=landed("staged", 1).receipt)
    assert rows(file) == [("staged", "")]


async def test_without_a_connection_nothing_is_sent_and_the_digest_is_stable(table: SqlPublications) -> None:
    write = table.stage(RECORD)
    assert await write.send(1.0) == Unsent(code="no_connection")
    assert write.request_digest == table.stage(RECORD).request_digest != table.record(RECORD).request_digest
