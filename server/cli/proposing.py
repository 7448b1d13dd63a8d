"""`repeat`, `withdraw`: what an operator sets in motion, to be approved like anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import HomeOption, JsonOption, OperatorOption, ReasonOption, acting, with_installation
from server.cli.output import Output, line
from server.roles import Verb

if TYPE_CHECKING:
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

        accepted = await proposing.withdraw(at, command, operator=acting(at, operator, Verb.WITHDRAW), reason=reason)
        data = {"command_id": accepted.command_id, "withdraws": command, "deduplicated": accepted.deduplicated}
        text = f"{accepted.command_id} takes it down once it is approved: `remit approve {accepted.command_id}`."
        known = f"It was asked for before: {accepted.command_id}; see `remit why {accepted.command_id}`."
        Output(as_json).show(data, line(known if accepted.deduplicated else text))

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

        accepted = await proposing.repeat(at, command, operator=acting(at, operator, Verb.REPEAT), reason=reason)
        data = {"command_id": accepted.command_id, "repeats": command, "deduplicated": accepted.deduplicated}
        again = "It was repeated before" if accepted.deduplicated else "It is repeated"
        Output(as_json).show(data, line(f"{again}: {accepted.command_id}."))

    with_installation(home, work)
