"""Seeded schedules of the real engine: every law holds, every run repeats, every broken law is noticed."""

import os
import subprocess
import sys

import pytest

from execution.simulation.disk import Side
from execution.simulation.report import examine, main
from execution.simulation.run import Bench, Result, run
from execution.simulation.scenario import Death, Kind, calm
from execution.simulation.witness import Law
from execution.simulation.worlds import scenario
from tests.simulation.mutants import MUTANTS

SCHEDULES = 360
SLICES = 4
ANSWERS_MIN = 10
"""Status answers of a schedule on average, each of which is compared in all eleven questions."""
QUICK = (
    *("M1", "M2", "M3", "M4", "M5", "M6", "M7", "M9", "M11", "M12", "M17", "M22", "M33", "M34", "M36", "M38"),
    *("unverified", "unlinked", "uncounted", "hasty"),
)
"""The mutants that are noticed at once; `python -m tests.soak mutants` hunts all of them."""
TRACES = (
    "from execution.simulation.run import Bench, run\n"
    "from execution.simulation.worlds import scenario\n"
    "bench = Bench()\n"
    "print([run(scenario(seed), bench).trace for seed in range(40, 60)])\n"
)
# Seeds that once showed a fault of the engine, with what it was.
FOUND = {
    40: "a saga that failed while it was frozen was called held for ever",
    57: "a compensation that a freeze holds was said to wait for nobody",
    60: "a pivot that was adopted left its saga before the pivot",
    85: "a step in review was given up although its effect was on record",
    312: "a stale read was taken for the proof that a compensation was done",
    370: "a ruling that came while a saga ended was never carried out",
    888: "a compensation that was ruled absent was never tried again",
    998: "an unwinding whose last open question was about something else ended nowhere",
    1757: "a stale read before a later version went live knew nothing of its draft, and a person was asked",
    4931: "what a person had published was taken for the write that was still on its way",
    7054: "a lost message was sent again on the word of a person who had looked too early",
    10599: "the last count read what stood before the undoing, and asked a person about it",
    10729: "a ruling that came while a saga ended was never carried out",
    11542: "what had landed a moment ago was mended once more, because a stale read lacked it",
    16305: "a stale read knew nothing of a young draft, which was called thrown away",
    50238: "a second ruling that came while the first was carried out waited for the saga's deadline",
    52865: "where one system's bounds are unknown, the last count did not wait until another's reads show",
}
FOUND_ELSEWHERE = {
    (Kind.FOCUS, 16): "a stale read before a publication knew nothing of a young draft, and a person was asked",
    (Kind.FOCUS, 41): "the last count read what stood before a later step wrote, and called it vanished",
    (Kind.STALLED, 42): "an owner that a renewal told of its successor went on with that one's saga",
    (
        Kind.RESTORED,
        16,
    ): "a gate was given up while a pivot was in doubt that turned out to be ahead: nobody turned back",
    (
        Kind.RESTORED,
        25,
    ): "a step was given up while a pivot was in doubt that turned out to be ahead: nobody turned back",
    (Kind.RESTORED, 85): "no ruling could be carried out about a publication whose draft a restored journal forgot",
    (Kind.RESTORED, 103): "a pivot that was ruled to begin anew left its saga after the pivot",
    (Kind.RESTORED, 314): "what waited for another saga's lock was in doubt, and the wait was called nobody's",
}


def traces(hash_seed: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", TRACES],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    )
    return found.stdout


def unlawful(result: Result) -> list[str]:
    return [f"{violation.law}: {violation.what}" for violation in result.violations]


def test_a_seed_replays_identically_in_another_process_under_another_hash_seed() -> None:
    assert traces("1") == traces("77")


def test_a_schedule_does_not_depend_on_the_one_before_it() -> None:
    bench = Bench()
    run(scenario(3), bench)
    assert run(scenario(4), bench).trace == run(scenario(4)).trace


@pytest.mark.parametrize("part", range(SLICES))
def test_every_law_holds_in_thousands_of_schedules(part: int) -> None:
    count = SCHEDULES // SLICES
    report = examine(part * count, count)
    assert report.failed == []
    assert report.schedules == count
    assert report.checked[Law.STATUS_IS_TRUE] > ANSWERS_MIN * count  # nearly all of them are status answers


@pytest.mark.parametrize("seed", sorted(FOUND))
def test_what_the_simulation_found_stays_mended(seed: int) -> None:
    assert unlawful(run(scenario(seed))) == []


@pytest.mark.parametrize(("kind", "seed"), sorted(FOUND_ELSEWHERE))
def test_what_another_world_showed_stays_mended(kind: Kind, seed: int) -> None:
    assert unlawful(run(scenario(seed, kind))) == []


@pytest.mark.parametrize(
    ("kind", "count"), [(Kind.STALLED, 30), (Kind.DEADLY, 5), (Kind.RESTORED, 30), (Kind.TWINS, 20), (Kind.CLOCKS, 20)]
)
def test_every_law_holds_in_worlds_that_show_one_kind_of_fault_soon(kind: Kind, count: int) -> None:
    assert examine(0, count, kind).failed == []


@pytest.mark.parametrize("kind", [Kind.FRONT, Kind.LYING])
def test_a_ghost_is_known_where_the_outside_breaks_its_word(kind: Kind) -> None:
    assert examine(0, 45, kind).failed == []


def test_a_calm_publication_does_each_thing_once() -> None:
    result = run(calm("once"))
    assert unlawful(result) == []
    assert result.endings == ("SUCCESS completed",)


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("workers", [1, 2])
def test_a_process_that_dies_at_any_commit_boundary_changes_nothing(side: Side, workers: int) -> None:
    bench = Bench()
    commits = run(calm("boundary", workers=workers), bench).commits
    assert commits > 20
    for number in range(1, commits + 1):
        result = run(calm("boundary", (Death(commit=number, side=side),), workers=workers), bench)
        assert unlawful(result) == [], f"died {side} commit {number}"
        assert result.kills == 1
        assert result.endings[0].startswith(("SUCCESS completed", "RUNNING", "SUCCESS")), (number, result.endings)


def test_a_process_that_dies_at_any_commit_of_two_versions_changes_nothing() -> None:
    bench = Bench()
    commits = run(calm("versions", versions=2), bench).commits
    for number in range(1, commits + 1, 3):
        death = Death(commit=number, side=Side.AFTER)
        assert unlawful(run(calm("versions", (death,), versions=2), bench)) == [], f"died after commit {number}"


@pytest.mark.parametrize("name", QUICK)
def test_each_broken_law_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutant.breaks(monkeypatch)
    bench = Bench()
    for seed in mutant.seeds:
        if mutant.laws & {violation.law for violation in run(scenario(seed, mutant.world), bench).violations}:
            return
    pytest.fail(f"{name} was not noticed within {len(mutant.seeds)} schedules")


def test_a_report_names_what_was_run_and_every_law(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(3, 5) == 0
    said = capsys.readouterr().out
    assert "3 schedules (mixed), seeds 5 to 7" in said
    assert all(law in said for law in Law)
    assert "no violation" in said


def test_a_violation_is_reported_with_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS["M1"].breaks(monkeypatch)
    assert main(1, 0) == 1
    said = capsys.readouterr().out
    assert f"seed 0: {Law.WRITE_AHEAD}" in said
    assert "remit simulate --seeds 1 --first-seed 0" in said
