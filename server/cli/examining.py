"""`doctor`: is this installation fit for its work? `audit`: is reality still what the journal says?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from server.cli.commands import find
from server.cli.options import HomeOption, JsonOption, OperatorOption, acting, duration_s, with_installation
from server.cli.output import Exit, Output, line, table
from server.roles import Verb

if TYPE_CHECKING:
    from execution.audit import AuditReport
    from server.app import Installation
    from server.doctor.report import Report

_FINE = "fine"
_STYLES = {"problem": "bold red", "warning": "yellow", "note": "", "fine": "green"}


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("doctor")(doctor)
    app.command("audit")(audit)


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


def audit(
    since: Annotated[str, typer.Option("--since", help="Commands accepted since then, e.g. 24h, 7d.")] = "7d",
    command: Annotated[str | None, typer.Option("--command", help="Only this one (cmd_… or its key).")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="At most so many commands, the newest.")] = 500,
    pace: Annotated[float, typer.Option("--pace", min=0.0, max=60.0, help="Seconds between two looks.")] = 0.1,
    open_reviews: Annotated[bool, typer.Option("--open-reviews", help="Ask a person about what is new.")] = False,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare what the journal calls done with what is really there. Mends nothing. Exit code 1: something is wrong."""
    from execution.audit import Wanted
    from server.auditing import run_audit

    since_s = duration_s(since)

    async def work(at: Installation) -> int:
        root_id = None if command is None else (await find(at, command)).command_id
        wanted = Wanted(
            tenant=at.tenant,
            since_ms=at.clock.now_ms() - since_s * 1000,
            command_id=root_id,
            commands_max=limit,
            pace_s=pace,
        )
        by = await acting(at, operator, Verb.AUDIT).signs(root_id or "all") if open_reviews else None
        report = await run_audit(at, wanted, actor=by)
        Output(as_json).show(report.document(), *_findings(report))
        return Exit.FAILED if report.findings else Exit.OK

    raise typer.Exit(with_installation(home, work))


def _findings(report: AuditReport) -> list[RenderableType]:
    from server.results import moment

    rows = [
        (
            f.kind,
            f.code,
            f.about,
            f.step,
            f.command_id,
            f.review_id or ("asked before" if f.known else None),
            moment(f.asked_at_ms),
        )
        for f in report.findings
    ]
    looked = f"{report.commands} commands, {report.looks} looks"
    moving = f"; {report.in_motion} are being changed and were left out" if report.in_motion else ""
    more = "; there are more: go on with a shorter --since or a higher --limit" if report.more else ""
    told = line(f"{looked}{moving}{more}: {'nothing is wrong' if not rows else f'{len(rows)} findings'}.", "bold")
    columns = ["finding", "code", "about", "step", "command", "review", "seen"]
    return [table(columns, rows), told] if rows else [told]


def _rendered(report: Report) -> list[RenderableType]:
    """What is not as it should be comes first; of what is fine only that it was looked at."""
    fine = [checked.subject for checked in report.checked if checked.symptom.severity == _FINE]
    shown: list[RenderableType] = []
    for checked in report.worst_first[: len(report.checked) - len(fine)]:
        symptom = checked.symptom
        told = f"{symptom.severity:8} {checked.subject}: {symptom.code.replace('_', ' ')}"
        shown.append(line(told + (f": {symptom.detail}" if symptom.detail else ""), _STYLES[symptom.severity]))
        shown += [line(f"         → {symptom.fix}")] if symptom.fix else []
    shown.append(line(f"{_FINE:8} {len(fine)} checks: {', '.join(dict.fromkeys(fine))}", _STYLES[_FINE]))
    asked = {c.subject: c.symptom.detail for c in reversed(report.checked) if c.symptom.severity == _FINE}
    bounds = [(b.name, asked.get(b.name), b.max_run_s, b.max_run_source, b.in_doubt) for b in report.bounds]
    columns = ["system", "says", "runs at most (s)", "enforced by", "in doubt"]
    shown += [line(""), table(columns, bounds)] if bounds else []
    verdict = "Something is broken." if not report.ok else "It works." if fine else "Nothing was looked at."
    return [*shown, line(f"\n{verdict} --json: every check, and how far each read-back can be trusted.", "bold")]
