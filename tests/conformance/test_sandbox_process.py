"""The stand-ins as a process of their own: what they did survives them."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from adapters.http import HttpSystem
from adapters.wordpress import WordPressSite
from execution.core.failures import Landed, Present
from execution.core.quiescence import Bounds
from tests.conformance.beds import carry_out, fresh_article, fresh_marker

START_MAX_S = 30.0


@contextlib.asynccontextmanager
async def sandbox_process(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, dict[str, Any]]]:
    """A started process and what its port file says."""
    port_file = folder / "ports.json"
    port_file.unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "adapters.sandbox", "--state", folder / "state.db", "--port-file", port_file
    )
    try:
        async with asyncio.timeout(START_MAX_S):
            while not port_file.exists():
                assert process.returncode is None
                await asyncio.sleep(0.02)
        yield process, json.loads(port_file.read_text())
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def control(url: str, path: str) -> Any:
    system = HttpSystem(url, bounds=Bounds(), headers={})
    reply = await system.get(path)
    await system.aclose()
    return json.loads(getattr(reply, "body", b"null"))


async def test_effects_survive_a_kill_and_the_end_is_clean(tmp_path: Path) -> None:
    marker, article = fresh_marker(), fresh_article()
    async with sandbox_process(tmp_path) as (process, ports):
        site = WordPressSite(ports["url"], "editor1", ports["accounts"]["editor1"], Bounds())
        assert isinstance(await carry_out(await site.create_draft(marker=marker, article=article)), Landed)
        await site.aclose()
        process.kill()
        await process.wait()
    async with sandbox_process(tmp_path) as (process, ports):
        site = WordPressSite(ports["url"], "editor1", ports["accounts"]["editor1"], Bounds())
        assert isinstance(await site.observe_draft(marker=marker, article=article, known_id=None), Present)
        await site.aclose()
        effects = await control(ports["url"], "/__effects")
        assert [post["slug"] for post in effects["posts"]] == [f"remit-{marker}"]
        assert effects["writes"] == {"POST /wp-json/wp/v2/posts": 1}
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), START_MAX_S) == 0
