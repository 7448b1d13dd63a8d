"""The power goes while an installation works: what a client was told is there, and nothing left unrecorded."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.power import Life, cut, lived, scratch
from tests.crash.recording import compiler

CUTS: Final = 120
CUTS_OF_FAULTS: Final = 25
PROPOSALS: Final = 3
SEED: Final = 1
needs_compiler = pytest.mark.skipif(
    compiler() is None and os.environ.get("CI") != "true", reason="no C compiler (cc or gcc) to build the recorder with"
)


@pytest.fixture
def left() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="remit-power-", dir=scratch()) as folder:
        yield Path(folder)


def told(life: Life) -> tuple[int, bool, bool]:
    """How many commands were acknowledged, and whether an end and an approval were told, too."""
    promises = life.promises
    acknowledged = {promise.command_id for promise in promises}
    return len(acknowledged), any(p.ended for p in promises), any(p.approved for p in promises)


@needs_compiler
@pytest.mark.behaviour("law.power")
async def test_what_was_told_or_sent_before_a_power_cut_is_on_record_after_it(tmp_path: Path, left: Path) -> None:
    life = await lived(tmp_path, proposals=PROPOSALS)
    assert told(life) == (PROPOSALS, True, True)
    assert len(life.writes) >= len(life.sent) > 1
    found = await cut(life, left, CUTS, SEED)
    assert (found.made, found.wrong) == (CUTS, [])


@needs_compiler
@pytest.mark.parametrize("fault", ["relaxed", "early"])
async def test_a_store_that_promises_too_much_is_found_out(tmp_path: Path, left: Path, fault: str) -> None:
    life = await lived(tmp_path, ("-m", "tests.crash.faulty", fault), proposals=1)
    found = await cut(life, left, CUTS_OF_FAULTS, SEED)
    assert any("acknowledged and is lost" in each for each in found.wrong), found.wrong
    assert any("no attempt says so" in each for each in found.wrong), found.wrong
