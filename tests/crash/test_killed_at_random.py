"""kill -9 at instants that a seed chooses, several workers in a row."""

from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.crash.rounds import killed_at_random, play
from tests.stage.judging import all_right, play_all, published_once

SEEDS: Final = 12


@pytest.mark.parametrize("half", [0, 1])
async def test_workers_killed_at_random_instants_lose_nothing_and_repeat_nothing(tmp_path: Path, half: int) -> None:
    seeds = range(half * SEEDS // 2, (half + 1) * SEEDS // 2)
    reports = await play_all(
        [partial(play, f"seed {n}", tmp_path / f"seed{n}", partial(killed_at_random, n), published_once) for n in seeds]
    )
    all_right(reports)
