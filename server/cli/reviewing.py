"""`review`: questions that machines cannot answer, everything that is known about them, and what people rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.options import (
    FullOption,
    HomeOption,
    JsonOption,
    OperatorOption,
    ReasonOption,
    acting,
    with_installation,
)
from server.cli.output import CommandFailed, Exit, Output, line, table
from server.roles import Verb

if TYPE_CHECKING:
    from execution.case import Case
    from execution.core.states import Verdict
    from execution.store.registry import Question
    from server.acting import Acting
    from server.app import Installation

review = typer.Typer(help="Questions that need a person.", no_args_is_help=True)
ReviewArgument = Annotated[str, typer.Argument(help="rev_…")]
KindOption = Annotated[str | None, typer.Option("--kind", help="Only this kind, e.g. OUTCOME_UNKNOWN.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.add_typer(review, name="review")


@review.command("ls")
def list_reviews(
    kind: KindOption = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only whose this is (an operator's name).")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open questions, the oldest first."""
    from execution.moments import age

    async def work(at: Installation) -> None:
        now_ms = at.clock.now_ms()
        every = await at.operations().reviews()
        found = [q for q in every if kind in (None, q.review.kind) and (owner is None or _owned_by(q, owner))]
        documents = [_line(question, now_ms) for question in found]
        rows = [
            (d["review_id"], d["kind"], d["step"], d["object"], d["owner"], age(d["age_s"]), ", ".join(d["verdicts"]))
            for d in documents
        ]
        columns = ["review", "kind", "step", "about", "owner", "age", "verdicts"]
        Output(as_json).show({"reviews": documents}, table(columns, rows) if rows else line("No open questions."))

    with_installation(home, work)


