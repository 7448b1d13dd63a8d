"""What goes wrong on the road to a real WordPress, at the creation of a draft and at the publication.

Every way to go wrong has a site of its own in one home, behind a proxy of its own before the same WordPress, so that
all of them are lived through at once. A proxy knows how often the site itself answered a write: once, each time.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.real import (
    RealHome,
    fresh_name,
    mails_of,
    quiescence_s,
    real_home,
    rows_of,
    statuses_of,
    wait_until_taken,
    working,
)
from tests.e2e.world import Agent, agent, answer
from tests.services import Mailbox, WordPress
from tests.testbeds.fault_proxy import Armed, Fault, FaultProxy, fault_proxy_before

CREATE: Final = "POST /wp-json/wp/v2/posts"
DRAFT: Final = "CREATE_WORDPRESS_DRAFT"
PUBLISH: Final = "PUBLISH_WORDPRESS_POST"
STALL_S: Final = 40.0
MAINTENANCE: Final = b"<html><h1>Briefly unavailable for scheduled maintenance.</h1></html>"


class Silent(Armed):
    """An answer without a byte: the connection just closes."""

    def answer(self) -> bytes:
        return b""


Arming = Callable[[str], Armed]
LOST_BEFORE: Final[Mapping[str, Arming]] = {
    "dropped-before": lambda match: Silent(fault=Fault.ANSWER_BEFORE, match=match),
    "reset-before": lambda match: Armed(fault=Fault.RESET_BEFORE, match=match),
    "front-says-503": lambda match: Armed(fault=Fault.ANSWER_BEFORE, match=match, status=503),
    "front-says-html": lambda match: Armed(fault=Fault.ANSWER_BEFORE, match=match, status=200, body=MAINTENANCE),
}
"""The site never saw the request: it is sent again, once nothing of the first can land any more."""
LOST_AFTER: Final[Mapping[str, Arming]] = {
    "dropped-after": lambda match: Armed(fault=Fault.DROP_AFTER, match=match),
    "truncated": lambda match: Armed(fault=Fault.TRUNCATE_AFTER, match=match),
    "error-after-commit": lambda match: Armed(fault=Fault.ANSWER_AFTER, match=match, status=502),
    "html-after-commit": lambda match: Armed(fault=Fault.ANSWER_AFTER, match=match, status=200, body=MAINTENANCE),
    "stalled": lambda match: Armed(fault=Fault.DELAY_AFTER, match=match, delay_s=STALL_S),
}
"""The site did it and the answer was lost: it is found and adopted, never sent again."""
ARMINGS: Final = {**LOST_BEFORE, **LOST_AFTER}
AT_PUBLICATION: Final = (
    "dropped-before",
    "reset-before",
    "dropped-after",
    "error-after-commit",
    "html-after-commit",
    "stalled",
)
"""One of each kind: every approval is a process of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one article. `landed`: how often the site itself answered the write."""

    state: str
    live: bool
    rows: list[str]
    attempts: int
    landed: int | None
    mails: int


class Roads:
    """The articles of one test: one for each site of the home."""

    def __init__(
        self, home: RealHome, site: WordPress, mailbox: Mailbox, writer: Agent, proxies: Mapping[str, FaultProxy]
    ) -> None:
        self.home, self.site, self.mailbox, self.writer, self.proxies = home, site, mailbox, writer, proxies
        self.names = {road: f"{fresh_name()}-{road}" for road in proxies}
        self.commands: dict[str, str] = {}

    async def propose(self, road: str) -> None:
        name = self.names[road]
        article = {"article_id": name, "version": 1, "site": road, "title": f"Road {name}", "notify": ["team"]}
        accepted = await self.writer.call("propose_publish", **article, content=f"By way of {name}.", wait_seconds=0)
        self.commands[road] = answer(accepted)["command_id"]

    async def drafts(self) -> None:
        """Every road's draft waits for approval, and no worker runs."""
        for road in self.proxies:
            await self.propose(road)
        with working(self.home):
            for road in self.proxies:
                assert (await self.writer.settled(self.commands[road]))["state"] == "AWAITING_APPROVAL", road

    async def asked(self, road: str) -> tuple[str, str]:
        """What a person is asked to approve: command and hash."""
        found = answer(await self.writer.call("query_command_status", command_id=self.commands[road]))
        return self.commands[road], found["approval"]["content_hash"]

    def post(self, road: str) -> str:
        """The request line that publishes the road's draft."""
        (row,) = rows_of(self.site, self.names[road])
        return f"{CREATE}/{row.post_id}"

    async def outcome(self, road: str, step: str, match: str | None = None) -> Outcome:
        found = await self.writer.settled(self.commands[road])
        detailed = answer(
            await self.writer.call("query_command_status", command_id=self.commands[road], detail="detailed")
        )
        (attempts,) = (known["attempts"] for known in detailed["steps"] if known["name"] == step)
        return Outcome(
            state=found["state"],
            live=found["live"],
            rows=statuses_of(self.site, self.names[road]),
            attempts=attempts,
            landed=None if match is None else self.proxies[road].landed(match),
            mails=mails_of(self.mailbox, self.names[road]),
        )

    def waited_s(self, road: str, step: str) -> float:
        """Between the first fence and the last."""
        first, *_, last = self.home.fences(self.commands[road], step)
        return (last - first) / 1000.0


