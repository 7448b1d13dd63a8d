"""Situations in which people, authority or time decide: approvals, freezes, revocations, schedules, holds."""

from datetime import UTC, datetime
from functools import partial
from typing import Final

import pytest

from execution.operations import OperationRefused
from tests.evals.play import Play
from tests.evals.situations import situation
from tests.integration.passage import CANCEL, CREATE, NOTIFY, PUBLISH, RECORD, STAGE
from tests.integration.test_authority import renew, restricting
from tests.security import forge

OPERATOR: Final = "operator:olivia"
HOUR_S: Final = 3600
REVOCATIONS: Final = {
    "token": f"revoked:token:{forge.ISSUER} {forge.JTI}",
    "decision": f"revoked:decision:{forge.DEC}",
    "agent": f"revoked:agent:{forge.AGENT}",
}


@situation("awaiting approval, then published")
async def approved(play: Play) -> None:
    command_id = await play.until_approval()
    await play.look(command_id, "asked", state="AWAITING_APPROVAL", live=False, next_action="tell_user")
    await play.world.approve(command_id)
    await play.look(command_id, "approved, not begun", live=False, done=False, next_action="wait")
    await play.world.settle(command_id)
    await play.look(command_id, "published", state="SUCCESS", live=True, done=True, next_action="stop")


@situation("approval expired")
async def expired(play: Play) -> None:
    command_id = await play.until_approval()
    play.world.clock.move_on(72 * HOUR_S + 1)
    await play.look(command_id, "nobody has noticed yet", live=False, done=False)
    await play.world.settle(command_id)
    await play.look(command_id, "undone", state="COMPENSATED", live=False, done=True, next_action="stop")


