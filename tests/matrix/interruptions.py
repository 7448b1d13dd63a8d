"""The interruptions: what may happen to a publication right before each of its steps, and what must be true afterwards.

A fault strikes a request (`tests.matrix.cases`); an interruption strikes between two: whoever gave the authority takes
it back, an operator stops the site, an approver changes their mind, a person edits the very post, the agent proposes
the next version. It strikes when all is looked at and connected and only the fence is still to come, or where a gate is
about to judge. The table says what follows; `CHANGES` says what each effect is outside, where effects are counted.

A cell is one article of an installation (`tests.integration.world`) that plays a whole row of the table.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

from capabilities.revocation import RevocationKind, RevocationScope
from execution.core.command import Saga
from execution.core.states import ApprovalState
from execution.operations import OperationRefused
from execution.proposal import CommandView, Proposal, Proposer
from execution.store import journal, registry
from tests.integration import passage as at
from tests.integration.world import PROPOSER, World, proposal, world_at
from tests.pictures import png

VALIDATION, APPROVAL = "validation", "approval"
PREPARING: Final = (at.ARCHIVE, at.UPLOAD, at.CREATE, at.STAGE)
FINISHING: Final = (at.PURGE, at.REGISTER, at.RECORD, at.TRASH)
AFTER: Final = (*FINISHING, at.NOTIFY)
PLACES: Final = (*PREPARING, VALIDATION, APPROVAL, at.PUBLISH, *AFTER)
"""Steps and gates in order. What is written over what is live updates where a first version publishes, and has a staged
draft to throw away."""
UNDOING: Final = {at.ARCHIVE: at.DELETE_BRANCH, at.UPLOAD: at.DELETE, at.CREATE: at.TRASH, at.STAGE: at.CANCEL}
CHANGES: Final[Mapping[str, Mapping[str, int]]] = {
    at.ARCHIVE: {"branches": 1},
    at.DELETE_BRANCH: {"branches": -1},
    at.UPLOAD: {"images": 1},
    at.DELETE: {"images": -1},
    at.CREATE: {"posts in draft": 1},
    at.TRASH: {"posts in draft": -1, "posts in trash": 1},
    at.STAGE: {"rows staged": 1},
    at.CANCEL: {"rows staged": -1, "rows cancelled": 1},
    at.PUBLISH: {"posts in draft": -1, "posts in publish": 1},
    at.UPDATE: {},
    at.PURGE: {"purges": 1},
    at.REGISTER: {},
    at.RECORD: {"rows staged": -1, "rows published": 1},
    at.NOTIFY: {"messages": 1},
}
"""The one check of an article is counted apart: every version registers the same."""
WORDS: Final = "A person's words"
TURNS_MAX: Final = 12


class Outcome(StrEnum):
    """What follows, in a word. undone: in reverse. asked: published, and a person is asked about what is left."""

    RESUMED = "resumed"
    UNDONE = "undone"
    FINISHED = "finished"
    ASKED = "asked"
    FINDING = "finding"
    CONFLICT = "conflict"
    SUPERSEDED = "superseded"
    QUEUED = "queued"


_BEFORE: Final = PLACES[: PLACES.index(at.PURGE)]
_UNASKED: Final = PLACES[: PLACES.index(APPROVAL)]
_ASKED: Final = (APPROVAL, at.PUBLISH)


def _row(*parts: tuple[Iterable[str], Outcome]) -> Mapping[str, Outcome]:
    return {place: outcome for places, outcome in parts for place in places}


_REVOKED: Final = _row((_BEFORE, Outcome.UNDONE), (AFTER, Outcome.ASKED))
_FROZEN: Final = _row((PLACES, Outcome.RESUMED))
TABLE: Final[Mapping[str, Mapping[str, Outcome]]] = {
    "token revoked": _REVOKED,
    "decision revoked": _REVOKED,
    "site frozen": _FROZEN,
    "all frozen": _FROZEN,
    "rejected": _row((_UNASKED, Outcome.FINISHED), (_ASKED, Outcome.UNDONE), (AFTER, Outcome.FINISHED)),
    "post edited": _row((_UNASKED, Outcome.FINDING), (_ASKED, Outcome.CONFLICT), (AFTER, Outcome.FINISHED)),
    "staged draft edited": _row(
        (_UNASKED, Outcome.FINDING),
        ([APPROVAL], Outcome.CONFLICT),
        ((at.PUBLISH, *AFTER), Outcome.ASKED),
        ([at.TRASH], Outcome.FINISHED),
    ),
    "next version": _row((_BEFORE, Outcome.SUPERSEDED), (AFTER, Outcome.QUEUED)),
}
"""A rejection is one where there is an approval to withdraw; before and after it is refused and changes nothing."""
EDITS: Final = ("post edited", "staged draft edited")
_FIRST, _OVER = False, True
SAMPLE: Final[Mapping[tuple[str, bool], tuple[str, ...]]] = {
    ("token revoked", _FIRST): (at.CREATE, VALIDATION, at.PUBLISH, at.RECORD),
    ("decision revoked", _FIRST): (at.ARCHIVE, APPROVAL, at.NOTIFY),
    ("site frozen", _FIRST): (at.UPLOAD, at.PUBLISH),
    ("all frozen", _FIRST): (at.STAGE, APPROVAL, at.REGISTER),
    ("rejected", _FIRST): (at.STAGE, APPROVAL, at.PUBLISH, at.PURGE),
    ("post edited", _FIRST): (VALIDATION, at.PUBLISH, at.PURGE),
    ("next version", _FIRST): (at.PUBLISH, at.PURGE),
    ("token revoked", _OVER): (at.TRASH,),
    ("all frozen", _OVER): (at.PUBLISH,),
    ("post edited", _OVER): (at.PUBLISH,),
    ("staged draft edited", _OVER): (APPROVAL, at.PURGE),
    ("next version", _OVER): (at.PUBLISH,),
}
"""The cells that are played in every run of the tests. What is left out meets the same code at another step: fences are
alike, a token and a decision are two rows of one table, and so are a site and all. `python -m tests.matrix` plays all.
"""
FREEZES: Final = {"site frozen": "freeze:site:blog", "all frozen": "freeze:all"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """over: the version is written over one that is live."""

    interruption: str
    place: str
    over: bool

    @property
    def outcome(self) -> Outcome:
        return TABLE[self.interruption][self.place]

    @property
    def name(self) -> str:
        return f"{self.interruption}, {self.place}{' (update)' if self.over else ''}"

    @property
    def operation(self) -> str:
        return at.UPDATE if self.over and self.place == at.PUBLISH else self.place

    @property
    def sent(self) -> list[str]:
        """What leaves, in order, after the version that was there before."""
        mine, following = steps(over=self.over), steps(over=self.outcome is Outcome.QUEUED or self.over)
        early = [step for step in mine if PLACES.index(_place_of(step)) < PLACES.index(self.place)]
        back = [UNDOING[step] for step in reversed(early) if step in UNDOING]
        match self.outcome:
            case Outcome.UNDONE:
                return early + back
            case Outcome.SUPERSEDED:
                return early + back + following
            case Outcome.FINDING:
                return list(PREPARING)
            case Outcome.CONFLICT:  # the site itself refuses what the fence could not know any more
                return early + ([self.operation] if self.place == at.PUBLISH else [])
            case Outcome.ASKED:
                return [step for step in mine if step not in self.waiting]
            case Outcome.QUEUED:
                return mine + following
            case Outcome.FINISHED | Outcome.RESUMED:
                return mine

    @property
    def waiting(self) -> tuple[str, ...]:
        """What is not done after the pivot without a person: a message always comes last."""
        return (at.TRASH, at.NOTIFY) if self.interruption == "staged draft edited" else (at.NOTIFY,)

    @property
    def changed(self) -> dict[str, int]:
        """What is there afterwards."""
        landed = list(self.sent)
        if self.outcome is Outcome.CONFLICT and self.place == at.PUBLISH:
            landed.remove(self.operation)
        all_of_it = (steps(over=False) if self.over else []) + landed
        total: Counter[str] = Counter()
        for step in all_of_it:
            total.update(CHANGES[step])
        total["checks"] = int(at.REGISTER in all_of_it)
        return {name: count for name, count in sorted(total.items()) if count}


def steps(*, over: bool) -> list[str]:
    """The effects of one publication."""
    after = [step for step in AFTER if over or step != at.TRASH]
    return [*PREPARING, at.UPDATE if over else at.PUBLISH, *after]


def _place_of(step: str) -> str:
    return at.PUBLISH if step == at.UPDATE else step


def cells(interruption: str, *, over: bool) -> list[Cell]:
    """A row of the table. A person edits what is there: before a first version has its draft, nothing is."""
    places = [place for place in PLACES if over or place != at.TRASH]
    if interruption == "post edited" and not over:
        places = places[places.index(at.STAGE) :]
    if interruption == "staged draft edited":
        places = places[places.index(at.STAGE) : places.index(at.NOTIFY)] if over else []
    return [Cell(interruption=interruption, place=place, over=over) for place in places]


@dataclass
class Play:
    """One cell, played."""

    world: World
    cell: Cell
    article: str
    who: Proposer
    newer: list[str]
    refused: list[str]

    async def offered(self, version: int) -> Proposal:
        """Every version has words and an image of its own, every article an address."""
        image = await self.world.stored(png(version + 16 * int(self.article.rpartition("-")[2])))
        text, name = f"{self.article}, text {version}", f"About {self.article}"
        return proposal(
            article=self.article, version=version, content=text, title=name, featured_image=image, notify=["team"]
        )

    async def act(self, command_id: str) -> None:
        """The interruption itself."""
        match self.cell.interruption:
            case "token revoked":
                await self._revoke(RevocationKind.TOKEN, f"{self.who.issuer} {self.who.token_id}")
            case "decision revoked":
                await self._revoke(RevocationKind.DECISION, self.who.decision_id)
            case "rejected":
                await self._reject(command_id)
            case "post edited":
                status = "publish" if self.cell.over or self.cell.place in AFTER else "draft"
                await self.world.edit(self.post(status)["id"], excerpt=WORDS)
            case "staged draft edited":
                await self.world.edit(self.post("draft")["id"], excerpt=WORDS)
            case "next version":
                self.newer.append(await self.world.accepted(await self.offered(3), PROPOSER))
            case frozen:
                await self.world.restrict(FREEZES[frozen])

    async def _revoke(self, kind: RevocationKind, value: str) -> None:
        scope = RevocationScope(tenant=self.who.tenant, kind=kind, value=value)
        await self.world.operations.revoke(scope, operator="operator:pat", reason="left the firm")

    async def _reject(self, command_id: str) -> None:
        try:
            await self.world.operations.reject(command_id, operator="operator:pat", reason="not like this")
        except OperationRefused as refused:
            self.refused.append(str(refused).partition(":")[0])

    async def run(self) -> list[str]:
        """What was wrong, in words."""
        world, cell = self.world, self.cell
        if cell.over:
            await self._published(await world.accepted(await self.offered(1), PROPOSER))
        world.passage.sent.clear()
        command_id = await world.accepted(await self.offered(2), self.who)
        hook = self._hook(command_id)
        if cell.place not in (APPROVAL, VALIDATION):
            world.passage.before_fence[cell.operation] = hook
        elif cell.place == VALIDATION:
            world.passage.after_send[at.STAGE] = hook
        wrong = await self._held(command_id) if cell.interruption in FREEZES else []
        view = await self._on(command_id)
        for newer in self.newer:
            await self._published(newer)
        return wrong + await self._judged(command_id, view)

    def _hook(self, command_id: str) -> Callable[[], Awaitable[None]]:
        async def hook() -> None:
            await self.act(command_id)

        return hook

    async def _published(self, command_id: str) -> None:
        await self._on(command_id, interrupted=False)

    async def _on(self, command_id: str, *, interrupted: bool = True) -> CommandView:
        """To its end, or until a person is asked; somebody approves in between."""
        self.world.watched.add(command_id)  # what is told is compared after each turn, not after each commit
        view = await self.world.settle(command_id)
        if view.state == "AWAITING_APPROVAL":
            if interrupted and self.cell.place == APPROVAL and self.cell.interruption not in FREEZES:
                await self.act(command_id)
            with contextlib.suppress(OperationRefused):
                await self.world.approve(command_id)
            view = await self.world.settle(command_id)
        return view

    async def _held(self, command_id: str) -> list[str]:
        """Frozen: nothing leaves until somebody lifts it."""
        world = self.world
        world.watched.add(command_id)
        for _ in range(TURNS_MAX):
            await world.turn(command_id)
            view = await world.view(command_id)
            if view.state == "HELD":
                break
            if view.state == "AWAITING_APPROVAL":
                if self.cell.place == APPROVAL:
                    await self.act(command_id)
                await world.approve(command_id)
            world.clock.move_on(1.0)
        sent = list(world.passage.sent)
        world.clock.move_on(60.0)
        await world.turn(command_id)
        wrong = [] if view.state == "HELD" else [f"not held: {view.state}"]
        wrong += [] if sent == world.passage.sent else ["something left while it was frozen"]
        await world.lift(FREEZES[self.cell.interruption])
        return wrong

    # -- judging ------------------------------------------------------------------------------------------------------

    async def _judged(self, command_id: str, view: CommandView) -> list[str]:
        world, cell = self.world, self.cell
        saga = await world.saga(command_id)
        wrong = [] if world.passage.sent == cell.sent else [f"sent {world.passage.sent} instead of {cell.sent}"]
        there = self.there()
        wrong += [] if there == cell.changed else [f"there is {there} instead of {cell.changed}"]
        wrong += _wrong_ending(cell, view, saga, self.refused)
        if saga.root.is_terminal:
            held = await world.store.read(lambda conn: registry.locks_of(conn, command_id))
            wrong += [f"{lock.resource} is still locked" for lock in held]
        for newer in self.newer:
            after = await world.view(newer)
            wrong += [] if (after.state, after.live) == ("SUCCESS", True) else [f"the next version: {after.state}"]
        return wrong + self._wrong_words()

    def _wrong_words(self) -> list[str]:
        """The public text is that of one version; a person's words stand where nobody approved otherwise since."""
        live = [post for post in self._posts() if post["status"] == "publish"]
        shown = 3 if self.newer else 2
        if self.cell.outcome in (Outcome.UNDONE, Outcome.FINDING, Outcome.CONFLICT):
            shown = 1
        texts = [post["content"].strip() for post in live]
        wanted = [f"<p>{self.article}, text {shown}</p>"] if self.cell.over or shown > 1 else []
        wrong = [] if texts == wanted else [f"public: {texts}"]
        if self.cell.interruption in EDITS and not any(post["excerpt"] == WORDS for post in self._posts()):
            wrong.append("a person's words are lost")
        return wrong

    def _posts(self) -> list[Mapping[str, Any]]:
        posts: Any = self.world.sandbox.effects()["posts"]
        return [post for post in posts if post["title"] == f"About {self.article}"]

    def post(self, status: str) -> Mapping[str, Any]:
        """The one with that status."""
        (found,) = [post for post in self._posts() if post["status"] == status]
        return found

    def there(self) -> dict[str, int]:
        """What exists of this article outside, counted there."""
        outside: Any = self.world.sandbox.effects()
        found = Counter(f"posts in {post['status']}" for post in self._posts())
        found.update(f"rows {row['status']}" for row in self.world.rows() if row["article_id"] == self.article)
        found["branches"] = sum(f"/{self.article}/" in branch["name"] for branch in outside["branches"])
        found["images"] = sum(image["alt"] == f"About {self.article}" for image in outside["media"])
        found["purges"] = sum(f"/about-{self.article}/" in str(purge["addresses"]) for purge in outside["purges"])
        found["checks"] = sum(f"{self.article}, " in check["desc"] for check in outside["checks"])
        found["messages"] = sum(self.article in mail["content"].replace("=\r\n", "") for mail in outside["messages"])
        return {name: count for name, count in sorted(found.items()) if count}


