"""A preview is judged like an acceptance, and leaves nothing behind."""

import hashlib
import json
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from execution.opening import Judged
from execution.proposal import IntakeRefused, Proposal, Proposer
from execution.repeating import proposer_for, repetition_of
from execution.sagas.withdraw_article import withdrawal_of
from server.preview import foreseen, planned, shown
from server.results import Preview
from tests.integration.world import PROPOSER, World, decided, proposal


def html(**arguments: Any) -> Proposal:
    return proposal(content="<p>First</p>", content_format="html", **arguments)


async def judged(world: World, offered: Proposal, proposer: Proposer = PROPOSER) -> Judged:
    before = written(world)
    found = await world.first.intake.foresee(offered, proposer)
    assert written(world) == before
    return found


async def preview(world: World, offered: Proposal, proposer: Proposer = PROPOSER) -> Preview:
    return shown(foreseen(await judged(world, offered, proposer), world.first.worker.env.catalog), detailed=True)


def written(world: World) -> str:
    """Everything in the journal's database."""
    conn = sqlite3.connect(world.database)
    try:
        return hashlib.sha256("\n".join(conn.iterdump()).encode()).hexdigest()
    finally:
        conn.close()


@pytest.mark.behaviour("preview.true")
async def test_what_was_previewed_is_what_is_accepted(world: World) -> None:
    offered = html(notify=["team"])
    foretold = await preview(world, offered)
    command_id = await world.accepted(offered)
    saga = await world.saga(command_id)
    assert [step.name for step in foretold.steps] == [row.command_type for row in saga.members]
    keys = {step.name: step.key for step in foretold.steps if step.key is not None}
    assert keys == {row.command_type: row.idempotency_key for row in saga.members if row.target_system != "remit"}
    assert foretold.idempotency_key == saga.root.idempotency_key
    assert foretold.pivot == "PUBLISH_WORDPRESS_POST"
    assert (foretold.mode, foretold.slug, foretold.approval.required) == ("first", "how-to-brew-coffee", True)
    undone = {step.name: step.undone_by for step in foretold.steps if step.undone_by}
    assert undone["CREATE_WORDPRESS_DRAFT"] == "TRASH_WORDPRESS_DRAFT"
    plan = json.loads(saga.root.params)["plan"]
    later = shown(planned(saga.root, world.first.worker.env.catalog), detailed=True)
    assert later.model_copy(update={"say_to_user": "", "command_id": None}) == foretold.model_copy(
        update={"say_to_user": ""}
    )
    assert (later.url or "", later.slug) == (plan["url"], plan["slug"])


async def test_a_later_version_is_previewed_over_the_post_that_is_live(world: World) -> None:
    first = await world.published(html())
    foretold = await preview(world, proposal(version=2, content="<p>Second</p>", content_format="html"))
    view = await world.view(first)
    assert (foretold.mode, foretold.base_version) == ("update", view.external_version)
    assert foretold.gives_way is None


async def test_what_would_turn_back_is_named(world: World) -> None:
    await world.until_approval()
    foretold = await preview(world, proposal(version=2, content="Better"))
    assert foretold.gives_way == ["version 1"]
    assert "take the place of version 1" in foretold.say_to_user


async def test_what_was_proposed_is_shown_as_it_was_planned_and_not_planned_again(world: World) -> None:
    first = await world.published(html())
    again = await preview(world, html())
    assert (again.command_id, again.mode) == (first, "first")
    assert "was proposed before" in again.say_to_user
    assert "PUBLISH_WORDPRESS_POST" in [step.name for step in again.steps]


async def test_a_repetition_is_previewed_under_its_own_key(world: World) -> None:
    first = await world.until_approval()
    await world.operations.cancel(first, operator="operator:olivia", reason="later")
    await world.settle(first)
    now_ms, catalog = world.clock.now_ms(), world.first.worker.env.catalog
    again = repetition_of(await world.saga(first), catalog, operator="operator:olivia", reason="", now_ms=now_ms)
    foretold = await preview(world, *again)
    second = await world.repeated(first)
    assert foretold.idempotency_key == (await world.saga(second)).root.idempotency_key
    assert "#" in (foretold.steps[0].key or "")


