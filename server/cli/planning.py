"""`plan`, `card`: what would happen, what was planned, and what a definition promises. Nothing is written."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.options import HomeOption, JsonOption, with_installation
from server.cli.output import CommandFailed, Exit, Output, line, table

if TYPE_CHECKING:
    from server.app import Installation
    from server.results import Preview

plan = typer.Typer(help="What would happen, with keys, times and approvals.", no_args_is_help=True)
NameOption = Annotated[str | None, typer.Option("--operator", help="Whose it would be; default: the home's operator.")]
CommandArgument = Annotated[str, typer.Argument(help="cmd_…")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.add_typer(plan, name="plan")
    app.command("card")(card)


@plan.command("publish")
def publish(
    file: Annotated[Path, typer.Argument(help="The arguments of propose_publish as JSON; - reads stdin.")],
    content: Annotated[
        Path | None, typer.Option("--content", help="A file with the text, instead of `content`.", exists=True)
    ] = None,
    operator: NameOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """What a proposal with these arguments would come to."""
    given = _arguments(file)
    if content is not None:
        given["content"] = _text(content)

    async def work(at: Installation) -> Preview:
        from server import planning

        return await planning.publication(at, given, _whoever(at, operator))

    _show(home, as_json, work)


@plan.command("withdraw")
def withdraw(
    command: Annotated[str, typer.Argument(help="cmd_… that published it.")],
    operator: NameOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """What taking it down would come to."""

    async def work(at: Installation) -> Preview:
        from server import planning

        return await planning.withdrawal(at, command, _whoever(at, operator))

    _show(home, as_json, work)


@plan.command("repeat")
def repeat(
    command: CommandArgument,
    operator: NameOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """What doing it once more would come to."""

    async def work(at: Installation) -> Preview:
        from server import planning

        return await planning.repetition(at, command, _whoever(at, operator))

    _show(home, as_json, work)


def _whoever(at: Installation, operator: str | None) -> str:
    """Looking ahead needs no role, only a name."""
    from server.operators import named_operator

    return f"operator:{named_operator(at.config.settings, operator)}"


@plan.command("show")
def show(command: CommandArgument, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """What was planned for a command when it was accepted."""

    async def work(at: Installation) -> Preview:
        from server import planning

        return await planning.of_command(at, command)

    _show(home, as_json, work)


def card(
    name: Annotated[str | None, typer.Argument(help="A definition or an intent; without one they are listed.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """What a definition promises, as ten blocks, with the times configured here."""

    async def work(at: Installation) -> None:
        from execution.card import card_of

        definitions = [intent.definition for intent in at.catalog.intents.values()]
        if name is None:
            rows = [(each.name, f"v{each.version}", each.intent, each.summary) for each in definitions]
            known = [{"name": n, "version": v, "intent": i, "summary": s} for n, v, i, s in rows]
            Output(as_json).show({"definitions": known}, table(("definition", "version", "intent", "for"), rows))
            return
        found = next((each for each in definitions if name in (each.name, each.intent)), None)
        if found is None:
            names = ", ".join(f"{each.name} ({each.intent})" for each in definitions)
            raise CommandFailed("unknown_definition", f"There is no definition {name} here.", f"Use one of: {names}.")
        blocks = card_of(found)
        shown = [part for block, lines in blocks.items() for part in (line(f"\n{block}", "bold"), *map(line, lines))]
        data = {"name": found.name, "version": found.version, "intent": found.intent, "blocks": blocks}
        Output(as_json).show(data, line(f"{found.name} v{found.version}", "bold"), *shown)

    with_installation(home, work)


def _show(home: Path | None, as_json: bool, work: Callable[[Installation], Awaitable[Preview]]) -> None:
    async def shown(at: Installation) -> None:
        from server import planning

        found = await work(at)
        Output(as_json).show(found.model_dump(exclude_none=True), *planning.rendered(found))

    with_installation(home, shown)


def _arguments(file: Path) -> dict[str, Any]:
    fix = 'For example {"article_id": "article-0028", "version": 1, "site": "blog", "title": "…", "content": "…"}.'
    text = sys.stdin.read() if str(file) == "-" else _text(file)
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise CommandFailed("usage", "The arguments are not a JSON object.", fix, Exit.USAGE)
    return given


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError:
        raise CommandFailed("usage", f"{file.name} is not UTF-8 text.", "", Exit.USAGE) from None
