"""`remit review`: what a person needs in order to rule, whose question it is, one ruling and many."""

import asyncio
import json
import sqlite3

import pytest

from adapters.sandbox.faults import FaultKind
from execution.core.horizon import VERDICTS
from execution.core.states import ReviewKind, Verdict
from execution.core.verdicts import would
from execution.operations import OperationRefused
from tests.desk import Desk
from tests.integration.passage import CREATE, NOTIFY
from tests.integration.world import World, proposal


async def lost_mail(world: World, article: str = "article-0028") -> str:
    """A published article whose notification's answer was lost."""
    command_id = await world.until_approval(proposal(article=article, slug=article, notify=["team"]))
    await world.approve(command_id)
    world.arm("SMTP DATA", FaultKind.DROP_AFTER)
    assert (await world.settle(command_id)).state == "NEEDS_REVIEW"
    return command_id


async def lost_draft(world: World, article: str) -> str:
    """A draft whose answer was lost and that cannot be read back until a person is asked."""
    world.sandbox.faults.clear()
    command_id = await world.accepted(proposal(article=article, slug=article))

    async def unreadable() -> None:
        world.arm("GET /wp-json/wp/v2/", FaultKind.STATUS_BEFORE, left=0, status=503)

    world.arm("POST /wp-json/wp/v2/posts", FaultKind.DROP_AFTER)
    world.passage.after_send[CREATE] = unreadable
    assert (await world.settle(command_id)).state == "NEEDS_REVIEW"
    return command_id


async def test_a_question_is_listed_with_its_step_its_cause_and_its_age(world: World, office: Desk) -> None:
    command_id = await lost_mail(world)
    (listed,) = (await office.asks("review", "ls")).document["reviews"]
    assert (listed["command_id"], listed["step"], listed["kind"]) == (
        command_id,
        "SEND_NOTIFICATION",
        "OUTCOME_UNKNOWN",
    )
    assert listed["cause"] == "cannot_be_asked"
    assert listed["object"] == "article-0028 v1 on blog"
    assert listed["age_s"] >= 0
    assert (await office.asks("review", "ls", "--kind", "DRIFT")).document["reviews"] == []


@pytest.mark.behaviour("review.case")
async def test_a_question_shows_all_that_is_needed_to_answer_it(world: World, office: Desk) -> None:
    command_id = await lost_mail(world)
    review = await world.review(command_id)
    shown = (await office.asks("review", "show", review.review_id)).document
    saga = await world.saga(command_id)
    mail = await world.step(command_id, "SEND_NOTIFICATION")
    assert (shown["tenant"], shown["key"], shown["may_rule"]) == ("acme", mail.idempotency_key, ["olivia"])
    assert shown["object"] == {"kind": "article", "id": "article-0028", "version": 1, "site": "blog"}
    actions = {action["step"]: action for action in shown["actions"]}
    assert actions["SEND_NOTIFICATION"]["attempts"][0]["settlement"] == "OPEN"
    assert actions["SEND_NOTIFICATION"]["again"].startswith("no: it cannot be taken back")
    assert actions["PUBLISH_WORDPRESS_POST"]["direction"] == "forward"
    records = {record["step"]: record for record in shown["records"]}
    post = records["PUBLISH_WORDPRESS_POST"]
    assert (post["verdict"], post["system"]) == ("PRESENT", "wordpress")
    assert post["seen_version"] == post["recorded_version"]
    assert post["asked_at_ms"] <= world.clock.now_ms()
    assert [verdict["verdict"] for verdict in shown["verdicts"]] == list(VERDICTS[ReviewKind.OUTCOME_UNKNOWN])
    assert all(verdict["would"] for verdict in shown["verdicts"])
    told = (await office.asks("review", "show", review.review_id, as_json=False)).stdout
    for word in (saga.root.command_id, "SEND_NOTIFICATION", "cannot be asked", "present", "absent", "abandon"):
        assert word in told


