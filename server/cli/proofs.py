"""`verify`, `simulate`, `prove`, `demo`: seeing for oneself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from server.cli.options import HomeOption, JsonOption, with_installation
from server.cli.output import Exit, Output, line, table

if TYPE_CHECKING:
    from execution.store.journal import Finding
    from server.app import Installation
    from server.checkpoints import Compared


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("verify")(verify)
    app.command("simulate")(simulate)
    app.command("prove")(prove)
    app.command("demo")(demo)


def verify(
    checkpoints: Annotated[
        Path | None, typer.Option("--checkpoints", help="A copy of the exported file, instead of the configured one.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", help="The checkpoints' public key, kept elsewhere.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check every journal chain, that the registry is what the journal says, and every exported checkpoint."""

    async def work(at: Installation) -> int:
        chains, said = await _chains(at), await _said(at, checkpoints, key)
        data = {
            "ok": not chains.findings and said.ok,
            "commands": chains.commands,
            "events": chains.events,
            "findings": [{"command_id": f.command_id, "kind": f.kind.value, "seq": f.seq} for f in chains.findings],
            "checkpoints": said.document(),
        }
        Output(as_json).show(data, *_rendered(chains, said))
        return Exit.OK if data["ok"] else Exit.FAILED

    raise typer.Exit(with_installation(home, work))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chains:
    """What was found in all of them."""

    commands: int
    events: int
    findings: tuple[Finding, ...]


async def _chains(at: Installation) -> _Chains:
    from execution.store.journal import verify_batch

    commands = events = 0
    findings: list[Finding] = []
    after: str | None = ""
    while after is not None:
        start = after
        batch = await at.store.read(lambda conn, start=start: verify_batch(conn, start))  # type: ignore[misc]  # a default argument binds the loop's value
        commands, events, after = commands + batch.commands, events + batch.events, batch.next_after
        findings += batch.findings
    return _Chains(commands=commands, events=events, findings=tuple(findings))


async def _said(at: Installation, file: Path | None, key: Path | None) -> Compared:
    from server.checkpoints import Compared, compare, export_file, public_file, read_checking_key, read_exported

    if file is None and at.config.settings.checkpoints.file is None:
        return Compared()
    path = file or export_file(at.config)
    if not path.exists() and file is None:
        return Compared()
    return await compare(at, read_exported(path, read_checking_key(key or public_file(at.config))))


def _rendered(chains: _Chains, said: Compared) -> Iterator[RenderableType]:
    from server.results import moment

    if chains.findings:
        rows = [(f.command_id, f.kind.value, f.seq, f.detail) for f in chains.findings]
        yield table(["command", "finding", "seq", "detail"], rows)
    else:
        yield line(f"{chains.commands} commands and steps, {chains.events} events: every chain is whole.", "bold green")
    if said.findings or said.unreadable:
        told_of = [(c.checkpoint.size, moment(c.checkpoint.at_ms), c.kind.value, c.events) for c in said.findings]
        yield table(["checkpoint of", "signed", "finding", "events now"], told_of)
        yield line(f"{said.unreadable} notes in the file are not signed by its key.") if said.unreadable else line("")
    elif said.checkpoints:
        newest = said.checkpoints[-1]
        told = f"{len(said.checkpoints)} checkpoints, the newest of {newest.size} events: the journal bears them out."
        yield line(told, "bold green")
    else:
        yield line("No checkpoint was exported: that the end was cut off or put back could not be seen.")
    for restart in said.restarts:
        yield line(f"The history was restarted on {moment(restart.at_ms)} at {restart.size} events.", "yellow")


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
