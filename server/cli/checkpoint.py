"""`checkpoint`: signed statements about the whole journal, and proofs for people who do not trust its keeper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from server.cli.options import HomeOption, JsonOption, OperatorOption, acting, with_installation
from server.cli.output import CommandFailed, Output, fields, line, table
from server.roles import Verb

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from execution.inclusion import Proven
    from server.app import Installation

T = TypeVar("T")

checkpoint = typer.Typer(help="Signed statements about the whole journal.", invoke_without_command=True)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.add_typer(checkpoint, name="checkpoint")


@checkpoint.callback()
def write(
    context: typer.Context,
    restart: Annotated[
        bool, typer.Option("--restart", help="The history went back on purpose (a restored backup): say so, go on.")
    ] = False,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Sign how many events the journal has and the root of a tree over them, and export that."""
    if context.invoked_subcommand is not None:
        return

    async def work(at: Installation) -> None:
        from server import checkpoints

        if restart:
            await acting(at, operator, Verb.CHECKPOINT).signs("journal", restart=True)
        made, _ = await _signing(checkpoints.write_checkpoint(at, restart=restart))
        data = {
            "size": made.size,
            "root": made.root.hex(),
            "at_ms": made.at_ms,
            "file": str(checkpoints.export_file(at.config)),
            "public_key": checkpoints.signing_key(at.config).public_key().encode(),
        }
        Output(as_json).show(
            data, line(f"Signed and exported: {made.size} events.", "bold green"), fields(data.items())
        )

    with_installation(home, work)


@checkpoint.command("prove")
def prove(
    command: Annotated[str, typer.Argument(help="cmd_… or its key.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write the proof there instead of stdout.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prove every event of a command to somebody who has only the public key. The proof shows those events whole."""
    from server.cli.commands import find

    async def work(at: Installation) -> None:
        from server import checkpoints

        root_id = (await find(at, command)).command_id
        document = await _signing(checkpoints.prove(at, root_id))
        if out is None:
            print(json.dumps(document, indent=2))
            return
        out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        data = {"command_id": root_id, "events": len(document["events"]), "file": str(out)}
        Output(as_json).show(data, line(f"{len(document['events'])} events of {root_id} are proven in {out}."))

    with_installation(home, work)


@checkpoint.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="What `checkpoint prove` wrote.")],
    key: Annotated[Path, typer.Option("--key", help="The public key (checkpoints/journal.pub of that home).")],
    as_json: JsonOption = False,
) -> None:
    """Check a proof. Needs no home and no journal."""
    from capabilities.errors import NoteError
    from execution.inclusion import ProofRefused
    from execution.inclusion import check as checked
    from server.checkpoints import read_checking_key

    try:
        proven = checked(file.read_bytes(), read_checking_key(key))
    except ProofRefused as error:
        raise CommandFailed(
            error.code, f"It proves nothing: {error}", "Ask for it anew, from whoever made it."
        ) from None
    except NoteError as error:
        fix = "Check that the key is the one of that journal."
        raise CommandFailed(str(error.code), f"It proves nothing: {error}", fix) from None
    _show(Output(as_json), proven)


def _show(output: Output, proven: Proven) -> None:
    from server.results import moment

    said = proven.checkpoint
    events = [
        {"command_id": e.command_id, "seq": e.seq, "type": e.type.value, "actor": e.actor, "at_ms": e.at_ms}
        for e in proven.events
    ]
    data = {"proven": True, "journal": said.origin, "size": said.size, "signed_at_ms": said.at_ms, "events": events}
    told = f"{len(events)} events stood in {said.origin} when it had {said.size} ({moment(said.at_ms)})."
    rows = [(e["command_id"], e["seq"], e["type"], e["actor"], moment(int(str(e["at_ms"])))) for e in events]
    output.show(data, table(["command", "seq", "event", "by", "at"], rows), line(told, "bold green"))


async def _signing(work: Awaitable[T]) -> T:
    from server.checkpoints import JournalContradicts

    try:
        return await work
    except JournalContradicts as error:
        fix = "See `remit verify`. After a backup was restored on purpose: `remit checkpoint --restart`."
        raise CommandFailed(error.code, f"Nothing was signed: {error}", fix) from None
