"""`doctor`: is this installation fit for its work?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from server.cli.options import HomeOption, JsonOption
from server.cli.output import Exit, Output, line, table

if TYPE_CHECKING:
    from server.doctor.report import Report

_STYLES = {"problem": "bold red", "warning": "yellow", "note": "", "fine": "green"}


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("doctor")(doctor)


def doctor(
    offline: Annotated[bool, typer.Option("--offline", help="Ask no external system.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look at clock, disk, journal, files, keys and every configured system. Exit code 1: something is broken."""
    from server.config import find_home
    from server.doctor import examine
    from server.telemetry import start_logging

    start_logging("error")
    report = asyncio.run(examine(find_home(home), offline=offline))
    Output(as_json).show(report.document(), *_rendered(report))
    raise typer.Exit(Exit.OK if report.ok else Exit.FAILED)


def _rendered(report: Report) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for checked in report.worst_first:
        symptom = checked.symptom
        told = f"{symptom.severity:8} {checked.subject}: {symptom.code.replace('_', ' ')}"
        shown.append(line(told + (f": {symptom.detail}" if symptom.detail else ""), _STYLES[symptom.severity]))
        shown += [line(f"         → {symptom.fix}")] if symptom.fix else []
    bounds = [(b.name, b.max_run_s, b.max_run_source, b.incomplete_s, b.in_doubt) for b in report.bounds]
    shown += [line("")] if bounds else []
    shown += [table(["system", "runs at most (s)", "enforced by", "drops halves (s)", "in doubt"], bounds)] * bool(
        bounds
    )
    looks = [(item.step, item.system, item.strength, item.repeat) for item in report.lookups]
    shown += [line(""), table(["step", "system", "read-back", "in doubt"], looks)] if looks else []
    return shown
