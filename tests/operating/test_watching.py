"""`remit watch`: what happens is told as it is written, and the end is told by the exit code."""

import asyncio
import json
import os
import pty
import select
import sqlite3
import subprocess
import sys
import time
from typing import Any

import pytest

from execution.following import Follower
from execution.store.journal import last_position
from server.cli.watching import EVENTS_SHOWN
from tests.desk import Desk, Finished
from tests.e2e.world import environment
from tests.integration.world import World, proposal


def documents(done: Finished) -> list[dict[str, Any]]:
    """Every line is a document of its own."""
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.behaviour("watch.follows")
async def test_a_command_is_followed_until_it_waits_for_a_person(world: World, office: Desk) -> None:
    command_id = await world.accepted()
    watching = asyncio.create_task(office.asks("watch", command_id))
    await world.settle(command_id)
    done = await watching
    *events, end = documents(done)
    assert (done.code, end["state"], end["exit"], end["done"]) == (6, "AWAITING_APPROVAL", 6, False)
    told = [event["type"] for event in events]
    assert told == await world.facts(command_id)
    assert [event["position"] for event in events] == sorted(event["position"] for event in events)
    assert {event["step"] for event in events} >= {"CREATE_WORDPRESS_DRAFT", "VALIDATE_PUBLICATION"}


async def test_the_exit_code_says_how_it_ended(world: World, office: Desk) -> None:
    published = await world.published(proposal(article="first", slug="first"))
    assert (await office.asks("watch", published)).code == 0
    rejected = await world.until_approval(proposal(article="second", slug="second"))
    await world.operations.reject(rejected, operator="operator:olivia", reason="no")
    await world.settle(rejected)
    assert (await office.asks("watch", rejected)).code == 1
    held = await world.accepted(proposal(article="third", slug="third"))
    await world.operations.hold(held, operator="operator:olivia", reason="wait")
    assert (await office.asks("watch", held)).code == 6


async def test_forever_goes_on_until_the_time_is_over(world: World, office: Desk) -> None:
    command_id = await world.until_approval()
    watching = asyncio.create_task(office.asks("watch", command_id, "--forever", "--timeout", "3s", as_json=False))
    await world.approve(command_id)
    await world.settle(command_id)
    done = await watching
    assert done.code == 0
    assert done.stdout.splitlines()[-1].startswith("SUCCESS: ")
    assert " APPROVED " in done.stdout


@pytest.mark.behaviour("people.first-look")
async def test_people_are_told_what_was_decided_sent_and_seen_and_programs_everything(
    world: World, office: Desk
) -> None:
    command_id = await world.published()
    events = (await office.asks("journal", command_id)).document["events"]
    told = (await office.asks("journal", command_id, as_json=False)).stdout
    assert f"of {len(events)} events" in told
    shown = [line for line in told.splitlines() if line[:2] == "20"]
    assert 0 < len(shown) < 0.7 * len(events)
    for word in ("APPROVED", "FENCED", "attempt 1, FIRST", "PRE_PIVOT → POST_PIVOT", "PRESENT, verify"):
        assert word in told
    for word in ("PLANNED", "ENQUEUED", "CLAIMED", "{", command_id):
        assert word not in told
    followed = (await office.asks("watch", command_id, as_json=False)).stdout.splitlines()
    assert len(followed) == EVENTS_SHOWN + 1
    assert "SUCCEEDED" in followed[-3]


async def test_everything_is_followed_from_now_on(world: World, office: Desk) -> None:
    before = await world.accepted(proposal(article="first", slug="first"))
    position = await world.store.read(last_position)
    watching = asyncio.create_task(office.asks("watch", "--all", "--timeout", "4s"))
    others = [await world.accepted(proposal(article=name, slug=name)) for name in ("second", "third")]
    for command_id in others:
        await world.settle(command_id)
    events = documents(await watching)
    assert {event["command_id"] for event in events} >= set(others)
    assert all(event["position"] > position or event["command_id"] != before for event in events)


async def test_what_was_committed_late_under_a_smaller_position_is_not_missed(world: World) -> None:
    command_id = await world.accepted()
    with sqlite3.connect(world.database) as database:
        (last,) = database.execute("SELECT max(position) FROM events").fetchone()
        move = "UPDATE events SET position = ? WHERE position = ?"
        database.execute(move, (last + 5, last))  # the last one stands after a gap
        database.commit()
        follower = Follower(world.store, world.clock)
        first = [entry.position for entry in await follower.take()]
        assert (first[-1], await follower.take()) == (last + 5, ())
        database.execute(move, (last + 2, last - 1))  # as if another transaction had taken its time
        database.commit()
    database.close()
    assert [entry.position for entry in await follower.take()] == [last + 2]
    assert await follower.take() == ()
    assert command_id


@pytest.mark.parametrize(
    "words", [("watch",), ("watch", "cmd_x", "--all"), ("watch", "cmd_x", "--timeout", "soon"), ("watch", "--forever")]
)
def test_what_to_watch_must_be_clear(desk: Desk, words: tuple[str, ...]) -> None:
    refused = desk.remit(*words)
    assert (refused.code, refused.error) == (2, "usage")


async def test_on_a_terminal_the_command_is_drawn(world: World, office: Desk) -> None:
    command_id = await world.until_approval()
    words = [sys.executable, "-m", "server", "watch", command_id, "--home", str(office.home)]
    shown, code = await asyncio.to_thread(on_a_terminal, words)
    assert code == 6
    for word in ("HUMAN_APPROVAL", "AWAITING_APPROVAL", "APPROVAL_REQUESTED"):
        assert word in shown


def on_a_terminal(words: list[str], within_s: float = 90.0) -> tuple[str, int]:
    """What a process draws on a terminal of its own."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(COLUMNS="200"))
    os.close(theirs)
    drawn, until = b"", time.monotonic() + within_s
    while time.monotonic() < until:
        ready, _, _ = select.select([ours], [], [], 1.0)
        if not ready:
            continue
        try:
            chunk = os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
        drawn += chunk
        if not chunk:
            break
    os.close(ours)
    return drawn.decode(), process.wait(timeout=within_s)


def test_a_reader_that_has_seen_enough_is_no_error(desk: Desk) -> None:
    words = f"{sys.executable} -m server watch --all --timeout 1s --home {desk.home}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{words} | true"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.stderr == ""
