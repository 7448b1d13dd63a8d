"""The product: intake, worker and store, running a saga of five steps that do nothing.

The system that does nothing has no limits: its pace lets in as many exchanges at once as there are clients.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from execution.catalog import Catalog, Intent, Plan, Previous
from execution.core.command import Context
from execution.core.definition import Action, SagaDefinition, Step
from execution.core.failures import Answer, Landed, Receipt
from execution.core.quiescence import Bounds
from execution.core.states import EffectClass, Repeat, State
from execution.intake import Intake
from execution.pace import Pace, Rules
from execution.ports import Ports
from execution.proposal import Proposal, Proposer
from execution.settings import EngineSettings
from execution.store import registry
from execution.store.opening import open_store
from execution.store.writer import Store
from execution.worker import Worker
from tests.benchmarks.measure import STEPS, Measured, measure
from tests.benchmarks.noop import DIGEST, URL

BOUNDS: Final = Bounds(max_run_s=30.0, max_run_source="nothing runs")
RECEIPT: Final = Receipt(resource_id="7", version="1", reference=URL, data={"status": "done"})


class Clock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def awake_s(self) -> float:
        return time.monotonic()

    def boot_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class Numbers:
    """Ids that count, and no jitter."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def new(self, prefix: str) -> str:
        return f"{prefix}_{next(self._count):026d}"

    def uniform(self) -> float:
        return 0.5


class Nothing:
    """A request that does nothing, at once."""

    request_digest = DIGEST
    bounds = BOUNDS

    async def connect(self) -> Answer | None:
        return None

    async def send(self, deadline_s: float) -> Answer:
        return Landed(receipt=RECEIPT)

    async def close(self) -> None:
        pass


class NoArtifacts:
    async def get(self, ref: str) -> bytes:
        raise AssertionError("nothing is read")


async def _nothing(ports: Ports, context: Context) -> Nothing:
    return Nothing()


def _step(position: int) -> Step[Ports]:
    action: Action[Ports] = Action(
        system="noop",
        operation=f"noop_{position}",
        forward=_nothing,
        observe=None,
        looks_first=False,
        repeat=Repeat.NATURAL,
    )
    return Step(
        name=f"NOOP_{position}",
        effect=EffectClass.RETRYABLE,
        action=action,
        resource=lambda params: "noop",
        receipt_columns=("status",),
        summary="do nothing",
        manual="nothing to look for",
    )


DEFINITION: Final[SagaDefinition[Ports]] = SagaDefinition(
    name="NOOP_SAGA",
    version=1,
    intent="noop",
    operation="noop",
    parts=tuple(_step(position) for position in range(1, STEPS + 1)),
    summary="do nothing five times",
    target="noop",
    decision="the grant alone",
)


def _plan(proposal: Proposal, sha256: str, previous: Previous) -> Plan:
    return Plan(params={"title": "A title"}, resources=())


INTENT: Final = Intent(
    name="noop", operation="noop", system="noop", object_kind="article", definition=DEFINITION, plan=_plan
)


class Ended(Worker):
    """A worker that says which saga ended, to whoever put a future under its command's id."""

    ends: dict[str, asyncio.Future[None]]

    async def _drive(self, root_id: str) -> None:
        await super()._drive(root_id)
        end = self.ends.pop(root_id, None)
        if end is not None and not end.done():
            end.set_result(None)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[Store, Catalog, Numbers]]:
    """A fresh database and what runs over it."""
    store = open_store(path)
    yield store, Catalog([INTENT]), Numbers()
    await store.close()


async def run(path: Path, *, sagas: int, concurrency: int) -> Measured:
    """Measure on a fresh database."""
    async with opened(path) as (store, catalog, numbers):
        return await _run(store, catalog, numbers, sagas=sagas, concurrency=concurrency)


async def _run(store: Store, catalog: Catalog, numbers: Numbers, *, sagas: int, concurrency: int) -> Measured:
    worker = Ended(
        store=store,
        catalog=catalog,
        ports=Ports(artifacts=NoArtifacts()),
        clock=Clock(),
        ids=numbers,
        chance=numbers,
        settings=EngineSettings(),
        approvers={},
        rulers={},
        pace=Pace(Clock(), common=Rules(concurrent=concurrency)),
        owner="worker-1",
        installation="inst_bench",
        incarnation="inc_bench",
    )
    worker.ends = {}
    intake = Intake(store, catalog, Clock(), numbers, EngineSettings(), wake=worker.wake)
    stop = asyncio.Event()
    working = asyncio.create_task(worker.run(stop))
    last = ""

    async def saga(number: int) -> None:
        nonlocal last
        accepted = await intake.propose(proposal(number), proposer(number))
        last = accepted.command_id
        end = worker.ends[last] = asyncio.get_running_loop().create_future()
        await end

    measured = await measure(saga, sagas=sagas, concurrency=concurrency)
    ended = await store.hot(lambda conn: registry.load_saga(conn, last))
    assert ended.root.state is State.SUCCESS
    stop.set()
    await working
    return measured


def proposal(number: int) -> Proposal:
    """Something new to do."""
    return Proposal(
        intent="noop",
        site="blog",
        object_id=f"article-{number}",
        version=1,
        arguments={"title": "A title"},
        content=b"text",
    )


def proposer(number: int) -> Proposer:
    """Somebody with a token of one use."""
    return Proposer(
        principal="agent:bench",
        client_id="bench",
        tenant="acme",
        issuer="https://issuer",
        token_id=f"tok_{number}",
        key_id="bench",
        decision_id="dec_bench",
        max_uses=1,
    )