@contextlib.asynccontextmanager
async def roads_to(site: WordPress, mailbox: Mailbox, folder: Path, names: Iterable[str]) -> AsyncIterator[Roads]:
    async with contextlib.AsyncExitStack() as stack:
        proxies = {name: stack.enter_context(fault_proxy_before(site.url)) for name in names}
        home = real_home(folder, site, mailbox, {name: proxy.url for name, proxy in proxies.items()})
        home.issue("--uses", str(len(proxies)), "--open", str(len(proxies)))
        writer = await stack.enter_async_context(agent(home, "--no-worker"))
        yield Roads(home, site, mailbox, writer, proxies)


async def test_whatever_happens_to_the_creation_of_a_draft_one_draft_stands(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path
) -> None:
    async with roads_to(wordpress, smtp, tmp_path, ARMINGS) as roads:
        for road, arm in ARMINGS.items():
            roads.proxies[road].arm(arm(CREATE))
            await roads.propose(road)
        with working(roads.home):
            outcomes = {road: await roads.outcome(road, DRAFT, CREATE) for road in ARMINGS}
        assert outcomes == {
            road: Outcome(
                state="AWAITING_APPROVAL",
                live=False,
                rows=["draft"],
                attempts=2 if road in LOST_BEFORE else 1,
                landed=1,
                mails=0,
            )
            for road in ARMINGS
        }
        assert min(roads.waited_s(road, DRAFT) for road in LOST_BEFORE) >= quiescence_s(wordpress)


async def test_whatever_happens_to_the_publication_one_post_is_public_and_one_message_sent(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path
) -> None:
    async with roads_to(wordpress, smtp, tmp_path, AT_PUBLICATION) as roads:
        await roads.drafts()
        lines = {road: roads.post(road) for road in AT_PUBLICATION}
        for road in AT_PUBLICATION:
            roads.proxies[road].arm(ARMINGS[road](lines[road]))
            roads.home.approve_by_hash(*await roads.asked(road))
        with working(roads.home):
            outcomes = {road: await roads.outcome(road, PUBLISH, lines[road]) for road in AT_PUBLICATION}
        assert outcomes == {
            road: Outcome(
                state="SUCCESS",
                live=True,
                rows=["publish"],
                attempts=2 if road in LOST_BEFORE else 1,
                landed=1,
                mails=1,
            )
            for road in AT_PUBLICATION
        }
        assert min(roads.waited_s(road, PUBLISH) for road in AT_PUBLICATION if road in LOST_BEFORE) >= quiescence_s(
            wordpress
        )


LATE: Final = {"twice-the-limit": 2.0, "the-limit": 1.0, "half-the-limit": 0.5}
"""For which part of M the site sleeps before it writes the row. The site itself ends what runs for longer than M."""


@pytest.mark.behaviour("law.quiescence")
@pytest.mark.parametrize("step", [DRAFT, PUBLISH])
async def test_a_request_that_runs_on_after_its_client_was_killed_is_not_sent_beside_itself(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path, step: str
) -> None:
    async with roads_to(wordpress, smtp, tmp_path, LATE) as roads:
        if step == PUBLISH:
            await roads.drafts()
        with working(roads.home) as worker:
            with contextlib.ExitStack() as approvals:
                for road, part in LATE.items():
                    wordpress.arm_next_write(before_s=part * wordpress.run_s)
                    if step == DRAFT:
                        await roads.propose(road)
                    else:
                        approvals.enter_context(roads.home.approving(*await roads.asked(road)))
                    wait_until_taken(wordpress)
                worker.kill()
            worker.start()
            outcomes = {road: await roads.outcome(road, step) for road in LATE}
        assert_one_each(outcomes, step)
        resent = [road for road, outcome in outcomes.items() if outcome.attempts == 2]
        assert "twice-the-limit" in resent
        assert "half-the-limit" not in resent
        assert min(roads.waited_s(road, step) for road in resent) >= quiescence_s(wordpress)


def assert_one_each(outcomes: Mapping[str, Outcome], step: str) -> None:
    """A request that sleeps for just the limit may be ended or finish: either is right, both together never."""
    published = step == PUBLISH
    expected = ("SUCCESS", True, ["publish"], 1) if published else ("AWAITING_APPROVAL", False, ["draft"], 0)
    assert {road: (o.state, o.live, o.rows, o.mails) for road, o in outcomes.items()} == dict.fromkeys(LATE, expected)
