"""What a person or an agent waits for: acceptance, a status, a start; and what an idle gateway holds."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from capabilities.errors import CredentialError
from execution.intake import Intake
from execution.settings import EngineSettings
from execution.status import StatusReader
from tests.benchmarks import engine
from tests.e2e.world import Home, served
from tests.security.forge import NOW_S, token, verifier
from tests.security.hostile_tokens import corpus

ACCEPTANCES: Final = 200
STARTS: Final = 3


def report(folder: Path) -> None:
    """Print it."""
    accepted, asked = asyncio.run(_acceptances(folder / "acceptance.db"))
    print(
        f"acceptance   p50 {_ms(accepted, 0.5):6.1f} ms   p99 {_ms(accepted, 0.99):6.1f} ms   (one at a time, on disk)"
    )
    print(f"status       p50 {_ms(asked, 0.5):6.1f} ms   p99 {_ms(asked, 0.99):6.1f} ms")
    _tokens()
    home = Home.made(folder / "home")
    home.issue()
    starts = sorted(_start(home) for _ in range(STARTS))
    seconds, megabytes = starts[STARTS // 2]
    print(f"gateway      answers {seconds:.1f} s after its start, holds {megabytes:.0f} MB when idle")


def _tokens() -> None:
    """What it costs to believe a token, and to refuse the dearest of those that somebody forged."""
    believed = min(_verified_s(token()) for _ in range(50))
    forged = {case.name: min(_verified_s(case.raw) for _ in range(5)) for case in corpus()}
    dearest = max(forged, key=lambda name: forged[name])
    print(
        f"tokens       believed in {believed * 1000:.2f} ms; {len(forged)} forged ones refused in "
        f"{_ms(list(forged.values()), 0.5):.2f} ms, the dearest in {forged[dearest] * 1000:.2f} ms ({dearest})"
    )


def _verified_s(raw: str) -> float:
    began = time.perf_counter()
    with suppress(CredentialError):
        verifier().verify(raw, NOW_S)
    return time.perf_counter() - began


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