@review.command("show")
def show(
    review_id: ReviewArgument,
    look: Annotated[bool, typer.Option("--look", help="Ask every system now; needs its credentials.")] = False,
    full: FullOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """One question with everything that is needed to answer it, as the journal last saw it or as it is now."""
    from server.cli.showing import document_of, rendered
    from server.comparing import read_compared

    async def work(at: Installation) -> None:
        found = await _case(at, review_id, look=look)
        compared = await read_compared(at.store, found.facts, whole=full or as_json)
        Output(as_json).show(document_of(found, compared, at.config), *rendered(found, compared, at.config))

    with_installation(home, work)


@review.command("take")
def take(
    review_id: ReviewArgument,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say that you look after it. What somebody else has taken stays theirs."""

    async def work(at: Installation) -> None:
        by = await acting(at, operator, Verb.REVIEW_TAKE).signs(review_id)
        await _assign(at, review_id, owner=by, by=by, take_over=False, as_json=as_json)

    with_installation(home, work)


@review.command("assign")
def assign(
    review_id: ReviewArgument,
    owner: Annotated[str, typer.Argument(help="Name of an operator.")],
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give it to somebody, whoever had it."""

    async def work(at: Installation) -> None:
        from server.operators import named_operator

        who = acting(at, operator, Verb.REVIEW_ASSIGN)
        named = f"operator:{named_operator(at.config.settings, owner)}"
        by = await who.signs(review_id, owner=named)
        await _assign(at, review_id, owner=named, by=by, take_over=True, as_json=as_json)

    with_installation(home, work)


@review.command("rule")
def rule(
    review_id: Annotated[str | None, typer.Argument(help="rev_…; without it many at once, see --as.")] = None,
    verdict: Annotated[str | None, typer.Argument(help="One of the offered verdicts.")] = None,
    reason: ReasonOption = "",
    as_: Annotated[str | None, typer.Option("--as", help="Many at once: this verdict, for all that match.")] = None,
    cause: Annotated[str | None, typer.Option("--cause", help="Many at once: only with this code.")] = None,
    kind: KindOption = None,
    older_than: Annotated[str | None, typer.Option("--older-than", help="Only open this long, e.g. 1h.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="At most so many, the oldest first.")] = 50,
    pace: Annotated[float, typer.Option("--pace", min=0.0, max=60.0, help="Seconds between two.")] = 1.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be ruled.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rule. A worker reads reality back first, each time, and refuses a verdict that it contradicts."""
    from server.cli.many import Wanted, rule_many

    many = as_ is not None
    if many == (review_id is not None) or (review_id is None) != (verdict is None):
        fix = "Either REVIEW VERDICT, or --as VERDICT with --kind or --cause."
        raise CommandFailed("usage", "It is not clear what to rule.", fix, Exit.USAGE)
    if not many and (cause or kind or older_than or dry_run):
        raise CommandFailed("usage", "Those options are for many at once.", "Add --as VERDICT.", Exit.USAGE)
    chosen = _verdict(as_ or verdict or "")

    async def work(at: Installation) -> int:
        by = acting(at, operator, Verb.REVIEW_RULE)
        if review_id is not None:
            await _rule_one(at, review_id, chosen, by, reason, as_json=as_json)
            return Exit.OK
        wanted = Wanted(verdict=chosen, kind=kind, cause=cause, older_than=older_than, limit=limit, pace_s=pace)
        return await rule_many(at, wanted, by, reason, Output(as_json), dry_run=dry_run, yes=yes)

    raise typer.Exit(with_installation(home, work))


def _verdict(name: str) -> Verdict:
    from execution.core.states import Verdict

    known = [verdict.value for verdict in Verdict]
    if name not in known:
        fix = f"Use one that `remit review show` offers, out of: {', '.join(known)}."
        raise CommandFailed("usage", f"There is no verdict {name}.", fix, Exit.USAGE)
    return Verdict(name)


async def _rule_one(
    at: Installation, review_id: str, verdict: Verdict, by: Acting, reason: str, *, as_json: bool
) -> None:
    from server.approving import operating

    async with operating():
        ruled = by.rules(review_id, verdict=verdict, reason=reason)
        await at.operations().request_ruling(review_id, verdict=verdict, reason=reason, **ruled)
    text = f"{verdict} is requested; a worker checks it against reality and carries it out."
    Output(as_json).show({"review_id": review_id, "verdict": verdict.value, "requested": True}, line(text))


async def _assign(at: Installation, review_id: str, *, owner: str, by: str, take_over: bool, as_json: bool) -> None:
    from server.approving import operating

    async with operating():
        changed = await at.operations().assign(review_id, owner=owner, operator=by, take_over=take_over)
    text = f"{review_id} is {owner.removeprefix('operator:')}'s."
    Output(as_json).show({"review_id": review_id, "owner": changed.owner}, line(text))


async def _case(at: Installation, review_id: str, *, look: bool) -> Case:
    from execution.case import open_case

    if not look:
        found = await open_case(at.store, at.catalog, at.clock, review_id)
    else:
        from execution.pace import Pace
        from server.app import paces
        from server.outside import adapters_of

        outside, pace = adapters_of(at), Pace(at.clock, paces(at.config.settings))
        try:
            found = await open_case(at.store, at.catalog, at.clock, review_id, at.looker(outside.ports, pace))
        finally:
            await outside.aclose()
    if found is None:
        raise CommandFailed(
            "unknown_review", f"There is no review {review_id} here.", "`remit review ls` lists the open ones."
        )
    return found


def _owned_by(question: Question, name: str) -> bool:
    return question.review.owner in (name, f"operator:{name}")


def _line(question: Question, now_ms: int) -> dict[str, Any]:
    found = question.review
    return {
        "review_id": found.review_id,
        "command_id": found.root_id,
        "kind": found.kind.value,
        "cause": found.cause,
        "step": question.step,
        "object": f"{question.object_id} v{question.object_version} on {question.site}",
        "owner": found.owner,
        "opened_at_ms": found.opened_at_ms,
        "age_s": max(0.0, (now_ms - found.opened_at_ms) / 1000),
        "verdicts": found.verdicts.split(","),
        "ruling": found.verdict,
        "last": found.reason,
    }
