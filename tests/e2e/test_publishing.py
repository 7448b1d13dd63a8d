"""An agent proposes, a person approves, Remit publishes: through real processes, counted in the sandbox."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import ARTICLE, Agent, Home, agent, answer
from tests.pictures import GIF, png


def published(home: Home) -> list[str]:
    return [post["slug"] for post in home.sandbox.effects()["posts"] if post["status"] == "publish"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_proposal_is_published_once_after_a_person_approved_it(home: Home, mode: str) -> None:
    home.issue("--uses", "3")
    async with agent(home, mode=mode) as writer:
        proposed = await writer.propose(notify=["team"], wait_seconds=20)
        command_id = proposed["command_id"]
        waiting = await writer.settled(command_id)
        assert (waiting["state"], waiting["live"], waiting["next_action"]) == ("AWAITING_APPROVAL", False, "tell_user")
        assert home.remit("status", command_id).code == 6
        assert published(home) == []

        assert home.approve(command_id).code == 0
        done = await writer.settled(command_id)
        assert (done["state"], done["live"], done["done"]) == ("SUCCESS", True, True)

        again = await writer.propose(notify=["team"])
        assert (again["command_id"], again["deduplicated"]) == (command_id, True)
        effects = home.sandbox.effects()
        assert published(home) == ["how-to-brew-coffee"]
        assert len(effects["posts"]) == len(effects["messages"]) == 1
        assert home.remit("status", command_id).code == 0
        assert home.remit("verify").document["ok"] is True


async def test_who_approved_while_nothing_runs_is_not_asked_again(home: Home) -> None:
    home.issue()
    async with agent(home) as writer:
        command_id = (await writer.settled((await writer.propose())["command_id"]))["command_id"]
    assert home.remit("why", command_id).code == 6
    assert home.approve(command_id).code == 0
    told = home.remit("why", command_id)
    assert (told.code, "remit approve" in told.document["next"]) == (0, False)


async def test_what_a_person_rejects_is_undone_and_never_public(home: Home) -> None:
    home.issue()
    async with agent(home) as writer:
        command_id = (await writer.propose())["command_id"]
        await writer.settled(command_id)
        assert home.remit("reject", command_id, "--reason", "not yet").code == 0
        ended = await writer.settled(command_id)
        assert (ended["state"], ended["live"]) == ("COMPENSATED", False)
        assert [post["status"] for post in home.sandbox.effects()["posts"]] == ["trash"]


async def test_what_was_rejected_is_repeated_on_purpose_by_an_operator_or_a_token_that_may(home: Home) -> None:
    home.issue("--uses", "9")
    async with agent(home) as writer:
        first = (await writer.settled((await writer.propose())["command_id"]))["command_id"]
        early = home.remit("repeat", first)
        assert (early.code, early.document["error"]["code"]) == (1, "not_repeatable_yet")
        assert home.remit("reject", first).code == 0
        await writer.settled(first)
        again = await writer.propose()
        assert (again["command_id"], f"repeat_of={first}" in again["to_repeat"]) == (first, True)
        refused = await writer.refused("propose_publish", **ARTICLE, repeat_of=first)
        assert refused["code"] == "repeat_not_granted"

        second = home.remit("repeat", first).document["command_id"]
        assert home.remit("repeat", first).document == {"command_id": second, "repeats": first, "deduplicated": True}
        assert (await writer.settled(second))["state"] == "AWAITING_APPROVAL"
        assert home.remit("cancel", second).code == 0
        await writer.settled(second)
        home.issue("--repeat")
        third = (await writer.propose(repeat_of=second))["command_id"]
        assert len({first, second, third}) == 3
        await writer.settled(third)
        assert home.approve(third).code == 0
        assert (await writer.settled(third))["live"] is True
        assert published(home) == ["how-to-brew-coffee"]


@pytest.mark.behaviour("publish.image")
async def test_an_image_that_a_person_stored_is_published_with_the_article(home: Home) -> None:
    home.issue()
    ref = home.stored("cup.png", png(1, width=64))
    async with agent(home) as writer:
        command_id = (await writer.propose(featured_image=ref))["command_id"]
        assert (await writer.settled(command_id))["state"] == "AWAITING_APPROVAL"
        shown = home.remit("approve", command_id, "--show")
        assert (shown.document["subject"]["featured_image"], shown.document["subject"]["image_type"]) == (
            ref,
            "image/png",
        )
        assert ref in home.remit("approve", command_id, "--show", as_json=False).stdout.replace("\n", "")
        assert home.approve(command_id).code == 0
        assert (await writer.settled(command_id))["state"] == "SUCCESS"
        effects = home.sandbox.effects()
        ((image,), (post,)) = (effects["media"], effects["posts"])
        assert f"artifact://sha256/{image['sha256']}" == ref
        assert (post["status"], post["featured_media"], image["alt"]) == ("publish", image["id"], ARTICLE["title"])


async def test_an_image_that_nobody_stored_or_that_is_none_is_refused_and_changes_nothing(home: Home) -> None:
    home.issue()
    svg = home.stored("logo.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script>x()</script></svg>")
    async with agent(home) as writer:
        missing = await writer.refused("propose_publish", **ARTICLE, featured_image="artifact://sha256/" + "0" * 64)
        assert (missing["code"], missing["field"]) == ("payload_missing", "featured_image")
        refused = await writer.refused("propose_publish", **ARTICLE, featured_image=svg)
        assert (refused["code"], refused["field"]) == ("not_an_image", "featured_image")
        for wrong in ("https://x.example/a.png", "artifact://pictures/a", "artifact://sha256/0"):
            refused = await writer.refused("propose_publish", **ARTICLE, featured_image=wrong)
            assert (refused["code"], refused["field"]) == ("invalid_argument", "featured_image")
        assert home.remit("ls").document["commands"] == []


def test_a_file_that_is_too_large_is_not_stored(home: Home, tmp_path: Path) -> None:
    for name, content, limit in (
        ("text.md", b"x" * 1_048_577, 1_048_576),
        ("a.gif", GIF + bytes(26_214_400), 26_214_400),
    ):
        (tmp_path / name).write_bytes(content)
        refused = home.remit("artifact", "put", str(tmp_path / name))
        assert (refused.code, refused.document["error"]["code"]) == (1, "too_long")
        assert str(limit) in refused.document["error"]["fix"]


async def test_a_preview_accepts_nothing(home: Home) -> None:
    home.issue()
    async with agent(home) as writer:
        shown = await writer.propose(preview=True)
        assert shown["accepted"] is False
        assert "PUBLISH_WORDPRESS_POST" in [step["name"] for step in shown["steps"]]
        assert answer(await writer.call("query_command_status"))["commands"] == []


async def test_a_proposal_is_acknowledged_within_two_seconds_while_the_site_hangs(home: Home) -> None:
    home.issue("--uses", "2", "--open", "2")
    async with agent(home) as writer:
        await writer.settled((await writer.propose())["command_id"])
        for method in ("GET", "POST"):
            home.sandbox.arm(match=method, kind="hang", times=0)
        started = time.monotonic()
        accepted = await writer.propose(article_id="article-0029", wait_seconds=0)
        assert time.monotonic() - started < 2.0
        assert (accepted["done"], accepted["live"]) == (False, False)
        home.sandbox.clear()


async def test_a_changed_proposal_of_the_same_version_names_what_differs(home: Home) -> None:
    home.issue("--uses", "2")
    async with agent(home, "--no-worker") as writer:
        await writer.propose(wait_seconds=0)
        refused = await writer.refused("propose_publish", **{**ARTICLE, "title": "Another"})
        assert (refused["code"], refused["differing"]) == ("idempotency_conflict", ["title"])
        assert "Another" not in repr(refused)


async def test_an_approval_needs_the_hash_and_a_configured_key(home: Home) -> None:
    home.issue()
    async with agent(home) as writer:
        command_id = (await writer.propose())["command_id"]
        await writer.settled(command_id)
        key = ("--operator-key", str(home.operator_key))
        assert home.remit("approve", command_id).code == 2
        assert home.remit("approve", command_id, "--hash", "0" * 64).code == 4
        assert home.remit("approve", command_id, "--hash", "0" * 64, *key).document["error"]["code"] == "hash_differs"
        stranger = home.operator_key.with_name("mallory.pem")
        stranger.write_bytes(home.operator_key.read_bytes())
        stranger.chmod(0o600)
        shown = home.remit("approve", command_id, "--show").document["content_hash"]
        assert home.remit("approve", command_id, "--hash", shown, "--operator-key", str(stranger)).code == 4
        assert (await status(writer, command_id))["approval"]["state"] == "PENDING"


async def test_nobody_approves_what_their_own_name_proposed(home: Home) -> None:
    home.issue(agent="olivia")
    async with agent(home) as writer:
        command_id = (await writer.propose())["command_id"]
        await writer.settled(command_id)
        refused = home.approve(command_id)
        assert (refused.code, refused.document["error"]["code"]) == (4, "proposer_cannot_approve")


async def test_a_freeze_stops_acceptance_and_is_lifted(home: Home) -> None:
    home.issue()
    async with agent(home, "--no-worker") as writer:
        assert home.remit("freeze", "on", "--reason", "incident").code == 0
        assert (await writer.refused("propose_publish", **ARTICLE))["code"] == "frozen"
        assert [found["scope"] for found in home.remit("freeze", "ls").document["restrictions"]] == ["freeze:all"]
        assert home.remit("freeze", "off").code == 0
        assert (await writer.propose(wait_seconds=0))["command_id"]


async def status(writer: Agent, command_id: str) -> dict[str, Any]:
    return answer(await writer.call("query_command_status", command_id=command_id))
