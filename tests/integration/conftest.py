"""A fresh installation for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.world import World, world_at


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_at(tmp_path) as made:
        yield made
