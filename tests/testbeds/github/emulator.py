"""An independent emulator of GitHub's REST interface (npm `emulate`), one for each test process that asks.

`make services` installs it. It lives as long as the process that started it, however that ends, and listens on loopback
alone.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.services import ServiceDidNotStart, free_port, wait_until

HERE: Final = Path(__file__).parent
LOCK: Final = HERE / "package-lock.json"
START_MAX_S: Final = 60.0
ENDS_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
PROGRAMS: Final = ("node", "setpriv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """A running one. `token` is the owner's."""

    url: str
    owner: str = "octo"
    repo: str = "archive"
    token: str = "octo-token"


def caches() -> tuple[Path, ...]:
    """Where `services_install.sh` may have put it."""
    own = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return tuple(Path(place) / "remit" / "github-emulator" for place in ("/var/cache", own))


def installed() -> Path | None:
    """The folder in which it is whole and of the locked version."""
    wanted = LOCK.read_bytes()
    for cache in caches():
        with contextlib.suppress(OSError):
            if (cache / "installed.json").read_bytes() == wanted:
                return cache
    return None


def missing_emulator() -> tuple[str, ...]:
    """What `make services` would install; empty when all is there."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return (*absent, *(() if installed() else ("GitHub emulator",)))


@contextlib.contextmanager
def emulator() -> Iterator[Emulator]:
    """Its state is gone with it."""
    cache, port = installed(), free_port()
    assert cache is not None
    url = f"http://127.0.0.1:{port}"
    program = cache / "node_modules/emulate/dist/index.js"
    words = [*ENDS_WITH_US, "node", "--require", str(HERE / "loopback.cjs"), str(program)]
    settings = ["--service", "github", "--port", str(port), "--seed", str(HERE / "seed.yaml"), "--base-url", url]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([*words, *settings], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(lambda: process.poll() is not None or _answers(url), timeout_s=START_MAX_S)
            if process.returncode is not None:
                log.seek(0)
                raise ServiceDidNotStart(log.read().decode())
            yield Emulator(url=url)
        finally:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    request = urllib.request.Request(f"{url}/user", headers={"Authorization": "Bearer octo-token"})
    try:
        with urllib.request.urlopen(request, timeout=START_MAX_S) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
