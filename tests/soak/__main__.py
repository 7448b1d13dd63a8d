"""`python -m tests.soak`: the long proofs with real processes. Prints a table; the exit status is 1 when one was wrong.

crash   workers killed at every commit of a publication and of its undoing, around every write, stopped, and killed at
        random instants, until the number of rounds is reached
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from tests.crash.child import Place, Trap
from tests.crash.rounds import COMMITS, Act, killed_at, killed_at_random, killed_while_unwinding, play, stopped_at
from tests.stage.judging import Judge, Report, play_all, published_once, unwound

ROUNDS: Final = 400
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


async def crash(rounds: int, first_seed: int, at_once: int, folder: Path) -> list[Report]:
    """Play them; each line is printed when its round ends."""
    wanted = itertools.islice(planned(first_seed), rounds)
    return await play_all([_printed(folder / f"round{n}", *each) for n, each in enumerate(wanted)], at_once)


def _printed(folder: Path, name: str, act: Act, judge: Judge, version: int) -> Callable[[], Awaitable[Report]]:
    async def run() -> Report:
        report = await play(name, folder, act, judge, version=version)
        print(report.line, flush=True)
        return report

    return run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="The long proofs with real processes.")
    commands = parser.add_subparsers(dest="command")
    crashing = commands.add_parser("crash", help="kill and stop workers, count effects")
    for one in (parser, crashing):
        one.add_argument("--rounds", type=int, default=ROUNDS)
        one.add_argument("--first-seed", type=int, default=1)
        one.add_argument("--at-once", type=int, default=8)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="remit-soak-"))  # homes of rounds that went wrong stay
    reports = asyncio.run(crash(chosen.rounds, chosen.first_seed, chosen.at_once, folder))
    bad = [report for report in reports if report.wrong]
    print(f"{len(reports)} rounds, {sum(report.sprung for report in reports)} reached their instant, {len(bad)} wrong")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
