"""`remit audit`: what the journal calls done is compared with what is really there; what is wrong is told and asked."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.sandbox.faults import FaultKind
from adapters.sandbox.webhooks import SECRET
from execution.core.states import Verdict
from execution.looking import context_of
from execution.pace import Pace
from execution.ports import Ports
from execution.ports.notifying import Alert
from server.alerting import Alerts
from server.app import Installation, looked_into
from server.auditing import audit_from_time_to_time
from server.config import load_config
from server.outside import adapters_of
from tests.desk import Desk, Finished
from tests.integration.passage import CREATE, UPDATE
from tests.integration.world import World, person, proposal

AUDIT = ("audit", "--pace", "0")


def findings(done: Finished) -> list[tuple[str, str, str | None]]:
    return [(f["kind"], f["code"], f.get("step")) for f in done.document["findings"]]


async def test_what_stands_as_it_was_left_is_no_finding(world: World, office: Desk) -> None:
    await world.published(proposal(notify=["team"]))
    await world.published(proposal(version=2, content="# Second"))
    rejected = await world.until_approval(proposal(article="other", slug="other"))
    await world.operations.reject(rejected, operator="operator:olivia", reason="no")
    await world.settle(rejected)
    before = world.reality()
    done = await office.asks(*AUDIT)
    assert (done.code, done.document["findings"], done.document["commands"]) == (0, [], 3), done.stdout
    assert done.document["looks"] >= 8
    assert world.reality() == before


async def vanished(world: World) -> str:
    command_id = await world.published()
    post = (await world.step(command_id, "PUBLISH_WORDPRESS_POST")).external_resource_id
    await person(world.sandbox.url, int(post or 0), {}, "DELETE")
    return command_id


@pytest.mark.behaviour("audit.finds")
async def test_a_publication_that_vanished_is_found_asked_about_and_no_longer_called_live(
    world: World, office: Desk
) -> None:
    command_id = await vanished(world)
    done = await office.asks(*AUDIT)
    assert (done.code, findings(done)) == (1, [("DRIFT", "gone", "PUBLISH_WORDPRESS_POST")])
    assert (await world.view(command_id)).live  # nothing is written unless it is told to
    asked = await office.asks(*AUDIT, "--open-reviews")
    (finding,) = asked.document["findings"]
    view = await world.view(command_id)
    assert [(review.review_id, review.kind) for review in view.reviews] == [(finding["review_id"], "DRIFT")]
    assert (view.state, view.live, view.done, view.answers.diverged) == ("SUCCESS", False, False, True)
    assert "what stands there now is not what was published" in view.say_to_user
    events = [e for e in await world.first.status.journal(command_id) if e.type == "OBSERVED"]
    assert json.loads(events[-1].body)["query"] == "audit"
    assert events[-1].actor == "operator:olivia"


async def test_a_persons_edit_is_found_and_asked_about_once_until_it_changes_again(world: World, office: Desk) -> None:
    command_id = await world.published()
    post = int((await world.step(command_id, "PUBLISH_WORDPRESS_POST")).external_resource_id or 0)
    await world.edit(post, content="by hand")
    first = await office.asks(*AUDIT, "--open-reviews")
    assert findings(first) == [("DRIFT", "changed", "PUBLISH_WORDPRESS_POST")]
    again = (await office.asks(*AUDIT, "--open-reviews")).document["findings"]
    assert [(f["known"], f["review_id"]) for f in again] == [(True, first.document["findings"][0]["review_id"])]
    assert (await world.rule(command_id, Verdict.CONTINUE, "we like it so")).done
    settled = (await office.asks(*AUDIT, "--open-reviews")).document["findings"]
    assert [finding["known"] for finding in settled] == [True]
    assert len((await world.saga(command_id)).reviews) == 1
    await world.edit(post, content="by hand, again")
    assert not (await office.asks(*AUDIT, "--open-reviews")).document["findings"][0]["known"]
    assert len((await world.saga(command_id)).reviews) == 2


async def test_what_somebody_mended_is_called_live_again_by_the_ruling(world: World, office: Desk) -> None:
    command_id = await world.published()
    step = await world.step(command_id, "PUBLISH_WORDPRESS_POST")
    content = world.reality().posts[step.external_resource_id or ""]["content"]
    await world.edit(int(step.external_resource_id or 0), content="by hand")
    await office.asks(*AUDIT, "--open-reviews")
    assert not (await world.view(command_id)).live
    await world.edit(int(step.external_resource_id or 0), content=content)
    view = await world.rule(command_id, Verdict.CONTINUE, "put it back")
    assert (view.live, view.done, view.answers.diverged) == (True, True, False)
    await world.edit(int(step.external_resource_id or 0), content="by hand")
    assert not (await office.asks(*AUDIT)).document["findings"][0]["known"]


async def test_a_second_object_under_the_same_marker_is_a_duplicate(world: World, office: Desk) -> None:
    command_id = await world.until_approval()
    draft = await world.step(command_id, "CREATE_WORDPRESS_DRAFT")
    slug = world.reality().posts[draft.external_resource_id or ""]["slug"]
    await world.approve(command_id)
    await world.settle(command_id)
    await person(world.sandbox.url, None, {"title": "ghost", "slug": slug, "status": "draft"})
    done = await office.asks(*AUDIT, "--open-reviews")
    assert ("DUPLICATE", "several_rows", "CREATE_WORDPRESS_DRAFT") in findings(done)
    assert "DUPLICATE" in [review.kind for review in (await world.view(command_id)).reviews]


async def test_a_draft_that_was_taken_out_of_the_trash_is_found(world: World, office: Desk) -> None:
    command_id = await world.until_approval()
    draft = (await world.step(command_id, "CREATE_WORDPRESS_DRAFT")).external_resource_id
    await world.operations.reject(command_id, operator="operator:olivia", reason="no")
    assert (await world.settle(command_id)).state == "COMPENSATED"
    await world.edit(int(draft or 0), status="publish")
    assert ("DRIFT", "live", "TRASH_WORDPRESS_DRAFT") in findings(await office.asks(*AUDIT))


async def test_a_row_that_somebody_changed_in_the_table_is_found(world: World, office: Desk) -> None:
    await world.published()
    world.table.execute("UPDATE remit_publications SET status = 'cancelled'")
    assert findings(await office.asks(*AUDIT)) == [("DRIFT", "already_cancelled", "RECORD_PUBLICATION")]


async def test_a_later_version_of_ours_is_no_drift_of_the_earlier_one(world: World, office: Desk) -> None:
    first = await world.published()
    await world.published(proposal(version=2, content="# Second"))
    done = await office.asks(*AUDIT, "--command", first)
    assert (done.code, done.document["commands"]) == (0, 1), done.stdout


async def test_what_is_being_changed_is_left_for_another_time(world: World, office: Desk) -> None:
    await world.published()
    second = await world.until_approval(proposal(version=2, content="# Second"))
    await world.approve(second)
    world.arm("POST /wp-json/wp/v2/posts/1", FaultKind.DROP_AFTER)

    async def unreadable() -> None:
        world.arm("GET /wp-json/wp/v2/", FaultKind.STATUS_BEFORE, left=0, status=503)

    world.passage.after_send[UPDATE] = unreadable
    await world.turn(second)
    assert (await world.view(second)).answers.unknown
    world.sandbox.faults.clear()
    done = await office.asks(*AUDIT)
    assert (done.code, done.document["in_motion"]) == (0, 1), done.stdout


async def test_a_site_that_does_not_answer_proves_nothing_and_is_told(world: World, office: Desk) -> None:
    for article in ("first", "second", "third"):
        await world.published(proposal(article=article, slug=article))
    world.arm("GET /wp-json/wp/v2/", FaultKind.STATUS_BEFORE, left=0, status=403)
    done = await office.asks(*AUDIT, "--open-reviews")
    assert {(kind, code) for kind, code, _ in findings(done)} == {("UNREADABLE", "not_authorised")}
    by_system = {finding["about"]: finding for finding in done.document["findings"]}
    assert by_system["wordpress"]["facts"]["times"] == 3  # after that it is left alone
    assert {"wordpress blog", "wordpress shop"} < by_system.keys()  # what they list is not known either
    assert done.code == 1
    assert all(not saga.reviews for saga in [await world.saga(c) for c in await _commands(world)])


async def _commands(world: World) -> list[str]:
    return [view.command_id for view in await world.first.status.recent("acme", None, 10)]


async def test_a_question_nobody_touched_is_told_until_somebody_takes_it(world: World, office: Desk) -> None:
    command_id = await world.until_approval(proposal(notify=["team"]))
    await world.approve(command_id)
    world.arm("SMTP DATA", FaultKind.DROP_AFTER)
    await world.settle(command_id)
    _age(world, "reviews", "opened_at_ms", 5)
    done = await office.asks(*AUDIT)
    assert ("REVIEW_FORGOTTEN", "outcome_unknown", "SEND_NOTIFICATION") in findings(done)
    review = await world.review(command_id)
    assert (await office.asks("review", "take", review.review_id)).code == 0
    assert "REVIEW_FORGOTTEN" not in {kind for kind, _, _ in findings(await office.asks(*AUDIT))}


def _age(world: World, table: str, column: str, days: int) -> None:
    with sqlite3.connect(world.database) as database:
        database.execute(f"UPDATE {table} SET {column} = {column} - {days * 86_400_000}")
    database.close()


async def test_work_that_stands_still_becomes_a_question_each_time(world: World, office: Desk) -> None:
    command_id = await world.accepted()
    await world.turn(command_id)
    for table, column in (("events", "at_ms"), ("commands", "created_at_ms")):
        _age(world, table, column, 1)
    with sqlite3.connect(world.database) as database:
        database.execute(
            "UPDATE commands SET next_check_at_ms = NULL, blockers = '', state = 'RUNNING' WHERE parent_id IS NULL"
        )
        database.execute("DELETE FROM approvals")
    database.close()
    done = await office.asks(*AUDIT, "--open-reviews")
    assert findings(done) == [("STUCK", "nothing_is_due", "SEO_ARTICLE_PUBLISH")]
    assert [r.kind for r in (await world.view(command_id)).reviews] == ["STUCK"]


async def test_an_undoing_that_stands_still_is_found(world: World, office: Desk) -> None:
    command_id = await world.until_approval()
    refusal = '{"code":"rest_cannot_delete","message":"no","data":{"status":403}}'
    world.arm("DELETE /wp-json/wp/v2/posts/1", FaultKind.STATUS_BEFORE, status=403, body=refusal)
    await world.operations.reject(command_id, operator="operator:olivia", reason="no")
    assert (await world.settle(command_id)).state == "NEEDS_REVIEW"
    _age(world, "events", "at_ms", 1)
    (finding,) = (await office.asks(*AUDIT)).document["findings"]
    assert (finding["kind"], finding["code"]) == ("COMPENSATION_UNFINISHED", "unwinding_stands_still")
    assert finding["facts"]["steps"] == {"CREATE_WORDPRESS_DRAFT": "FAILED"}
    assert finding["known"]  # a person is asked already


async def test_an_attempt_that_lands_after_everything_was_given_up_is_found(world: World, office: Desk) -> None:
    """The declared bounds did not hold: a draft appears although its absence was concluded."""
    command_id = await world.accepted()
    world.arm("POST /wp-json/wp/v2/posts", FaultKind.DROP_BEFORE)

    async def cancel() -> None:
        await world.operations.cancel(command_id, operator="operator:olivia", reason="no")

    world.passage.after_send[CREATE] = cancel
    assert (await world.settle(command_id)).state == "FAILED"
    assert findings(await office.asks(*AUDIT)) == []
    saga = await world.saga(command_id)
    slug = await _draft_slug(world, saga)
    await person(world.sandbox.url, None, {"title": "ghost", "slug": slug, "status": "draft"})
    assert findings(await office.asks(*AUDIT)) == [("DUPLICATE", "exists_after_undoing", "CREATE_WORDPRESS_DRAFT")]


async def _draft_slug(world: World, saga: Any) -> str:
    row = saga.named("CREATE_WORDPRESS_DRAFT")
    definition = world.first.worker.env.catalog.definition(saga.root.command_type, saga.root.definition_version)
    plan = json.loads(saga.root.params)["plan"]
    installation = world.first.worker.env.installation
    return f"remit-{context_of(saga, definition, row.command_id, installation=installation, plan=plan).marker}"


def test_without_its_sandbox_nothing_can_be_compared(desk: Desk) -> None:
    refused = desk.remit("audit")
    assert (refused.code, refused.error) == (1, "config_invalid")
    assert "remit sandbox" in refused.document["error"]["fix"]


def test_a_window_must_be_a_length_of_time(desk: Desk) -> None:
    assert desk.remit("audit", "--since", "yesterday").code == 2


async def test_a_row_that_no_command_accounts_for_is_an_orphan(world: World, office: Desk) -> None:
    await world.published()
    world.table.execute(
        "INSERT INTO remit_publications SELECT 'left-by-another-journal', site, article_id, 7, status, title, "
        "content_hash, post_id, url, 'cmd_x', 1, changed_at FROM remit_publications"
    )
    assert findings(await office.asks(*AUDIT)) == [("ORPHAN", "no_command_here", None)]
    (finding,) = (await office.asks(*AUDIT)).document["findings"]
    assert finding["about"] == "publications left-by-another-journal"


async def test_a_draft_that_no_command_accounts_for_is_an_orphan(world: World, office: Desk) -> None:
    await world.published()
    await world.until_approval(proposal(article="other", slug="other"))
    slug = "remit-abcdefghijklmnopqrstuvwx"
    await person(world.sandbox.url, None, {"title": "ghost", "slug": slug, "status": "draft"})
    found = (await office.asks(*AUDIT)).document["findings"]
    about = {(finding["kind"], finding["facts"]["marker"]) for finding in found}
    assert about == {("ORPHAN", slug.removeprefix("remit-"))}  # asked once for each site that is configured


class Heard:
    """A notifier that keeps what it is told."""

    def __init__(self) -> None:
        self.alerts: asyncio.Queue[Alert] = asyncio.Queue()

    async def alert(self, alert: Alert) -> None:
        self.alerts.put_nowait(alert)


@contextlib.asynccontextmanager
async def opened_beside(world: World, office: Desk, section: str) -> AsyncIterator[tuple[Installation, Ports]]:
    office.settings.write_text(office.settings.read_text() + section)
    async with looked_into(load_config(office.home)) as at:
        outside = adapters_of(at)
        try:
            yield at, outside.ports
        finally:
            await outside.aclose()


@pytest.mark.behaviour("audit.scheduled")
async def test_a_worker_audits_from_time_to_time_and_tells_what_is_new_once(world: World, office: Desk) -> None:
    command_id = await vanished(world)
    async with opened_beside(world, office, "[audit]\nevery_h = 1\npace_s = 0\n") as (at, ports):
        heard = [Heard(), Heard()]
        both = [
            asyncio.create_task(audit_from_time_to_time(at, ports, Pace(at.clock), one)) for one in heard
        ]  # two workers
        done, _ = await asyncio.wait(
            [asyncio.create_task(one.alerts.get()) for one in heard], return_when="FIRST_COMPLETED"
        )
        (alert,) = [task.result() for task in done]
        assert alert.summary == "1 new findings of the audit"
        assert command_id in alert.lines[0]
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        assert [one.alerts.qsize() for one in heard] == [0, 0]
    assert [review.kind for review in (await world.view(command_id)).reviews] == ["DRIFT"]
    symptoms = {s["code"]: s for s in (await office.asks("doctor", "--offline")).document["symptoms"]}
    assert "1 findings" in symptoms["audited"]["detail"]


async def test_an_alert_reaches_each_list_by_mail_and_a_dead_relay_only_the_log(
    world: World, office: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened_beside(world, office, "") as (at, ports):
        alerts = Alerts(ports=ports, ids=at.ids, config=at.config, names=("team", "board"))
        alert = Alert(kind="audit.findings", summary="2 new findings of the audit", lines=("DRIFT gone", "ORPHAN x"))
        await alerts.alert(alert)
        messages = world.reality().messages
        assert [message["recipients"] for message in messages] == [["team@remit.invalid"], ["board@remit.invalid"]]
        assert all("DRIFT gone" in message["content"] for message in messages)
        world.arm("SMTP DATA", FaultKind.STATUS_BEFORE, status=451)
        await alerts.alert(alert)
    assert len(world.reality().messages) == 3
    assert "the list team was not told" in caplog.text


async def test_an_alert_reaches_a_program_as_a_signed_request(world: World, office: Desk) -> None:
    secret = office.home / "secrets" / "hook.secret"
    secret.touch(mode=0o600)
    secret.write_text(SECRET)
    section = f'[notify.hook]\nurl = "{world.sandbox.url}/webhooks/hook"\nsecret_file = "secrets/hook.secret"\n'
    async with opened_beside(world, office, section) as (at, ports):
        alerts = Alerts(ports=ports, ids=at.ids, config=at.config, names=("hook",))
        await alerts.alert(Alert(kind="audit.findings", summary="1 new findings of the audit", lines=("DRIFT gone",)))
    deliveries: Any = world.sandbox.effects()["webhooks"]
    (taken,) = deliveries
    assert json.loads(taken["body"])["type"] == "remit.audit.findings"
    assert "DRIFT gone" in taken["body"]


def test_an_audit_that_tells_an_unknown_list_is_refused(desk: Desk) -> None:
    desk.rewrite("# every_h = 24\n", 'notify = ["nobody"]\n')
    refused = desk.remit("ls")
    assert (refused.code, refused.error) == (1, "config_invalid")
    assert "audit.notify" in refused.document["error"]["message"]