async def test_a_persons_edit_shows_as_a_version_that_is_not_the_expected_one(world: World, office: Desk) -> None:
    first = await world.published()
    post_id = (await world.step(first, "PUBLISH_WORDPRESS_POST")).external_resource_id
    second = await world.until_approval(proposal(version=2, content="# Second"))
    await world.approve(second)
    await world.edit(int(post_id or 0), content="by hand")
    assert (await world.settle(second)).state == "NEEDS_REVIEW"
    review = await world.review(second)
    before = (await office.asks("review", "show", review.review_id)).document
    now = (await office.asks("review", "show", review.review_id, "--look")).document
    assert now["versions"]["expected"] != now["versions"]["live"]
    assert ["live"] in now["agreeing"]
    asked = {record["step"]: record.get("asked_at_ms", 0) for record in before["records"]}
    looked = {record["step"]: record for record in now["records"]}
    draft = looked["CREATE_WORDPRESS_DRAFT"]
    assert (draft["query"], draft["verdict"]) == ("person", "PRESENT")
    assert draft["asked_at_ms"] > asked["CREATE_WORDPRESS_DRAFT"]


async def test_looking_without_the_credentials_says_what_is_missing(world: World, office: Desk) -> None:
    review = await world.review(await lost_mail(world))
    (office.home / "secrets" / "blog.password").unlink()
    assert (await office.asks("review", "show", review.review_id)).code == 0
    refused = await office.asks("review", "show", review.review_id, "--look")
    assert (refused.code, refused.error) == (1, "config_invalid")


async def test_a_question_that_somebody_took_is_theirs_until_it_is_assigned(world: World, office: Desk) -> None:
    review = await world.review(await lost_mail(world))
    office.rewrite("[operator.olivia]\n", f'[operator.pat]\nkey = "{office.staffed("pat")}"\n[operator.olivia]\n')
    take = ("review", "take", review.review_id, "--operator")
    assert (await office.asks(*take, "olivia")).document["owner"] == "operator:olivia"
    assert (await office.asks(*take, "olivia")).code == 0
    refused = await office.asks(*take, "pat")
    assert (refused.code, refused.error) == (1, "already_taken")
    assert "olivia" in refused.document["error"]["message"]
    assigned = await office.asks("review", "assign", review.review_id, "pat", "--operator", "olivia")
    assert assigned.document["owner"] == "operator:pat"
    assert (await office.asks("review", "assign", review.review_id, "nobody", "--operator", "olivia")).code == 4
    mine = await office.asks("review", "ls", "--owner", "pat")
    assert [item["review_id"] for item in mine.document["reviews"]] == [review.review_id]
    events = await world.first.status.journal(review.root_id)
    moves = [json.loads(event.body) for event in events if event.type == "REVIEW_ASSIGNED"]
    assert [(move["from"], move["to"]) for move in moves][-1] == ("operator:olivia", "operator:pat")


async def test_two_who_take_it_in_the_same_moment_are_told_who_was_first(world: World, office: Desk) -> None:
    review = await world.review(await lost_mail(world))
    operations = world.operations

    async def take(name: str) -> str:
        try:
            owner = f"operator:{name}"
            await operations.assign(review.review_id, owner=owner, operator=owner, take_over=False)
        except OperationRefused as error:
            return str(error)
        return "took it"

    answers = await asyncio.gather(take("olivia"), take("pat"))
    first = (await world.review(review.root_id)).owner
    assert sorted(answers) == [f"already_taken: by {first}", "took it"]


