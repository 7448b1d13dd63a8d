"""Facts from outside: kept once, evidence only, and a question where they contradict an ending."""

from dataclasses import replace
from typing import Any

import pytest

from adapters.sandbox.faults import FaultKind
from execution.core.inbound import Says
from execution.core.states import Verdict
from execution.inbox import Inbound, Inbox, InboxRefused, Received
from execution.store import inbox as stored
from execution.store import journal
from tests.integration.world import CountedIds, World, proposal


def inbox(world: World) -> Inbox:
    return Inbox(world.store, world.clock, CountedIds("i"), "acme")


def fact(command_id: str = "", says: Says = Says.GONE, **more: Any) -> Inbound:
    given = {"source": "webhook:cms", "delivery_id": "evt_1", "code": "page_missing", **more}
    return Inbound(says=says, command_id=command_id, **given)


async def kept(world: World) -> list[tuple[str, str]]:
    found = await world.store.read(lambda conn: stored.recent(conn, "acme"))
    return [(each.delivery_id, each.outcome) for each in found]


async def message_of(world: World, command_id: str) -> str:
    """The Message-ID of its notification."""
    return str((await world.step(command_id, "SEND_NOTIFICATION")).external_resource_id)


@pytest.mark.behaviour("incident.76")
@pytest.mark.behaviour("inbox.once")
async def test_a_fact_against_an_ending_asks_a_person_once_and_changes_nothing(world: World) -> None:
    command_id = await world.published()
    before = world.reality()
    received = await inbox(world).receive(fact(command_id))
    assert (received.delivery.outcome, received.again) == ("contradicts", False)
    view = await world.view(command_id)
    assert (view.state, view.done) == ("SUCCESS", False)
    assert [(r.kind, r.review_id) for r in view.reviews] == [("LATE_FACT", received.delivery.review_id)]

    again = await inbox(world).receive(fact(command_id))
    assert again == Received(delivery=received.delivery, again=True)
    other = await inbox(world).receive(fact(command_id, delivery_id="evt_2"))
    assert (other.delivery.outcome, other.delivery.review_id) == ("contradicts", received.delivery.review_id)
    assert (await world.facts(command_id)).count("FACT_RECEIVED") == 2
    assert world.reality() == before

    assert (await world.rule(command_id, Verdict.CONTINUE)).done
    batches = await world.store.read(lambda conn: list(journal.verify_all(conn)))
    assert [finding for batch in batches for finding in batch.findings] == []


async def test_the_same_delivery_with_another_fact_is_refused_and_leaves_nothing(world: World) -> None:
    command_id = await world.published()
    await inbox(world).receive(fact(command_id))
    before = await world.facts(command_id)
    with pytest.raises(InboxRefused, match="delivery_conflict"):
        await inbox(world).receive(fact(command_id, Says.THERE))
    assert await world.facts(command_id) == before
    assert await kept(world) == [("evt_1", "contradicts")]
    elsewhere = await inbox(world).receive(fact(command_id, source="webhook:other"))
    assert not elsewhere.again


@pytest.mark.behaviour("inbox.evidence")
async def test_a_fact_about_what_is_on_its_way_is_evidence_and_moves_nothing(world: World) -> None:
    command_id = await world.until_approval()
    before = await world.saga(command_id)
    received = await inbox(world).receive(fact(command_id, Says.THERE))
    assert received.delivery.outcome == "noted"
    saga = await world.saga(command_id)
    assert [row.state for row in saga.members] == [row.state for row in before.members]
    assert saga.reviews == ()
    await world.approve(command_id)
    assert (await world.settle(command_id)).done


async def test_what_agrees_with_the_ending_is_noted(world: World) -> None:
    command_id = await world.published()
    assert (await inbox(world).receive(fact(command_id, Says.THERE))).delivery.outcome == "noted"
    assert (await world.view(command_id)).done


async def test_what_a_later_command_has_replaced_is_not_missed(world: World) -> None:
    first = await world.published(proposal(content="<p>1</p>", content_format="html"))
    await world.published(proposal(version=2, content="<p>2</p>", content_format="html"))
    assert (await inbox(world).receive(fact(first))).delivery.outcome == "noted"
    down = await world.withdrawal(await world.published(proposal(article="other", slug="other")))
    await world.settle(down)
    await world.approve(down, "operator:pat")
    await world.settle(down)
    published = (await world.saga(down)).root
    assert published.object_id == "other"
    back = await inbox(world).receive(fact(down, delivery_id="evt_back"))
    assert back.delivery.outcome == "contradicts"  # the withdrawal is said not to hold


async def test_a_bounce_finds_the_message_by_its_id(world: World) -> None:
    command_id = await world.published(proposal(notify=["team"]))
    bounce = fact(system="mail", resource_id=await message_of(world, command_id), code="bounced")
    received = await inbox(world).receive(bounce)
    assert (received.delivery.outcome, received.delivery.root_id) == ("contradicts", command_id)
    (review,) = (await world.view(command_id)).reviews
    assert review.step == "SEND_NOTIFICATION"
    unknown = await inbox(world).receive(replace(bounce, resource_id="<nobody@x>", delivery_id="evt_3"))
    assert (unknown.delivery.outcome, unknown.delivery.command_id) == ("unmatched", None)
    found = await world.store.read(lambda conn: stored.recent(conn, "acme", outcome="unmatched"))
    assert [each.resource_id for each in found] == ["<nobody@x>"]


async def test_a_bounce_of_a_message_in_doubt_does_not_settle_it(world: World) -> None:
    command_id = await world.until_approval(proposal(notify=["team"]))
    await world.approve(command_id)
    world.arm("SMTP DATA", FaultKind.DROP_AFTER)
    view = await world.settle(command_id)
    assert [r.kind for r in view.reviews] == ["OUTCOME_UNKNOWN"]
    await inbox(world).receive(fact(command_id, step="SEND_NOTIFICATION", code="bounced"))
    view = await world.view(command_id)
    assert [r.kind for r in view.reviews] == ["OUTCOME_UNKNOWN"]
    assert "SEND_NOTIFICATION" not in view.answers.succeeded
    assert len(world.reality().messages) == 1


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"source": "Has Spaces"}, "invalid_fact", "source"),
        ({"source": ""}, "invalid_fact", "source"),
        ({"delivery_id": ""}, "invalid_fact", "delivery_id"),
        ({"delivery_id": "x" * 201}, "invalid_fact", "delivery_id"),
        ({"delivery_id": "a\nb"}, "invalid_fact", "delivery_id"),
        ({"code": "550 5.1.1 User unknown"}, "invalid_fact", "code"),
        ({"note": "x" * 501}, "invalid_fact", "note"),
        ({"command_id": ""}, "invalid_fact", "command_id"),
        ({"system": "mail", "resource_id": "<x>"}, "invalid_fact", "command_id"),
        ({"command_id": "cmd_none"}, "unknown_command", "command_id"),
        ({"step": "NOTHING"}, "unknown_step", "step"),
    ],
)
async def test_what_is_no_fact_is_refused_and_leaves_nothing(
    world: World, change: dict[str, Any], code: str, field: str
) -> None:
    command_id = await world.accepted()
    with pytest.raises(InboxRefused) as caught:
        await inbox(world).receive(replace(fact(command_id), **change))
    assert (caught.value.code, caught.value.field) == (code, field)
    assert await kept(world) == []
    assert "FACT_RECEIVED" not in await world.facts(command_id)
