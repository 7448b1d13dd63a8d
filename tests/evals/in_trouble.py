"""Situations in which reality is not as wanted: findings, conflicts, duplicates, gaps, failed undoings, crashes."""

import json
import shutil
import sqlite3
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from adapters.sandbox.faults import FaultKind
from execution.core.quiescence import Bounds
from execution.core.states import Verdict
from execution.orchestrator import drive_saga
from server.results import CommandStatus
from tests.evals.play import Play
from tests.evals.situations import situation
from tests.evals.under_way import HURRY_S, POSTS, die
from tests.evals.under_way import Killed as KilledWorker
from tests.integration.passage import CREATE, PUBLISH, RECORD, STAGE
from tests.integration.world import eventually

OPERATOR: Final = "operator:olivia"
FORBIDDEN: Final = json.dumps({"code": "rest_cannot_delete", "message": "no", "data": {"status": 403}})
SHORT: Final = Bounds(max_run_s=0.2, max_run_source="declared wrongly on purpose")


async def draft_id(play: Play, command_id: str) -> int:
    return int((await play.world.step(command_id, "CREATE_WORDPRESS_DRAFT")).external_resource_id or "0")


@situation("validation findings: a person edited the draft")
async def findings(play: Play) -> None:
    async def edit() -> None:
        await play.world.edit(1, content="A person's words")

    play.world.passage.before_fence[STAGE] = edit
    command_id = await play.proposed()
    await play.world.settle(command_id)
    await play.look(command_id, "asked", state="NEEDS_REVIEW", live=False, done=False, next_action="tell_user")
    await play.world.rule(command_id, Verdict.ABANDON)
    await play.look(command_id, "abandoned, the person's words stay", live=False)


