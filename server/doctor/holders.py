"""Which processes hold a file open, as far as this user may see (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROCESSES: Final = Path("/proc")
_OURS: Final = frozenset({"remit", "server"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process. ours: it is a `remit` command. Its arguments are not shown: they may hold anything."""

    pid: int
    name: str
    ours: bool


def holders(database: Path) -> tuple[Holder, ...]:
    """Every other process that has the database or its log open."""
    wanted = {str(database.resolve()) + suffix for suffix in ("", "-wal", "-shm")}
    pids = (int(entry.name) for entry in PROCESSES.glob("[0-9]*") if entry.name.isdigit())
    return tuple(_holder(pid) for pid in sorted(pids) if pid != os.getpid() and wanted & set(_open_files(pid)))


def _open_files(pid: int) -> Iterator[str]:
    try:
        descriptors = os.listdir(PROCESSES / str(pid) / "fd")
    except OSError:
        return
    for number in descriptors:
        try:
            yield os.readlink(PROCESSES / str(pid) / "fd" / number)
        except OSError:
            continue


def _holder(pid: int) -> Holder:
    words = [Path(word).name for word in _read(pid, "cmdline").split("\0") if word]
    name = _read(pid, "comm").strip() or "unknown"
    return Holder(pid=pid, name=name, ours=bool(_OURS & set(words[:4])))


def _read(pid: int, what: str) -> str:
    try:
        return (PROCESSES / str(pid) / what).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
