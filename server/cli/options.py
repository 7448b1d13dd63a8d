"""Options that every command has, and the way from a command to its work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

if TYPE_CHECKING:
    from server.app import Installation

T = TypeVar("T")

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of configuration, keys and database (else REMIT_HOME, else ./remit-home)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it stands in the journal.")]
OperatorOption = Annotated[str | None, typer.Option("--operator", help="Who acts; default: the home's operator.")]


def with_installation(home: Path | None, work: Callable[[Installation], Awaitable[T]]) -> T:
    """Open the home's journal, do the work, close it. Nothing of MCP is imported, and no credential is read."""
    from server.app import opened
    from server.config import load_config
    from server.telemetry import start_logging

    config = load_config(home)
    start_logging("warning" if config.log_level == "info" else config.log_level)

    async def run() -> T:
        async with opened(config) as installation:
            return await work(installation)

    return asyncio.run(run())


_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def duration_s(text: str) -> int:
    """90s, 15m, 12h, 7d. Raises CommandFailed for anything else."""
    from server.cli.output import CommandFailed, Exit

    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or len(number) > 6 or unit not in _UNITS:
        fix = "For example 90s, 15m, 12h or 7d."
        raise CommandFailed("usage", "That is not a length of time.", fix, Exit.USAGE)
    return int(number) * _UNITS[unit]


def acting(at: Installation, named: str | None) -> str:
    """The operator who acts: the one that is named, else the only one this home knows."""
    from server.cli.output import CommandFailed, Exit

    known = sorted(at.config.settings.operator)
    name = (named or "").removeprefix("operator:") or (known[0] if len(known) == 1 else "")
    if name not in known:
        fix = f"Use --operator with one of: {', '.join(known) or '(none is configured: add [operator.NAME])'}."
        raise CommandFailed("unknown_operator", "It is not clear who acts.", fix, Exit.AUTH)
    return f"operator:{name}"
