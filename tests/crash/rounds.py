"""One round: a publication whose worker dies or stops at one instant, an heir that goes on, and a count of what exists.

A round ends when nothing more happens by itself. What it returns is what was wrong, in words; empty is right.
"""

import asyncio
import random
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from execution.core.command import Saga
from execution.core.states import State, Verdict
from execution.proposal import CommandView
from tests.crash.child import Place, Trap, passages, worker_main
from tests.stage.judging import NOTIFY, Judge, Report, still_locked
from tests.stage.processes import Forked, wait_until
from tests.stage.sandbox import Outside
from tests.stage.scene import Scene, is_quiet, staged, told

COMMITS: Final = 35
"""Of one clean publication with branch, image, purge, check, row and message, its relay included; a test holds it."""
WRITES: Final = ("branch", "image", "draft", "row", "post", "purge", "check", "row again", "message")
"""Of a first version, in their order."""
UNDOING: Final = ("row cancelled", "draft trashed", "image deleted", "branch deleted")
"""Of its undoing."""
HELD: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "branch": ("POST /github/repos/remit/archive/git/refs", "pause_after_commit"),
        "image": ("POST /wp-json/wp/v2/media", "pause_after_commit"),
        "draft": ("POST /wp-json/wp/v2/posts", "pause_after_commit"),
        "post": ("POST /wp-json/wp/v2/posts/", "pause_after_commit"),
        "purge": ("POST /cloudflare/client/v4/zones/", "pause_after_commit"),
        "check": ("POST /healthchecks/api/v3/checks/", "pause_after_commit"),
        "message": ("SMTP DATA", "hang_after"),
    }
)
"""How a system is made to hold the answer to each of these writes back, once it is done."""
KILLED: Final = -signal.SIGKILL
KILLS_MAX: Final = 3
RANDOM_MAX_S: Final = 3.0


def once_between(commits: int) -> tuple[int, ...]:
    """Numbers of traps that meet every gap between two commits once.

    Right after one commit and right before the next are the same instant to the journal: the gaps are met from
    alternating sides here, from both in the soak.
    """
    return tuple(number for number in range(2 * commits) if number % 4 in (0, 1))


@dataclass(slots=True)
class Round:
    """A scene with its workers: the first has the trap, heirs take over."""

    scene: Scene
    command_id: str
    workers: list[Forked] = field(default_factory=list)

    def hire(self, trap: Trap = Trap()) -> Forked:  # noqa: B008  (a frozen value)
        """Start one more worker."""
        owner = f"worker-{len(self.workers)}"
        home = self.scene.home
        self.workers.append(Forked(worker_main, str(home), owner, trap, log=home / f"{owner}.log"))
        return self.workers[-1]

    def replace_the_dead(self) -> None:
        """An heir as soon as nobody works."""
        if not any(worker.is_alive for worker in self.workers):
            self.hire()

    def passed(self, worker: Forked, place: Place) -> int:
        return passages(self.scene.home, f"worker-{self.workers.index(worker)}", place)

    async def to_the_end(self) -> tuple[CommandView, Saga]:
        return await self.scene.until(self.command_id, is_quiet, meanwhile=self.replace_the_dead)

    def dismiss(self) -> None:
        for worker in self.workers:
            worker.end()


Act = Callable[[Round], Awaitable[bool]]


@asynccontextmanager
async def at_work(folder: Path, version: int) -> AsyncIterator[Round]:
    """A staged home with one accepted proposal, the versions before it published; its workers are gone afterwards."""
    async with staged(folder) as scene, AsyncExitStack() as stack:
        for earlier in range(1, version):
            await published(scene, earlier)
        this = Round(scene, await scene.propose(version))
        stack.callback(this.dismiss)
        yield this


async def published(scene: Scene, version: int) -> None:
    """That version, by an undisturbed worker."""
    async with scene.working():
        view, saga = await scene.until(await scene.propose(version), is_quiet)
        assert view.state == "SUCCESS", told(view, saga)
    scene.words.clear()


async def play(name: str, folder: Path, act: Act, judge: Judge, *, version: int = 1) -> Report:
    """Act, go on until nothing moves, and judge. `act` says whether its instant was reached."""
    begun = time.monotonic()
    async with at_work(folder, version) as this:
        scene = this.scene
        sprung = await act(this)
        view, saga = await this.to_the_end()
        outside = await asyncio.to_thread(scene.sandbox.outside)
        wrong = [*scene.lies, *await scene.verified(), *await still_locked(scene, saga)]
        wrong += judge(view, saga, outside, await scene.approved(saga))
        wrong += await answered(this, saga, outside)
    if wrong:
        wrong.append(f"{told(view, saga)} {outside}, home {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return Report(
        name=name,
        wrong=tuple(wrong),
        words=tuple(scene.words),
        sprung=sprung,
        seconds=time.monotonic() - begun,
        outside=outside,
    )


