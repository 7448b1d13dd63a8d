"""`withdraw`, `repeat`, `hold`, `resume`, `cancel`, `freeze`: what operators do to commands, at their desk."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from execution.moments import spelt
from tests.desk import OPERATOR, Desk, Finished
from tests.integration.passage import PUBLISH, UNPUBLISH
from tests.integration.world import PROPOSER, World, proposal


def leaves(value: Any) -> Iterator[str]:
    """Every single thing in it, as it stands on a screen."""
    match value:
        case dict():
            yield from (leaf for inner in value.values() for leaf in leaves(inner))
        case list():
            yield from (leaf for inner in value for leaf in leaves(inner))
        case str():
            yield value
        case None:
            return
        case _:
            yield json.dumps(value)


EXCERPT = "Everything about fresh water."
WITH_EVERYTHING: dict[str, Any] = {
    "sources": ["https://water.example/study"],
    "notify": ["team", "board"],
}


@pytest.mark.behaviour("approve.whole-subject")
async def test_a_change_of_anything_but_the_content_is_seen_before_it_is_approved(world: World, office: Desk) -> None:
    await world.published(proposal(excerpt=EXCERPT, **WITH_EVERYTHING))
    changed = {**WITH_EVERYTHING, "sources": ["https://prize.example/"]}
    link = "x" * 161 + " https://evil.example/"
    command_id = await world.until_approval(proposal(version=2, content="# Second", excerpt=link, **changed))
    found = (await office.asks("approve", command_id, "--show")).document
    assert set(found["changes"]) == {"excerpt", "sources"}
    assert (f"-{EXCERPT}" in found["changes"]["excerpt"], found["subject"]["excerpt"]) == (True, link)
    told = (await office.asks("approve", command_id, "--show", as_json=False)).stdout
    close = "".join(told.split())
    assert [leaf for leaf in leaves(found["subject"]) if "".join(leaf.split()) not in close] == []
    assert all(part in told for part in ("| -Everything about", "https://evil.example/", '+ "https://prize.example/"'))


async def approved(world: World, office: Desk, command_id: str) -> Finished:
    shown = (await office.asks("approve", command_id, "--show")).document
    key = ("--operator-key", str(office.home / "operators" / f"{OPERATOR}.pem"))
    done = await office.asks("approve", command_id, "--hash", shown["content_hash"], *key)
    await world.settle(command_id)
    return done


async def test_an_article_is_taken_down_on_the_word_of_its_only_operator(world: World, office: Desk) -> None:
    publication = await world.published(proposal(notify=["team"]))
    asked = await office.asks("withdraw", publication, "--reason", "a wrong name")
    command_id = asked.document["command_id"]
    assert asked.document == {"command_id": command_id, "withdraws": publication, "deduplicated": False}
    assert (await office.asks("withdraw", publication, "--reason", "a wrong name")).document["deduplicated"] is True
    other = await office.asks("withdraw", publication, "--reason", "another")
    assert (other.error, "for another reason" in other.stdout) == ("idempotency_conflict", True)
    assert (await world.settle(command_id)).state == "AWAITING_APPROVAL"
    again = (await office.asks("withdraw", publication, "--reason", "a wrong name", as_json=False)).stdout
    assert f"{command_id} is AWAITING_APPROVAL" in again
    assert f"remit approve {command_id}" in again
    planned = (await office.asks("plan", "withdraw", publication)).document
    assert (planned["command_id"], command_id in planned["say_to_user"]) == (command_id, True)
    standing = (await office.asks("status", command_id, as_json=False)).stdout
    assert ("PUBLISHED (live)" in standing, "not live" in standing) == (True, False)

    shown = await office.asks("approve", command_id, "--show")
    assert (shown.document["subject"]["target"]["mode"], shown.document["subject"]["reason"]) == (
        "withdraw",
        "a wrong name",
    )
    assert "-<h1>How to brew coffee</h1>" in shown.document["diff"]
    told = await office.asks("approve", command_id, "--show", as_json=False)
    assert [leaf for leaf in leaves(shown.document["subject"]) if leaf not in told.stdout] == []
    assert (await approved(world, office, command_id)).code == 0
    assert world.reality().live == []
    status = (await office.asks("status", publication)).document
    assert (status["state"], status["live"], status["say_to_user"]) == (
        "SUCCESS",
        False,
        "article-0028 version 1 was published. It was withdrawn since.",
    )
    said = (await office.asks("status", command_id)).document["say_to_user"]
    assert "is withdrawn and verified. That was last seen at" in said
    assert (await office.asks("audit", "--pace", "0")).document["findings"] == []

    open_now = [d for d in (await office.asks("decision", "ls")).document["decisions"] if d["open"]]
    (decision,) = [d for d in open_now if d["intents"] == ["withdraw"]]
    assert (decision["evidence"], decision["tokens"], decision["opened_by"]) == (
        ["a wrong name"],
        "0/0",
        "operator:olivia",
    )
    issued = await office.asks("token", "issue", "--agent", "writer", "--decision", decision["decision_id"])
    assert issued.code != 0


async def test_where_there_is_another_operator_the_one_who_asks_does_not_approve(world: World, office: Desk) -> None:
    office.rewrite("[operator.olivia]", f'[operator.pat]\nkey = "{_key(office)}"\n[operator.olivia]')
    publication = await world.published()
    asked = await office.asks("withdraw", publication, "--operator", "olivia")
    command_id = asked.document["command_id"]
    await world.settle(command_id)
    refused = await approved(world, office, command_id)
    assert (refused.code, refused.error) == (4, "proposer_cannot_approve")
    assert len(world.reality().live) == 1


def _key(office: Desk) -> str:
    lines = office.settings.read_text().splitlines()
    return next(line for line in lines if line.startswith("key = ")).split('"')[1]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("withdraw", "cmd_none"), "unknown_command"),
        (("repeat", "cmd_none"), "unknown_command"),
        (("hold", "cmd_none"), "unknown_command"),
        (("resume", "cmd_none"), "unknown_command"),
    ],
)
async def test_what_does_not_exist_is_named(world: World, office: Desk, words: tuple[str, ...], code: str) -> None:
    done = await office.asks(*words)
    assert (done.code, done.error) == (1, code)


async def test_what_cannot_be_done_says_why_and_changes_nothing(world: World, office: Desk) -> None:
    waiting = await world.until_approval()
    assert (await office.asks("withdraw", waiting)).error == "not_live"
    assert (await office.asks("repeat", waiting)).error == "not_repeatable_yet"
    assert (await office.asks("resume", waiting)).error == "not_held"
    assert (await office.asks("freeze", "on", "--scope", "system:wordpress")).code == 0
    assert (await office.asks("freeze", "on")).code == 0
    await world.approve(waiting)
    await world.turn(waiting)
    assert (await office.asks("freeze", "off")).code == 0
    assert (await office.asks("freeze", "off", "--scope", "system:wordpress")).code == 0
    assert (await world.settle(waiting)).live
    late = await office.asks("cancel", waiting)
    assert (late.code, late.error, "PUBLISH_WORDPRESS_POST succeeded on 1" in late.stdout) == (1, "already_ended", True)
    retried = await office.asks("repeat", waiting)
    assert (retried.error, "is published and verified" in retried.stdout) == ("stale_version", True)
    await office.asks("freeze", "on", "--scope", "site:blog")
    assert (await office.asks("withdraw", waiting)).error == "frozen"
    assert world.passage.sent.count(PUBLISH) == 1
    assert UNPUBLISH not in world.passage.sent


async def test_a_hold_is_told_and_listed_and_ended(world: World, office: Desk) -> None:
    command_id = await world.until_approval()
    assert (await office.asks("hold", command_id, "--reason", "ask the lawyer")).document["held"] is True
    status = (await office.asks("status", command_id)).document
    assert status["state"] == "HELD"
    events = (await office.asks("journal", command_id)).document["events"]
    (begun,) = [e["at_ms"] for e in events if e["type"] == "BLOCKED" and e["body"]["blocker"] == "HELD"]
    assert status["waiting_for"]["since"] == spelt(begun)
    (found,) = (await office.asks("freeze", "ls")).document["restrictions"]
    assert (found["scope"], found["reason"]) == (f"freeze:command:{command_id}", "ask the lawyer")
    why = await office.asks("why", command_id)
    assert f"remit resume {command_id}" in why.document["next"]
    assert (await office.asks("resume", command_id)).document["held"] is False
    assert (await office.asks("freeze", "ls")).document["restrictions"] == []
    events = (await office.asks("journal", command_id)).document["events"]
    noted = [event["type"] for event in events if event["actor"] == "operator:olivia"]
    assert noted == ["HOLD_REQUESTED", "BLOCKED", "RESUME_REQUESTED", "UNBLOCKED"]
    assert "ask the lawyer" in json.dumps(events)


async def test_what_was_cancelled_is_repeated_at_the_desk(world: World, office: Desk) -> None:
    first = await world.until_approval()
    assert (await office.asks("cancel", first)).code == 0
    await world.settle(first)
    second = (await office.asks("repeat", first, "--reason", "on second thoughts")).document["command_id"]
    assert (await office.asks("repeat", first)).document == {
        "command_id": second,
        "repeats": first,
        "deduplicated": True,
    }
    await world.settle(second)
    document = (await office.asks("status", second)).document
    assert (document["proposed_by"], document["repeat_of"]) == ("operator:olivia for agent:writer", first)
    ended = (await office.asks("status", first, as_json=False)).stdout
    assert ("NOT_RUN" in ended, "CANCELLED" in ended, "FAILED" in ended) == (True, True, False)
    assert (await approved(world, office, second)).code == 0
    assert len(world.reality().live) == 1


async def test_a_command_whose_grant_lapsed_goes_on_once_an_operator_authorizes_it(world: World, office: Desk) -> None:
    lapsing = replace(PROPOSER, grant_until_s=world.clock.now_ms() // 1000 + 3600)
    command_id = await world.until_approval(proposer=lapsing)
    world.clock.move_on(3700)
    await world.approve(command_id)
    await world.turn(command_id)
    assert (await world.view(command_id)).state == "AWAITING_AUTHORIZATION"
    assert (await office.asks("reauthorize", command_id, "--for", "8d")).error == "usage"
    assert (await office.asks("reauthorize", command_id, "--for", "12h", "--reason", "looked at it")).code == 0
    assert (await world.settle(command_id)).live, "under the same rules the same yes counts"
    assert (await office.asks("reauthorize", command_id)).error == "already_ended"
    assert (await office.asks("reauthorize", "cmd_nothing")).error == "unknown_command"
