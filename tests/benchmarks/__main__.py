"""`make bench`: print what the product reaches of what the machine allows."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.benchmarks import bound, engine, serving, store
from tests.benchmarks.measure import COMMITS, STEPS, Measured, Run, fsync_ms, median

ROUNDS: Final = 3
SAGAS: Final = {1: 150, 32: 1500}
WAYS: Final[dict[str, Run]] = {"bound": bound.run, "store": store.run, "product": engine.run}
"""The first is what the others are compared with."""


def main() -> None:
    """Check that all ways write the same rows, then measure them in turns."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        _same_rows(Path(scratch))
        print(f"no-op saga, {STEPS} steps, {COMMITS} durable commits; fdatasync {fsync_ms(Path(scratch)):.2f} ms")
        for concurrency, sagas in SAGAS.items():
            _compare(Path(scratch), concurrency, sagas)
        serving.report(Path(scratch))


def _compare(folder: Path, concurrency: int, sagas: int) -> None:
    runs: dict[str, list[Measured]] = {name: [] for name in WAYS}
    for number in range(ROUNDS):
        for name, run in WAYS.items():
            path = folder / f"{name}-{concurrency}-{number}.db"
            runs[name].append(asyncio.run(run(path, sagas=sagas, concurrency=concurrency)))
            for file in folder.glob(path.name + "*"):
                file.unlink()
    best = median(runs[next(iter(WAYS))]).per_second
    for name in WAYS:
        middle = median(runs[name])
        share = 100 * middle.per_second / best
        cpu = f"CPU {middle.cpu_ms:5.2f} ms a saga, {middle.writer_ms:5.2f} of it in the writer's thread"
        print(f"c={concurrency:<3}{name:8}{middle.per_second:8.1f} sagas/s {share:5.0f} %  {cpu}")


def _same_rows(folder: Path) -> None:
    """Bound and store leave the same rows; positions follow from scheduling and are left out."""
    left = {}
    for name, run in list(WAYS.items())[:2]:
        path = folder / f"same-{name}.db"
        asyncio.run(run(path, sagas=3, concurrency=2))
        left[name] = _rows(path)
    reference, *others = left.values()
    for other in others:
        assert other == reference, "the ways that are compared do not write the same rows"


def _rows(path: Path) -> dict[str, list[Any]]:
    conn = sqlite3.connect(path)
    found: dict[str, list[Any]] = {}
    for table in ("commands", "events", "attempts", "outbox", "grants", "token_uses"):
        rows = conn.execute(f"SELECT * FROM {table}").fetchall()
        skipped = 1 if table in ("events", "outbox") else 0
        found[table] = sorted((row[skipped:] for row in rows), key=repr)
    conn.close()
    return found


main()
