"""Several real processes on one journal, and what their gateways tell whom."""

import asyncio
import json
import sqlite3
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import pytest

from execution.store.opening import open_store
from server.app import SystemClock, Ulids, opened
from server.config import load_config
from server.home import create_home
from server.tools import Call
from tests.integration.burst import SINGLE_USE

ROUNDS: Final = 120
PROCESSES: Final = 8
CALLS: Final = 200
ANSWER_BYTES_MAX: Final = 1 << 20
ARTICLE: Final = {"version": 1, "site": "blog", "title": "How to brew coffee", "content": "# Fresh water"}
ROOT: Final = Path(__file__).parents[2]


async def issued(home: Path, agent: str, *options: str) -> Path:
    """A token file for that agent, made by the command line."""
    file = home / "tokens" / agent
    words = ("token", "issue", "--agent", agent, "--out", str(file), "--home", str(home), *options)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "server", *words, cwd=ROOT, stdout=DEVNULL)
    assert await process.wait() == 0
    return file


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    await asyncio.to_thread(create_home, path, clock=SystemClock(), ids=Ulids(), tenant="acme", operator="olivia")
    return path


class Gateway:
    """A long-lived `remit serve --no-worker` process with its pipes in our hands."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.count = 0

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.count += 1
        line = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        await self.process.stdin.drain()
        answer: dict[str, Any] = json.loads(await self.process.stdout.readline())
        assert answer["id"] == self.count
        result: dict[str, Any] = answer["result"]
        return result

    async def propose(self, **changes: Any) -> dict[str, Any]:
        arguments = {**ARTICLE, "wait_seconds": 0, **changes}
        result = await self.request("tools/call", {"name": "propose_publish", "arguments": arguments})
        found: dict[str, Any] = result["structuredContent"]
        return found


@asynccontextmanager
async def gateway(home: Path, token: Path) -> AsyncIterator[Gateway]:
    words = ("serve", "--no-worker", "--home", str(home), "--token-file", str(token))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "server",
        *words,
        cwd=ROOT,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=ANSWER_BYTES_MAX,
    )
    made = Gateway(process)
    try:
        info = {"name": "test", "version": "0"}
        await made.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        assert process.stdin is not None
        process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        yield made
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@pytest.mark.behaviour("law.identity")
async def test_two_gateway_processes_give_the_same_intent_the_same_command_every_time(home: Path) -> None:
    token = await issued(home, "writer", "--uses", "1000", "--open", "1000")
    async with gateway(home, token) as one, gateway(home, token) as two:
        for number in range(ROUNDS):
            article = f"article-{number:04d}"
            answers = await asyncio.gather(one.propose(article_id=article), two.propose(article_id=article))
            assert len({answer["command_id"] for answer in answers}) == 1, answers
            assert sorted(answer["deduplicated"] for answer in answers) == [False, True]
    with closing(sqlite3.connect(home / "remit.db")) as conn:
        (roots,) = conn.execute("SELECT count(*) FROM commands WHERE parent_id IS NULL").fetchone()
        (drafts,) = conn.execute(
            "SELECT count(DISTINCT idempotency_key) FROM commands WHERE command_type = 'CREATE_WORDPRESS_DRAFT'"
        ).fetchone()
        (uses,) = conn.execute("SELECT used FROM token_uses").fetchone()
    assert (roots, drafts, uses) == (ROUNDS, ROUNDS, ROUNDS)


@pytest.mark.behaviour("threat.5")
@pytest.mark.behaviour("threat.17")
@pytest.mark.behaviour("token.uses")
async def test_a_token_for_one_use_is_accepted_once_by_eight_processes_with_two_hundred_calls_each(
    tmp_path: Path,
) -> None:
    database = tmp_path / "remit.db"
    await open_store(database).close()

    async def burst(number: int) -> list[str]:
        words = ("-m", "tests.integration.burst", str(database), str(number), str(CALLS))
        process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=ROOT, stdout=PIPE)
        printed, _ = await process.communicate()
        outcomes: list[str] = json.loads(printed)
        return outcomes

    every = [outcome for outcomes in await asyncio.gather(*map(burst, range(PROCESSES))) for outcome in outcomes]
    assert len(every) == PROCESSES * CALLS
    accepted = [outcome for outcome in every if outcome.startswith("cmd_")]
    assert len(accepted) == 1
    assert set(every) - set(accepted) == {"token_exhausted"}
    with closing(sqlite3.connect(database)) as conn:
        assert conn.execute("SELECT count(*) FROM commands WHERE parent_id IS NULL").fetchone() == (1,)
        used = conn.execute("SELECT used FROM token_uses WHERE jti = ?", (SINGLE_USE.token_id,)).fetchone()
    assert used == (1,)


async def call(home: Path, token: Path, name: str = "propose_publish", **arguments: Any) -> dict[str, Any]:
    given = {**ARTICLE, "article_id": "article-0028", "wait_seconds": 0, **arguments}
    asked = given if name == "propose_publish" else arguments
    async with opened(load_config(home, token_file=token)) as at:
        answer = await at.tools().call(Call(name=name, arguments=asked, caller=at.token_file(), envelope=asked))
    return answer.result.model_dump(mode="json", exclude_none=True)


@pytest.mark.behaviour("threat.18")
@pytest.mark.behaviour("threat.20")
async def test_another_agent_learns_that_it_is_proposed_and_nothing_else(home: Path) -> None:
    writer, stranger = await issued(home, "writer"), await issued(home, "stranger")
    mine = await call(home, writer)
    theirs = await call(home, stranger)
    assert theirs["code"] == "already_proposed"
    assert mine["command_id"] not in json.dumps(theirs)
    hidden = await call(home, stranger, "query_command_status", command_id=mine["command_id"])
    absent = await call(home, stranger, "query_command_status", command_id="cmd_01kb9zq3m4n5p6q7r8s9t0v1w2")
    assert hidden == absent
    assert hidden["code"] == "command_not_found"


@pytest.mark.behaviour("threat.19")
async def test_a_conflict_names_the_field_and_to_a_stranger_no_command(home: Path) -> None:
    writer, stranger = await issued(home, "writer", "--uses", "5"), await issued(home, "stranger")
    mine = await call(home, writer)
    told = await call(home, writer, content="# Other")
    assert told["code"] == "idempotency_conflict"
    assert "content" in json.dumps(told)
    theirs = await call(home, stranger, content="# Other")
    assert theirs["code"] == "idempotency_conflict"
    assert mine["command_id"] not in json.dumps(theirs)


async def test_a_person_whose_scope_covers_the_command_sees_it(home: Path) -> None:
    writer = await issued(home, "writer")
    person = await issued(home, "olivia", "--query-only", "--any")
    mine = await call(home, writer)
    seen = await call(home, person, "query_command_status", command_id=mine["command_id"])
    assert seen["command_id"] == mine["command_id"]
