"""The cases of the model: lawful worlds that keep every promise, and each law dropped where it shows."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Final

from execution.simulation.model import Bounds, Checked, Drop, check

PATIENT: Final = Bounds(pause=None, idle=1)
"""Pauses and ways without bound, before a server that drops what is incomplete after H."""
STALE: Final = Bounds(stale=1)
UNIQUE: Final = Bounds(unique=True)
LAWFUL: Final[Mapping[str, Bounds]] = {
    "every delay bounded": Bounds(),
    "pauses and ways unbounded, the server patient for a known time": PATIENT,
    "reads that lag": STALE,
}
LAWFUL_LONG: Final[Mapping[str, Bounds]] = {"a server that holds our key": UNIQUE}
TIGHT: Final[Mapping[str, Bounds]] = {
    "every delay bounded, one tick too early": Bounds(early=1),
    "the server patient for a known time, one tick too early": Bounds(pause=None, idle=1, early=1),
}
SHOWN_IN: Final[Mapping[Drop, Bounds]] = {
    Drop.CONNECTION: PATIENT,
    Drop.EVIDENCE: STALE,
    Drop.ALL_ATTEMPTS: UNIQUE,
}
"""Where a law shows its worth, when that is not the plain world."""


def without(law: Drop) -> Checked:
    """Check with that law left out."""
    return check(frozenset({law}), SHOWN_IN.get(law, Bounds()))


def main(*, long: bool = False) -> int:
    """Print every case; 1 when a lawful world breaks a promise, or a dropped law breaks none."""
    failed = 0
    began = time.process_time()
    for name, bounds in {**LAWFUL, **(LAWFUL_LONG if long else {})}.items():
        failed += _say(name, check(frozenset(), bounds), lawful=True)
    for name, bounds in TIGHT.items():
        failed += _say(name, check(frozenset(), bounds), lawful=False)
    for law in Drop:
        failed += _say(f"without: {law}", without(law), lawful=False)
    sys.stdout.write(f"{time.process_time() - began:.1f} s of CPU; {failed} unexpected\n")
    return 1 if failed else 0


def _say(name: str, found: Checked, *, lawful: bool) -> int:
    if found.broken is None:
        outcome = f"every promise holds in {found.states:,} states"
    else:
        outcome = f"broken after {len(found.way)} events: {found.broken}"
    as_expected = lawful == (found.broken is None)
    sys.stdout.write(f"{' ' if as_expected else '!'} {name:<64} {outcome}\n")
    if lawful and found.broken is not None:
        sys.stdout.writelines(f"      {event}\n" for event in found.way)
    return not as_expected
