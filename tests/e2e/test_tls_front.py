"""A real front with TLS, as the README shows it, between an agent elsewhere and the gateway."""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import unavailable
from tests.e2e.http_world import as_configured, reachable
from tests.e2e.world import COMMAND_MAX_S, REMIT, Home, answer
from tests.repo.tree import text
from tests.services import SYSTEM_PATH
from tests.unit.adapters.raw_server import self_signed


def shown(language: str, first: str) -> str:
    """The one block of that language in the README that begins so."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```", text("README.md"), re.MULTILINE | re.DOTALL)
    [found] = [block for block in blocks if block.startswith(first)]
    return found


def use_settings_of_the_readme(home: Home) -> None:
    file = home.path / "remit.toml"
    settings = re.sub(r"^\[http\]\n.*?(?=^\[)", shown("toml", "[http]") + "\n", file.read_text(), flags=re.M | re.S)
    file.write_text(settings.replace("remit.example.org", "localhost"))


@pytest.mark.behaviour("readme.front")
async def test_the_front_of_the_readme_passes_an_agent_of_another_machine_on(home: Home, tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path=SYSTEM_PATH)
    if nginx is None:
        unavailable("nginx is not installed; run `make services` once (root)")
    _, trusted = self_signed(tmp_path)
    use_settings_of_the_readme(home)
    home.issue()
    with reachable(home, "--no-worker") as at, fronted(nginx or "", tmp_path, at.port) as port:
        words = ["connect", f"https://localhost:{port}/mcp", "--token-file", str(home.token), "--ca", trusted]
        command, *arguments = (*REMIT, *words)
        entry = json.dumps({"mcpServers": {"remit": {"command": command, "args": arguments}}})
        async with as_configured(entry) as writer:
            command_id = (await writer.propose(wait_seconds=0))["command_id"]
            found = answer(await writer.call("query_command_status", command_id=command_id))
    assert (found["command_id"], found["done"]) == (command_id, False)


@contextlib.contextmanager
def fronted(nginx: str, folder: Path, upstream: int) -> Iterator[int]:
    """The README's nginx before a gateway, with a certificate of the test's."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    server = shown("nginx", "server").replace("listen 443", f"listen 127.0.0.1:{port}").replace("8765", str(upstream))
    server = re.sub(r"/etc/ssl/remit\.(pem|key)", str(folder / "server.pem"), server)
    server = server.replace("remit.example.org", "localhost")
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{places}{server}}}\n"
    )
    process = subprocess.Popen([nginx, "-c", str(config), "-p", str(folder)], stderr=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + COMMAND_MAX_S
        while time.monotonic() < deadline_s:
            with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=5):
                break
        yield port
    finally:
        process.terminate()
        process.wait(timeout=COMMAND_MAX_S)
