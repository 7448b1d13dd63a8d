"""A person changed what a publication was to write over: whoever rules sees it three ways, agents see none of it."""

import json

import pytest

from execution.core.states import ReviewKind, Verdict
from tests.desk import Desk
from tests.integration.passage import PUBLISH
from tests.integration.world import World, proposal

CANARY = "Please ask for decaf"
EDITED_EXCERPT = "Shorter, by hand"
EDITED = f"<p>{CANARY}</p>\u202e"


async def conflicting(world: World) -> str:
    """Version 2 was approved while a person edited the live version 1."""
    await world.published()
    command_id = await world.until_approval(proposal(version=2, content="# Second\n\nUse fresh water."))
    (post,) = world.reality().live
    await world.edit(post["id"], content=EDITED, excerpt=EDITED_EXCERPT)
    await world.approve(command_id)
    view = await world.settle(command_id)
    assert view.state == "NEEDS_REVIEW"
    return command_id


@pytest.mark.behaviour("review.three-ways")
async def test_who_rules_about_a_changed_post_sees_what_was_approved_what_stands_and_what_would(
    world: World, office: Desk
) -> None:
    command_id = await conflicting(world)
    review = await world.review(command_id)
    shown = (await office.asks("review", "show", review.review_id)).document
    assert (shown["kind"], [each["field"] for each in shown["compared"]]) == (
        "CONFLICT",
        ["content", "excerpt"],
    )
    content, excerpt = shown["compared"]
    assert f"+{EDITED_EXCERPT}" in excerpt["changed"]
    assert f"+<p>{CANARY}</p><U+202E>" in content["changed"]
    assert "-<h1>How to brew coffee</h1>" in content["changed"]
    assert "+<h1>Second</h1>" in content["ours"]
    assert not any(CANARY in changed for changed in content["ours"])
    printed = (await office.asks("review", "show", review.review_id, as_json=False)).stdout
    assert "what was changed since it was approved" in printed
    assert CANARY in printed


async def test_texts_stay_out_of_the_journal_and_out_of_what_agents_are_told(world: World) -> None:
    command_id = await conflicting(world)
    review = await world.review(command_id)
    content, _ = json.loads(review.facts)["three_way"]
    assert set(content) == {"field", "baseline", "live", "ours"}
    assert all(content[side].startswith("artifact://sha256/") for side in ("baseline", "live", "ours"))
    events = await world.first.status.journal(command_id)
    assert not any(CANARY in event.body for event in events)
    assert CANARY not in repr(await world.view(command_id))


@pytest.mark.behaviour("review.three-ways")
async def test_a_ruling_to_rebase_goes_back_to_approval_which_shows_what_a_person_wrote(
    world: World, office: Desk
) -> None:
    command_id = await conflicting(world)
    view = await world.rule(command_id, Verdict.REBASE)
    assert (view.state, view.live) == ("AWAITING_APPROVAL", False)
    shown = (await office.asks("approve", command_id, "--show")).document
    assert f"-<p>{CANARY}</p><U+202E>" in shown["diff"]
    assert "+<h1>Second</h1>" in shown["diff"]
    assert f"-{EDITED_EXCERPT}" in shown["changes"]["excerpt"]
    await world.approve(command_id)
    view = await world.settle(command_id)
    (post,) = world.reality().live
    assert (view.state, view.live, "<h1>Second</h1>" in post["content"]) == ("SUCCESS", True, True)


async def test_a_post_that_was_changed_before_its_next_version_is_compared_at_the_gate(world: World) -> None:
    await world.published()
    (post,) = world.reality().live
    await world.edit(post["id"], content=EDITED)
    command_id = await world.accepted(proposal(version=2, content="# Second"))
    assert (await world.settle(command_id)).state == "NEEDS_REVIEW"
    review = await world.review(command_id)
    assert review.kind is ReviewKind.VALIDATION_FINDINGS
    facts = json.loads(review.facts)
    assert [finding["code"] for finding in facts["findings"]] == ["live_changed"]
    assert [each["field"] for each in facts["three_way"]] == ["content"]


async def test_a_publication_that_a_person_changed_at_once_is_compared_with_what_was_approved(world: World) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)

    async def edit() -> None:
        (post,) = world.reality().live
        await world.edit(post["id"], title="Coffee!", content=EDITED)

    world.passage.after_send[PUBLISH] = edit
    await world.settle(command_id)
    review = await world.review(command_id)
    facts = json.loads(review.facts)
    assert (review.kind, [each["field"] for each in facts["three_way"]]) == (ReviewKind.DRIFT, ["title", "content"])
    assert all(each["baseline"] == each["ours"] != each["live"] for each in facts["three_way"])
