"""Situations while a command goes its way: accepted, each step in progress, each step in doubt."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from adapters.sandbox.faults import FaultKind
from execution.core.quiescence import Bounds
from server.results import CommandStatus
from tests.evals.play import Play
from tests.evals.situations import situation
from tests.integration.passage import CREATE, NOTIFY, PUBLISH, RECORD, STAGE
from tests.integration.world import eventually

POSTS: Final = "/wp-json/wp/v2/posts"
STEPS: Final = (CREATE, STAGE, PUBLISH, RECORD, NOTIFY)
HURRY_S: Final = 0.15
LATE_S: Final = 0.6


@situation("accepted, wait_seconds=0")
async def accepted_at_once(play: Play) -> None:
    command_id = await play.proposed()
    await play.look(command_id, "before a worker saw it", live=False, done=False, next_action="wait")


@situation("accepted, wait_seconds=20, a worker beside it")
async def accepted_and_waited(play: Play) -> None:
    asking = asyncio.create_task(play.proposed(wait_seconds=20))

    async def known() -> bool:
        return bool(await play.world.first.status.recent("acme", None))

    await eventually(known, "the proposal is recorded")
    (view,) = await play.world.first.status.recent("acme", None)
    await play.world.settle(view.command_id)
    await asking
    assert play.rows[0].state == "AWAITING_APPROVAL", play.rows


@situation("waiting for a result that comes while the agent waits")
async def published_while_waiting(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.approve(command_id)
    before = play.world.reality()
    given = {"command_id": command_id, "wait_seconds": 20}
    asking = asyncio.create_task(play.call("query_command_status", given))
    await play.world.settle(command_id)
    answer = await asking
    assert isinstance(answer, CommandStatus)
    assert answer.done
    await play.record("answer to the waiting query", answer, before)


async def step_in_progress(play: Play, *, step: str) -> None:
    command_id = await play.proposed()
    passage = play.world.passage
    passage.before_fence[step] = play.looking(command_id, "claimed, not sent", done=False)
    passage.before_send[step] = play.looking(command_id, "fenced, nothing sent", done=False)
    passage.after_send[step] = play.looking(command_id, "landed, not recorded", done=False)
    await play.world.settle(command_id)
    await play.world.approve(command_id)
    await play.world.settle(command_id)
    await play.look(command_id, "ended", state="SUCCESS", live=True, done=True, next_action="stop")
    assert len(play.rows) == 5, play.rows


class Killed(BaseException):
    """The process ends here."""


async def die() -> None:
    raise Killed


async def killed_after_sending(play: Play, *, step: str) -> None:
    command_id = await play.proposed()
    world = play.world
    if step not in (CREATE, STAGE):
        await world.settle(command_id)
        await world.approve(command_id)
    world.passage.after_send[step] = die
    with pytest.raises(Killed):
        await world.settle(command_id)
    await play.look(command_id, "the worker is dead, its effect is there", done=False)
    world.clock.move_on(world.settings.lease_s + 1)
    async with world.another() as second:
        await world.turn(command_id, second)
        await play.look(command_id, "another worker took over")
        await world.settle(command_id, second)
    await play.look(command_id, "found out")


Arm = Callable[[Play, str], None]


def arming(kind: FaultKind, **more: Any) -> Arm:
    def arm(play: Play, match: str) -> None:
        play.world.arm(match, kind, **more)

    return arm


def late(play: Play, match: str) -> None:
    play.hurry(HURRY_S)
    play.world.arm(match, FaultKind.LATE_COMMIT, seconds=LATE_S)


def hanging(play: Play, match: str) -> None:
    play.hurry(HURRY_S)
    play.world.arm(match, FaultKind.HANG_AFTER)


DOUBTS: Final[dict[str, Arm]] = {
    "answer lost after the commit": arming(FaultKind.DROP_AFTER),
    "connection lost before the commit": arming(FaultKind.DROP_BEFORE),
    "500 after the commit": arming(FaultKind.STATUS_AFTER, status=500, body="<h1>fatal</h1>"),
    "200 with a page instead of an answer": arming(FaultKind.STATUS_AFTER, status=200, body="<h1>soon</h1>"),
    "403 after the commit": arming(FaultKind.STATUS_AFTER, status=403, body="<h1>blocked</h1>"),
    "truncated answer": arming(FaultKind.TRUNCATE),
    "no answer, ever": hanging,
    "the commit comes after the client gave up": late,
}


async def write_in_doubt(play: Play, *, arm: Arm, pivot: bool) -> None:
    """The write's outcome is lost and the site cannot be read for a while."""
    world = play.world
    command_id = await play.proposed()
    if pivot:
        await world.settle(command_id)
        await world.approve(command_id)
    arm(play, f"POST {POSTS}/" if pivot else f"POST {POSTS}")

    async def unreadable() -> None:
        world.arm(f"GET {POSTS}", FaultKind.STATUS_BEFORE, left=0, status=503)

    write = PUBLISH if pivot else CREATE
    world.passage.before_send[write] = unreadable
    if arm not in (late, hanging):  # there the exchange is cut off before anybody could ask
        world.passage.after_send[write] = play.looking(command_id, "no answer recorded yet", done=False, live=False)
    await play.turns(command_id, 2)
    await play.look(command_id, "in doubt, the site cannot be read", done=False, live=False, next_action="wait")
    world.sandbox.faults.clear()
    if arm is late:
        await eventually(partial(_there, play, 1, "publish" if pivot else "draft"), "the late commit")
        await play.look(command_id, "it landed late, nobody has looked", done=False, live=False)
    await world.settle(command_id)
    if pivot:
        await play.look(command_id, "found out", state="SUCCESS", live=True, done=True)
    else:
        await play.look(command_id, "found out", state="AWAITING_APPROVAL", live=False, next_action="tell_user")