async def test_many_are_previewed_with_counts_and_nothing_is_ruled_without_a_yes(world: World, office: Desk) -> None:
    for article in ("first", "second", "third"):
        await lost_mail(world, article)
    chosen = ("review", "rule", "--kind", "OUTCOME_UNKNOWN", "--as", "present", "--limit", "2")
    preview = (await office.asks(*chosen, "--dry-run")).document
    assert (preview["matched"], preview["selected"]) == (3, 2)
    assert preview["by_cause"] == {"OUTCOME_UNKNOWN cannot_be_asked": 2}
    assert preview["requested"] == []
    refused = await office.asks(*chosen)
    assert (refused.code, refused.error) == (2, "confirmation_needed")
    assert all(question["ruling"] is None for question in (await office.asks("review", "ls")).document["reviews"])


@pytest.mark.behaviour("review.many")
async def test_many_are_ruled_each_by_itself_and_only_as_many_as_wanted(world: World, office: Desk) -> None:
    commands = [await lost_mail(world, article) for article in ("first", "second", "third")]
    chosen = ("review", "rule", "--cause", "cannot_be_asked", "--as", "present", "--limit", "2", "--pace", "0")
    done = (await office.asks(*chosen, "--yes", "--reason", "asked the team")).document
    assert (len(done["requested"]), done["refused"]) == (2, [])
    states = [(await world.settle(command_id)).state for command_id in commands]
    assert states == ["SUCCESS", "SUCCESS", "NEEDS_REVIEW"]
    assert world.passage.sent.count(NOTIFY) == 3


async def test_many_rulings_that_the_facts_contradict_are_each_refused_by_the_worker(
    world: World, office: Desk
) -> None:
    commands = [await lost_draft(world, article) for article in ("first", "second")]
    world.sandbox.faults.clear()
    chosen = ("review", "rule", "--kind", "OUTCOME_UNKNOWN", "--as", "absent", "--pace", "0", "--yes")
    assert len((await office.asks(*chosen)).document["requested"]) == 2
    for command_id in commands:
        assert (await world.settle(command_id)).state == "NEEDS_REVIEW"
    listed = (await office.asks("review", "ls")).document["reviews"]
    assert [question["last"] for question in listed] == ["refused: seen_there", "refused: seen_there"]
    assert world.passage.sent.count(CREATE) == 2


@pytest.mark.parametrize(
    "words",
    [
        ("review", "rule"),
        ("review", "rule", "rev_x"),
        ("review", "rule", "rev_x", "present", "--as", "present"),
        ("review", "rule", "rev_x", "present", "--kind", "DRIFT"),
        ("review", "rule", "--as", "present"),
        ("review", "rule", "--as", "perhaps", "--kind", "DRIFT"),
        ("review", "rule", "--as", "present", "--kind", "NO_SUCH_KIND"),
        ("review", "rule", "--as", "present", "--kind", "DRIFT", "--older-than", "soon"),
    ],
)
def test_what_to_rule_must_be_clear(desk: Desk, words: tuple[str, ...]) -> None:
    refused = desk.remit(*words)
    assert (refused.code, refused.error) == (2, "usage"), refused.stdout


async def test_only_those_that_are_open_long_enough_are_ruled(world: World, office: Desk) -> None:
    await lost_mail(world)
    chosen = ("review", "rule", "--kind", "OUTCOME_UNKNOWN", "--as", "present", "--dry-run", "--older-than")
    assert (await office.asks(*chosen, "1h")).document["matched"] == 0
    with sqlite3.connect(world.database) as database:
        database.execute("UPDATE reviews SET opened_at_ms = opened_at_ms - 7200000")
    database.close()
    assert (await office.asks(*chosen, "1h")).document["matched"] == 1


async def test_every_verdict_that_is_ever_offered_says_what_it_would_do(world: World) -> None:
    command_id = await lost_mail(world)
    saga, review = await world.saga(command_id), await world.review(command_id)
    for kind, verdicts in VERDICTS.items():
        for row in saga.members:
            for verdict in verdicts:
                asked = type(review)(**{**vars(review), "kind": kind, "command_id": row.command_id})
                assert would(saga, asked, Verdict(verdict)).endswith("."), (kind, verdict)
