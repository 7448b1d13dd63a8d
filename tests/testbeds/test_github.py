"""The GitHub emulator itself: whom it listens to, and that it ends with whoever started it."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from tests.services import wait_until
from tests.testbeds.github.emulator import Emulator

START_MAX_S = 60.0
ELSEWHERE = "127.0.0.2"
HOLDER = """\
import sys
from tests.testbeds.github.emulator import emulator
with emulator() as running:
    print(running.url, flush=True)
    sys.stdin.read()
"""


def test_it_knows_its_repository_and_listens_on_loopback_alone(github_emulator: Emulator) -> None:
    request = urllib.request.Request(
        f"{github_emulator.url}/repos/{github_emulator.owner}/{github_emulator.repo}",
        headers={"Authorization": f"Bearer {github_emulator.token}"},
    )
    with urllib.request.urlopen(request, timeout=START_MAX_S) as answer:
        assert json.load(answer)["permissions"]["push"] is True
    port = urlsplit(github_emulator.url).port
    assert port is not None
    with socket.socket() as other:
        assert other.connect_ex((ELSEWHERE, port)) != 0


def test_it_ends_when_the_process_that_started_it_is_killed(github_emulator: Emulator) -> None:
    root = Path(__file__).parents[2]
    words = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(
        words, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        port = urlsplit(holder.stdout.readline().decode().strip()).port
        assert port is not None
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=START_MAX_S)
        wait_until(lambda: _refuses(port), timeout_s=START_MAX_S)


def _refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
