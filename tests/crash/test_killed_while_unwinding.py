"""kill -9 between every two commits while a rejected publication is undone, and around each of its writes."""

from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.crash.child import Place, Trap
from tests.crash.rounds import killed_while_unwinding, once_between, play
from tests.stage.judging import all_right, play_all, unwound

COMMITS: Final = 14
CHUNK: Final = 7


@pytest.mark.parametrize("begin", range(0, COMMITS, CHUNK))
async def test_a_worker_killed_while_undoing_leaves_nothing_half_undone(tmp_path: Path, begin: int) -> None:
    played = once_between(COMMITS)[begin : begin + CHUNK]
    traps = [Trap(place=Place.COMMIT, number=number) for number in played]
    reports = await play_all(
        [partial(play, str(t), tmp_path / f"at{t.number}", partial(killed_while_unwinding, t), unwound) for t in traps]
    )
    all_right(reports)
    assert any(report.sprung for report in reports)


async def test_a_worker_killed_around_any_undoing_write_repeats_nothing(tmp_path: Path) -> None:
    places = [(place, number) for place in (Place.FENCED, Place.ANSWERED) for number in (0, 1, 2, 3)]
    traps = [Trap(place=place, number=number) for place, number in places]
    reports = await play_all(
        [partial(play, str(t), tmp_path / str(t), partial(killed_while_unwinding, t), unwound) for t in traps]
    )
    all_right(reports)
    assert all(report.sprung for report in reports)
