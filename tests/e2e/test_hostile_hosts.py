"""What an agent, its host and whoever comes by can do to a gateway, seen from outside: floods, leaks, clocks, lists."""

import contextlib
import hashlib
import json
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from capabilities.jwks import KeySet, load_key_set, write_key_set
from capabilities.keys import generate_signing_key
from server.gateway import AGENT_FILED_MAX
from tests.e2e.http_world import ENVELOPE, MODERN, Reachable, calling, http_agent, reachable, token_of, tool_call
from tests.e2e.world import ARTICLE, Home

END_MAX_S: Final = 20.0
PUBLISHED: Final = "74710bf651b9ccdf453c1ac032e91a1f2fd15288a6cec93709575e41954c8a5e"
"""SHA-256 of what `tools/list` says in a home as `init` makes it. Agents act on these words: they change on purpose."""
FLOOD: Final = 150
OWN_PLACES: Final = ("tokens", "operators", "keys", "secrets", "clients")
"""Folders of the secrets themselves."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.made(tmp_path_factory.mktemp("hosts") / "home")


@pytest.fixture(scope="module")
def gateway(shared: Home) -> Iterator[Reachable]:
    with reachable(shared, "--no-worker") as at:
        yield at


@pytest.mark.behaviour("threat.49")
@pytest.mark.behaviour("tools.pinned")
def test_the_list_of_tools_is_the_published_one_for_everybody_in_both_eras(shared: Home, gateway: Reachable) -> None:
    legacy = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    modern = {**legacy, "params": {"_meta": ENVELOPE}}
    found = set()
    for name in ("writer", "stranger"):
        token = token_of(shared, agent=name)
        for message, headers in ((legacy, {}), (modern, {"Mcp-Protocol-Version": MODERN, "Mcp-Method": "tools/list"})):
            told = gateway.send(calling(gateway.port, token, message, **headers).raw()).document
            found.add(json.dumps(told["result"]["tools"], sort_keys=True))
    (listed,) = found
    assert hashlib.sha256(listed.encode()).hexdigest() == PUBLISHED


@pytest.mark.behaviour("threat.2")
@pytest.mark.behaviour("incident.71")
@pytest.mark.behaviour("agent.flood")
async def test_a_flood_of_proposals_leaves_as_many_questions_as_the_token_allows(tmp_path: Path) -> None:
    home = Home.made(tmp_path / "home")
    with reachable(home, "--no-worker") as at:
        token = token_of(home, "--open", "3", "--uses", "1000")
        codes = []
        for number in range(FLOOD):
            article = {**ARTICLE, "article_id": f"flood-{number % 100}", "wait_seconds": 0}
            told = at.send(calling(at.port, token, tool_call("propose_publish", **article)).raw())
            assert told.status == 200
            result = told.document["result"]
            codes.append(result["structuredContent"].get("code", "accepted") if result["isError"] else "accepted")
    known = sum(number % 100 < 3 for number in range(FLOOD))  # the three, and each time they are proposed again
    assert (codes.count("accepted"), codes.count("too_many_open_commands")) == (known, FLOOD - known)
    assert len(home.remit("ls").document["commands"]) == 3


@pytest.mark.behaviour("incident.71")
@pytest.mark.behaviour("threat.51")
def test_an_agent_that_floods_with_everything_it_has_gets_its_few_questions_and_fills_nothing(tmp_path: Path) -> None:
    """Two tokens of one decision, new articles, repeated ones and nonsense, far beyond every limit."""
    home = Home.made(tmp_path / "home")
    opened = home.remit("decision", "open", "--agent", "writer", "--tokens", "2", "--uses", "4", "--evidence", "x")
    decision = ("--decision", opened.document["decision_id"])
    with reachable(home, "--no-worker") as at:
        first, second = (token_of(home, *decision, "--open", "3", "--uses", "4") for _ in range(2))
        assert home.remit("token", "issue", "--agent", "writer", *decision).code != 0, "two tokens and no third"

        def propose(token: str, number: int, **changes: Any) -> str:
            article = {**ARTICLE, "article_id": f"flood-{number}", "wait_seconds": 0, **changes}
            result = at.send(calling(at.port, token, tool_call("propose_publish", **article)).raw()).document["result"]
            return str(result["structuredContent"].get("code")) if result["isError"] else "accepted"

        assert [propose(first, number) for number in range(2)] == ["accepted"] * 2
        assert [propose(second, number) for number in (2, 3)] == ["accepted", "too_many_open_commands"]
        before = filled(home)
        for number in range(AGENT_FILED_MAX):
            token = (first, second)[number % 2]
            assert propose(token, number % 3) == "accepted", "the same again is the same command"
            assert propose(token, 100 + number, content=f"{number} {'x' * 5_000}") == "too_many_open_commands"
            assert propose(token, 0, site="elsewhere") == "resource_not_granted"
        after, listed = filled(home), home.remit("ls").document["commands"]
        assert len(listed) == 3, "grouped: each once, whoever asks how often"
        unchanged = ("commands", "events", "artifacts", "approvals", "outbox", "grants", "token_uses")
        assert {name: after[name] for name in unchanged} == {name: before[name] for name in unchanged}
        assert after["refusals"] <= AGENT_FILED_MAX + 10
        assert propose(token_of(home, agent="other"), 7) == "accepted", "nobody else is held up by it"
        for command in listed[:2]:
            assert home.remit("cancel", command["command_id"], "--reason", "a flood").code == 0


def filled(home: Home) -> dict[str, int]:
    """How many rows each table of the journal has."""
    with contextlib.closing(sqlite3.connect(home.path / "remit.db")) as journal:
        names = [row[0] for row in journal.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: journal.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}


@pytest.mark.behaviour("threat.46")
def test_a_key_set_that_was_swapped_and_put_back_is_named_afterwards(tmp_path: Path) -> None:
    home = Home.made(tmp_path / "home")
    file = home.path / "keys" / "jwks.json"
    with reachable(home, "--no-worker") as at:

        def accepted(number: int) -> str:
            token = token_of(home)
            article = {**ARTICLE, "article_id": f"article-{number}", "wait_seconds": 0}
            result = at.send(calling(at.port, token, tool_call("propose_publish", **article)).raw()).document["result"]
            assert result["isError"] is False, result
            return str(result["structuredContent"]["command_id"])

        accepted(1)
        assert home.remit("keys", "rotate").code == 0
        known, ours = home.remit("keys", "ls").document["digest"], file.read_bytes()
        accepted(2)
        assert "key_sets_accounted_for" in symptoms(home), "an operator's rotation is signed"
        stranger = generate_signing_key("acme-stranger").verification_key()
        write_key_set(file, KeySet.of([*load_key_set(file).by_kid.values(), stranger]))
        swapped = home.remit("keys", "ls").document["digest"]
        command_id = accepted(3)
        file.write_bytes(ours)
        accepted(4)
    assert swapped != known
    (received,) = [e for e in home.remit("journal", command_id).document["events"] if e["type"] == "COMMAND_RECEIVED"]
    assert received["body"]["key_set"] == swapped
    found = symptoms(home)["key_set_swapped"]
    assert found["detail"].startswith("2 changes")
    assert known in found["detail"]
    assert swapped in found["detail"]


def symptoms(home: Home) -> dict[str, Any]:
    return {found["code"]: found for found in home.remit("doctor", "--offline").document["symptoms"]}


@pytest.mark.behaviour("threat.43")
@pytest.mark.behaviour("token.clock")
async def test_a_clock_that_went_back_brings_no_token_back(tmp_path: Path) -> None:
    home = Home.made(tmp_path / "home")
    with reachable(home, "--no-worker") as at:
        token = token_of(home, "--uses", "5")
        ask = calling(at.port, token, tool_call("propose_publish", **ARTICLE, wait_seconds=0)).raw()
        assert at.send(ask).document["result"]["isError"] is False
        with sqlite3.connect(home.path / "remit.db") as journal:  # what a worker notes as time goes by
            later_ms = int((time.time() + 3_600) * 1_000)
            journal.execute("UPDATE store_meta SET clock_high_ms = ?", (later_ms,))
        assert at.send(ask).code == "clock_skew"
    assert len(home.remit("ls").document["commands"]) == 1


@pytest.mark.behaviour("threat.4")
@pytest.mark.behaviour("threat.9")
@pytest.mark.behaviour("threat.25")
@pytest.mark.behaviour("incident.73")
@pytest.mark.behaviour("secrets.nowhere")
async def test_no_token_key_or_password_is_anywhere_but_in_its_own_file(tmp_path: Path) -> None:
    """One whole publication with everything written down that can be, and then everything that was written is read."""
    home = Home.made(tmp_path / "home")
    with reachable(home, REMIT_LOG_LEVEL="debug") as at:
        token, leaked = token_of(home, "--uses", "5", "--open", "5"), token_of(home, agent="careless")
        async with http_agent(at.mcp, token) as writer:
            command_id = (await writer.propose(wait_seconds=0))["command_id"]
            await writer.settled(command_id)
            assert home.approve(command_id).code == 0
            done = await writer.settled(command_id)
        assert (done["state"], done["live"]) == ("SUCCESS", True)
        told = at.send(calling(at.port, token, tool_call("propose_publish", **{**ARTICLE, "title": leaked})).raw())
        assert told.code == "credential_in_arguments"
        at.send(calling(at.port, token[:-8] + "AAAAAAAA", tool_call(command_id=command_id)).raw())
        said = [_outputs(home, command_id), told.body.decode(), json.dumps(done)]
        at.process.send_signal(signal.SIGTERM)
        _, log = at.ended(END_MAX_S)
    written = {str(path.relative_to(home.path)): path.read_bytes() for path in _files(home.path)}
    assert {"remit.db", "remit.toml"} <= set(written)
    for name, secret in _secrets(home, token, leaked).items():
        assert secret not in log, name
        assert not [text for text in said if secret in text], name
        holding = [file for file, content in written.items() if secret.encode() in content]
        assert [file for file in holding if not file.startswith("sandbox") or name.startswith("token")] == [], name


def _files(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file() and path.relative_to(home).parts[0] not in OWN_PLACES]


def _secrets(home: Home, *tokens: str) -> dict[str, str]:
    """The texts that must be nowhere: a token's signature too, for it alone makes one."""
    found: dict[str, str] = {}
    for number, token in enumerate(tokens):
        found |= {f"token {number}": token, f"token {number}'s signature": token.rpartition(".")[2]}
    for path in [*(home.path / "operators").glob("*.pem"), *(home.path / "keys").glob("*.pem")]:
        found[path.name] = path.read_text().splitlines()[1]
    for path in (home.path / "secrets").glob("*.password"):
        found[path.name] = path.read_text().strip()
    return found


def _outputs(home: Home, command_id: str) -> str:
    """What every verb that tells something says, for people and for programs."""
    words: list[tuple[str, ...]] = [(verb, command_id) for verb in ("status", "why", "journal")]
    words += [("ls",), ("ls", "--articles"), ("review", "ls"), ("decision", "ls"), ("token", "ls"), ("keys", "ls")]
    words += [("verify",), ("doctor",), ("freeze", "ls"), ("inbox", "ls"), ("audit", "--since", "1d")]
    return "\n".join(home.remit(*each, as_json=as_json).stdout for each in words for as_json in (True, False))
