"""A site whose process ends right after it wrote the row: what is missing is added to that very object.

The stand-in writes terms, featured image, sizes and texts after the row, as WordPress does.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.sandbox.faults import FaultKind
from execution.core.quiescence import Bounds
from execution.core.states import ApprovalState, ReviewKind, Settlement, State
from execution.proposal import Proposal
from tests.integration.passage import (
    CANCEL,
    COMPLETE,
    COMPLETE_IMAGE,
    CREATE,
    DELETE,
    RECORD,
    STAGE,
    TRASH,
    UPDATE,
    UPLOAD,
)
from tests.integration.world import World, proposal, world_at
from tests.pictures import png

POSTS = "/wp-json/wp/v2/posts"
TURNS = 20
DRAFT, PIVOT = "CREATE_WORDPRESS_DRAFT", "PUBLISH_WORDPRESS_POST"


def tagged(world: World, **more: Any) -> Proposal:
    """A proposal with a tag that exists on the site."""
    if not world.sandbox._state.terms("tags"):
        world.sandbox._state.add_term("tags", "coffee", "coffee")
    return proposal(tags=["coffee"], **more)


def live_tags(world: World) -> int:
    """How many tags the public post has."""
    (post,) = world.reality().live
    return len(post["tags"])


def images(world: World) -> list[Any]:
    """The media library."""
    found: Any = world.sandbox.effects()["media"]
    return list(found)


async def second_version(world: World) -> str:
    """Version 1 is live without tags; version 2, with one, waits for its approval, and its publication will die."""
    await world.published()
    command_id = await world.until_approval(tagged(world, version=2, content="# Second"))
    world.passage.sent.clear()
    world.arm(f"POST {POSTS}/", FaultKind.DIE)
    await world.approve(command_id)
    return command_id


@pytest.mark.behaviour("mend.whole")
async def test_a_draft_without_its_terms_is_completed_before_anybody_is_asked(world: World) -> None:
    world.arm(f"POST {POSTS}", FaultKind.DIE)
    command_id = await world.until_approval(tagged(world))
    (post,) = world.reality().posts.values()
    assert (post["status"], len(post["tags"])) == ("draft", 1)
    assert world.passage.sent == [CREATE, COMPLETE, STAGE]
    saga = await world.saga(command_id)
    first, second = saga.attempts_of((await world.step(command_id, DRAFT)).command_id)
    assert (first.settlement, second.settlement) == (Settlement.LANDED, Settlement.LANDED)
    assert second.fenced_at_ms - first.fenced_at_ms >= 1000 * (first.quiescent_after_s or 0)
    assert saga.reviews == ()


@pytest.mark.behaviour("mend.whole")
async def test_a_publication_without_its_terms_is_completed_with_the_bytes_that_were_approved(world: World) -> None:
    command_id = await second_version(world)
    view = await world.settle(command_id)
    assert (view.state, view.live, view.done, live_tags(world)) == ("SUCCESS", True, True, 1)
    assert world.passage.sent == [UPDATE, UPDATE, RECORD, TRASH]
    saga = await world.saga(command_id)
    first, second = saga.attempts_of((await world.step(command_id, PIVOT)).command_id)
    assert first.request_digest == second.request_digest
    assert [approval.state for approval in saga.approvals] == [ApprovalState.CONSUMED]
    assert saga.reviews == ()


async def test_while_it_is_unfinished_nothing_is_claimed_and_nothing_denied(world: World) -> None:
    command_id = await second_version(world)

    async def freeze() -> None:
        await world.restrict("freeze:all")

    world.passage.after_send[UPDATE] = freeze
    for _ in range(TURNS):
        await world.turn(command_id)
        world.clock.move_on(1.0)
    view = await world.view(command_id)
    assert (view.state, view.live, view.done, view.answers.executed) == ("HELD", False, False, "unknown")
    assert "stands on the site and is not complete yet" in view.say_to_user
    assert (view.phase, live_tags(world)) == ("POST_PIVOT", 0)
    await world.lift("freeze:all")
    view = await world.settle(command_id)
    assert (view.state, view.live, live_tags(world)) == ("SUCCESS", True, 1)


async def test_what_was_permitted_is_finished_when_the_authority_is_gone(world: World) -> None:
    command_id = await second_version(world)

    async def revoke() -> None:
        await world.restrict("revoked:agent:agent:writer")

    world.passage.after_send[UPDATE] = revoke
    await world.settle(command_id)
    assert (live_tags(world), (await world.step(command_id, PIVOT)).state) == (1, State.SUCCESS)


async def test_a_site_that_never_finishes_leaves_a_success_and_a_question(world: World) -> None:
    command_id = await second_version(world)
    world.arm(f"POST {POSTS}/", FaultKind.DIE, left=0)
    view = await world.settle(command_id)
    assert (view.live, view.done, live_tags(world)) == (True, False, 0)
    review = await world.review(command_id)
    assert (review.kind, json.loads(review.facts)["difference"]) == (ReviewKind.DRIFT, ["tags"])
    assert world.passage.sent.count(UPDATE) == 3


async def test_a_persons_change_is_not_mended_over(world: World) -> None:
    command_id = await second_version(world)

    async def edit() -> None:
        (post,) = world.reality().live
        await world.edit(post["id"], content="<p>edited</p>")

    world.passage.after_send[UPDATE] = edit
    view = await world.settle(command_id)
    (post,) = world.reality().live
    assert (post["content"], world.passage.sent.count(UPDATE), view.live) == ("<p>edited</p>", 1, False)
    assert (await world.review(command_id)).kind in (ReviewKind.CONFLICT, ReviewKind.DRIFT)


async def test_a_mend_whose_answer_is_lost_is_found_and_not_made_again(world: World) -> None:
    command_id = await second_version(world)
    world.arm(f"POST {POSTS}/", FaultKind.DROP_AFTER)  # the second write, once the first has died
    view = await world.settle(command_id)
    assert (view.state, view.live, live_tags(world)) == ("SUCCESS", True, 1)
    assert world.passage.sent == [UPDATE, UPDATE, RECORD, TRASH]


async def test_terms_that_are_gone_meanwhile_end_the_mending_with_a_question(world: World) -> None:
    command_id = await second_version(world)

    async def lose_the_tag() -> None:
        world.sandbox._state._db.execute("DELETE FROM term WHERE taxonomy = 'tags'")

    world.passage.after_send[UPDATE] = lose_the_tag
    view = await world.settle(command_id)
    assert (view.live, view.done) == (True, False)
    assert (await world.review(command_id)).kind is ReviewKind.DRIFT
    assert world.passage.sent.count(UPDATE) == 1


async def test_an_unfinished_draft_is_undone_as_it_is(world: World) -> None:
    world.arm(f"POST {POSTS}", FaultKind.DIE)
    command_id = await world.accepted(tagged(world))

    async def cancel() -> None:
        await world.operations.cancel(command_id, operator="operator:olivia", reason="no")

    world.passage.after_send[CREATE] = cancel
    view = await world.settle(command_id)
    assert (view.state, view.ending) == ("COMPENSATED", "cancelled")
    assert world.passage.sent == [CREATE, TRASH]


async def test_while_nobody_knows_when_a_site_is_done_nothing_is_mended_and_the_gate_asks(tmp_path: Path) -> None:
    async with world_at(tmp_path, bounds=Bounds()) as world:
        world.arm(f"POST {POSTS}", FaultKind.DIE)
        command_id = await world.accepted(tagged(world))
        view = await world.settle(command_id)
        assert view.state == "NEEDS_REVIEW"
        assert world.passage.sent == [CREATE, STAGE]
        kinds = {review.kind for review in (await world.saga(command_id)).reviews}
        assert kinds == {ReviewKind.DRIFT, ReviewKind.VALIDATION_FINDINGS}


@pytest.mark.behaviour("mend.whole")
async def test_an_image_without_sizes_and_text_is_completed_and_not_uploaded_again(world: World) -> None:
    world.arm("POST /wp-json/wp/v2/media", FaultKind.DIE)
    ref = await world.stored(png(1))
    command_id = await world.until_approval(proposal(featured_image=ref))
    (image,) = images(world)
    (post,) = world.reality().posts.values()
    assert (image["processed"], image["alt"], post["featured_media"]) == (True, "How to brew coffee", image["id"])
    assert world.passage.sent == [UPLOAD, COMPLETE_IMAGE, COMPLETE_IMAGE, CREATE, STAGE]
    assert (await world.saga(command_id)).reviews == ()
    await world.operations.reject(command_id, operator="operator:olivia", reason="no")
    assert (await world.settle(command_id)).state == "COMPENSATED"
    assert world.passage.sent[-3:] == [CANCEL, TRASH, DELETE]
    assert images(world) == []
