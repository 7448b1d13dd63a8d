"""`review`: questions that machines cannot answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.options import HomeOption, JsonOption, OperatorOption, ReasonOption, acting, with_installation
from server.cli.output import CommandFailed, Exit, Output, fields, line, table

if TYPE_CHECKING:
    from execution.core.command import Review
    from server.app import Installation

review = typer.Typer(help="Questions that need a person.", no_args_is_help=True)
ReviewArgument = Annotated[str, typer.Argument(help="rev_…")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.add_typer(review, name="review")


@review.command("ls")
def list_reviews(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Open questions, the oldest first."""
    from server.results import moment

    async def work(at: Installation) -> None:
        found = await at.operations().reviews()
        rows = [(r.review_id, r.kind.value, r.root_id, r.owner, moment(r.opened_at_ms), r.verdicts) for r in found]
        documents = [_document(item) for item in found]
        columns = ["review", "kind", "command", "owner", "since", "verdicts"]
        Output(as_json).show({"reviews": documents}, table(columns, rows) if rows else line("No open questions."))

    with_installation(home, work)


@review.command("show")
def show(review_id: ReviewArgument, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """One question with its facts."""

    async def work(at: Installation) -> None:
        found = await at.operations().review(review_id)
        if found is None:
            raise CommandFailed("unknown_review", "There is no such review.", "See `remit review ls`.")
        data = _document(found)
        pairs = [(name, value) for name, value in data.items() if name != "facts"]
        Output(as_json).show(data, fields(pairs), line("\nFacts:", "bold"), fields([*data["facts"].items()]))

    with_installation(home, work)


@review.command("rule")
def rule(
    review_id: ReviewArgument,
    verdict: Annotated[str, typer.Argument(help="One of the offered verdicts.")],
    reason: ReasonOption = "",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rule. A worker reads reality back first and refuses a verdict that it contradicts."""
    from execution.core.states import Verdict

    if verdict not in [known.value for known in Verdict]:
        fix = f"Use one of: {', '.join(known.value for known in Verdict)}."
        raise CommandFailed("usage", "There is no such verdict.", fix, Exit.USAGE)

    async def work(at: Installation) -> None:
        from server.approving import operating

        async with operating():
            await at.operations().request_ruling(
                review_id, verdict=Verdict(verdict), operator=acting(at, operator), reason=reason
            )
        text = f"{verdict} is requested; a worker checks it against reality and carries it out."
        Output(as_json).show({"review_id": review_id, "verdict": verdict, "requested": True}, line(text))

    with_installation(home, work)


def _document(found: Review) -> dict[str, Any]:
    return {
        "review_id": found.review_id,
        "command_id": found.root_id,
        "kind": found.kind.value,
        "owner": found.owner,
        "opened_at_ms": found.opened_at_ms,
        "verdicts": found.verdicts.split(","),
        "verdict": found.verdict,
        "by": found.closed_by,
        "reason": found.reason,
        "closed": found.closed_at_ms is not None,
        "facts": json.loads(found.facts),
    }
