"""The fault matrix: what goes wrong × where, and what must be true afterwards.

A case is one publication (or its undoing) over the real adapters against a sandbox process in which one fault strikes
one request. Whatever goes wrong, the effect exists once and the ending is the right one; where a declared bound is
broken on purpose, the effect that came too late is found and a person is asked.
"""

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

from execution.core.command import Saga
from execution.core.definition import Prepared
from execution.core.failures import Answer
from execution.core.states import ReviewKind, State
from execution.performer import Performer
from execution.proposal import CommandView
from tests.stage.judging import NOTIFY, Judge, Report, published_once, still_locked, unwound
from tests.stage.sandbox import MAX_RUN_S, Outside
from tests.stage.scene import SLUG, Scene, is_quiet, staged, told

HTML: Final = {"Content-Type": "text/html; charset=UTF-8"}
HURRY_S: Final = 0.15
"""How long the client waits where it must give up before the system is done."""
REAL_MAX_RUN_S: Final = 20.0
"""What the sandbox really allows where requests take effect late."""
STALE_S: Final = 0.8
"""Older than a write and its answer, younger than what was there before it."""
QUIET_S: Final = 2.8
"""Quiescence that the homes of these tests declare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What strikes. hurry: the client gives up first. late: the system works longer than it says. reads: not the write,
    but the reads that follow it."""

    name: str
    kind: str
    more: Mapping[str, Any] = field(default_factory=dict)
    hurry: bool = False
    late: bool = False
    reads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where it strikes: the request, its number among the writes of the saga, and the road that leads there.

    reads: what is read of the same thing afterwards.
    """

    name: str
    match: str
    write: int
    version: int = 1
    rejected: bool = False
    notify: tuple[str, ...] = ("team",)
    reads: str = "GET /wp-json/wp/v2/posts"

    @property
    def judge(self) -> Judge:
        return unwound if self.rejected else published_once


FAULTS: Final = (
    Fault(name="dropped before", kind="drop_before"),
    Fault(name="reset before", kind="reset_before"),
    Fault(name="dropped after", kind="drop_after"),
    Fault(
        name="late, 0.5 of the maximum", kind="late_commit", more={"seconds": 0.5 * MAX_RUN_S}, hurry=True, late=True
    ),
    Fault(name="late, the maximum", kind="late_commit", more={"seconds": MAX_RUN_S}, hurry=True, late=True),
    Fault(
        name="late, 1.5 of the maximum", kind="late_commit", more={"seconds": 1.5 * MAX_RUN_S}, hurry=True, late=True
    ),
    Fault(name="late, barely within bounds", kind="late_commit", more={"seconds": 2.2}, hurry=True, late=True),
    Fault(name="killed at the maximum", kind="late_commit", more={"seconds": 4 * MAX_RUN_S}),
    Fault(name="503 before", kind="status_before", more={"status": 503, "headers": HTML, "body": "<h1>busy</h1>"}),
    Fault(name="500 after", kind="status_after", more={"status": 500, "headers": HTML, "body": "<h1>fatal</h1>"}),
    Fault(name="403 after", kind="status_after", more={"status": 403, "headers": HTML, "body": "<h1>blocked</h1>"}),
    Fault(name="200 HTML after", kind="status_after", more={"status": 200, "headers": HTML, "body": "<h1>soon</h1>"}),
    Fault(name="truncated", kind="truncate"),
    Fault(name="stalled", kind="stall", hurry=True),
    Fault(name="429", kind="status_before", more={"status": 429, "headers": {"Retry-After": "1"}}),
    Fault(name="stale reads after", kind="stale", more={"times": 6}, reads=True),
)
POSTS: Final = "/wp-json/wp/v2/posts"
MEDIA: Final = "/wp-json/wp/v2/media"
GIT: Final = "/github/repos/remit/archive/git"
BRANCHES: Final = f"GET {GIT}/ref/heads/remit/"
IMAGES: Final = f"GET {MEDIA}"
ARCHIVE: Final = Place(name="archive", match=f"POST {GIT}/refs", write=0, reads=BRANCHES)
IMAGE: Final = Place(name="image", match=f"POST {MEDIA}", write=1, reads=IMAGES)
DRAFT: Final = Place(name="draft", match=f"POST {POSTS}", write=2)
PUBLISH: Final = Place(name="publish", match=f"POST {POSTS}/", write=4)
UPDATE: Final = Place(name="update", match=f"POST {POSTS}/", write=4, version=2)
PLACES: Final = (
    ARCHIVE,
    IMAGE,
    DRAFT,
    PUBLISH,
    Place(name="trash (undoing)", match=f"DELETE {POSTS}/", write=5, rejected=True),
    Place(name="delete (undoing)", match=f"DELETE {MEDIA}/", write=6, rejected=True, reads=IMAGES),
    Place(name="branch (undoing)", match=f"DELETE {GIT}/refs/", write=7, rejected=True, reads=BRANCHES),
    UPDATE,
    Place(name="trash (staged)", match=f"DELETE {POSTS}/", write=8, version=2),
)
EDGE: Final = (
    Place(name="purge", match="POST /cloudflare/client/v4/zones/", write=5),
    Place(name="check", match="POST /healthchecks/api/v3/checks/", write=6),
)
"""What follows the pivot elsewhere: nothing there has reads that could be stale."""


class Hurry:
    """Puts a short deadline on one write, counted from when it is armed, or does something right after it."""

    def __init__(self) -> None:
        self._left: int | None = None
        self._afterwards: Callable[[float], None] | None = None

    def arm(self, write: int, afterwards: Callable[[float], None] | None = None) -> None:
        """`afterwards` is given how long the write took; without it the write has a short deadline."""
        self._left, self._afterwards = write, afterwards

    def dress(self, performer: Performer) -> Performer:
        hurry = self

        class Hurried(Performer):
            async def send(self, prepared: Prepared, deadline_s: float) -> Answer:
                is_it = hurry.is_next()
                if not is_it or hurry.afterwards is None:
                    return await Performer.send(self, prepared, HURRY_S if is_it else deadline_s)
                begun = time.monotonic()
                answer = await Performer.send(self, prepared, deadline_s)
                await asyncio.to_thread(hurry.afterwards, time.monotonic() - begun)
                return answer

        return Hurried(ports=performer.ports, observe_deadline_s=performer.observe_deadline_s)

    @property
    def afterwards(self) -> Callable[[float], None] | None:
        return self._afterwards

    def is_next(self) -> bool:
        """Whether the write that now begins is the one."""
        if self._left is None:
            return False
        self._left -= 1
        if self._left >= 0:
            return False
        self._left = None
        return True


async def play(name: str, folder: Path, fault: Fault, place: Place, judge: Judge | None = None) -> Report:
    """One case."""
    begun, hurry = time.monotonic(), Hurry()
    real = REAL_MAX_RUN_S if fault.late else MAX_RUN_S
    async with staged(folder, real_max_run_s=real) as scene, scene.working(hurry.dress):
        for earlier in range(1, place.version):
            await scene.until(await scene.propose(earlier), is_quiet)
        if fault.reads:
            hurry.arm(place.write, partial(_arm_reads, scene, fault, place))
        else:
            scene.sandbox.arm(place.match, fault.kind, **fault.more)
        if fault.hurry:
            hurry.arm(place.write)
        command_id = await scene.propose(place.version, notify=list(place.notify))
        if fault.reads and place.write > DRAFT.write:
            await scene.until(command_id, _asked_a_while_ago, approving_it=False)
        if place.rejected:
            await scene.until(command_id, _asks, approving_it=False)
            await scene.reject(command_id)
        view, saga = await scene.until(command_id, is_quiet)
        struck = scene.sandbox.struck()
        wrong, outside = await judged(scene, view, saga, judge or place.judge)
    if not wrong:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        wrong.append(f"{told(view, saga)} {outside} said {scene.words}, home {folder}")
    return Report(
        name=name,
        wrong=tuple(wrong),
        words=tuple(scene.words),
        sprung=any(kind == fault.kind for kind, _ in struck),
        seconds=time.monotonic() - begun,
        outside=outside,
    )


def _arm_reads(scene: Scene, fault: Fault, place: Place, took_s: float) -> None:
    """The next reads answer what stood there right before the write."""
    scene.sandbox.arm(place.reads, fault.kind, seconds=took_s + STALE_S, **fault.more)


async def judged(scene: Scene, view: CommandView, saga: Saga, judge: Judge) -> tuple[list[str], Outside]:
    outside = await asyncio.to_thread(scene.sandbox.outside)
    wrong = [*scene.lies, *await scene.verified(), *await still_locked(scene, saga)]
    return wrong + judge(view, saga, outside, await scene.approved(saga)), outside


def _asks(view: CommandView, saga: Saga) -> bool:
    return view.state == "AWAITING_APPROVAL"


def _asked_a_while_ago(view: CommandView, saga: Saga) -> bool:
    """What was made before the question is older than what a stale read misses."""
    now_ms = time.time_ns() // 1_000_000
    return _asks(view, saga) and now_ms - saga.approvals[-1].requested_at_ms > 2_000 * STALE_S


# -- mail and webhooks -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MailCase:
    """A fault in the conversation with the relay; how many messages exist afterwards and what a person is asked about:
    in doubt, with the id to look for."""

    name: str
    match: str
    kind: str
    more: Mapping[str, Any] = field(default_factory=dict)
    hurry: bool = False
    messages: int = 1
    asked: ReviewKind | None = None
    step: ClassVar[str] = NOTIFY
    names: ClassVar[str] = "message_id"

    @property
    def fault(self) -> Fault:
        return Fault(name=self.name, kind=self.kind, more=self.more, hurry=self.hurry)

    @property
    def place(self) -> Place:
        return Place(name="message", match=self.match, write=8)

    def there(self, outside: Outside) -> tuple[str, ...]:
        """Ids of what was accepted."""
        return outside.mails

    def judge(self, view: CommandView, saga: Saga, outside: Outside, approved: tuple[str, str]) -> list[str]:
        """Published whatever became of the message; the message as often as it should be; a person where it is lost."""
        mail = next(row for row in saga.members if row.command_type == self.step)
        asked = [review for review in saga.reviews if review.closed_at_ms is None]
        found = [] if (len(outside.live), view.live) == (1, True) else [f"public: {outside.live}, live={view.live}"]
        if len(self.there(outside)) != self.messages:
            found.append(f"{len(self.there(outside))} messages")
        if self.asked is ReviewKind.OUTCOME_UNKNOWN:
            named = {json.loads(review.facts).get(self.names) for review in asked}
            if None in named or not set(self.there(outside)) <= named:
                found.append(f"to look for: {named}")
        if [(review.kind, review.command_id) for review in asked] != (
            [(self.asked, mail.command_id)] if self.asked else []
        ):
            found.append(f"asked: {asked}")
        wanted = State.NEEDS_REVIEW if self.asked else State.SUCCESS
        if (mail.state, view.state, view.done) != (wanted, wanted, self.asked is None):
            found.append(f"said: {mail.state} {view.state} done={view.done}")
        return found


_UNKNOWN: Final = ReviewKind.OUTCOME_UNKNOWN
_REFUSED: Final = ReviewKind.PERMANENT_FAILURE
MAIL_CASES: Final = (
    MailCase(name="dropped before MAIL", match="SMTP MAIL", kind="drop_before"),
    MailCase(name="451 to MAIL", match="SMTP MAIL", kind="status_before", more={"status": 451}),
    MailCase(name="silence after MAIL", match="SMTP MAIL", kind="hang", hurry=True),
    MailCase(name="450 to RCPT", match="SMTP RCPT", kind="status_before", more={"status": 450}),
    MailCase(
        name="550 to RCPT", match="SMTP RCPT", kind="status_before", more={"status": 550}, messages=0, asked=_REFUSED
    ),
    MailCase(name="451 to DATA", match="SMTP DATA", kind="status_before", more={"status": 451}),
    MailCase(
        name="554 to DATA", match="SMTP DATA", kind="status_before", more={"status": 554}, messages=0, asked=_REFUSED
    ),
    MailCase(
        name="421 to DATA", match="SMTP DATA", kind="status_before", more={"status": 421}, messages=0, asked=_UNKNOWN
    ),
    MailCase(name="dropped before it is stored", match="SMTP DATA", kind="drop_before", messages=0, asked=_UNKNOWN),
    MailCase(name="dropped after it is stored", match="SMTP DATA", kind="drop_after", asked=_UNKNOWN),
    MailCase(name="silence after it is stored", match="SMTP DATA", kind="hang_after", hurry=True, asked=_UNKNOWN),
    MailCase(name="late 250", match="SMTP DATA", kind="delay", more={"seconds": 0.3}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCase(MailCase):
    """A fault in the exchange with a receiver of webhooks. Everybody else has their message by then."""

    match: str = "POST /webhooks/hook"
    step: ClassVar[str] = "SEND_WEBHOOK"
    names: ClassVar[str] = "webhook_id"

    @property
    def place(self) -> Place:
        return Place(name="webhook", match=self.match, write=9, notify=("team", "hook"))

    def there(self, outside: Outside) -> tuple[str, ...]:
        return outside.webhooks if len(outside.mails) == 1 else ("not everybody else",) * 9


HOOK_CASES: Final = (
    HookCase(name="dropped before", kind="drop_before", messages=0, asked=_UNKNOWN),
    HookCase(name="reset before", kind="reset_before", messages=0, asked=_UNKNOWN),
    HookCase(name="503 before", kind="status_before", more={"status": 503}, messages=0, asked=_UNKNOWN),
    HookCase(name="429", kind="status_before", more={"status": 429, "headers": {"Retry-After": "1"}}),
    HookCase(name="410", kind="status_before", more={"status": 410}, messages=0, asked=_REFUSED),
    HookCase(name="dropped after", kind="drop_after", asked=_UNKNOWN),
    HookCase(name="500 after", kind="status_after", more={"status": 500}, asked=_UNKNOWN),
    HookCase(name="403 after", kind="status_after", more={"status": 403}, asked=_UNKNOWN),
    HookCase(name="200 HTML after", kind="status_after", more={"status": 200, "body": "<h1>soon</h1>"}, asked=_UNKNOWN),
    HookCase(name="truncated", kind="truncate", asked=_UNKNOWN),
    HookCase(name="stalled", kind="stall", hurry=True, asked=_UNKNOWN),
    HookCase(name="silence after", kind="hang_after", hurry=True, asked=_UNKNOWN),
    HookCase(name="late answer", kind="delay", more={"seconds": 0.3}),
)


# -- renames, duplicates, broken bounds --------------------------------------------------------------------------------


def renamed(view: CommandView, saga: Saga, outside: Outside, approved: tuple[str, str]) -> list[str]:
    """Published once under another address than the approved one: success stays, and a person is told."""
    found: list[str] = []
    if [(post.title, post.content) for post in outside.live] != [approved] or outside.live[0].slug == SLUG:
        found.append(f"public: {outside.live}")
    asked = [(review.kind, "slug" in review.facts) for review in saga.reviews if review.closed_at_ms is None]
    if asked != [(ReviewKind.DRIFT, True)]:
        found.append(f"asked: {asked}")
    if (view.live, view.done, view.answers.diverged) != (True, False, True):
        found.append(f"said: live={view.live} done={view.done} diverged={view.answers.diverged}")
    return found


def duplicate_reported(view: CommandView, saga: Saga, outside: Outside, approved: tuple[str, str]) -> list[str]:
    """One post too many, and a person is asked about it with the number of rows as evidence; never silence."""
    found: list[str] = []
    if len(outside.posts) != 2 or len(outside.live) != 1:
        found.append(f"posts: {outside.by_status()}")
    return found + _asked_about_duplicate(view, saga)


def image_duplicate_reported(view: CommandView, saga: Saga, outside: Outside, approved: tuple[str, str]) -> list[str]:
    """The same for an image."""
    found: list[str] = []
    if len(outside.images) != 2 or len(outside.live) != 1:
        found.append(f"images: {outside.images}, posts: {outside.by_status()}")
    return found + _asked_about_duplicate(view, saga)


def _asked_about_duplicate(view: CommandView, saga: Saga) -> list[str]:
    found: list[str] = []
    asked = [(review.kind, review.facts) for review in saga.reviews if review.closed_at_ms is None]
    if [kind for kind, _ in asked] != [ReviewKind.DUPLICATE]:
        found.append(f"asked: {asked}")
    if (view.live, view.done, view.answers.diverged) != (True, False, True):
        found.append(f"said: live={view.live} done={view.done} diverged={view.answers.diverged}")
    return found


SPECIAL: Final[Mapping[str, tuple[Fault, Place, Judge]]] = MappingProxyType(
    {
        "renamed image": (Fault(name="rename", kind="rename"), IMAGE, published_once),
        "renamed draft": (Fault(name="rename", kind="rename"), DRAFT, published_once),
        "renamed publication": (Fault(name="rename", kind="rename"), PUBLISH, renamed),
        "renamed update": (Fault(name="rename", kind="rename"), UPDATE, renamed),
        "branch sent twice by the front": (Fault(name="replay", kind="replay"), ARCHIVE, published_once),
        "upload sent twice by the front": (Fault(name="replay", kind="replay"), IMAGE, image_duplicate_reported),
        "create sent twice by the front": (Fault(name="replay", kind="replay"), DRAFT, duplicate_reported),
        "publish sent twice by the front": (Fault(name="replay", kind="replay"), PUBLISH, published_once),
    }
)


async def broken_promise(folder: Path, reached: Callable[[CommandView, Saga], bool]) -> Report:
    """A draft lands long after every declared bound, while the draft that was made instead waits for approval."""
    begun, hurry, late_s = time.monotonic(), Hurry(), QUIET_S + 2.0
    async with staged(folder, real_max_run_s=REAL_MAX_RUN_S) as scene, scene.working(hurry.dress):
        scene.sandbox.arm(DRAFT.match, "late_commit", seconds=late_s)
        hurry.arm(DRAFT.write)
        command_id = await scene.propose()
        await scene.until(command_id, reached, approving_it=False)
        while len((await asyncio.to_thread(scene.sandbox.outside)).posts) < 2:
            assert time.monotonic() - begun < 60, "the late draft never came"
            await asyncio.sleep(0.05)
        view, saga = await scene.until(command_id, is_quiet)
        wrong, outside = await judged(scene, view, saga, duplicate_reported)
    if wrong:
        wrong.append(f"{told(view, saga)} {outside} said {scene.words}, home {folder}")
    return Report(
        name="draft, late beyond every bound",
        wrong=tuple(wrong),
        words=tuple(scene.words),
        sprung=True,
        seconds=time.monotonic() - begun,
        outside=outside,
    )
