"""The first page, followed literally: every command that the README shows is run, in its order, in an empty folder."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.http_world import address_of, as_configured
from tests.e2e.world import COMMAND_MAX_S, Home, environment
from tests.pictures import png
from tests.repo.test_commands import blocks

ROOT: Final = Path(__file__).parents[2]
BY_OTHERS: Final = frozenset({"make demo", "make test"})
"""Run by everybody's first minute and by CI itself; a test that ran the tests would not end."""


def commands() -> list[str]:
    lines = [line.split("#")[0].strip() for _, block in blocks("README.md") for line in block.splitlines()]
    return [line for line in lines if line and line not in BY_OTHERS]


@contextlib.contextmanager
def started(command: str, folder: Path) -> Iterator[None]:
    """What the README leaves running."""
    words = shlex.split(command)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "server", *words[1:]],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            address_of(process, log)
            yield
        finally:
            process.terminate()
            process.wait(timeout=COMMAND_MAX_S)


def run(command: str, folder: Path, known: dict[str, str]) -> str:
    words = [known.get(word, word) for word in shlex.split(command)]
    words = [re.sub(r"\bNAME\b", known["NAME"], word) if "NAME" in known else word for word in words]
    assert words[0] == "remit", command
    done = subprocess.run(
        [sys.executable, "-m", "server", *words[1:]],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=COMMAND_MAX_S,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0 or (words[1] in ("status", "why") and done.returncode in (5, 6, 7)), done
    return done.stdout


@pytest.mark.behaviour("readme.commands")
async def test_every_command_of_the_readme_does_what_it_says(tmp_path: Path) -> None:
    known: dict[str, str] = {}
    configuration = ""
    home = Home(tmp_path / "remit-home")
    (tmp_path / "picture.png").write_bytes(png(1))
    with contextlib.ExitStack() as running:
        for command in commands():
            if command.startswith("remit serve"):
                running.enter_context(started(command, tmp_path))
                continue
            if "COMMAND" in command and "COMMAND" not in known:
                [key] = os.listdir(home.path / "operators")
                known["NAME"] = key.removesuffix(".pem")
                async with as_configured(configuration) as writer:
                    proposed = await writer.propose()
                    known["COMMAND"] = proposed["command_id"]
                    settled = await writer.settled(known["COMMAND"])
                    known["HASH"] = settled["approval"]["content_hash"]
            printed = run(command, tmp_path, known)
            assert printed.strip(), command
            configuration = printed if "--for" in command else configuration
        async with as_configured(configuration) as writer:
            done = await writer.settled(known["COMMAND"])
    assert (done["state"], done["live"]) == ("SUCCESS", True)
