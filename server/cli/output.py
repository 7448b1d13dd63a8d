"""What commands print: a rich table for people or one JSON document for programs, and errors as one clear line.

Text of agents, sites and people is shown with every hidden character made visible and never interpreted as markup or
terminal control. stdout has the result alone; errors go to stderr (with `--json` as JSON on stdout as well, so that a
program reads one stream).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from execution.hidden import suspicious_characters

_BREAKS: Final = frozenset("\n\r\t")
"""Honest in a text, and no part of one line."""


class Exit(IntEnum):
    """Exit codes. REVIEW, APPROVAL and UNKNOWN are answers of `status` and `why`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    AUTH = 4
    REVIEW = 5
    APPROVAL = 6
    UNKNOWN = 7


WHICH_COMMAND: Final = (
    "`remit ls` lists what this home has, by ids that begin with cmd_; --home DIR (or REMIT_HOME) names another home."
)
"""What helps whoever named a command that is not there."""


class CommandFailed(Exception):
    """A command ends here: a stable code, one line, and what to do."""

    def __init__(self, code: str, message: str, fix: str = "", exit_code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix
        self.exit_code = exit_code


def visible(text: str, *, keep: str = "") -> str:
    """`text` with hidden characters spelt out (`<U+202E>`); those in `keep` (a newline, say) stay."""
    if text.isascii() and text.isprintable():
        return text
    hidden = {found.position for found in suspicious_characters(text)}
    hidden |= {at for at, char in enumerate(text) if char in _BREAKS}
    return "".join(
        f"<U+{ord(char):04X}>" if at in hidden and char not in keep else char for at, char in enumerate(text)
    )


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go. `as_json`: one JSON document and nothing else on stdout."""

    as_json: bool

    def show(self, data: Any, *shown: RenderableType) -> None:
        """Print the document, or what a person sees of it."""
        if self.as_json:
            print(json.dumps(data, indent=2, ensure_ascii=True, default=str))
            return
        console = _console()
        for part in shown:
            console.print(part)

    def note(self, line: str) -> None:
        """A remark for people, on stderr."""
        if not self.as_json:
            Console(stderr=True, highlight=False, soft_wrap=True).print(Text(visible(line), style="dim"))

    def fail(self, error: CommandFailed) -> int:
        """Print the error; returns the exit code."""
        if self.as_json:
            print(json.dumps({"error": {"code": error.code, "message": error.message, "fix": error.fix}}))
        line = Text("error: ", style="bold red").append(_sentence(visible(error.message)), style="default")
        if error.fix:
            line.append(" " + visible(error.fix), style="default")
        Console(stderr=True, highlight=False, soft_wrap=True).print(line)
        return int(error.exit_code)

    def unread(self) -> int:
        """Whoever read our output has seen enough (`remit watch … | head`): that is no error, and nobody hears one."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A plain table; every cell is shown as text."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text("-" if cell is None else visible(str(cell))) for cell in row))
    return drawn


def fields(pairs: Iterable[tuple[str, object]]) -> Table:
    """Name and value in two columns; what is None is left out."""
    drawn = Table(box=None, pad_edge=False, show_header=False)
    drawn.add_column(style="bold", overflow="fold")
    drawn.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            drawn.add_row(Text(visible(name)), Text(visible(str(value))))
    return drawn


def line(text: str, style: str = "") -> Text:
    """One line of text."""
    return Text(visible(text, keep="\n"), style=style)


def on_terminal() -> bool:
    """Whether a person sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _console() -> Console:
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=200, no_color=True)
