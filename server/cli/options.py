"""Options that every command has, and the way from a command to its work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

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
