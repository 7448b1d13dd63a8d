"""Does what we force to the disk reach it, and is there room? "Acknowledged" means "on disk" (law 14)."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Final

from execution.ports import Clock, Severity, Symptom

MOUNTS: Final = Path("/proc/self/mountinfo")
SYNCS: Final = 8
SYNC_BYTES: Final = 4096
TOO_FAST_S: Final = 15e-6
"""No device that keeps what it is told answers sooner; memory, and libraries that swallow the call, do."""
SLOW_S: Final = 0.05
"""A commit waits for one such call; 12 of them make a saga of five steps."""
ROOM_LOW_BYTES: Final = 500 * 1024 * 1024
ROOM_OUT_BYTES: Final = 50 * 1024 * 1024
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_OVER_A_NETWORK: Final = ("nfs", "cifs", "smb", "9p", "fuse", "ceph", "glusterfs", "lustre", "afs")


def symptoms(home: Path, clock: Clock) -> tuple[Symptom, ...]:
    """Of the folder that holds the journal."""
    return (_forcing(home, clock), _filesystem(home), _room(home))


def _forcing(home: Path, clock: Clock) -> Symptom:
    try:
        median_s = statistics.median(_timed_syncs(home, clock))
    except OSError as error:
        fix = "The user that runs remit must be able to write to the home: look at its owner, mode and mount."
        detail = error.strerror or "failed"
        return Symptom(code="home_not_writable", severity=Severity.PROBLEM, detail=detail, fix=fix)
    return judged(median_s)


def judged(median_s: float) -> Symptom:
    """What the time of one fdatasync says."""
    detail = f"fdatasync of {SYNC_BYTES} bytes: {median_s * 1000:.3f} ms (median of {SYNCS})"
    if median_s < TOO_FAST_S:
        fix = "Is the home in memory, or is a library loaded that swallows fsync? A power cut would lose commands."
        return Symptom(code="fsync_too_fast", severity=Severity.WARNING, detail=detail, fix=fix)
    if median_s > SLOW_S:
        fix = "Everything works, slowly: each commit waits for it. Put the home on a local disk."
        return Symptom(code="fsync_slow", severity=Severity.WARNING, detail=detail, fix=fix)
    return Symptom(code="fsync_reaches_the_disk", detail=detail)


def _timed_syncs(home: Path, clock: Clock) -> list[float]:
    with tempfile.TemporaryFile(dir=home) as file:
        times = []
        for _ in range(SYNCS):
            file.write(bytes(SYNC_BYTES))
            file.flush()
            began = clock.awake_s()
            os.fdatasync(file.fileno())
            times.append(clock.awake_s() - began)
        return times


def _filesystem(home: Path) -> Symptom:
    kind = _kind(home)
    if kind in _IN_MEMORY:
        fix = "Put the home on a disk: everything in it is lost with the next start of the machine."
        return Symptom(code="home_in_memory", severity=Severity.WARNING, detail=kind, fix=fix)
    if kind.startswith(_OVER_A_NETWORK):
        fix = "SQLite's write-ahead log needs a local file system: processes on several machines would damage it."
        return Symptom(code="home_on_a_network", severity=Severity.WARNING, detail=kind, fix=fix)
    return Symptom(code="filesystem_local", detail=kind or "unknown")


def _kind(home: Path) -> str:
    """The type of the file system that the folder lies on: the longest mount point above it (proc(5), mountinfo)."""
    best, kind = "", ""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        if home.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind


def _room(home: Path) -> Symptom:
    free = shutil.disk_usage(home).free
    detail = f"{free // (1024 * 1024)} MiB free"
    if free < ROOM_LOW_BYTES:
        severity = Severity.PROBLEM if free < ROOM_OUT_BYTES else Severity.WARNING
        return Symptom(code="little_room", severity=severity, detail=detail, fix="Make room where the home lies.")
    return Symptom(code="room_enough", detail=detail)
