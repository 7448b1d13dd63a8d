"""SIGSTOP between fence and write, for longer than the lease, while a second worker takes over."""

from functools import partial
from pathlib import Path

import pytest

from tests.crash.rounds import WRITES, play, stopped_at
from tests.stage.judging import all_right, play_all, published_once


@pytest.mark.behaviour("threat.15")
@pytest.mark.behaviour("threat.16")
@pytest.mark.behaviour("law.epoch")
@pytest.mark.parametrize("until_quiet", [False, True], ids=["resumed after the takeover", "resumed after everything"])
async def test_a_worker_stopped_before_its_write_adds_no_effect_when_it_goes_on(
    tmp_path: Path, until_quiet: bool
) -> None:
    acts = {what: partial(stopped_at, number, until_quiet=until_quiet) for number, what in enumerate(WRITES)}
    reports = await play_all(
        [partial(play, f"stopped before {w}", tmp_path / w, act, published_once) for w, act in acts.items()]
    )
    all_right(reports)
    assert all(report.sprung for report in reports)
