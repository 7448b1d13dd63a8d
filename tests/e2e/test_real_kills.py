"""`kill -9` of the worker while a real WordPress works on its request, and at instants that nobody chose.

The armed write tells when: the site has taken it, and sleeps before or after its row is written. What counts is in the
site's database: one post with the approved content, no stray draft, at most one message.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real import (
    RealHome,
    WorkerProcess,
    fresh_name,
    mails_of,
    real_home,
    rows_of,
    statuses_of,
    wait_until_taken,
    working,
)
from tests.e2e.world import Agent, agent, answer
from tests.services import Mailbox, WordPress, wait_until

ROW_MAX_S = 30.0
SLEEP_S = 3.0
KILLS = 4
LIFE_MAX_S = 1.5


def proposal(name: str, version: int = 1) -> dict[str, Any]:
    return {
        "article_id": name,
        "version": version,
        "site": "blog",
        "title": f"Killed at work {name}",
        "content": f"# Water\n\nVersion {version} of {name}.",
        "notify": ["team"],
        "wait_seconds": 0,
    }


class Killing:
    """One article; at each of its writes the worker is killed while the site works on it."""

    def __init__(self, home: RealHome, site: WordPress, worker: WorkerProcess, writer: Agent, name: str) -> None:
        self.home, self.site, self.worker, self.writer, self.name = home, site, worker, writer, name

    async def propose(self, version: int) -> str:
        accepted = answer(await self.writer.call("propose_publish", **proposal(self.name, version)))
        return str(accepted["command_id"])

    async def waits_for_approval(self, command_id: str) -> str:
        found = await self.writer.settled(command_id)
        assert (found["state"], found["live"]) == ("AWAITING_APPROVAL", False)
        return str(found["approval"]["content_hash"])

    async def is_live(self, command_id: str, version: int) -> None:
        found = await self.writer.settled(command_id)
        assert (found["state"], found["live"], found["done"]) == ("SUCCESS", True, True)
        (live,) = (row for row in rows_of(self.site, self.name) if row.status == "publish")
        assert f"Version {version} of {self.name}." in live.content

    def arm(self, when: str) -> None:
        """The next write of a post sleeps before, or after, its row is there."""
        if when == "before":
            self.site.arm_next_write(before_s=SLEEP_S)
        else:
            self.site.arm_next_write(after_s=SLEEP_S)

    def kill_at_work(self, when: str, status: str, text: str) -> None:
        wait_until_taken(self.site)
        if when == "after":
            wait_until(lambda: self.has_row(status, text), timeout_s=ROW_MAX_S)
        self.worker.restart()

    def has_row(self, status: str, text: str) -> bool:
        return any(row.status == status and text in row.content for row in rows_of(self.site, self.name))

    def owners_lost(self, command_id: str) -> list[str]:
        """Steps whose worker was killed between send and answer: no answer was journaled, the next one found doubt."""
        lost = [event for event in self.home.events(command_id) if event["type"] == "OUTCOME_LOST"]
        return [event["step"] for event in lost if event["body"].get("code") == "owner_lost"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_worker_killed_at_every_write_of_an_article_leaves_one_post_and_one_message_a_version(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path, when: str
) -> None:
    home, name = real_home(tmp_path, wordpress, smtp), fresh_name()
    home.issue("--uses", "2")
    async with agent(home, "--no-worker") as writer:
        with working(home) as worker:
            killing = Killing(home, wordpress, worker, writer, name)
            killing.arm(when)
            first = await killing.propose(1)
            killing.kill_at_work(when, "draft", "Version 1")
            approved = await killing.waits_for_approval(first)
            assert statuses_of(wordpress, name) == ["draft"]

            killing.arm(when)
            with home.approving(first, approved):
                killing.kill_at_work(when, "publish", "Version 1")
            await killing.is_live(first, 1)
            assert (statuses_of(wordpress, name), mails_of(smtp, name)) == (["publish"], 1)

            second = await killing.propose(2)
            approved = await killing.waits_for_approval(second)
            assert killing.has_row("publish", "Version 1")
            killing.arm(when)
            with home.approving(second, approved):
                killing.kill_at_work(when, "publish", "Version 2")
            await killing.is_live(second, 2)
            assert (statuses_of(wordpress, name), mails_of(smtp, name)) == (["publish", "trash"], 2)
    assert [row["status"] for row in home.publications()] == ["published", "published"]
    assert killing.owners_lost(first) == ["CREATE_WORDPRESS_DRAFT", "PUBLISH_WORDPRESS_POST"]
    assert killing.owners_lost(second) == ["PUBLISH_WORDPRESS_POST"]
    assert home.remit("verify").document["ok"] is True


@pytest.mark.parametrize("seed", [1907])
async def test_a_worker_killed_at_random_instants_leaves_one_post_of_each_article(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    home, names = real_home(tmp_path, wordpress, smtp), [fresh_name() for _ in range(2)]
    home.issue("--uses", "2", "--open", "2")
    worker = WorkerProcess(home)
    async with agent(home, "--no-worker") as writer:
        accepted = [answer(await writer.call("propose_publish", **proposal(name))) for name in names]
        for _ in range(KILLS):
            wordpress.arm_next_write(before_s=chance.uniform(0.0, 1.0), after_s=chance.uniform(0.0, 1.0))
            worker.start()
            worker.kill_after(chance.uniform(0.05, LIFE_MAX_S))
            for command in accepted:
                await approve_if_asked(home, writer, command["command_id"])
        with worker:
            for name, command in zip(names, accepted, strict=True):
                await writer.settled(command["command_id"])
                await approve_if_asked(home, writer, command["command_id"])
                assert_finished(await writer.settled(command["command_id"]), seed)
                (row,) = rows_of(wordpress, name)
                assert (row.status, f"Version 1 of {name}." in row.content) == ("publish", True), seed
                assert mails_of(smtp, name) <= 1, seed
    assert [row["status"] for row in home.publications()] == ["published", "published"]
    assert home.remit("verify").document["ok"] is True


async def approve_if_asked(home: RealHome, writer: Agent, command_id: str) -> None:
    found = answer(await writer.call("query_command_status", command_id=command_id))
    if found["approval"]["state"] == "PENDING":
        home.approve_by_hash(command_id, found["approval"]["content_hash"])


def assert_finished(found: dict[str, Any], seed: int) -> None:
    """Done; or live and a person is asked about the one thing that nobody can find out, whether the message went."""
    if found["state"] != "SUCCESS":
        doubted = [step["name"] for step in found["steps"] if step["state"] != "SUCCESS"]
        assert (found["state"], doubted) == ("NEEDS_REVIEW", ["SEND_NOTIFICATION"]), (seed, found)
    assert found["live"] is True, (seed, found)
