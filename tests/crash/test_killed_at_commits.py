"""kill -9 between every two commits of a publication; around its writes see `test_killed_between_send_and_answer`."""

from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.crash.child import Place, Trap
from tests.crash.rounds import COMMITS, Round, killed_at, once_between, play
from tests.stage.judging import all_right, play_all, published_once
from tests.stage.scene import is_quiet

CHUNK: Final = 12
PLAYED: Final = once_between(COMMITS)
CLEAN_MAX: Final = 5
"""A slow machine renews leases in between; one round without is enough to count."""


async def test_the_enumeration_reaches_beyond_the_last_commit(tmp_path: Path) -> None:
    async def clean(this: Round) -> bool:
        first = this.hire()
        await this.scene.until(this.command_id, is_quiet)
        return this.passed(first, Place.COMMIT) <= 2 * COMMITS

    for number in range(CLEAN_MAX):
        report = await play("clean", tmp_path / f"clean{number}", clean, published_once)
        all_right([report])
        if report.sprung:
            return
    pytest.fail(f"a clean publication takes more than {COMMITS} commits")


@pytest.mark.behaviour("law.write-ahead")
@pytest.mark.parametrize("begin", range(0, len(PLAYED), CHUNK))
async def test_a_worker_killed_between_any_two_commits_loses_nothing_and_repeats_nothing(
    tmp_path: Path, begin: int
) -> None:
    traps = [Trap(place=Place.COMMIT, number=number) for number in PLAYED[begin : begin + CHUNK]]
    rounds = [partial(play, str(t), tmp_path / f"at{t.number}", partial(killed_at, t), published_once) for t in traps]
    reports = await play_all(rounds)
    all_right(reports)
    assert any(report.sprung for report in reports)
