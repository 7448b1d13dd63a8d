"""A coverage-guided fuzzer for a while on what nobody had to prove anything for; `make soak` takes an hour, and all."""

import os
import subprocess
import sys

import pytest

from tests.fuzz.targets import TARGETS

SECONDS = "6"
UNPROVEN = ("token", "assertion", "message")
ABSENT = 3


@pytest.mark.behaviour("input.fuzzed")
@pytest.mark.parametrize("name", UNPROVEN)
def test_nothing_that_a_stranger_sends_ends_in_anything_but_an_answer(name: str) -> None:
    assert set(UNPROVEN) <= set(TARGETS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "tests.fuzz", name, "--seconds", SECONDS]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode == ABSENT:
        pytest.skip(run.stdout.strip())
    assert run.returncode == 0, run.stdout + run.stderr
