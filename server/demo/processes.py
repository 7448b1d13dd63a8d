"""The processes of the story: each has a name and a log, and none outlives the stage, however the story ends."""

from __future__ import annotations

import asyncio
import ctypes
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from server.cli.output import CommandFailed
from server.config import child_environment

PYTHON: Final = (sys.executable, "-m")
START_MAX_S: Final = 60.0
COMMAND_MAX_S: Final = 60.0
END_MAX_S: Final = 4.0
POLL_S: Final = 0.02
LINE_BYTES_MAX: Final = 1024 * 1024
LOG_LINES_SHOWN: Final = 6
_PR_SET_PDEATHSIG: Final = 1


def _end_with_parent() -> None:
    """In the child, before its program: SIGTERM when whoever started it is gone, however that came (Linux, prctl(2)).

    A stage that is killed cannot end its children; each of them ends what it has started itself.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


@dataclass(slots=True)
class Child:
    """A process that was started. `process.pid` may be shown to people: it is a real one."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    async def ask(self, line: str, within_s: float = COMMAND_MAX_S) -> str:
        """Write a line to it, read a line back."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(within_s):
                self.process.stdin.write(line.encode() + b"\n")
                await self.process.stdin.drain()
                answer = await self.process.stdout.readline()
        except (TimeoutError, OSError):
            raise self.failure("does not answer") from None
        if not answer:
            raise self.failure("ended")
        return answer.decode()

    async def finished(self, reading: str = "") -> tuple[int, str]:
        """Give it all of its input and wait for its end: exit status and what it wrote."""
        try:
            async with asyncio.timeout(COMMAND_MAX_S):
                written, _ = await self.process.communicate(reading.encode())
        except TimeoutError:
            raise self.failure(f"did not end within {COMMAND_MAX_S:.0f} s") from None
        assert self.process.returncode is not None, "it has ended"
        return self.process.returncode, written.decode()

    async def until(self, condition: Callable[[], bool], within_s: float = START_MAX_S) -> None:
        """Wait until what the process should bring about is there; it must not end before."""
        try:
            async with asyncio.timeout(within_s):
                while not condition():
                    self.check()
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise self.failure(f"was not ready within {within_s:.0f} s") from None

    def check(self) -> None:
        """It must still run."""
        if self.process.returncode is not None:
            raise self.failure(f"ended with status {self.process.returncode}")

    async def kill(self) -> None:
        """SIGKILL: it gets no chance to say or write anything."""
        self.process.kill()
        await self.process.wait()

    async def end(self) -> None:
        """The end of its input and SIGTERM, and SIGKILL when that does not help."""
        if self.process.returncode is not None:
            return
        try:
            if self.process.stdin is not None:
                self.process.stdin.close()
            self.process.terminate()
            async with asyncio.timeout(END_MAX_S):
                await self.process.wait()
        except TimeoutError:
            pass
        finally:
            if self.process.returncode is None:
                self.process.kill()
        await self.process.wait()

    @property
    def was_killed(self) -> bool:
        """Whether the system says that SIGKILL ended it."""
        return self.process.returncode == -signal.SIGKILL

    def last_words(self, lines_max: int = 1) -> str:
        """The end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return " | ".join(lines[-lines_max:]) or "nothing"

    def failure(self, what: str) -> CommandFailed:
        """The story cannot go on."""
        fix = f"It said: {self.last_words(LOG_LINES_SHOWN)}"
        return CommandFailed("demo_broke_off", f"The {self.name} (pid {self.process.pid}) {what}.", fix)


@dataclass(slots=True)
class Stage:
    """Starts processes in `folder` and ends them all on leaving."""

    folder: Path
    children: list[Child] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(child.end() for child in self.children))

    async def start(self, name: str, *words: str) -> Child:
        """A process with a pipe at both ends. It runs in `folder` and leads a session: Ctrl-C is for us, who end it."""
        log = self.folder / f"{len(self.children):02}-{name.replace(' ', '-')}.log"
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=LINE_BYTES_MAX,
                cwd=self.folder,
                env=child_environment(),
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        child = Child(name, process, log)
        self.children.append(child)
        return child

    async def command(self, *words: str) -> tuple[int, Any]:
        """Run `remit WORDS --json` to its end: exit status and document."""
        child = await self.start(f"remit {words[0]}", *PYTHON, "server", *words, "--json")
        code, written = await child.finished()
        try:
            return code, json.loads(written)
        except ValueError:
            raise child.failure(f"answered no document, status {code}") from None

    async def remit(self, *words: str) -> Any:
        """The document of a `remit` command. Raises what the command refused with."""
        _, document = await self.command(*words)
        if error := document.get("error"):
            raise CommandFailed(error["code"], f"remit {words[0]}: {error['message']}", error["fix"])
        return document
