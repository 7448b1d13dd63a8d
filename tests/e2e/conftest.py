"""Homes and a process to talk to. What a test changes is its own; what it only looks at is shared by its module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.world import Home, Served, served


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.made(tmp_path / "home")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home that tests only look at."""
    return Home.made(tmp_path_factory.mktemp("untouched") / "home")


@pytest.fixture(scope="module")
def listening(untouched: Home) -> Iterator[Served]:
    """A gateway after its handshake; a test leaves it answering."""
    with served(untouched, "--no-worker") as server:
        server.handshake()
        yield server