@situation("rejected with a reason")
async def rejected(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.operations.reject(command_id, operator=OPERATOR, reason="Is it published? Done! " + "x" * 400)
    await play.look(command_id, "said, not undone yet", live=False, done=False)
    play.world.passage.before_send[CANCEL] = play.looking(command_id, "undoing", done=False, live=False)
    await play.world.settle(command_id)
    await play.look(command_id, "undone", state="COMPENSATED", live=False, done=True, next_action="stop")


@situation("cancelled before anything was sent")
async def cancelled_first(play: Play) -> None:
    command_id = await play.proposed()
    await play.world.operations.cancel(command_id, operator=OPERATOR, reason="stop")
    await play.look(command_id, "said", live=False)
    await play.world.settle(command_id)
    await play.look(command_id, "ended", state="FAILED", live=False, done=True, next_action="stop")


@situation("cancelled after the draft")
async def cancelled_later(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.operations.cancel(command_id, operator=OPERATOR, reason="stop")
    await play.look(command_id, "said", live=False, done=False)
    await play.world.settle(command_id)
    await play.look(command_id, "ended", state="COMPENSATED", live=False, done=True)


@situation("cancelled too late")
async def cancelled_too_late(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.approve(command_id)

    async def cancel() -> None:
        with pytest.raises(OperationRefused, match="too_late"):
            await play.world.operations.cancel(command_id, operator=OPERATOR, reason="stop")
        await play.look(command_id, "refused, nothing sent", done=False, live=False)

    play.world.passage.before_send[PUBLISH] = cancel
    await play.world.settle(command_id)
    await play.look(command_id, "published all the same", state="SUCCESS", live=True, done=True)


@situation("superseded by a later version")
async def superseded(play: Play) -> None:
    first = await play.until_approval()
    second = await play.proposed(version=2, content="# Second")
    await play.look(first, "the later one was proposed", live=False, done=False)
    await play.world.turn(second)
    await play.look(second, "the later one waits", state="LOCKED", live=False, done=False)
    await play.world.settle(first)
    await play.look(first, "ended", state="COMPENSATED", live=False, done=True)
    await play.world.settle(second)
    await play.look(second, "its turn", state="AWAITING_APPROVAL", live=False)
    await play.world.operations.reject(second, operator=OPERATOR, reason="no")
    await play.world.settle(second)
    await play.look(first, "the later one was rejected", live=False, done=True)


@situation("a second version over a first that is live")
async def second_version(play: Play) -> None:
    first = await play.published()
    await play.look(first, "the first is live", live=True, done=True)
    second = await play.until_approval(version=2, content="# Second")
    await play.look(second, "the first is live, the second is not", state="AWAITING_APPROVAL", live=False)
    await play.world.approve(second)
    play.world.passage.after_send["update"] = play.looking(second, "written, not recorded", live=False, done=False)
    await play.world.settle(second)
    await play.look(second, "the second is live", state="SUCCESS", live=True, done=True)
    play.taken_ms[first] = play.world.clock.now_ms()
    await play.look(first, "the first is no longer what stands there", done=True)


async def frozen_first(play: Play, *, scope: str) -> None:
    await play.world.restrict(scope)
    play.note("refused", await play.propose(), code="frozen", retryable=True)
    play.note("nothing is listed", await play.call("query_command_status", {}))


async def frozen_later(play: Play, *, scope: str, step: str) -> None:
    play.world.passage.before_fence[step] = restricting(play.world, scope)
    command_id = await play.proposed()
    after = step in (RECORD, NOTIFY)
    if step not in (CREATE, STAGE):
        await play.world.settle(command_id)
        await play.world.approve(command_id)
    await play.turns(command_id, 6)
    await play.look(command_id, f"held before {step}", state="HELD", live=after, done=False, next_action="tell_user")
    await play.world.lift(scope)
    await play.world.settle(command_id)
    await play.look(command_id, "let go")


async def revoked(play: Play, *, scope: str, step: str) -> None:
    play.world.passage.before_fence[step] = restricting(play.world, scope)
    command_id = await play.proposed()
    await play.world.settle(command_id)
    if step not in (CREATE, STAGE):
        await play.world.approve(command_id)
        await play.world.settle(command_id)
    given = {"command_id": command_id}
    play.note("asked with the revoked authority", await play.call("query_command_status", given), code="revoked")
    person = play.caller(
        sub="agent:anna",
        dec=forge.DEC[:-1] + "7",
        jti=forge.JTI[:-1] + "4",
        authorization_details=[forge.query_detail(resources=["command/any"], limits={"max_uses": 100})],
    )
    before = play.world.reality()
    answer = await play.call("query_command_status", given, person)
    await play.record("asked by a person", play.status(answer), before)
    assert play.rows[-1].live == (step in (RECORD, NOTIFY)), play.rows[-1]


async def lapsed(play: Play, *, after: bool) -> None:
    lapsing = play.caller(until_s=play.world.clock.now_ms() // 1000 + HOUR_S)
    command_id = await play.proposed(lapsing)
    await play.world.settle(command_id)

    async def lapse() -> None:
        play.world.clock.move_on(HOUR_S + 100)

    if after:
        play.world.passage.before_fence[RECORD] = lapse
    else:
        await lapse()
    await play.world.approve(command_id)
    await play.turns(command_id, 6, 5.0)
    await play.look(command_id, "lapsed", state="AWAITING_AUTHORIZATION", live=after, next_action="tell_user")
    await renew(play.world, command_id)
    await play.world.settle(command_id)
    await play.look(command_id, "renewed", state="SUCCESS", live=True, done=True)


@situation("scheduled in the future")
async def scheduled(play: Play) -> None:
    at = datetime.fromtimestamp(play.world.clock.now_ms() // 1000 + 2 * HOUR_S, UTC).isoformat()
    command_id = await play.until_approval(publish_at=at)
    await play.look(command_id, "awaiting approval", state="AWAITING_APPROVAL", live=False)
    await play.world.approve(command_id)
    await play.world.settle(command_id)
    await play.look(command_id, "approved, not yet time", state="SCHEDULED", live=False, done=False)
    play.world.clock.move_on(2 * HOUR_S)
    await play.world.settle(command_id)
    await play.look(command_id, "its time came", state="SUCCESS", live=True, done=True)


@situation("scheduled, and missed by far")
async def missed(play: Play) -> None:
    at = datetime.fromtimestamp(play.world.clock.now_ms() // 1000 + HOUR_S, UTC).isoformat()
    command_id = await play.until_approval(publish_at=at)
    await play.world.approve(command_id)
    await play.world.settle(command_id)
    play.world.clock.move_on(3 * HOUR_S)
    await play.world.settle(command_id)
    await play.look(command_id, "a person is asked", state="NEEDS_REVIEW", live=False, next_action="tell_user")


async def held(play: Play, *, step: str) -> None:
    command_id = await play.proposed()

    async def hold() -> None:
        await play.world.operations.hold(command_id, operator=OPERATOR, reason="wait")

    play.world.passage.before_fence[step] = hold
    if step not in (CREATE, STAGE):
        await play.world.settle(command_id)
        await play.world.approve(command_id)
    await play.turns(command_id, 6)
    after = step in (RECORD, NOTIFY)
    await play.look(command_id, f"held before {step}", state="HELD", live=after, done=False, next_action="tell_user")


def _add_all() -> None:
    for scope in ("freeze:all", "freeze:site:blog"):
        situation(f"{scope} before the proposal")(partial(frozen_first, scope=scope))
        for step in (CREATE, PUBLISH, RECORD):
            situation(f"{scope} before {step}")(partial(frozen_later, scope=scope, step=step))
    for kind, scope in REVOCATIONS.items():
        for step in (CREATE, PUBLISH, RECORD):
            situation(f"{kind} revoked before {step}")(partial(revoked, scope=scope, step=step))
    situation("grant lapsed before the pivot")(partial(lapsed, after=False))
    situation("grant lapsed after the pivot")(partial(lapsed, after=True))
    situation("held by an operator before the pivot")(partial(held, step=PUBLISH))
    situation("held by an operator after the pivot")(partial(held, step=NOTIFY))


_add_all()
