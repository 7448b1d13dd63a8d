"""Faults at every place where something is written: one effect, the right ending, nothing claimed too early.

Half of the grid is played here, like one colour of a chess board: every place meets every second fault, its neighbours
the others. `python -m tests.matrix`, a part of the soak, plays the whole and prints it.
"""

from functools import partial
from pathlib import Path

import pytest

from tests.matrix.cases import EDGE, FAULTS, HOOK_CASES, MAIL_CASES, PLACES, SPECIAL, Place, broken_promise, play
from tests.stage.judging import all_right, play_all


@pytest.mark.behaviour("law.doubt")
@pytest.mark.parametrize("place", PLACES, ids=[place.name for place in PLACES])
async def test_whatever_happens_to_a_request_its_effect_exists_once(tmp_path: Path, place: Place) -> None:
    faults = FAULTS[PLACES.index(place) % 2 :: 2]
    reports = await play_all([partial(play, f"{place.name}: {f.name}", tmp_path / f.name, f, place) for f in faults])
    all_right(reports)
    assert [report.name for report in reports if not report.sprung] == []


@pytest.mark.behaviour("cache.purged-again")
@pytest.mark.behaviour("monitoring.one-check")
@pytest.mark.parametrize("place", EDGE, ids=[place.name for place in EDGE])
async def test_whatever_follows_the_pivot_elsewhere_happens_and_the_article_stays_published(
    tmp_path: Path, place: Place
) -> None:
    faults = [fault for fault in FAULTS if not fault.reads][EDGE.index(place) % 2 :: 2]
    reports = await play_all([partial(play, f"{place.name}: {f.name}", tmp_path / f.name, f, place) for f in faults])
    all_right(reports)
    assert [report.name for report in reports if not report.sprung] == []


@pytest.mark.behaviour("mail.at-most-once")
async def test_whatever_happens_to_a_message_it_is_sent_at_most_once(tmp_path: Path) -> None:
    reports = await play_all(
        [partial(play, case.name, tmp_path / case.name, case.fault, case.place, case.judge) for case in MAIL_CASES]
    )
    all_right(reports)
    assert [report.name for report in reports if not report.sprung] == []


@pytest.mark.behaviour("webhook.at-most-once")
async def test_whatever_happens_to_a_webhook_it_is_sent_at_most_once(tmp_path: Path) -> None:
    reports = await play_all(
        [partial(play, case.name, tmp_path / case.name, case.fault, case.place, case.judge) for case in HOOK_CASES]
    )
    all_right(reports)
    assert [report.name for report in reports if not report.sprung] == []


async def test_what_a_site_renames_or_does_twice_is_reported_beside_the_success(tmp_path: Path) -> None:
    reports = await play_all([partial(play, name, tmp_path / name, *case) for name, case in SPECIAL.items()])
    all_right(reports)
    assert [report.name for report in reports if not report.sprung] == []


@pytest.mark.behaviour("law.watch")
async def test_an_effect_that_comes_after_every_declared_bound_is_found_and_a_person_is_asked(tmp_path: Path) -> None:
    all_right([await broken_promise(tmp_path / "home", lambda view, saga: view.state == "AWAITING_APPROVAL")])
