"""A database that is not what was written: every command says so, and what to do, and none pretends or falls over."""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from server.config import load_config
from tests.desk import Desk, Finished
from tests.integration.world import World, proposal

PAGE: Final = 4_096
ROUNDS: Final = 2
READING: Final = (("ls",), ("doctor", "--offline"), ("verify",), ("review", "ls"), ("token", "ls"), ("freeze", "ls"))

Damage = Callable[[random.Random, bytearray], None]


def flipped(chance: random.Random, data: bytearray) -> None:
    """Some bits anywhere behind the header."""
    for _ in range(chance.randint(1, 40)):
        data[chance.randrange(100, len(data))] ^= 1 << chance.randrange(8)


def scattered(chance: random.Random, data: bytearray) -> None:
    """One byte in two hundred, schema included."""
    for _ in range(len(data) // 200):
        data[chance.randrange(100, len(data))] = chance.randrange(256)


def replaced(chance: random.Random, data: bytearray) -> None:
    """A whole page."""
    page = chance.randrange(len(data) // PAGE)
    data[page * PAGE : (page + 1) * PAGE] = chance.randbytes(PAGE)


def cut_short(chance: random.Random, data: bytearray) -> None:
    """The end is missing."""
    del data[chance.randrange(1, len(data)) :]


def misspelt(chance: random.Random, data: bytearray) -> None:
    """Letters are other letters: states, event types, hashes, JSON."""
    for at in chance.sample(range(PAGE, len(data)), len(data) // 50):
        if data[at : at + 1].isalnum():
            data[at] = chance.choice(b"azAZ09")


@pytest.fixture
async def kept(world: World, office: Desk) -> str:
    """A command in a journal that is a file and nothing else."""
    command_id = (await world.propose(proposal())).command_id
    await world.store.close()
    with closing(sqlite3.connect(_database(office))) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    return command_id


def _database(desk: Desk) -> Path:
    return load_config(desk.home).database


def _is_told(ended: Finished) -> bool:
    """Whether it went well, or a typed error says what to do."""
    if ended.code == 0 or "error" not in (document := json.loads(ended.stdout)):
        return "Traceback" not in ended.stderr  # doctor and verify report what they find
    error = document["error"]
    return bool(error["code"] and error["message"] and error["fix"]) and "Traceback" not in ended.stderr


@pytest.mark.behaviour("store.damaged")
@pytest.mark.parametrize("damage", [flipped, scattered, replaced, cut_short, misspelt])
async def test_every_command_tells_of_damage_and_what_to_do(office: Desk, kept: str, damage: Damage) -> None:
    database = _database(office)
    whole = database.read_bytes()
    for seed in range(ROUNDS):
        data = bytearray(whole)
        damage(random.Random(seed), data)
        for words in (*READING, ("status", kept), ("why", kept), ("journal", kept), ("hold", kept)):
            for beside in database.parent.glob(f"{database.name}-*"):
                beside.unlink()
            database.write_bytes(data)
            ended = await office.asks(*words)
            assert _is_told(ended), (seed, words, ended)


async def test_doctor_finds_a_damaged_page_that_no_command_has_met_yet(office: Desk, kept: str) -> None:
    database = _database(office)
    data = bytearray(database.read_bytes())
    chance = random.Random(1)
    for page in range(len(data) // PAGE // 2, len(data) // PAGE):
        data[page * PAGE : (page + 1) * PAGE] = chance.randbytes(PAGE)
    database.write_bytes(data)
    report = await office.asks("doctor", "--offline")
    broken = [found for found in report.document["symptoms"] if found["code"] == "database_broken"]
    assert broken, report.stdout
    assert (report.code, len(broken), "backup" in broken[0]["fix"]) == (1, 1, True)
