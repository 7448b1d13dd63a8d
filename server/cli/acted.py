"""`acts`: what operators did, and whether it was them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.options import HomeOption, JsonOption, with_installation
from server.cli.output import Exit, Output, table

if TYPE_CHECKING:
    from execution.approvers import Approvers
    from execution.store.acts import Act
    from server.app import Installation


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("acts")(acts)


def acts(
    limit: Annotated[int, typer.Option("--limit", min=1, max=500)] = 50,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """What operators asked for, newest first, each held against the configured key of whoever is named. Approvals and
    rulings stand with what they are about (`remit journal`). Exit code 1: one of them nobody of that name signed."""
    from execution.store.acts import recent
    from server.operators import known_operators

    async def work(at: Installation) -> bool:
        believed = known_operators(at.config.settings)
        found = [_document(act, believed) for act in await at.store.read(lambda conn: recent(conn, limit))]
        rows = [(d["at"], d["by"], d["verb"], d["subject"], _particulars(d), d["signature"]) for d in found]
        heads = ["at", "by", "did", "to", "", "signature"]
        Output(as_json).show({"acts": found}, table(heads, rows))
        return all(each["signature"] == "holds" for each in found)

    if not with_installation(home, work):
        raise typer.Exit(Exit.FAILED)


def _document(act: Act, believed: Approvers) -> dict[str, Any]:
    from execution.acts import invalid
    from server.results import moment

    return {
        "act_id": act.act_id,
        "at": moment(act.at_ms),
        "by": act.by,
        "verb": act.verb,
        "subject": act.subject,
        "what": json.loads(act.what),
        "signature": invalid(act, believed) or "holds",
    }


def _particulars(document: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in document["what"].items() if value not in (None, "", [], {}))
