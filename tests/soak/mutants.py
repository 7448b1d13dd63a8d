"""Every mutant of the simulation, each in a process of its own: which law noticed it, and after how many schedules."""

import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from execution.simulation.run import Bench, run
from execution.simulation.witness import Law
from execution.simulation.worlds import scenario
from tests.simulation.mutants import MUTANTS

WIDTH: Final = max(len(name) for name in MUTANTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """law: which noticed it, None when none did."""

    name: str
    law: Law | None
    schedules: int
    cpu_s: float

    @property
    def line(self) -> str:
        said = f"noticed after {self.schedules:>4} schedules: {self.law}" if self.law else "NOT NOTICED"
        return f"{self.name:{WIDTH}s}  {MUTANTS[self.name].world:8s}  {self.cpu_s:6.1f} s of CPU  {said}"


def hunt(name: str) -> Noticed:
    """Run schedules of its world until one of its laws is broken."""
    mutant, began = MUTANTS[name], time.process_time()
    found: Law | None = None
    with pytest.MonkeyPatch.context() as patch:
        mutant.breaks(patch)
        bench, schedules = Bench(), 0
        for schedules, seed in enumerate(mutant.seeds, start=1):  # noqa: B007  (told below)
            broken = {violation.law for violation in run(scenario(seed, mutant.world), bench).violations}
            found = min(broken & mutant.laws, default=None)
            if found is not None:
                break
    return Noticed(name=name, law=found, schedules=schedules, cpu_s=time.process_time() - began)


def hunt_all(jobs: int, names: Sequence[str] = tuple(MUTANTS)) -> list[Noticed]:
    """Each in a fresh process, so that no mutant meets what another changed."""
    noticed: list[Noticed] = []
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        for one in pool.imap_unordered(hunt, names):
            print(one.line, flush=True)
            noticed.append(one)
    return noticed


def summary(noticed: Sequence[Noticed]) -> str:
    """One line."""
    caught, schedules = sum(one.law is not None for one in noticed), sum(one.schedules for one in noticed)
    cpu_s = sum(one.cpu_s for one in noticed)
    return f"{caught} of {len(noticed)} mutants noticed in {schedules} schedules, {cpu_s:.0f} s of CPU"
