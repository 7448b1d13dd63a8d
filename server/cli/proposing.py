"""`repeat`, `withdraw`: what an operator sets in motion, to be approved like anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.commands import find, next_for
from server.cli.options import HomeOption, JsonOption, OperatorOption, ReasonOption, acting, with_installation
from server.cli.output import Output, line
from server.roles import Verb

if TYPE_CHECKING:
    from execution.proposal import Accepted
    from server.app import Installation

CommandArgument = Annotated[str, typer.Argument(help="cmd_…")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("repeat")(repeat)
    app.command("withdraw")(withdraw)


def withdraw(
    command: Annotated[str, typer.Argument(help="cmd_… that published it.")],
    reason: ReasonOption = "withdrawn by an operator",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have what a command published taken down, once a person approved that. A later version can publish it again."""

    async def work(at: Installation) -> None:
        from server import proposing

        by = await acting(at, operator, Verb.WITHDRAW).signs(command, reason=reason)
        accepted = await proposing.withdraw(at, command, operator=by, reason=reason)
        data = {"command_id": accepted.command_id, "withdraws": command, "deduplicated": accepted.deduplicated}
        text = f"{accepted.command_id} takes it down once it is approved: `remit approve {accepted.command_id}`."
        known = await _asked_before(at, accepted) if accepted.deduplicated else ""
        Output(as_json).show(data, line(known or text))

    with_installation(home, work)


def repeat(
    command: CommandArgument,
    reason: ReasonOption = "repeated by an operator",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Do an ended command once more on purpose, as a command of its own. What was undone stays undone."""

    async def work(at: Installation) -> None:
        from server import proposing

        by = await acting(at, operator, Verb.REPEAT).signs(command, reason=reason)
        accepted = await proposing.repeat(at, command, operator=by, reason=reason)
        data = {"command_id": accepted.command_id, "repeats": command, "deduplicated": accepted.deduplicated}
        text = f"{accepted.command_id} does it once more: `remit status {accepted.command_id}` says where it stands."
        known = await _asked_before(at, accepted) if accepted.deduplicated else ""
        Output(as_json).show(data, line(known or text))

    with_installation(home, work)


async def _asked_before(at: Installation, accepted: Accepted) -> str:
    """Where that stands, and what can be done now."""
    view = await find(at, accepted.command_id)
    said = f"It was asked for before: {view.command_id} is {view.state}. {view.say_to_user}"
    if view.done and view.state != "SUCCESS":
        return f"{said} `remit repeat {view.command_id}` asks for it once more."
    return said if view.done else f"{said} {next_for(view)}"
