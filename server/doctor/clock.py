"""Does time go as it should? Leases, deadlines and quiescence are measured with this machine's clocks.

A worker notes at its start how wall clock and boot clock stood (`clock.json` in the home). As long as the machine has
not been booted anew, both must have gone on alike since then; what they differ by is how far the wall clock was set.
"""

from __future__ import annotations

import ctypes
import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from capabilities.errors import KeyFileError
from capabilities.keyfile import PRIVATE_MODE, replace_file
from execution.ports import Clock, Severity, Symptom

NOTE_NAME: Final = "clock.json"
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
STEP_S: Final = 2.0
"""A difference that a declared clock error of J = 2 s does not cover."""
SLEW: Final = 0.0005
"""What an NTP daemon may speed a clock up or slow it down by (500 ppm, adjtimex(2))."""
NTP_ERROR_S: Final = 1.0
_TIMEX_BYTES: Final = 512
_TIME_ERROR: Final = 5
_STATUS_PLACE: Final = 5  # struct timex: modes, offset, freq, maxerror, esterror, status: five longs before it
_MAXERROR_PLACE: Final = 3
_UNSYNCHRONISED: Final = 0x40
_MENDED: Final = "Let an NTP daemon keep the clock; restart workers after it was set."

log = logging.getLogger("remit.doctor")


@dataclass(frozen=True, slots=True)
class Noted:
    """How the clocks stood when a worker started."""

    boot_id: str
    wall_ms: int
    boot_s: float


def note(home: Path, clock: Clock) -> None:
    """Remember how the clocks stand; for the start of a worker. A home that cannot be written to is told elsewhere."""
    noted = Noted(_boot_id(), clock.now_ms(), clock.boot_s())
    try:
        replace_file(home / NOTE_NAME, json.dumps(asdict(noted)).encode(), mode=PRIVATE_MODE)
    except KeyFileError as error:
        log.warning("the clocks could not be noted: %s", error.code)


def symptoms(home: Path, clock: Clock) -> tuple[Symptom, ...]:
    """Against what was noted, and what the kernel says of its synchronisation. Against the journal: `journal`."""
    return (_since_noted(home, clock), _synchronised())


def _since_noted(home: Path, clock: Clock) -> Symptom:
    noted = _read(home)
    if noted is None:
        return Symptom(code="clock_not_noted", detail="no worker has started here yet")
    if noted.boot_id != _boot_id():
        return Symptom(
            code="clock_not_comparable", detail="the machine was started anew since a worker noted its clocks"
        )
    awake_s = clock.boot_s() - noted.boot_s
    stepped_s = (clock.now_ms() - noted.wall_ms) / 1000 - awake_s
    if abs(stepped_s) <= STEP_S + SLEW * awake_s:
        return Symptom(code="clock_steady", detail=f"{stepped_s:+.3f} s in {awake_s:.0f} s since a worker started")
    detail = f"the wall clock was set by {stepped_s:+.1f} s since a worker started"
    return Symptom(code="clock_was_set", severity=Severity.WARNING, detail=detail, fix=_MENDED)


def _synchronised() -> Symptom:
    """`adjtimex` with no modes set only reads (adjtimex(2)); not every container may call it."""
    libc, places = ctypes.CDLL(None, use_errno=True), (ctypes.c_long * (_TIMEX_BYTES // ctypes.sizeof(ctypes.c_long)))()
    state = libc.adjtimex(ctypes.byref(places)) if hasattr(libc, "adjtimex") else -1
    if state < 0:
        return Symptom(code="ntp_unreadable", severity=Severity.NOTE, detail="the kernel does not say whether NTP runs")
    status, error_s = places[_STATUS_PLACE] & 0xFFFF, places[_MAXERROR_PLACE] / 1_000_000
    if state == _TIME_ERROR or status & _UNSYNCHRONISED:
        return Symptom(
            code="ntp_not_synchronised",
            severity=Severity.NOTE,
            detail="the kernel's clock is not kept by NTP as far as this machine (or container) knows",
            fix=_MENDED,
        )
    severity = Severity.FINE if error_s <= NTP_ERROR_S else Severity.WARNING
    return Symptom(code="ntp_synchronised", severity=severity, detail=f"largest error {error_s:.3f} s")


def _read(home: Path) -> Noted | None:
    try:
        return Noted(**json.loads((home / NOTE_NAME).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