async def test_a_withdrawal_is_previewed_with_the_version_that_must_stand_there(world: World) -> None:
    first = await world.published(html(notify=["team"]))
    by = proposer_for(
        "operator:olivia", tenant="acme", principal="operator:olivia", decision_id="", now_ms=world.clock.now_ms()
    )
    foretold = await preview(world, withdrawal_of(await world.saga(first), reason=""), by)
    assert (foretold.pivot, foretold.base_version) == (
        "UNPUBLISH_WORDPRESS_POST",
        (await world.view(first)).external_version,
    )
    assert [step.name for step in foretold.steps][-1] == "SEND_CORRECTION"
    assert "as it would be withdrawn" in foretold.say_to_user
    assert len(world.reality().live) == 1


Arrange = Callable[[World], Awaitable[tuple[Proposal, Proposer]]]


async def _frozen(world: World) -> tuple[Proposal, Proposer]:
    await world.restrict("freeze:site:blog")
    return proposal(), PROPOSER


async def _revoked(world: World) -> tuple[Proposal, Proposer]:
    await world.restrict("revoked:agent:agent:writer")
    return proposal(), PROPOSER


async def _stale(world: World) -> tuple[Proposal, Proposer]:
    await world.published(proposal(version=2))
    return proposal(content="Older"), PROPOSER


async def _other_meaning(world: World) -> tuple[Proposal, Proposer]:
    await world.accepted()
    return proposal(content="Something else"), PROPOSER


async def _somebody_elses(world: World) -> tuple[Proposal, Proposer]:
    await world.accepted()
    return proposal(), replace(PROPOSER, principal="agent:other")


async def _too_many(world: World) -> tuple[Proposal, Proposer]:
    await world.accepted()
    return proposal(article="article-0029"), replace(PROPOSER, max_open_commands=1)


async def _spent(world: World) -> tuple[Proposal, Proposer]:
    once = replace(PROPOSER, max_uses=1)
    await world.accepted(proposer=once)
    return proposal(article="article-0029"), once


async def _under(world: World, **changed: Any) -> tuple[Proposal, Proposer]:
    await decided(world, **changed)
    return proposal(), PROPOSER


async def _closed(world: World) -> tuple[Proposal, Proposer]:
    return await _under(world, closed_at_ms=world.clock.now_ms(), closed_by="operator:olivia")


async def _used_up(world: World) -> tuple[Proposal, Proposer]:
    return await _under(world, uses=3, uses_max=3)


async def _missed(world: World) -> tuple[Proposal, Proposer]:
    return proposal(publish_at="2020-01-01T00:00:00Z"), PROPOSER


async def _under_withdrawal(world: World) -> tuple[Proposal, Proposer]:
    await world.withdrawal(await world.published())
    return proposal(version=2, content="Better"), PROPOSER


REFUSED: dict[str, Arrange] = {
    "frozen": _frozen,
    "revoked": _revoked,
    "stale_version": _stale,
    "idempotency_conflict": _other_meaning,
    "already_proposed": _somebody_elses,
    "too_many_open_commands": _too_many,
    "token_exhausted": _spent,
    "decision_closed": _closed,
    "decision_exhausted": _used_up,
    "schedule_missed": _missed,
    "withdrawal_under_way": _under_withdrawal,
}


@pytest.mark.behaviour("preview.true")
@pytest.mark.parametrize("code", REFUSED)
async def test_what_acceptance_refuses_its_preview_refuses_alike(world: World, code: str) -> None:
    offered, proposer = await REFUSED[code](world)
    with pytest.raises(IntakeRefused) as foretold:
        await judged(world, offered, proposer)
    with pytest.raises(IntakeRefused) as happened:
        await world.propose(offered, proposer)
    assert foretold.value.code == code
    told, refused = (
        (e.value.code, e.value.field, e.value.limit, e.value.actual, e.value.retryable) for e in (foretold, happened)
    )
    assert told == refused