@situation("conflict: a person edited after the approval")
async def conflict(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.approve(command_id)
    await play.world.edit(await draft_id(play, command_id), content="A person's words")
    await play.world.settle(command_id)
    await play.look(command_id, "stopped", state="NEEDS_REVIEW", live=False, done=False, next_action="tell_user")
    await play.world.rule(command_id, Verdict.REBASE)
    await play.look(command_id, "asked anew", state="AWAITING_APPROVAL", live=False)
    await play.world.approve(command_id)
    await play.world.settle(command_id)
    await play.look(command_id, "published", state="SUCCESS", live=True)


@situation("conflict: a person published the draft with words of their own")
async def published_by_a_person(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.approve(command_id)
    await play.world.edit(await draft_id(play, command_id), content="A person's words", status="publish")
    await play.world.settle(command_id)
    await play.look(command_id, "stopped", state="NEEDS_REVIEW", live=False, done=False, next_action="tell_user")


@situation("slug taken by somebody else's post")
async def slug_taken(play: Play) -> None:
    other = await play.published(article_id="article-0001", slug="brewing")
    command_id = await play.proposed(slug="brewing")
    await play.world.settle(command_id)
    await play.look(command_id, "stopped", live=False, done=False)
    await play.look(other, "the other one", live=True, done=True)


@situation("silent rename of the slug")
async def renamed(play: Play) -> None:
    command_id = await play.until_approval(slug="brewing")
    await play.world.approve(command_id)
    play.world.arm(f"POST {POSTS}/", FaultKind.RENAME)
    await play.world.settle(command_id)
    await play.look(command_id, "published elsewhere", live=True, done=False, next_action="tell_user")


@situation("duplicate: the front sent the draft twice")
async def duplicate(play: Play) -> None:
    play.world.arm(f"POST {POSTS}", FaultKind.REPLAY)
    command_id = await play.proposed()
    await play.world.settle(command_id)
    await play.look(command_id, "seen or not", live=False, done=False)


async def changed_afterwards(play: Play, *, status: str) -> None:
    command_id = await play.published()
    fields = {"publish": {"content": "A person's words"}, "draft": {"status": "draft"}, "trash": {}}[status]
    await play.look(command_id, "published", live=True, done=True)
    await play.taken(command_id, **fields)
    play.world.clock.move_on(30 * 86_400)
    await play.look(command_id, "a month after a person's act", done=True)
    before = play.world.reality()
    again = await play.propose()
    assert isinstance(again, CommandStatus)
    await play.record("proposed again", again, before)


@situation("changed by a person between the write and its reading")
async def drifted(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.approve(command_id)

    async def edit() -> None:
        await play.taken(command_id, content="A person's words")

    play.world.passage.after_send[PUBLISH] = edit
    await play.turns(command_id, 1)
    await play.look(command_id, "seen to differ", live=False)
    await play.world.settle(command_id)
    await play.look(command_id, "a person is told", live=False, done=False, next_action="tell_user")


@situation("published, record missing")
async def record_missing(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.approve(command_id)

    async def cancelled() -> None:
        with play.world.table:
            play.world.table.execute("UPDATE remit_publications SET status = 'cancelled'")

    play.world.passage.before_fence[RECORD] = cancelled
    await play.world.settle(command_id)
    await play.look(command_id, "a person is asked", state="NEEDS_REVIEW", live=True, next_action="tell_user")


@situation("published, the message was refused")
async def message_refused(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.approve(command_id)
    play.world.arm("SMTP DATA", FaultKind.STATUS_BEFORE, status=554)
    await play.world.settle(command_id)
    await play.look(command_id, "a person is asked", state="NEEDS_REVIEW", live=True, next_action="tell_user")
    await play.world.rule(command_id, Verdict.ABANDON)
    await play.look(command_id, "published without it", state="SUCCESS", live=True, done=True)


@situation("the draft is refused")
async def draft_refused(play: Play) -> None:
    refusal = json.dumps({"code": "rest_cannot_create", "message": "no", "data": {"status": 403}})
    play.world.arm(f"POST {POSTS}", FaultKind.STATUS_BEFORE, left=0, status=403, body=refusal)
    command_id = await play.proposed()
    await play.world.settle(command_id)
    await play.look(command_id, "refused", live=False)


@situation("the publication is refused")
async def publication_refused(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.approve(command_id)
    refusal = json.dumps({"code": "rest_cannot_publish", "message": "no", "data": {"status": 403}})
    play.world.arm(f"POST {POSTS}/", FaultKind.STATUS_BEFORE, left=0, status=403, body=refusal)
    await play.world.settle(command_id)
    await play.look(command_id, "refused", live=False)


@situation("the site is down before the draft")
async def site_down(play: Play) -> None:
    play.world.arm("GET /wp-json", FaultKind.STATUS_BEFORE, left=0, status=503)
    command_id = await play.proposed()
    await play.turns(command_id, 2)
    await play.look(command_id, "asked in between", live=False)
    await play.world.settle(command_id)
    await play.look(command_id, "given up", live=False)


async def failed_undoing(play: Play) -> str:
    command_id = await play.until_approval()
    await play.world.operations.reject(command_id, operator=OPERATOR, reason="no")
    play.world.arm(f"DELETE {POSTS}/1", FaultKind.STATUS_BEFORE, left=0, status=403, body=FORBIDDEN)
    await play.world.settle(command_id)
    return command_id


@situation("the undoing fails, and is mended")
async def undoing_mended(play: Play) -> None:
    command_id = await failed_undoing(play)
    await play.look(command_id, "a person is asked", state="NEEDS_REVIEW", live=False, next_action="tell_user")
    play.world.sandbox.faults.clear()
    await play.world.rule(command_id, Verdict.CONTINUE)
    await play.look(command_id, "undone", state="COMPENSATED", live=False, done=True)


@situation("the undoing fails, and the draft is left there")
async def undoing_given_up(play: Play) -> None:
    command_id = await failed_undoing(play)
    await play.world.rule(command_id, Verdict.ABANDON)
    await play.look(command_id, "given up", state="FAILED", live=False, done=True, next_action="stop")
    assert play.world.reality().status_of("1") == "draft"


@situation("the undoing is in doubt")
async def undoing_in_doubt(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.operations.reject(command_id, operator=OPERATOR, reason="no")
    play.world.arm(f"DELETE {POSTS}/1", FaultKind.DROP_AFTER)
    await play.world.turn(command_id)
    await play.look(command_id, "lost", live=False, done=False)
    await play.world.settle(command_id)
    await play.look(command_id, "undone", state="COMPENSATED", live=False, done=True)


@situation("quarantined: it kills its worker")
async def poison(play: Play) -> None:
    world = play.world
    command_id = await play.proposed()
    for _ in range(world.settings.claims_max):
        world.passage.before_fence[CREATE] = die
        with pytest.raises(KilledWorker):
            await drive_saga(world.first.worker.env, command_id)
        world.clock.move_on(world.settings.lease_s + 1)
    await world.settle(command_id)
    await play.look(command_id, "quarantined", state="NEEDS_REVIEW", live=False, next_action="tell_user")


@situation("stuck: nobody approves and its deadline passes", deadline_s=3600.0)
async def stuck(play: Play) -> None:
    command_id = await play.until_approval()
    play.world.clock.move_on(3601)
    await play.world.settle(command_id)
    await play.look(command_id, "a person is asked", live=False, done=False, next_action="tell_user")
    await play.world.rule(command_id, Verdict.ABANDON)
    await play.look(command_id, "abandoned", live=False, done=True)


@situation("restarted while it waited")
async def restarted(play: Play) -> None:
    command_id = await play.until_approval()
    async with play.world.another() as second:
        await play.world.approve(command_id)
        await play.look(command_id, "before the new worker", live=False, done=False)
        await play.world.settle(command_id, second)
    await play.look(command_id, "published", state="SUCCESS", live=True, done=True)


@situation("a copied journal is in doubt about what was never sent")
async def copied(play: Play) -> None:
    world = play.world
    command_id = await play.until_approval()
    await world.approve(command_id)
    copy = world.path / "copy"
    copy.mkdir()
    with sqlite3.connect(world.database) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(world.database, copy / "remit.db")
    shutil.copy(str(world.database) + ".incarnation", str(copy / "remit.db") + ".incarnation")
    await at_another_journal(play, copy / "remit.db", command_id, live=False)


@situation("a restored journal finds what was published after the backup")
async def restored(play: Play) -> None:
    world = play.world
    command_id = await play.until_approval()
    await world.approve(command_id)
    backup = world.path / "backup.db"
    with sqlite3.connect(world.database) as conn, sqlite3.connect(backup) as target:
        conn.backup(target)
    await world.settle(command_id)
    await at_another_journal(play, backup, command_id, live=True)


async def at_another_journal(play: Play, database: Path, command_id: str, *, live: bool) -> None:
    """Ask a gateway over that journal, at once and after its worker has looked."""
    async with play.world.another("c", database) as other:
        asked = play.at(other)
        await asked.look(command_id, "just opened", live=False, done=False)
        for _ in range(8):
            await drive_saga(other.worker.env, command_id)
            play.world.clock.move_on(60)
        await asked.look(command_id, "looked", live=live)


@situation("an effect that comes after every declared bound", bounds=SHORT)
async def beyond_bounds(play: Play) -> None:
    """The site works much longer than it says: what was seen absent and given up lands after all."""
    world = play.world
    play.hurry(HURRY_S)
    world.arm(f"POST {POSTS}", FaultKind.LATE_COMMIT, seconds=1.0)
    command_id = await play.proposed()
    await world.turn(command_id)
    await world.operations.cancel(command_id, operator=OPERATOR, reason="stop")
    await world.settle(command_id)
    await play.look(command_id, "given up as absent", live=False)

    async def landed() -> bool:
        return len(world.reality().posts) > 0

    await eventually(landed, "the late draft")
    await world.settle(command_id)
    await play.look(command_id, "landed after all", live=False)


def _add_all() -> None:
    for status, name in (("trash", "trashed"), ("draft", "taken offline"), ("publish", "edited")):
        situation(f"published, then {name} by a person")(partial(changed_afterwards, status=status))


_add_all()
