"""`python -m tests.soak`: the long proofs. Prints tables; the exit status is 1 when something was wrong.

mutants  each broken law in the simulation, until a checker notices it
recovery a worker that starts with 10,000 open commands whose writes nobody heard of
power    one recorded life of an installation, and power cuts at many instants of it
crash    workers killed at every commit of a publication and of its undoing, around every write, stopped, and killed at
         random instants, until the number of rounds is reached. At the end the effects are counted in the systems:
         duplicates (more than one for a version), lost (acknowledged and not there), stuck (not at rest in time)
"""

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from tests.crash.child import Place, Trap
from tests.crash.power import cut, lived, scratch
from tests.crash.rounds import COMMITS, Act, killed_at, killed_at_random, killed_while_unwinding, play, stopped_at
from tests.soak.mutants import hunt_all, summary
from tests.soak.recovery import recover
from tests.soak.tally import Round, tally
from tests.stage.judging import Judge, published_once, unwound

ROUNDS: Final = 530
"""500 with SIGKILL, the others with SIGSTOP."""
CUTS: Final = 4_000
UNDOING: Final = 2 * 12
WRITES: Final = 7
"""Of a second version."""

Planned = tuple[str, Act, Judge, int]


def planned(first_seed: int) -> Iterator[Planned]:
    """Rounds without end: the systematic ones once, then random ones with rising seeds."""
    for version, number in itertools.product((1, 2), range(2 * COMMITS)):
        trap = Trap(place=Place.COMMIT, number=number)
        yield f"v{version} {trap}", partial(killed_at, trap), published_once, version
    for number in range(UNDOING):
        trap = Trap(place=Place.COMMIT, number=number)
        yield f"undoing, {trap}", partial(killed_while_unwinding, trap), unwound, 1
    for version, place, number in itertools.product((1, 2), (Place.FENCED, Place.ANSWERED), range(WRITES)):
        trap = Trap(place=place, number=number)
        yield f"v{version} {trap}", partial(killed_at, trap), published_once, version
    for version, later in itertools.product((1, 2), (False, True)):
        for number in range(5 + version):
            act = partial(stopped_at, number, until_quiet=later)
            yield f"v{version} stopped before write {number}", act, published_once, version
    for seed in itertools.count(first_seed):
        version = 1 + seed % 2
        yield f"v{version} random, seed {seed}", partial(killed_at_random, seed), published_once, version


async def crash(rounds: int, first_seed: int, at_once: int, folder: Path) -> list[Round]:
    """Play them; each line is printed when its round ends."""
    wanted = itertools.islice(planned(first_seed), rounds)
    places = asyncio.Semaphore(at_once)

    async def one(number: int, planned_one: Planned) -> Round:
        async with places:
            return await _played(folder / f"round{number}", *planned_one)

    return list(await asyncio.gather(*(one(*each) for each in enumerate(wanted))))


async def _played(folder: Path, name: str, act: Act, judge: Judge, version: int) -> Round:
    """A round that does not get to where it can be judged is counted, and ends none of the others."""
    try:
        report = await play(name, folder, act, judge, version=version)
        line = report.line
    except AssertionError as stuck:
        report, line = None, f"{name:44s} STUCK: {stuck}, home {folder}"
    print(line, flush=True)
    return Round(version=0 if judge is unwound else version, report=report)


def crashed(chosen: argparse.Namespace) -> bool:
    """Whether every round was right."""
    folder = Path(tempfile.mkdtemp(prefix="remit-soak-"))  # homes of rounds that went wrong stay
    begun, used = time.monotonic(), _cpu_s()
    counted = tally(asyncio.run(crash(chosen.rounds, chosen.first_seed, chosen.at_once, folder)))
    print(f"{counted.text}\n{time.monotonic() - begun:.0f} s, {_cpu_s() - used:.0f} s of CPU")
    return counted.right


def hunted(chosen: argparse.Namespace) -> bool:
    """Whether every mutant was noticed."""
    noticed = hunt_all(chosen.jobs)
    print(summary(noticed))
    return all(one.law is not None for one in noticed)


def recovered(chosen: argparse.Namespace) -> bool:
    """Whether a start with many open commands was as it has to be."""
    found = asyncio.run(recover(chosen.commands))
    print(found.text)
    return found.right


def cut_off(chosen: argparse.Namespace) -> bool:
    """Whether no power cut lost anything that had been promised."""
    with tempfile.TemporaryDirectory(prefix="remit-soak-power-") as folder:
        life = asyncio.run(lived(Path(folder)))
        with tempfile.TemporaryDirectory(prefix="remit-soak-cuts-", dir=scratch()) as left:
            found = asyncio.run(cut(life, Path(left), chosen.cuts, chosen.first_seed))
    print("\n".join([*found.wrong, found.text]))
    return not found.wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="The long proofs; all without a command.")
    parser.add_argument("command", nargs="?", choices=sorted(PARTS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--commands", type=int, default=10_000)
    parser.add_argument("--cuts", type=int, default=CUTS)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    parts = PARTS if chosen.command is None else {chosen.command: PARTS[chosen.command]}
    right = [part(chosen) for part in parts.values()]  # all of them, whatever the first one showed
    return int(not all(right))


def _cpu_s() -> float:
    """Of this process and of all that it started and that ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


PARTS: Final = {"mutants": hunted, "recovery": recovered, "power": cut_off, "crash": crashed}


if __name__ == "__main__":
    sys.exit(main())
