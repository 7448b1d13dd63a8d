"""`python -m tests.matrix`: play every case and print the matrix as a table; each case also on stderr as it ends."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.crash.child import Place, Trap
from tests.crash.rounds import (
    HELD,
    UNDOING,
    WRITES,
    Act,
    all_killed_while,
    killed_at,
    killed_while,
    killed_while_unwinding,
)
from tests.crash.rounds import play as play_killed
from tests.matrix.cases import EDGE, FAULTS, HOOK_CASES, MAIL_CASES, PLACES, SPECIAL, broken_promise, play
from tests.matrix.interruptions import PLACES as STEPS
from tests.matrix.interruptions import TABLE, cells, played
from tests.stage.judging import Judge, Report, play_all, published_once, unwound
from tests.stage.sandbox import NOTHING


async def grid(folder: Path, at_once: int) -> str:
    """Faults × places; `right`, `WRONG`, or `-` where the fault met no request. What was wrong follows below."""
    rounds = [
        _surely(f"{place.name}: {fault.name}", play, folder / f"{place.name}{fault.name}", fault, place)
        for fault in FAULTS
        for place in (*PLACES, *EDGE)
    ]
    reports = await play_all(rounds, at_once)
    width = max(len(fault.name) for fault in FAULTS)
    lines = [" " * width + "".join(f"  {place.name:>16s}" for place in (*PLACES, *EDGE))]
    for number, fault in enumerate(FAULTS):
        row = reports[number * (len(PLACES) + len(EDGE)) : (number + 1) * (len(PLACES) + len(EDGE))]
        lines.append(f"{fault.name:{width}s}" + "".join(f"  {_word(report):>16s}" for report in row))
    return "\n".join([*lines, *(report.line for report in reports if report.wrong)])


async def others(folder: Path, at_once: int) -> str:
    """Mail, webhooks, renames, repeated requests and the broken promise: one line each."""
    mail = [
        _surely(f"{c.step}: {c.name}", play, folder / f"{c.step}{c.name}", c.fault, c.place, c.judge)
        for c in (*MAIL_CASES, *HOOK_CASES)
    ]
    special = [_surely(name, play, folder / name, *case) for name, case in SPECIAL.items()]
    reports = await play_all([*mail, *special], at_once)
    reports.append(await broken_promise(folder / "broken", lambda view, saga: view.state == "AWAITING_APPROVAL"))
    return "\n".join(report.line for report in reports)


async def killed(folder: Path, at_once: int) -> str:
    """Deaths × writes: the worker's around the write, the worker's while the system works, everybody's."""
    rows: list[tuple[str, dict[str, Callable[[], Awaitable[Report]]]]] = []
    for place, said in ((Place.FENCED, "killed before it is sent"), (Place.ANSWERED, "killed with the answer")):
        traps = {what: partial(killed_at, Trap(place=place, number=n)) for n, what in enumerate(WRITES)}
        undoing = {what: partial(killed_while_unwinding, Trap(place=place, number=n)) for n, what in enumerate(UNDOING)}
        rows.append((said, _rounds(folder, said, traps, published_once) | _rounds(folder, said, undoing, unwound)))
    for act, said in ((killed_while, "killed while it is answered"), (all_killed_while, "all killed meanwhile")):
        acts = {what: partial(act, *held) for what, held in HELD.items()}
        rows.append((said, _rounds(folder, said, acts, published_once)))
    reports = await play_all([each for _, row in rows for each in row.values()], at_once)
    told, width = iter(reports), max(len(said) for said, _ in rows)
    lines = [" " * width + "".join(f"  {what:>14s}" for what in (*WRITES, *UNDOING))]
    for said, row in rows:
        words = {what: _word(next(told)) for what in row}
        lines.append(f"{said:{width}s}" + "".join(f"  {words.get(what, '-'):>14s}" for what in (*WRITES, *UNDOING)))
    return "\n".join([*lines, *(report.line for report in reports if report.wrong)])


def _rounds(
    folder: Path, said: str, acts: Mapping[str, Act], judge: Judge
) -> dict[str, Callable[[], Awaitable[Report]]]:
    return {
        what: _surely(f"{said}: {what}", play_killed, folder / f"{said}{what}".replace(" ", "_"), act, judge)
        for what, act in acts.items()
    }


async def interrupted(folder: Path) -> str:
    """Interruptions × steps, for a first version and for one that is written over what is live."""
    width = max(len(name) for name in TABLE) + len(", update")
    lines = [" " * width + "".join(f"  {place:>12s}" for place in STEPS)]
    wrong: list[str] = []
    for name in TABLE:
        for over in (False, True):
            row = cells(name, over=over)
            if not row:
                continue
            found = await played(folder / f"{name}{over}", row)
            said = {cell.place: "WRONG" if found[cell] else cell.outcome.value for cell in row}
            lines.append(
                f"{name + (', update' if over else ''):{width}s}"
                + "".join(f"  {said.get(place, '-'):>12s}" for place in STEPS)
            )
            wrong += [f"{cell.name}: {'; '.join(found[cell])}" for cell in row if found[cell]]
    return "\n".join([*lines, *wrong])


def _surely(name: str, play_it: Callable[..., Awaitable[Report]], *how: Any) -> Callable[[], Awaitable[Report]]:
    """A case that does not come to its end is wrong, and the others go on."""

    async def played_or_wrong() -> Report:
        begun = time.monotonic()
        try:
            report = await play_it(name, *how)
        except (AssertionError, OSError) as error:
            said, seconds = f"{type(error).__name__}: {error}", time.monotonic() - begun
            report = Report(name=name, wrong=(said,), words=(), sprung=False, seconds=seconds, outside=NOTHING)
        print(report.line, file=sys.stderr, flush=True)
        return report

    return played_or_wrong


def _word(report: Report) -> str:
    if report.wrong:
        return "WRONG"
    return f"right {report.seconds:4.1f} s" if report.sprung else "-"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--at-once", type=int, default=6, help="cases at a time")
    at_once = parser.parse_args().at_once
    folder = Path(tempfile.mkdtemp(prefix="remit-matrix-"))  # homes of cases that went wrong stay
    text = "\n\n".join(
        (
            asyncio.run(grid(folder / "grid", at_once)),
            asyncio.run(others(folder / "others", at_once)),
            asyncio.run(killed(folder / "killed", at_once)),
            asyncio.run(interrupted(folder / "interrupted")),
        )
    )
    print(text)
    return int("WRONG" in text)


if __name__ == "__main__":
    sys.exit(main())
