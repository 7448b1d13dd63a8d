"""The stand-ins seen from outside: keep an answer back, see that it happened, count the effects."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from server.demo.processes import POLL_S, PYTHON, Child, Stage

ANSWER_MAX_S: Final = 10.0
STRIKE_MAX_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A running sandbox, known by the file that it wrote when its ports were open."""

    child: Child
    port_file: Path

    async def lose_answer_to(self, request: str) -> None:
        """Process the next such request, and never answer it."""
        await self._ask("PUT", "/__faults", {"match": request, "kind": "hang_after", "times": 1})

    async def answer_is_lost(self) -> None:
        """Wait until that request was processed. Raises CommandFailed when it does not come."""
        try:
            async with asyncio.timeout(STRIKE_MAX_S):
                while True:
                    if (await self._ask("GET", "/__faults"))["log"]:
                        return
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise self.child.failure(f"saw no such request within {STRIKE_MAX_S:.0f} s") from None

    async def effects(self) -> Any:
        """Posts, accepted writes and messages, straight from the sandbox's own state."""
        return await self._ask("GET", "/__effects")

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return await asyncio.to_thread(self._exchange, method, path, body)
        except (OSError, HTTPException, ValueError):
            raise self.child.failure("cannot be reached") from None

    def _exchange(self, method: str, path: str, body: Any) -> Any:
        port = json.loads(self.port_file.read_bytes())["http_port"]
        connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_MAX_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


async def of_home(stage: Stage, home: Path) -> Sandbox:
    """The sandbox of a home, as `remit sandbox` runs it."""
    ports = home / "sandbox" / "state.ports.json"
    return await _started(stage, ports, "server", "sandbox", "--home", str(home))


async def of_its_own(stage: Stage) -> Sandbox:
    """One more of the same kind, without a home."""
    state, ports = stage.folder / "other.db", stage.folder / "other.ports.json"
    return await _started(stage, ports, "adapters.sandbox", "--state", str(state), "--port-file", str(ports))


async def _started(stage: Stage, ports: Path, *words: str) -> Sandbox:
    child = await stage.start("sandbox", *PYTHON, *words)
    await child.until(ports.exists)
    return Sandbox(child, ports)
