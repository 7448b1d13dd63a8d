"""`plan` and `card`: what operators look at before anything is set in motion."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.desk import Desk
from tests.integration.world import World, proposal
from tests.pictures import png

ARGUMENTS: dict[str, Any] = {
    "article_id": "article-0028",
    "version": 1,
    "site": "blog",
    "title": "How to brew coffee",
    "content": "Use fresh water.",
}


def noted(tmp_path: Path, **changed: Any) -> str:
    """A file with arguments."""
    file = tmp_path / "arguments.json"
    given = {**ARGUMENTS, **changed}
    file.write_text(json.dumps({name: value for name, value in given.items() if value is not None}))
    return str(file)


async def commands(office: Desk) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await office.asks("ls")).document["commands"]
    return found


@pytest.mark.behaviour("operator.plan")
async def test_a_publication_is_planned_with_target_times_keys_and_approval(office: Desk, tmp_path: Path) -> None:
    office.rewrite("[site.blog]", '[site.blog]\ntimezone = "Europe/Berlin"')
    year = datetime.now(UTC).year + 3
    at = f"{year}-07-01T12:00:00[Europe/Berlin]"
    done = await office.asks("plan", "publish", noted(tmp_path, publish_at=at))
    plan = done.document
    assert (done.code, plan["accepted"], plan["mode"], plan["slug"]) == (0, False, "first", "how-to-brew-coffee")
    assert (plan["publish_at"], plan["publish_at_local"]) == (
        f"{year}-07-01T10:00:00Z",
        f"{year}-07-01T12:00:00+02:00[Europe/Berlin]",
    )
    assert plan["approval"]["required"] is True
    assert plan["idempotency_key"] == "acme:remit:publish:blog:article-0028:v1"
    steps = {step["name"]: step for step in plan["steps"]}
    assert steps["CREATE_WORDPRESS_DRAFT"]["undone_by"] == "TRASH_WORDPRESS_DRAFT"
    assert steps["CREATE_WORDPRESS_DRAFT"]["key"] == "acme:wordpress:draft:blog:article-0028:v1"
    assert steps[plan["pivot"]]["effect"] == "PIVOT"
    assert await commands(office) == []

    told = (await office.asks("plan", "publish", noted(tmp_path, publish_at=at), as_json=False)).stdout
    above, below = told.split("-- pivot: from here on nothing is undone automatically --")
    assert "CREATE_WORDPRESS_DRAFT" in above
    assert "PUBLISH_WORDPRESS_POST" in below
    assert "how-to-brew-coffee" in above


@pytest.mark.behaviour("operator.plan")
async def test_a_plan_has_every_step_that_is_configured_and_asked_for(desk: Desk, tmp_path: Path) -> None:
    desk.rewrite("pull_request = false", "pull_request = true")
    picture = tmp_path / "picture.png"
    picture.write_bytes(png(1))
    image = (await desk.asks("artifact", "put", str(picture))).document["ref"]
    whole = noted(tmp_path, featured_image=image, notify=["team", "hook"])
    steps = (await desk.asks("plan", "publish", whole)).document["steps"]
    assert [(step["name"], step["effect"], step.get("undone_by")) for step in steps] == [
        ("ARCHIVE_CONTENT_VERSION", "COMPENSABLE", "DELETE_ARCHIVE_BRANCH"),
        ("OPEN_ARCHIVE_PULL_REQUEST", "COMPENSABLE", "CLOSE_ARCHIVE_PULL_REQUEST"),
        ("UPLOAD_FEATURED_IMAGE", "COMPENSABLE", "DELETE_UPLOADED_IMAGE"),
        ("CREATE_WORDPRESS_DRAFT", "COMPENSABLE", "TRASH_WORDPRESS_DRAFT"),
        ("STAGE_PUBLICATION_RECORD", "COMPENSABLE", "CANCEL_PUBLICATION_RECORD"),
        ("VALIDATE_PUBLICATION", "NONE", None),
        ("HUMAN_APPROVAL", "NONE", None),
        ("PUBLISH_WORDPRESS_POST", "PIVOT", None),
        ("PURGE_CLOUDFLARE_CACHE", "RETRYABLE", None),
        ("REGISTER_MONITORING", "RETRYABLE", None),
        ("RECORD_PUBLICATION", "RETRYABLE", None),
        ("SEND_NOTIFICATION", "IRREVERSIBLE", None),
        ("SEND_WEBHOOK", "IRREVERSIBLE", None),
    ]
    less = (await desk.asks("plan", "publish", noted(tmp_path))).document["steps"]
    asked_for = {"UPLOAD_FEATURED_IMAGE", "SEND_NOTIFICATION", "SEND_WEBHOOK"}
    assert {step["name"] for step in steps} - {step["name"] for step in less} == asked_for


async def test_arguments_may_come_from_a_pipe(office: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(ARGUMENTS)))
    assert (await office.asks("plan", "publish", "-")).document["slug"] == "how-to-brew-coffee"


async def test_the_text_may_be_a_file_of_its_own(office: Desk, tmp_path: Path) -> None:
    text = tmp_path / "text.md"
    text.write_text("# Brew\n")
    done = await office.asks("plan", "publish", noted(tmp_path, content=None), "--content", str(text))
    assert (done.code, done.document["content_bytes"]) == (0, len("# Brew\n"))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"version": 0}, "invalid_argument"),
        ({"content": None}, "invalid_argument"),
        ({"payload_ref": "artifact://article/none", "content": None}, "payload_missing"),
        ({"site": "nowhere"}, "unknown_site"),
        ({"notify": ["nobody"]}, "unknown_list"),
        ({"publish_at": "2020-01-01T00:00:00Z"}, "schedule_missed"),
    ],
)
async def test_what_would_be_refused_is_refused_with_its_code(
    office: Desk, tmp_path: Path, changed: dict[str, Any], code: str
) -> None:
    done = await office.asks("plan", "publish", noted(tmp_path, **changed))
    assert done.code != 0
    assert done.error == code


@pytest.mark.parametrize("text", ["not json", "[]", '"text"'])
async def test_arguments_are_a_json_object(office: Desk, tmp_path: Path, text: str) -> None:
    file = tmp_path / "arguments.json"
    file.write_text(text)
    done = await office.asks("plan", "publish", str(file))
    assert (done.code, done.error) == (2, "usage")


@pytest.mark.behaviour("operator.plan")
async def test_a_withdrawal_and_a_repetition_are_planned_and_nothing_is_written(world: World, office: Desk) -> None:
    publication = await world.published(proposal(notify=["team"]))
    plan = (await office.asks("plan", "withdraw", publication)).document
    assert (plan["pivot"], plan["base_version"]) == (
        "UNPUBLISH_WORDPRESS_POST",
        (await world.view(publication)).external_version,
    )
    assert (await office.asks("plan", "repeat", publication)).error == "stale_version"
    waiting = await world.until_approval(proposal(article="article-0029", slug="another"))
    assert (await office.asks("plan", "withdraw", waiting)).error == "not_live"
    assert (await office.asks("plan", "repeat", waiting)).error == "not_repeatable_yet"
    await office.asks("cancel", waiting)
    await world.settle(waiting)
    again = (await office.asks("plan", "repeat", waiting)).document
    assert again["idempotency_key"].startswith("acme:remit:publish:blog:article-0029:v1#")
    assert {row["command_id"] for row in await commands(office)} == {publication, waiting}
    assert len(world.reality().live) == 1


async def test_what_was_planned_for_a_command_is_shown_again(world: World, office: Desk) -> None:
    command_id = await world.accepted()
    plan = (await office.asks("plan", "show", command_id)).document
    assert plan["command_id"] == command_id
    assert [step["name"] for step in plan["steps"]] == [
        row.command_type for row in (await world.saga(command_id)).members
    ]
    assert (await office.asks("plan", "show", "cmd_none")).error == "unknown_command"


async def test_a_card_has_ten_blocks_and_the_times_that_are_configured(desk: Desk) -> None:
    listed = (await desk.asks("card")).document["definitions"]
    assert {each["intent"] for each in listed} == {"propose_publish", "withdraw_article"}
    by_name = (await desk.asks("card", "SEO_ARTICLE_PUBLISH")).document
    assert by_name == (await desk.asks("card", "propose_publish")).document
    assert len(by_name["blocks"]) == 10
    told = (await desk.asks("card", "withdraw_article", as_json=False)).stdout
    assert "COMPENSATION" in told
    assert (await desk.asks("card", "nothing")).error == "unknown_definition"
