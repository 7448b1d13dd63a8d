"""A process that can accept nothing says that it is not ready."""

import asyncio
from pathlib import Path

import pytest

from execution.store import meta
from execution.store.opening import open_store
from server import health
from server.app import SystemClock


async def test_a_disk_without_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock = open_store(tmp_path / "remit.db"), SystemClock()
    await meta.establish(store, installation="inst_1", incarnation="inc_1", now_ms=clock.now_ms())
    asked = health.Health(store=store, clock=clock, with_worker=False, stop=asyncio.Event())
    assert (await asked.ready())[0]
    monkeypatch.setattr(health, "FREE_BYTES_MIN", 2**62)
    assert await asked.ready() == (False, {"journal": "disk_full"})
    await store.close()
