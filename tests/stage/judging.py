"""What is right at the end, from both sides, and the reports of many scenes.

A judge answers with what was wrong, in words; empty is right.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from execution.core.command import Saga
from execution.core.states import CompensationState, Kind, ReviewKind, Settlement, State
from execution.proposal import CommandView
from execution.store import registry
from tests.pictures import png
from tests.stage.sandbox import Outside
from tests.stage.scene import SLUG, Scene

AT_ONCE: Final = 4
NOTIFY: Final = "SEND_NOTIFICATION"
UNDONE: Final = [
    "CANCEL_PUBLICATION_RECORD",
    "TRASH_WORDPRESS_DRAFT",
    "DELETE_UPLOADED_IMAGE",
    "DELETE_ARCHIVE_BRANCH",
]
"""Compensations of a publication before its pivot, the newest step's first."""

Judge = Callable[[CommandView, Saga, Outside, tuple[str, str]], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a round showed. wrong: empty when everything was right. words: the states that people would have seen."""

    name: str
    wrong: tuple[str, ...]
    words: tuple[str, ...]
    sprung: bool
    seconds: float
    outside: Outside

    @property
    def line(self) -> str:
        said = "right" if not self.wrong else "WRONG: " + "; ".join(self.wrong)
        return f"{self.name:44s} {self.seconds:6.1f} s  {'' if self.sprung else '(not reached) '}{said}"


async def play_all(rounds: Sequence[Callable[[], Awaitable[Report]]], at_once: int = AT_ONCE) -> list[Report]:
    """Several rounds at a time: they mostly wait."""
    places = asyncio.Semaphore(at_once)

    async def one(play_it: Callable[[], Awaitable[Report]]) -> Report:
        async with places:
            return await play_it()

    return list(await asyncio.gather(*(one(each) for each in rounds)))


def all_right(reports: Sequence[Report]) -> None:
    """Fail with every wrong round, in full."""
    found = [report.line for report in reports if report.wrong]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


async def still_locked(scene: Scene, saga: Saga) -> list[str]:
    """Locks of a saga that ended are free."""
    if not saga.root.is_terminal:
        return []
    held = await scene.at.store.read(lambda conn: registry.locks_of(conn, saga.root.command_id))
    return [f"{lock.resource} is still locked" for lock in held]


def published_once(view: CommandView, saga: Saga, outside: Outside, approved: tuple[str, str]) -> list[str]:
    """One public post with the approved bytes and its image, no other draft; one branch with one commit, one image, one
    row and one message for each version, the cache purged for each and one check for all; or this version's message in
    doubt and a person asked about it."""
    found: list[str] = []
    version = saga.root.object_version
    names = [f"remit/blog/{saga.root.object_id}/v{n}" for n in range(1, version + 1)]
    if [branch.name for branch in outside.branches] != names or outside.branches[-1].content != approved[1]:
        found.append(f"branches: {outside.branches}")
    if outside.commits != version:
        found.append(f"{outside.commits} commits")
    if [(post.slug, post.title, post.content) for post in outside.live] != [(SLUG, *approved)]:
        found.append(f"public: {outside.live}")
    pictures = [hashlib.sha256(png(number)).hexdigest() for number in range(1, version + 1)]
    if [(image.sha256, image.whole) for image in outside.images] != [(sha256, True) for sha256 in pictures]:
        found.append(f"images: {outside.images}")
    if [post.image_id for post in outside.live] != [image.image_id for image in outside.images[-1:]]:
        found.append("another image is shown")
    others = {} if version == 1 else {"trash": version - 1}
    if outside.by_status() != {"publish": 1, **others}:
        found.append(f"posts: {outside.by_status()}")
    if [(row.version, row.status) for row in outside.rows] != [(n, "published") for n in range(1, version + 1)]:
        found.append(f"rows: {outside.rows}")
    if outside.writes.get("POST /wp-json/wp/v2/posts", 0) != version:
        found.append(f"drafts were made more often than once: {outside.writes}")
    purged = [named for named in outside.purges if any(f"/{SLUG}/" in address for address in named)]
    if len(purged) < version:
        found.append(f"not purged for each version: {outside.purges}")
    if len(outside.checks) != 1 or f"/{SLUG}/\n" not in outside.checks[0][1]:
        found.append(f"checks: {outside.checks}")
    return found + notified_at_most_once(view, saga, outside)


def notified_at_most_once(view: CommandView, saga: Saga, outside: Outside) -> list[str]:
    """A message whose answer was lost is a question for a person, and the only one."""
    found: list[str] = []
    mail = next(row for row in saga.members if row.command_type == NOTIFY)
    others = [row for row in saga.members if row is not mail and row.state is not State.SUCCESS]
    found += [f"{row.command_type} is {row.state}" for row in others]
    asked = [review for review in saga.reviews if review.closed_at_ms is None]
    sent = len(outside.mails) - (saga.root.object_version - 1)
    if sent > 1:
        found.append(f"{sent} messages")
    if mail.state is State.SUCCESS:
        if sent != 1 or asked or (view.state, view.done, view.live) != ("SUCCESS", True, True):
            found.append("the message is claimed, or the end is not")
    elif mail.state is State.NEEDS_REVIEW:
        about = [(review.command_id, review.kind, review.facts != "{}") for review in asked]
        if about != [(mail.command_id, ReviewKind.OUTCOME_UNKNOWN, True)]:
            found.append(f"reviews: {asked}")
        if (view.state, view.done, view.live) != ("NEEDS_REVIEW", False, True):
            found.append(f"said: {view.state} done={view.done} live={view.live}")
    else:
        found.append(f"{NOTIFY} is {mail.state}")
    return found


def unwound(view: CommandView, saga: Saga, outside: Outside, approved: tuple[str, str]) -> list[str]:
    """The branch gone, the draft in the trash, the image gone, the row cancelled, all read back, nothing public, nobody
    told."""
    found = [f"images: {outside.images}"] if outside.images else []
    if (view.state, view.done, view.live) != ("COMPENSATED", True, False):
        found.append(f"said: {view.state} done={view.done} live={view.live}")
    if outside.branches or outside.commits > 1:
        found.append(f"branches: {outside.branches}, {outside.commits} commits")
    if outside.by_status() not in ({"trash": 1}, {}):
        found.append(f"posts: {outside.by_status()}")
    if [row.status for row in outside.rows] not in (["cancelled"], []):
        found.append(f"rows: {outside.rows}")
    if outside.mails:
        found.append(f"messages: {outside.mails}")
    undoing = [row for row in saga.members if row.kind is Kind.COMPENSATION]
    order = [row.command_type for row in sorted(undoing, key=lambda row: row.completed_at_ms or 0)]
    if order != UNDONE[-len(order) :]:
        found.append(f"undone in the order {order}")
    for row in saga.members:
        if row.kind is Kind.COMPENSATION and (row.state is not State.SUCCESS or row.verified_at_ms is None):
            found.append(f"{row.command_type} is {row.state}, verified at {row.verified_at_ms}")
        if row.compensation_command and row.compensation_state is not CompensationState.DONE:
            found.append(f"{row.command_type} is {row.compensation_state}")
    if any(attempt.settlement is Settlement.OPEN and not view.done for attempt in saga.attempts):
        found.append("an attempt is open")
    return found + [f"asked: {review.kind}" for review in saga.reviews if review.closed_at_ms is None]
