"""`verify`, `simulate`, `prove`, `demo`: seeing for oneself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import HomeOption, JsonOption, with_installation
from server.cli.output import Exit, Output, line, table

if TYPE_CHECKING:
    from execution.store.journal import Finding
    from server.app import Installation


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("verify")(verify)
    app.command("simulate")(simulate)
    app.command("prove")(prove)
    app.command("demo")(demo)


def verify(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Check every journal chain, and that the registry is what the journal says."""
    from execution.store.journal import verify_batch

    async def work(at: Installation) -> int:
        commands = events = 0
        findings: list[Finding] = []
        after: str | None = ""
        while after is not None:
            start = after
            batch = await at.store.read(lambda conn, start=start: verify_batch(conn, start))  # type: ignore[misc]  # a default argument binds the loop's value
            commands, events, after = commands + batch.commands, events + batch.events, batch.next_after
            findings += batch.findings
        data = {
            "ok": not findings,
            "commands": commands,
            "events": events,
            "findings": [{"command_id": f.command_id, "kind": f.kind.value, "seq": f.seq} for f in findings],
        }
        good = line(f"{commands} commands and steps, {events} events: every chain is whole.", "bold green")
        rows = [(f.command_id, f.kind.value, f.seq, f.detail) for f in findings]
        Output(as_json).show(data, table(["command", "finding", "seq", "detail"], rows) if findings else good)
        return Exit.FAILED if findings else Exit.OK

    raise typer.Exit(with_installation(home, work))


def simulate(
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many schedules.")] = 1_000,
    first_seed: Annotated[int, typer.Option("--first-seed", min=0, help="The first seed.")] = 0,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the real orchestrator through seeded faults and check every law. Exits non-zero on a violation."""
    from execution.simulation import main

    raise typer.Exit(main(seeds, first_seed))


def prove(
    long: Annotated[bool, typer.Option("--long", help="Also the worlds that take minutes.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the protocol for one key in every order of events, with all laws and without each. Needs no home."""
    from execution.simulation.proof import main

    raise typer.Exit(main(long=long))


def demo(
    keep: Annotated[Path | None, typer.Option("--keep", help="Make the home here and leave it.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the product against its sandbox: a lost answer, a killed worker, one post. Needs no home."""
    from server.demo import run

    raise typer.Exit(run(keep, as_json=as_json))
