"""What `make bench` measures runs, so that its numbers can be asked for at any commit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.benchmarks import bound, engine, store
from tests.benchmarks.measure import Run


@pytest.mark.parametrize("run", [bound.run, store.run, engine.run], ids=["bound", "store", "product"])
def test_every_way_that_is_measured_ends_its_sagas(run: Run, tmp_path: Path) -> None:
    measured = asyncio.run(run(tmp_path / "bench.db", sagas=4, concurrency=2))
    assert measured.per_second > 0
