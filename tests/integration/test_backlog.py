"""Recovery at size: after a start everything that is due is known at once, told once, and worked off at its own pace.

The full size, with times and memory, is a part of the soak (`python -m tests.soak recovery`).
"""

from functools import partial
from typing import Any, Final

import pytest

from execution.bus.memory import MemoryBus
from execution.store.writer import Store
from tests.integration.world import World
from tests.stage.clones import clone

OPEN: Final = 1_000


class NotedBus(MemoryBus):
    """Says nothing on: it keeps what was said, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def publish(self, root_id: str) -> None:
        self.said.append(root_id)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every transaction and every read of the store, by the name of what asked."""
    asked: list[str] = []
    hot = Store.hot

    async def noted(self: Store, work: Any) -> Any:
        asked.append(getattr(work, "__name__", ""))
        return await hot(self, work)

    monkeypatch.setattr(Store, "hot", noted)
    return asked


async def test_one_look_after_a_start_finds_everything_and_nothing_is_told_twice(
    world: World, counted: list[str]
) -> None:
    original = await world.accepted()
    roots = await world.store.transact(partial(clone, root_id=original, count=OPEN))
    worker, bus = world.first.worker, NotedBus()
    worker._bus = bus
    counted.clear()
    await worker.sweep()
    assert sorted(bus.said) == sorted([original, *roots])
    assert counted == ["look"]  # one question, however many are open
    await worker.sweep()
    assert len(bus.said) == OPEN + 1
    world.clock.move_on(world.settings.lease_s + 1)  # the bus may have lost them
    await worker.sweep()
    assert len(bus.said) == 2 * (OPEN + 1)