async def _there(play: Play, count: int, status: str) -> bool:
    return len(play.world.reality().with_status(status)) == count


async def stale_read(play: Play, *, pivot: bool) -> None:
    """The answer is lost and reads show what was there before."""
    world = play.world
    command_id = await play.proposed()
    if pivot:
        await world.settle(command_id)
        await world.approve(command_id)
    world.arm(f"POST {POSTS}/" if pivot else f"POST {POSTS}", FaultKind.DROP_AFTER)

    async def stale() -> None:
        world.arm(f"GET {POSTS}", FaultKind.STALE, left=6, seconds=0.5)

    world.passage.after_send[PUBLISH if pivot else CREATE] = stale
    for number in range(3):
        await play.turns(command_id, 1)
        await play.look(command_id, f"read {number + 1}")
    world.sandbox.faults.clear()
    await world.settle(command_id)
    await play.look(command_id, "read again", live=pivot)


@situation("pivot in doubt before quiescence")
async def before_quiescence(play: Play) -> None:
    world = play.world
    command_id = await play.until_approval()
    await world.approve(command_id)
    world.arm(f"POST {POSTS}/", FaultKind.DROP_BEFORE)
    await world.turn(command_id)
    await play.look(command_id, "just lost", state="OUTCOME_UNKNOWN", live=False, done=False, next_action="wait")
    world.clock.move_on(1.0)
    await world.turn(command_id)
    await play.look(command_id, "seen absent, too early to count", live=False, done=False, next_action="wait")
    await world.settle(command_id)
    await play.look(command_id, "sent again after quiescence", state="SUCCESS", live=True, done=True)


@situation("pivot in doubt, and nobody knows when it is over", bounds=Bounds())
async def no_quiescence(play: Play) -> None:
    world = play.world
    command_id = await play.until_approval()
    await world.approve(command_id)
    world.arm(f"POST {POSTS}/", FaultKind.DROP_BEFORE)
    await world.settle(command_id)
    await play.look(command_id, "a person is asked", state="NEEDS_REVIEW", live=False, next_action="tell_user")


@situation("message in doubt")
async def message_in_doubt(play: Play) -> None:
    world = play.world
    command_id = await play.until_approval()
    await world.approve(command_id)
    world.arm("SMTP DATA", FaultKind.DROP_AFTER)
    await world.settle(command_id)
    await play.look(command_id, "sent perhaps", state="NEEDS_REVIEW", live=True, done=False, next_action="tell_user")


def _add_all() -> None:
    for step in STEPS:
        situation(f"in progress: {step}")(partial(step_in_progress, step=step))
        situation(f"killed after sending: {step}")(partial(killed_after_sending, step=step))
    for pivot in (False, True):
        where = "publish" if pivot else "draft"
        for name, arm in DOUBTS.items():
            situation(f"{where} in doubt: {name}")(partial(write_in_doubt, arm=arm, pivot=pivot))
        situation(f"{where} in doubt: stale reads")(partial(stale_read, pivot=pivot))


_add_all()
