"""Running many seeds and saying what came of them."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from execution.simulation.run import Bench, run
from execution.simulation.scenario import Kind
from execution.simulation.witness import Law, Violation
from execution.simulation.worlds import scenario

SHOWN_MAX: Final = 20
"""Violations that are printed; the rest is counted."""
COLLECT_EVERY: Final = 20
"""Schedules after which what they left is collected; collecting all the time costs a tenth of everything."""
SLICE: Final = 250
"""Seeds that one process runs at a stretch."""


@dataclass(slots=True)
class Report:
    """What came of a range of seeds. failed: (seed, violation)."""

    schedules: int = 0
    commits: int = 0
    kills: int = 0
    steps: int = 0
    cpu_s: float = 0.0
    checked: Counter[Law] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[int, Violation]] = field(default_factory=list)

    def add(self, other: Report) -> None:
        """Take in what another process found."""
        self.schedules += other.schedules
        self.commits += other.commits
        self.kills += other.kills
        self.steps += other.steps
        self.cpu_s += other.cpu_s
        self.checked += other.checked
        self.endings += other.endings
        self.failed += other.failed


def examine(first: int, count: int, kind: Kind = Kind.MIXED, *, until_caught: bool = False) -> Report:
    """Run these seeds in this process; with `until_caught`, stop at the first violation."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        return _examine(first, count, kind, until_caught=until_caught)
    finally:
        gc.enable()
        gc.unfreeze()


def _examine(first: int, count: int, kind: Kind, *, until_caught: bool) -> Report:
    report, bench = Report(), Bench()
    started = time.process_time()
    for number, seed in enumerate(range(first, first + count), start=1):
        result = run(scenario(seed, kind), bench)
        if number % COLLECT_EVERY == 0:
            gc.collect()
        report.schedules += 1
        report.commits += result.commits
        report.kills += result.kills
        report.steps += result.steps
        report.checked += result.checked
        report.endings.update(result.endings)
        report.failed += [(seed, violation) for violation in result.violations]
        if until_caught and report.failed:
            break
    report.cpu_s = time.process_time() - started
    return report


def main(seeds: int, first_seed: int = 0, jobs: int = 1, kind: Kind | str = Kind.MIXED) -> int:
    """Run seeds and print what was found; 0 when every law held."""
    kind, started = Kind(kind), time.perf_counter()
    slices = [
        (first, min(SLICE, first_seed + seeds - first), kind) for first in range(first_seed, first_seed + seeds, SLICE)
    ]
    report = Report()
    if jobs == 1:
        for part in slices:
            report.add(examine(*part))
    else:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            for found in pool.starmap(examine, slices, chunksize=1):
                report.add(found)
    sys.stdout.write(text_of(report, first_seed, kind, time.perf_counter() - started) + "\n")
    return 1 if report.failed else 0


def text_of(report: Report, first_seed: int, kind: Kind, wall_s: float) -> str:
    """The report as people read it."""
    last = first_seed + report.schedules - 1
    per_hour = report.schedules / report.cpu_s * 3600 if report.cpu_s else 0.0
    lines = [
        f"{report.schedules} schedules ({kind}), seeds {first_seed} to {last}",
        f"{report.commits} commits, {report.kills} processes killed, {report.steps} callbacks",
        "checked:",
        *(f"  {report.checked[law]:>9}  {law}" for law in Law),
        f"{wall_s:.1f} s, {report.cpu_s:.1f} s of CPU, {per_hour:.0f} schedules per CPU-hour",
    ]
    if not report.failed:
        return "\n".join([*lines, "no violation"])
    seeds = sorted({seed for seed, _ in report.failed})
    lines.append(f"{len(report.failed)} violations in {len(seeds)} schedules:")
    for seed, violation in report.failed[:SHOWN_MAX]:
        lines.append(f"  seed {seed}: {violation.law}: {violation.what}")
        lines.append(f"    remit simulate --seeds 1 --first-seed {seed}")
    return "\n".join(lines)
