"""The shared pace of a system, through the engine: one refusal slows everybody, one slow system slows nobody else."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from adapters.sandbox import github
from adapters.sandbox.faults import FaultKind
from execution.catalog import Catalog, Intent, Plan, Previous
from execution.core.command import Context
from execution.core.definition import Action, SagaDefinition, Step
from execution.core.failures import Answer, Landed, Receipt
from execution.core.quiescence import Bounds
from execution.core.states import EffectClass, Repeat, State
from execution.intake import Intake
from execution.pace import Pace, Rules
from execution.ports import Ports
from execution.proposal import Proposal
from execution.store import registry
from execution.store.opening import open_store
from execution.worker import Worker
from tests.integration.world import (
    INSTALLATION,
    PROPOSER,
    SETTINGS,
    CountedIds,
    MovableClock,
    NoArtifacts,
    NoJitter,
    World,
    eventually,
    proposal,
    world_at,
)

BUSY = {"status": 429, "headers": {"Retry-After": "40"}}
PULLS, LIMITED_AT = 5, 3


@pytest.mark.behaviour("pace.shared")
async def test_one_refusal_for_load_holds_back_every_command_to_that_system_and_no_attempt_is_spent(
    world: World,
) -> None:
    world.arm("POST /wp-json/wp/v2/posts", FaultKind.STATUS_BEFORE, **BUSY)
    first = await world.accepted(proposal(article="article-1", slug="one"))
    await world.turn(first)
    second = await world.accepted(proposal(article="article-2", slug="two"))
    refused_at = world.clock.now_ms()
    await world.turn(second)
    draft = await world.step(second, "CREATE_WORDPRESS_DRAFT")
    assert (draft.state, draft.attempt_count) == (State.AUTHORIZED, 0)
    assert not world.reality().posts
    due = (await world.saga(second)).root.next_check_at_ms
    assert due is not None
    assert due >= refused_at + 39_000
    for command_id in (first, second):
        assert (await world.settle(command_id)).state == "AWAITING_APPROVAL"
    assert len(world.reality().posts) == 2


async def test_another_worker_hears_of_it_before_it_asks_for_itself(world: World) -> None:
    world.arm("POST /wp-json/wp/v2/posts", FaultKind.STATUS_BEFORE, **BUSY)
    first = await world.accepted(proposal(article="article-1", slug="one"))
    await world.turn(first)
    await world.first.worker.sweep()
    async with world.another() as second:
        await second.worker.sweep()
        other = await world.accepted(proposal(article="article-2", slug="two"))
        await world.turn(other, second)
        draft = await world.step(other, "CREATE_WORDPRESS_DRAFT")
        assert (draft.state, draft.attempt_count) == (State.AUTHORIZED, 0)


async def test_a_limit_in_the_middle_of_many_and_a_new_process_leave_one_pull_request_for_each(tmp_path: Path) -> None:
    """Some are made, the next is refused for load, and the process that knew it is gone."""
    async with world_at(tmp_path, archive=True, pull_request=True) as world:
        names = [f"article-{number}" for number in range(PULLS)]
        commands = [await world.accepted(proposal(article=name, slug=name)) for name in names]
        for command_id in commands[:LIMITED_AT]:
            assert (await world.settle(command_id)).state == "AWAITING_APPROVAL"
        limit = {"status": 403, "headers": {"Retry-After": "40"}}
        world.arm(f"POST /github/repos/{github.OWNER}/{github.REPO}/pulls", FaultKind.STATUS_BEFORE, **limit)
        await world.turn(commands[LIMITED_AT])
        assert heads(world) == [f"remit/blog/{name}/v1" for name in names[:LIMITED_AT]]
        async with world.another() as second:
            for command_id in commands[LIMITED_AT:]:
                assert (await world.settle(command_id, second)).state == "AWAITING_APPROVAL"
        assert heads(world) == [f"remit/blog/{name}/v1" for name in names]


def heads(world: World) -> list[str]:
    """The branches that ask to be merged, by the order in which they did."""
    pulls = cast("list[dict[str, str]]", world.sandbox.effects()["pulls"])
    return [pull["head"] for pull in pulls]


class Held:
    """A request whose answer comes when the test says so."""

    request_digest = "d" * 64
    bounds = Bounds(max_run_s=1.0, max_run_source="the test")

    def __init__(self, until: asyncio.Event, under_way: list[str], key: str) -> None:
        self._until, self._under_way, self._key = until, under_way, key

    async def connect(self) -> Answer | None:
        return None

    async def send(self, deadline_s: float) -> Answer:
        self._under_way.append(self._key)
        await self._until.wait()
        return Landed(receipt=Receipt(resource_id="1"))

    async def close(self) -> None:
        pass


@pytest.mark.behaviour("threat.29")
@pytest.mark.behaviour("pace.bulkhead")
async def test_a_system_that_hangs_delays_no_command_for_another_and_is_not_flooded(tmp_path: Path) -> None:
    store, clock, ids = open_store(tmp_path / "journal.db"), MovableClock(), CountedIds()
    gates = {"slow": asyncio.Event(), "fast": asyncio.Event()}
    gates["fast"].set()
    under_way: dict[str, list[str]] = {"slow": [], "fast": []}

    def intent(system: str) -> Intent:
        async def forward(ports: Ports, context: Context) -> Held:
            return Held(gates[system], under_way[system], context.key)

        action: Action[Ports] = Action(
            system=system,
            operation=system,
            forward=forward,
            observe=None,
            looks_first=False,
            repeat=Repeat.NATURAL,
            deadline_s=300.0,
        )
        step = Step(
            name="ONLY",
            effect=EffectClass.RETRYABLE,
            action=action,
            resource=lambda params: "r",
            receipt_columns=("status",),
            summary="ask it",
            manual="look",
        )
        definition = SagaDefinition(
            name=f"{system.upper()}_SAGA",
            version=1,
            intent=system,
            operation=system,
            parts=(step,),
            summary="ask one system",
            target="r",
            decision="the grant alone",
        )
        return Intent(
            name=system, operation=system, system=system, object_kind="thing", definition=definition, plan=_nothing
        )

    catalog = Catalog([intent("slow"), intent("fast")])
    settings = replace(SETTINGS, slots=64, lease_s=30.0, renew_s=10.0)
    worker = Worker(
        store=store,
        catalog=catalog,
        ports=Ports(artifacts=NoArtifacts()),
        clock=clock,
        ids=ids,
        chance=NoJitter(),
        settings=settings,
        owner="worker-1",
        installation=INSTALLATION,
        incarnation="inc_1",
        approvers={},
        rulers={},
        pace=Pace(clock, common=Rules(concurrent=4, waiting=8)),
    )
    intake = Intake(store, catalog, clock, ids, settings, wake=worker.wake)

    async def offer(system: str, number: int) -> str:
        offered = Proposal(
            intent=system, site="blog", object_id=f"{system}-{number}", version=1, arguments={}, content=b"text"
        )
        return (await intake.propose(offered, PROPOSER)).command_id

    async def ended(commands: list[str]) -> bool:
        rows = [await store.hot(partial(registry.find, command_id=one)) for one in commands]
        return all(row is not None and row.state is State.SUCCESS for row in rows)

    stop = asyncio.Event()
    working = asyncio.create_task(worker.run(stop))
    slow = [await offer("slow", number) for number in range(120)]
    fast = [await offer("fast", number) for number in range(20)]
    await eventually(lambda: ended(fast), "the others are done")
    assert len(under_way["slow"]) == 4
    gates["slow"].set()
    await eventually(lambda: ended(slow), "the slow ones are done, too")
    assert len(set(under_way["slow"])) == 120 == len(under_way["slow"])
    stop.set()
    await working
    await store.close()


def _nothing(proposal_: Any, sha256: str, previous: Previous) -> Plan:
    return Plan(params={"thing": 1}, resources=())
