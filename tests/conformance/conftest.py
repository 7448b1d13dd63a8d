"""One suite per port, over the stand-in and over the real system."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.beds import Bed, real_bed, sandbox_bed
from tests.conformance.repositories import RepositoryBed, emulated_repository, sandbox_repository
from tests.services import WordPress

EMULATOR = pytest.param("emulator", marks=[pytest.mark.services, pytest.mark.xdist_group("github_emulator")])
REAL = pytest.param("real", marks=[pytest.mark.services, pytest.mark.xdist_group("wordpress")])


@pytest.fixture(params=["sandbox", REAL])
async def bed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bed]:
    """A WordPress site."""
    if request.param == "real":
        yield real_bed(request.getfixturevalue("wordpress"))
    else:
        async with sandbox_bed(tmp_path) as stand_in:
            yield stand_in


@pytest.fixture(params=["sandbox", REAL])
async def keyed_bed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bed]:
    """A WordPress site with the must-use plugin that holds a business key per post."""
    if request.param == "real":
        wordpress = request.getfixturevalue("wordpress")
        wordpress.with_theme()
        with wordpress.key_plugin():
            yield real_bed(wordpress)
    else:
        async with sandbox_bed(tmp_path, plugin=True) as stand_in:
            yield stand_in


@pytest.fixture
async def bed_pair(wordpress: WordPress, tmp_path: Path) -> AsyncIterator[tuple[Bed, Bed]]:
    """The stand-in and the real site, to be compared."""
    async with sandbox_bed(tmp_path) as stand_in:
        yield stand_in, real_bed(wordpress)


@pytest.fixture(params=["sandbox", EMULATOR])
async def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RepositoryBed]:
    """A repository on GitHub."""
    if request.param == "emulator":
        yield emulated_repository(request.getfixturevalue("github_emulator"))
    else:
        async with sandbox_repository(tmp_path) as stand_in:
            yield stand_in


@pytest.fixture
async def stand_in(tmp_path: Path) -> AsyncIterator[RepositoryBed]:
    """The stand-in alone."""
    async with sandbox_repository(tmp_path) as bed:
        yield bed