async def answered(this: Round, saga: Saga, outside: Outside) -> list[str]:
    """A person who is asked about the message looks into the mailbox and rules: in the end there is one message."""
    scene, version = this.scene, saga.root.object_version
    if not any(row.command_type == NOTIFY and row.state is State.NEEDS_REVIEW for row in saga.members):
        return []
    verdict = Verdict.PRESENT if len(outside.mails) == version else Verdict.ABSENT
    while True:
        view, saga = await this.to_the_end()
        asked = [review for review in saga.reviews if review.closed_at_ms is None]
        if not asked:
            break
        await scene.rule(asked[0], verdict)  # refused while the attempt could still land, then asked anew
        await scene.until(
            this.command_id,
            lambda view, saga: not any(r.verdict and not r.closed_at_ms for r in saga.reviews),
            meanwhile=this.replace_the_dead,  # the last one may have died right after it asked
        )
    mails = (await asyncio.to_thread(scene.sandbox.outside)).mails
    if (view.state, view.done, len(mails)) == ("SUCCESS", True, version):
        return []
    return [f"after the ruling {verdict}: {view.state}, {len(mails)} messages"]


async def killed_at(trap: Trap, this: Round) -> bool:
    """The first worker dies of its trap, or gets to the end without passing it."""
    first = this.hire(trap)

    def met(view: CommandView, saga: Saga) -> bool:
        return not first.is_alive or is_quiet(view, saga)

    await this.scene.until(this.command_id, met)
    return first.exit_code == KILLED


async def killed_while(match: str, kind: str, this: Round, **more: Any) -> bool:
    """The sandbox holds the answer back at that request; the worker dies meanwhile; then the sandbox goes on."""
    sandbox = this.scene.sandbox
    sandbox.arm(match, kind, **more)
    first = this.hire()
    await this.scene.until(this.command_id, lambda view, saga: kind in [seen for seen, _ in sandbox.struck()])
    await asyncio.to_thread(first.end)
    sandbox.clear()
    return first.exit_code == KILLED


async def all_killed_while(match: str, kind: str, this: Round) -> bool:
    """The sandbox holds the answer back at that request; worker and systems die together; the systems come back."""
    sandbox = this.scene.sandbox
    sandbox.arm(match, kind)
    first = this.hire()
    await this.scene.until(this.command_id, lambda view, saga: kind in [seen for seen, _ in sandbox.struck()])
    await asyncio.to_thread(first.end)
    await asyncio.to_thread(sandbox.die)
    await asyncio.to_thread(sandbox.rise)
    return first.exit_code == KILLED


async def killed_at_random(seed: int, this: Round) -> bool:
    """Up to three workers in a row, each killed at an instant of the seed's choosing."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, KILLS_MAX)):
        worker = this.hire()
        await this.scene.until(
            this.command_id, _quiet_or_later_than(time.monotonic() + chance.uniform(0, RANDOM_MAX_S))
        )
        await asyncio.to_thread(worker.end)
    return True


def _quiet_or_later_than(at_s: float) -> Callable[[CommandView, Saga], bool]:
    return lambda view, saga: time.monotonic() > at_s or is_quiet(view, saga)


async def killed_while_unwinding(trap: Trap, this: Round) -> bool:
    """A person rejects what waits for approval; the worker that undoes it dies of its trap."""
    scene, before = this.scene, this.hire()
    await scene.until(this.command_id, lambda view, saga: view.state == "AWAITING_APPROVAL", approving_it=False)
    await asyncio.to_thread(before.end)
    await scene.reject(this.command_id)
    return await killed_at(trap, this)


async def stopped_at(number: int, this: Round, *, until_quiet: bool) -> bool:
    """Stopped between its fence and its write for longer than the lease; another worker takes over meanwhile."""
    scene = this.scene
    first = this.hire(Trap(place=Place.FENCED, number=number, by=signal.SIGSTOP))
    await scene.until(this.command_id, lambda view, saga: first.is_stopped)
    second = this.hire()
    if until_quiet:
        await scene.until(this.command_id, is_quiet)
    else:
        await scene.until(this.command_id, lambda view, saga: _epoch(saga) > 1 and _owner(saga) != "worker-0")
    answered = this.passed(first, Place.ANSWERED)
    first.send(signal.SIGCONT)
    await asyncio.to_thread(wait_until, lambda: this.passed(first, Place.ANSWERED) > answered, "its late answer")
    assert second.is_alive
    return True


def _epoch(saga: Saga) -> int:
    return saga.root.lease_epoch


def _owner(saga: Saga) -> str | None:
    return saga.root.lease_owner
