"""What a person or an agent waits for: acceptance, a status, a start; and what an idle gateway holds."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Final

from execution.intake import Intake
from execution.settings import EngineSettings
from execution.status import StatusReader
from tests.benchmarks import engine
from tests.e2e.world import Home, served

ACCEPTANCES: Final = 200
STARTS: Final = 3


def report(folder: Path) -> None:
    """Print it."""
    accepted, asked = asyncio.run(_acceptances(folder / "acceptance.db"))
    print(
        f"acceptance   p50 {_ms(accepted, 0.5):6.1f} ms   p99 {_ms(accepted, 0.99):6.1f} ms   (one at a time, on disk)"
    )
    print(f"status       p50 {_ms(asked, 0.5):6.1f} ms   p99 {_ms(asked, 0.99):6.1f} ms")
    home = Home.made(folder / "home")
    home.issue()
    starts = sorted(_start(home) for _ in range(STARTS))
    seconds, megabytes = starts[STARTS // 2]
    print(f"gateway      answers {seconds:.1f} s after its start, holds {megabytes:.0f} MB when idle")


def _ms(seconds: list[float], share: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * share))] * 1000


async def _acceptances(path: Path) -> tuple[list[float], list[float]]:
    """Acceptances without a worker, and a status of each."""
    async with engine.opened(path) as (store, catalog, numbers):
        intake = Intake(store, catalog, engine.Clock(), numbers, EngineSettings())
        reader = StatusReader(store, catalog, engine.Clock())
        accepted, asked = [], []
        for number in range(ACCEPTANCES):
            began = time.perf_counter()
            command = await intake.propose(engine.proposal(number), engine.proposer(number))
            accepted.append(time.perf_counter() - began)
            began = time.perf_counter()
            assert await reader.view(command.command_id) is not None
            asked.append(time.perf_counter() - began)
        return accepted, asked


def _start(home: Home) -> tuple[float, float]:
    """Seconds until a gateway answered its first request, and its resident megabytes then."""
    began = time.perf_counter()
    with served(home, "--no-worker") as server:
        server.handshake()
        answered = time.perf_counter() - began
        server.request(1, "tools/list")
        json.dumps(server.receive())
        status = Path(f"/proc/{server.process.pid}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return answered, int(resident.split()[1]) / 1024
