"""Options that every command has, and the way from a command to its work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

if TYPE_CHECKING:
    from server.acting import Acting
    from server.app import Installation
    from server.roles import Verb

T = TypeVar("T")

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of configuration, keys and database (else REMIT_HOME, else ./remit-home)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
FullOption = Annotated[bool, typer.Option("--full", help="Differences whole, however long they are.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; it stands in the journal.")]
OperatorOption = Annotated[
    str | None,
    typer.Option(
        "--operator",
        "--operator-key",
        metavar="NAME|FILE",
        help="Who acts: a name whose key this home holds, or a key file (else REMIT_OPERATOR_KEY, else the only one).",
    ),
]


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


def acting(at: Installation, named: str | None, verb: Verb) -> Acting:
    """The operator who acts, by their key; and may they do that?"""
    from server.acting import acting_with_key

    return acting_with_key(at, named, verb)
