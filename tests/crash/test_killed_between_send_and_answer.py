"""kill -9 between the fence of a write and the commit of its answer, for every system."""

from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.crash.child import Place, Trap
from tests.crash.rounds import HELD, WRITES, Act, all_killed_while, killed_at, killed_while, play
from tests.stage.judging import AT_ONCE, all_right, play_all, published_once

LATER_WRITES: Final = ("branch", "image", "draft", "row", "update", "purge", "check", "row again", "trash", "message")
"""Of a second version."""
OTHERWISE: Final = ("draft", "update", "row again", "trash", "message")
"""Those that differ from a first version's, and what follows them; the soak has all."""
LATE_S: Final = 0.4
"""When a request takes effect after its sender died; within the declared maximum of 0.5 s."""


@pytest.mark.behaviour("law.look")
@pytest.mark.parametrize("place", [Place.FENCED, Place.ANSWERED])
async def test_a_worker_killed_around_any_write_loses_nothing_and_repeats_nothing(tmp_path: Path, place: Place) -> None:
    traps = {what: Trap(place=place, number=number) for number, what in enumerate(WRITES)}
    reports = await play_all(
        [partial(play, f"{place} {w}", tmp_path / w, partial(killed_at, t), published_once) for w, t in traps.items()]
    )
    all_right(reports)
    assert all(report.sprung for report in reports)


@pytest.mark.parametrize("place", [Place.FENCED, Place.ANSWERED])
async def test_the_same_holds_for_a_second_version_over_a_live_post(tmp_path: Path, place: Place) -> None:
    traps = {what: Trap(place=place, number=LATER_WRITES.index(what)) for what in OTHERWISE}
    reports = await play_all(
        [
            partial(play, f"{place} {what}", tmp_path / what, partial(killed_at, trap), published_once, version=2)
            for what, trap in traps.items()
        ]
    )
    all_right(reports)
    assert all(report.sprung for report in reports)


async def test_a_worker_killed_around_the_commits_of_the_table_leaves_one_row(tmp_path: Path) -> None:
    traps = [Trap(place=Place.CUSTOMER_COMMIT, number=number) for number in range(4)]
    reports = await play_all(
        [partial(play, str(trap), tmp_path / str(trap), partial(killed_at, trap), published_once) for trap in traps]
    )
    all_right(reports)
    assert all(report.sprung for report in reports)


async def test_a_worker_killed_while_a_system_works_or_holds_its_answer_back_repeats_nothing(tmp_path: Path) -> None:
    create, write = "POST /wp-json/wp/v2/posts", "POST /wp-json/wp/v2/posts/"
    commit, branch = "POST /github/repos/remit/archive/git/commits", "POST /github/repos/remit/archive/git/refs"
    upload = "POST /wp-json/wp/v2/media"
    acts: dict[str, Act] = {
        "done, commit without a branch": partial(killed_while, commit, "pause_after_commit"),
        "done, branch": partial(killed_while, branch, "pause_after_commit"),
        "done, image": partial(killed_while, upload, "pause_after_commit"),
        "under way, image": partial(killed_while, upload, "late_commit", seconds=LATE_S),
        "done, draft": partial(killed_while, create, "pause_after_commit"),
        "done, post": partial(killed_while, write, "pause_after_commit"),
        "done, message": partial(killed_while, "SMTP DATA", "hang_after"),
        "under way, branch": partial(killed_while, branch, "late_commit", seconds=LATE_S),
        "under way, draft": partial(killed_while, create, "late_commit", seconds=LATE_S),
        "under way, post": partial(killed_while, write, "late_commit", seconds=LATE_S),
    }
    reports = await play_all(
        [partial(play, name, tmp_path / name, act, published_once) for name, act in acts.items()], AT_ONCE
    )
    all_right(reports)
    assert all(report.sprung for report in reports)


async def test_worker_and_systems_killed_together_after_a_write_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    """The others are in the table of `python -m tests.matrix`."""
    reports = await play_all(
        [
            partial(play, what, tmp_path / what, partial(all_killed_while, *HELD[what]), published_once)
            for what in ("draft", "post", "message")
        ]
    )
    all_right(reports)
    assert all(report.sprung for report in reports)
