"""A store on a real file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from execution.store.opening import open_store
from execution.store.writer import Store


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where a database is to be."""
    return tmp_path / "journal.db"


@pytest.fixture
async def store(database: Path) -> AsyncIterator[Store]:
    """An open store."""
    opened = open_store(database)
    yield opened
    await opened.close()
