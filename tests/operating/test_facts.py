"""`inbox`, `ls --articles`, `status`: what was seen, what has become of an article, and what is left to people."""

import pytest

from tests.desk import Desk
from tests.integration.world import World, proposal


@pytest.mark.behaviour("inbox.once")
async def test_what_an_operator_saw_is_kept_once_and_asks_where_it_contradicts(world: World, office: Desk) -> None:
    command_id = await world.published()
    seen = ("inbox", "add", "gone", "--about", command_id, "--code", "page_missing")
    first = (await office.asks(*seen)).document
    assert (first["outcome"], first["again"], first["source"]) == ("contradicts", False, "operator:olivia")
    assert (await office.asks("review", "show", first["review_id"])).code == 0
    assert (await office.asks(*seen)).document == {**first, "again": True}
    told = await office.asks(*seen, as_json=False)
    assert f"remit review show {first['review_id']}" in told.stdout
    listed = (await office.asks("inbox", "ls")).document["facts"]
    assert [(fact["delivery_id"], fact["says"], fact["code"]) for fact in listed] == [
        (first["delivery_id"], "gone", "page_missing")
    ]
    assert (await world.view(command_id)).state == "SUCCESS"
    assert len(world.reality().live) == 1


async def test_a_bounce_is_about_the_message_that_it_names(world: World, office: Desk) -> None:
    command_id = await world.published(proposal(notify=["team"]))
    message = (await world.step(command_id, "SEND_NOTIFICATION")).external_resource_id
    bounce = ("inbox", "add", "gone", "--code", "bounced", "--message")
    assert (await office.asks(*bounce, f"mail={message}")).document["root_id"] == command_id
    assert (await office.asks(*bounce, "mail=<nobody@x>")).document["outcome"] == "unmatched"
    assert "nobody here is known" in (await office.asks(*bounce, "mail=<nobody@x>", as_json=False)).stdout
    unmatched = (await office.asks("inbox", "ls", "--unmatched")).document["facts"]
    assert [fact["about"] for fact in unmatched] == ["mail=<nobody@x>"]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("perhaps", "--about", "CMD"), 2, "usage"),
        (("gone",), 2, "invalid_fact"),
        (("gone", "--about", "CMD", "--message", "mail=<x>"), 2, "invalid_fact"),
        (("gone", "--about", "CMD", "--code", "No Code"), 2, "invalid_fact"),
        (("gone", "--about", "cmd_none"), 1, "unknown_command"),
        (("gone", "--about", "CMD", "--step", "NOTHING"), 1, "unknown_step"),
        (("gone", "--about", "CMD", "--delivery", "one"), 1, "delivery_conflict"),
    ],
)
async def test_what_is_no_fact_is_refused(
    world: World, office: Desk, words: tuple[str, ...], code: int, error: str
) -> None:
    command_id = await world.accepted()
    assert (await office.asks("inbox", "add", "there", "--about", command_id, "--delivery", "one")).code == 0
    done = await office.asks("inbox", "add", *(command_id if word == "CMD" else word for word in words))
    assert (done.code, done.error) == (code, error)
    assert len((await office.asks("inbox", "ls")).document["facts"]) == 1


@pytest.mark.behaviour("article.content")
async def test_articles_are_listed_with_what_has_become_of_them(world: World, office: Desk) -> None:
    assert "No articles yet" in (await office.asks("ls", "--articles", as_json=False)).stdout
    command_id = await world.published()
    later = await world.until_approval(proposal(version=2, content="Better"))
    (article,) = (await office.asks("ls", "--articles", "--site", "blog")).document["articles"]
    assert (article["article_id"], article["content"], article["version"]) == ("article-0028", "PUBLISHED (live)", 1)
    assert (article["command_id"], article["url"]) == (command_id, world.sandbox.url + "/how-to-brew-coffee/")
    assert article["under_way"] == [{"command_id": later, "version": 2, "state": "AWAITING_APPROVAL"}]
    told = (await office.asks("ls", "--articles", as_json=False)).stdout
    assert "PUBLISHED" in told
    assert (await office.asks("ls", "--articles", "--site", "shop")).document["articles"] == []
    assert (await office.asks("ls", "--site", "blog")).error == "usage"


@pytest.mark.behaviour("article.duties")
async def test_a_status_says_what_an_ending_leaves_to_people(world: World, office: Desk) -> None:
    down = await world.withdrawal(await world.published())
    await world.settle(down)
    await world.approve(down, "operator:pat")
    await world.settle(down)
    document = (await office.asks("status", down)).document
    assert (document["content"], [duty["name"] for duty in document["follow_ups"]]) == (
        "WITHDRAWN",
        ["ASK_SEARCH_ENGINES"],
    )
    for verb in ("status", "why"):
        assert "Left to whoever keeps the site" in (await office.asks(verb, down, as_json=False)).stdout