def _wrong_ending(cell: Cell, view: CommandView, saga: Saga, refused: Sequence[str]) -> list[str]:
    """What is said at the end, and to whom a question goes."""
    asked = [review.kind for review in view.reviews]
    undone = "COMPENSATED" if cell.place != at.ARCHIVE else "FAILED"
    ending = "rejected" if cell.interruption == "rejected" else "revoked"
    wanted: tuple[object, ...]
    match cell.outcome:
        case Outcome.UNDONE:
            wanted = (undone, ending, False, True, [])
        case Outcome.SUPERSEDED:
            wanted = (undone, "superseded", False, True, [])
        case Outcome.FINDING:
            wanted = ("NEEDS_REVIEW", None, False, False, ["VALIDATION_FINDINGS"])
        case Outcome.CONFLICT:
            wanted = ("NEEDS_REVIEW", None, False, False, ["CONFLICT"])
        case Outcome.ASKED:
            kind = "CONFLICT" if cell.interruption in EDITS else "REVOKED_AFTER_PIVOT"
            wanted = ("NEEDS_REVIEW", None, True, False, [kind])
        case Outcome.QUEUED | Outcome.FINISHED | Outcome.RESUMED:
            wanted = ("SUCCESS", "completed", True, True, [])
    said = (view.state, view.ending, view.live, view.done, asked)
    wrong = [] if said == wanted else [f"said {said} instead of {wanted}"]
    states = [approval.state for approval in saga.approvals]
    if cell.outcome is Outcome.CONFLICT and states != [ApprovalState.VOID]:
        wrong.append(f"the approval is {states}")
    if cell.interruption == "rejected" and bool(refused) == (cell.outcome is Outcome.UNDONE):
        wrong.append(f"the rejection was refused: {refused}")
    return wrong


async def played(folder: Path, row: Sequence[Cell]) -> dict[Cell, list[str]]:
    """The cells of one row, one after the other in one installation. Only a site with our plugin can refuse a write at
    the very last moment, so that is where people edit."""
    plugin = row[0].interruption in EDITS
    await asyncio.to_thread(partial(folder.mkdir, parents=True))
    async with world_at(folder, archive=True, monitoring=True, purge=("{url}",), plugin=plugin) as world:
        found = {}
        for number, cell in enumerate(row, start=1):
            who = replace(PROPOSER, token_id=f"tok_row{number}", decision_id=f"dec_row{number}")
            play = Play(world=world, cell=cell, article=f"article-{number:04d}", who=who, newer=[], refused=[])
            try:
                found[cell] = await play.run()
            except AssertionError as error:
                found[cell] = [f"{error}"]
        found[row[-1]] += await _journal_faults(world)
    return found


async def _journal_faults(world: World) -> list[str]:
    batches = await world.store.read(lambda conn: list(journal.verify_all(conn)))
    return [f"{fault.command_id} {fault.kind}" for batch in batches for fault in batch.findings]
