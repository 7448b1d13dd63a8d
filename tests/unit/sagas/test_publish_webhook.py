"""Telling a program of a publication: once, under one id, to the one receiver that was approved."""

from dataclasses import replace

import pytest

from execution.core.definition import Step
from execution.core.failures import Receipt, Unprepared
from execution.core.states import EffectClass, Repeat
from execution.ports import Event
from execution.sagas.publish_notification import SEND_NOTIFICATION
from execution.sagas.publish_webhook import SEND_WEBHOOK
from execution.sagas.publish_wordpress import PUBLISH
from tests.unit.sagas.world import PUBLISHED, World, planned


async def sent(world: World) -> Event:
    world.receipts.setdefault(PUBLISH, PUBLISHED)
    await SEND_WEBHOOK.action.forward(world.ports, world.context(SEND_WEBHOOK.name))
    return world.receiver.sent[-1]


def told(generation: str = "") -> World:
    return World(planned(notify=["team", "hook"]), generation=generation)


async def test_a_receiver_is_told_what_is_live_and_where() -> None:
    world = told()
    world.receipts[PUBLISH] = replace(PUBLISHED, data={"modified_gmt": "2026-11-30T12:00:00"})
    event = await sent(world)
    assert (event.kind, event.at) == ("article.published", "2026-11-30T12:00:00Z")
    assert event.data == {
        "site": "blog",
        "article_id": "article-0028",
        "version": 1,
        "title": "How to brew",
        "url": PUBLISHED.reference,
    }


@pytest.mark.parametrize("time", ["", "yesterday", "2026-11-30", None])
async def test_a_time_that_the_site_did_not_tell_is_left_out(time: str | None) -> None:
    world = told()
    world.receipts[PUBLISH] = Receipt(resource_id="7", data={"modified_gmt": time})
    assert (await sent(world)).at == ""


@pytest.mark.behaviour("incident.76")
async def test_every_try_carries_the_same_id_and_a_repetition_another() -> None:
    world = told()
    event = await sent(world)
    context = replace(world.context(SEND_WEBHOOK.name), attempt_number=2, correlation_id="req_2")
    await SEND_WEBHOOK.action.forward(world.ports, context)
    assert world.receiver.sent[-1] == event
    assert event.event_id == f"msg_{context.marker}"
    assert (await sent(told("#abcdefghijklmnop"))).event_id != event.event_id


async def test_a_receiver_that_is_not_configured_here_gets_nothing() -> None:
    world = World(planned(notify=["other-hook"]), receipts={PUBLISH: PUBLISHED})
    with pytest.raises(Unprepared, match="webhook_not_configured"):
        await SEND_WEBHOOK.action.forward(world.ports, world.context(SEND_WEBHOOK.name))


async def test_nobody_is_told_before_the_publication() -> None:
    world = told()
    with pytest.raises(Unprepared, match="publication_missing"):
        await SEND_WEBHOOK.action.forward(world.ports, world.context(SEND_WEBHOOK.name))


def test_what_cannot_be_asked_is_never_repeated_in_doubt() -> None:
    step = SEND_WEBHOOK
    assert (step.effect, step.action.repeat, step.finish_only) == (EffectClass.IRREVERSIBLE, Repeat.NEVER, False)
    assert step.action.observe is None
    assert step.when(told().plan.params)
    assert not step.when(planned(notify=["team"]).params)


@pytest.mark.parametrize(("step", "name"), [(SEND_WEBHOOK, "webhook_id"), (SEND_NOTIFICATION, "message_id")])
def test_a_person_is_told_what_to_look_for(step: Step, name: str) -> None:  # type: ignore[type-arg]  # any ports
    world = told()
    context = world.context(step.name)
    assert context.marker in step.evidence(context)[name]
