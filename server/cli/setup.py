"""`init`, `migrate`, `version`: a home and what is installed."""

from __future__ import annotations

import shlex
from importlib import metadata
from typing import Annotated

import typer

from server.cli.options import HomeOption, JsonOption
from server.cli.output import CommandFailed, Exit, Output, fields, line


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("init")(init)
    app.command("migrate")(migrate)
    app.command("version")(version)


def init(
    home: HomeOption = None,
    tenant: Annotated[str, typer.Option("--tenant", help="Name of the organisation; part of every key.")] = "local",
    operator: Annotated[str | None, typer.Option("--operator", help="Your name as an operator.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a home that works at once against the sandbox."""
    from capabilities.identifiers import is_segment
    from server.app import SystemClock, Ulids
    from server.config import CONFIG_NAME, find_home
    from server.home import HomeExists, HomeUnusable, create_home

    if not all(is_segment(name) for name in (tenant, operator or "x")):
        fix = "Use 1 to 64 characters out of a-z, 0-9, '.', '_' and '-', the first a letter or digit."
        raise CommandFailed("invalid_name", "The tenant's or operator's name is not usable.", fix, Exit.USAGE)
    folder = find_home(home)
    try:
        made = create_home(folder, clock=SystemClock(), ids=Ulids(), tenant=tenant, operator=operator)
    except HomeExists:
        fix = "Name another folder with --home, or remove this one if you are sure. Nothing was touched."
        raise CommandFailed("home_exists", f"{folder} is there already and not empty.", fix) from None
    except HomeUnusable as error:
        fix = "Name another folder with --home, or let this user write to the one above it."
        raise CommandFailed("home_unusable", f"{folder} cannot be made: {error}.", fix) from None
    data = {
        "home": str(made.home),
        "installation_id": made.installation_id,
        "tenant": made.tenant,
        "operator": made.operator,
        "operator_key": str(made.operator_key),
        "issuer_key": str(made.issuer_key),
        "config": str(made.home / CONFIG_NAME),
    }
    at = shlex.quote(str(made.home))
    Output(as_json).show(
        data,
        line(f"Made {made.home}. It works at once against the sandbox.", "bold green"),
        fields([(name.replace("_", " "), value) for name, value in data.items() if name != "home"]),
        line(
            f"\nNext:\n  remit serve --http --home {at}\n"
            "and, while that runs, for your agent's host (claude-code, claude-desktop, cursor, vscode, inspector):\n"
            f"  remit token issue --agent writer --for claude-code --home {at}\n"
            f'For real systems fill in the lines marked "real:" in {CONFIG_NAME}.'
        ),
    )


def migrate(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Bring the home's database to this release's schema, and make the customer's tables where they are missing."""
    from execution.store.migrate import migrate as bring
    from server.config import load_config
    from server.outside import make_tables

    config = load_config(home)
    before, after = bring(config.database)
    make_tables(config)
    text = "The database is up to date." if before == after else f"The database went from {before} to {after}."
    Output(as_json).show({"before": before, "after": after}, line(text))


def version(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Which release this is, and where it lies."""
    found = installed()
    place = str(metadata.distribution("remit").locate_file(""))
    Output(as_json).show({"version": found, "location": place}, line(f"remit {found} ({place})"))


def installed() -> str:
    """The release."""
    return metadata.version("remit")
