"""`python -m tests.fuzz [TARGET …] [--seconds N]`: a coverage-guided fuzzer on everything that strangers may send.

Each target runs in a process of its own for that long. The exit status is 1 when one of them failed; what it printed
then names the input. It is 3 where no coverage-guided fuzzer exists for this Python and machine.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.fuzz.targets import TARGETS

ABSENT: Final = 3
_TRIED: Final = re.compile(r"number_of_executed_units:\s*(\d+)")


def main() -> int:
    """Run the targets one after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", default=list(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    given = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("no coverage-guided fuzzer for this Python and machine")
        return ABSENT
    failed = [name for name in given.targets if not fuzzed(name, given.seconds)]
    return 1 if failed else 0


def fuzzed(name: str, seconds: int) -> bool:
    """Whether no input failed."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "tests.fuzz.one", name, str(seconds), str(Path(scratch) / "corpus")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    found = _TRIED.search(run.stderr)
    if run.returncode == 0 and found is not None and int(found[1]):
        print(f"{name}: {found[1]} inputs, none failed", flush=True)
        return True
    print(f"{name}: FAILED\n{run.stdout}\n{run.stderr[-8_000:]}", flush=True)
    return False


sys.exit(main())
