"""Owns one test bed for a test run: starts it, waits until nobody uses it any more, stops it, removes its folder.

Usage: keeper.py DIR USERS H M. Every process that uses the test bed holds a shared lock on the file USERS. The kernel
frees such a lock however its holder ends, so that waiting for the exclusive one is waiting for the last user, `kill -9`
included.
"""

import fcntl
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(directory: str, users: str, incomplete_s: str, run_s: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the users' end decides, not the terminal
    with Path(users).open("w") as lock:
        try:
            started = subprocess.run([HERE / "wordpress_up.sh", directory, incomplete_s, run_s], check=False)
            if started.returncode == 0:
                fcntl.flock(lock, fcntl.LOCK_EX)  # kept while stopping: a new user waits, then starts anew
        finally:
            subprocess.run([HERE / "wordpress_down.sh", directory], check=False)
            shutil.rmtree(directory, ignore_errors=True)
            for leftover in Path(users).parent.glob(Path(users).stem + ".*"):
                leftover.unlink(missing_ok=True)
    return started.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
