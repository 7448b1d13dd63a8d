"""Processes that are forked from a warm parent, so that starting one costs milliseconds and killing one costs nothing.

The parent is multiprocessing's fork server: it has imported the program once and has a single thread. A child ends with
whoever started it, also when that process is killed.
"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

WAIT_MAX_S: Final = 60.0
POLL_S: Final = 0.01
_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.stage.warm"])


class Forked:
    """One child running `target(*arguments)`; what it prints goes to `log`."""

    def __init__(self, target: Callable[..., None], *arguments: Any, log: Path) -> None:
        self.log = log
        self._process = _CONTEXT.Process(target=_run, args=(target, arguments, str(log)), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    @property
    def is_stopped(self) -> bool:
        """Whether SIGSTOP holds it (proc(5): state T)."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        except FileNotFoundError:
            return False

    def send(self, number: signal.Signals) -> None:
        if self.is_alive:
            os.kill(self.pid, number)

    def end(self) -> None:
        """Gone, whatever it was doing."""
        self.send(signal.SIGKILL)
        self._process.join(WAIT_MAX_S)

    def ended(self) -> int | None:
        """Wait for it to end by itself."""
        self._process.join(WAIT_MAX_S)
        return self._process.exitcode


def commanded(main: Callable[[list[str]], None], arguments: list[str], within_s: float) -> tuple[int, str, str]:
    """A command line program in a process of its own: exit code, stdout, stderr. Nothing is on its stdin."""
    with tempfile.TemporaryDirectory(prefix="remit-command-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = _CONTEXT.Process(target=_command, args=(main, arguments, str(out), str(err)), daemon=True)
        process.start()
        process.join(within_s)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"not within {within_s:.0f} s: {arguments}")
        return process.exitcode, out.read_text(), err.read_text()


def wait_until(condition: Callable[[], bool], what: str, within_s: float = WAIT_MAX_S) -> None:
    """Poll a condition; AssertionError when it does not come true in time."""
    limit = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(f"not within {within_s:.0f} s: {what}")
        threading.Event().wait(POLL_S)


def _run(target: Callable[..., None], arguments: tuple[Any, ...], log: str) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(out, number)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    target(*arguments)


def _command(main: Callable[[list[str]], None], arguments: list[str], out: str, err: str) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, out), (2, err)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    for name in [name for name in os.environ if name.startswith("REMIT_")]:
        del os.environ[name]
    main(arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)
