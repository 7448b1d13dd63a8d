"""A desk with a home that does nothing yet, and one whose engine and stand-ins run in this process."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from server.app import SystemClock, Ulids
from server.home import create_home
from tests.desk import OPERATOR, Desk, furnish
from tests.integration.world import INSTALLATION, World, world_at


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    create_home(tmp_path / "home", clock=SystemClock(), ids=Ulids(), operator=OPERATOR)
    return Desk(tmp_path / "home")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with world_at(tmp_path) as made:
        yield made


@pytest.fixture
def office(world: World) -> Desk:
    """The desk of that world."""
    return furnish(world.path, installation=INSTALLATION, url=world.sandbox.url, smtp_port=world.sandbox.smtp_port)
