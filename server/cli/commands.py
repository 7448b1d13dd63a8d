"""`status`, `ls`, `why`, `journal`: what happened, from the journal alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from server.cli.options import HomeOption, JsonOption, with_installation
from server.cli.output import WHICH_COMMAND, CommandFailed, Exit, Output, fields, line, table

if TYPE_CHECKING:
    from execution.proposal import CommandView
    from server.app import Installation

CommandArgument = Annotated[str, typer.Argument(help="cmd_…, or an idempotency key.")]
BundleOption = Annotated[
    Path | None, typer.Option("--bundle", help="Also write a support bundle (tar.gz): everything about it, no secrets.")
]
ContentOption = Annotated[bool, typer.Option("--with-content", help="Put the content into the bundle too.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=200, help="How many.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("status")(status)
    app.command("ls")(list_commands)
    app.command("why")(why)
    app.command("journal")(journal)


def status(
    command: CommandArgument,
    bundle: BundleOption = None,
    with_content: ContentOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Where a command stands. Exit code 5: needs review, 6: awaits approval, 7: outcome unknown."""

    async def work(at: Installation) -> int:
        view = await find(at, command)
        data = as_document(view) | await _bundled(at, view, bundle, with_content=with_content)
        steps = [(s.name, s.state, s.attempts, s.reference or s.external_resource_id, s.error_code) for s in view.steps]
        Output(as_json).show(
            data,
            fields(_headline(view)),
            table(["step", "state", "attempts", "reference", "error"], steps),
            line(f"\n{view.say_to_user}", "bold"),
            *(line(f"Left to {duty.owner}: {duty.what}.") for duty in view.follow_ups),
            *_told(data),
        )
        return exit_code(view)

    raise typer.Exit(with_installation(home, work))


def why(
    command: CommandArgument,
    bundle: BundleOption = None,
    with_content: ContentOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """In one paragraph: what is known, what is unknown, and what comes next. Exit codes as of `status`."""

    async def work(at: Installation) -> int:
        view = await find(at, command)
        text = paragraph(view)
        data = {"command_id": view.command_id, "state": view.state, "why": text, "next": next_for(view)}
        data |= await _bundled(at, view, bundle, with_content=with_content)
        Output(as_json).show(data, line(text), line(f"Next: {next_for(view)}", "bold"), *_told(data))
        return exit_code(view)

    raise typer.Exit(with_installation(home, work))


def list_commands(
    limit: LimitOption = 20,
    agent: Annotated[str | None, typer.Option("--agent", help="Only this agent's.")] = None,
    articles: Annotated[
        bool, typer.Option("--articles", help="Articles and what has become of them, instead of commands.")
    ] = False,
    site: Annotated[str | None, typer.Option("--site", help="Only articles of this site.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """The newest commands, or the articles that were worked on last."""
    if (site is not None and not articles) or (agent is not None and articles):
        raise CommandFailed("usage", "--site goes with --articles, --agent without it.", "", Exit.USAGE)

    async def work(at: Installation) -> None:
        if articles:
            from server.cli.articles import listing

            Output(as_json).show(*await listing(at, site, limit))
            return
        principal = None if agent is None else f"agent:{agent.removeprefix('agent:')}"
        views = await at.status.recent(at.tenant, principal, limit)
        rows = [
            (v.command_id, v.intent, v.site, f"{v.object_id} v{v.object_version}", v.state, v.proposed_by)
            for v in views
        ]
        documents = [_brief(view) for view in views]
        shown = (
            table(["command", "intent", "site", "article", "state", "by"], rows) if rows else line("No commands yet.")
        )
        Output(as_json).show({"commands": documents}, shown)

    with_installation(home, work)


def journal(
    command: CommandArgument,
    bundle: BundleOption = None,
    with_content: ContentOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """What happened to a command and its steps, in the order in which it was written. `--json`: every event whole."""
    from server.cli.telling import gist, is_told
    from server.results import moment

    async def work(at: Installation) -> None:
        view = await find(at, command)
        events = await at.status.journal(view.command_id)
        names = await _names(at, view.command_id)
        documents = [
            {
                "command_id": event.command_id,
                "step": names.get(event.command_id, ""),
                "seq": event.seq,
                "type": event.type.value,
                "actor": event.actor,
                "at_ms": event.at_ms,
                "body": json.loads(event.body),
                "hash": event.hash,
            }
            for event in events
        ]
        rows = [
            (moment(e.at_ms), names.get(e.command_id, ""), e.type.value, e.actor, gist(e)) for e in events if is_told(e)
        ]
        data = {"events": documents, **await _bundled(at, view, bundle, with_content=with_content)}
        shown = table(["at", "step", "event", "by", "says"], rows)
        rest = line(f"\n{len(rows)} of {len(events)} events; --json prints every one whole, with its hash.")
        Output(as_json).show(data, shown, rest, *_told(data))

    with_installation(home, work)


async def _bundled(at: Installation, view: CommandView, file: Path | None, *, with_content: bool) -> dict[str, Any]:
    """What a support bundle adds to the answer."""
    from server.bundle import BundleExists, write_bundle

    if file is None:
        return {}
    try:
        names = await write_bundle(at, view, paragraph(view), file, with_content=with_content)
    except BundleExists:
        raise CommandFailed("file_exists", f"{file} is there already.", "Name another file.") from None
    return {"bundle": {"file": str(file), "files": names, "with_content": with_content}}


def _told(data: dict[str, Any]) -> list[RenderableType]:
    made = data.get("bundle")
    if made is None:
        return []
    without = "" if made["with_content"] else ", without content"
    return [
        line(f"\nSupport bundle: {made['file']} ({len(made['files'])} files{without}). Look at it before you send it.")
    ]


async def find(at: Installation, command: str) -> CommandView:
    """The command by id or key."""
    by_id = command.startswith("cmd_")
    view = await (at.status.view(command) if by_id else at.status.by_key(at.tenant, command))
    if view is None:
        raise CommandFailed("command_not_found", f"There is no command {command} here.", WHICH_COMMAND)
    return view


def exit_code(view: CommandView) -> Exit:
    """What a script wants to know first."""
    if view.answers.unknown:
        return Exit.UNKNOWN
    if view.reviews:
        return Exit.REVIEW
    return Exit.APPROVAL if _awaits_approval(view) else Exit.OK


def as_document(view: CommandView) -> dict[str, Any]:
    """The whole answer, the same that agents get in detail and not cut to a size."""
    from server.results import full

    return full(view).model_dump(mode="json", exclude_none=True)


def paragraph(view: CommandView) -> str:
    """What is known and what is not, in sentences."""
    answers = view.answers
    said = [view.say_to_user]
    said += [f"Done and proven: {', '.join(answers.succeeded)}."] if answers.succeeded else []
    said += [
        f"Outcome unknown: {', '.join(answers.unknown)}; Remit reads it back and repeats nothing until then."
    ] * bool(answers.unknown)
    said += [f"Still to do: {', '.join(answers.remaining)}."] if answers.remaining else []
    said += [f"Compensation: {answers.compensation}."] if answers.compensation not in ("none", "not_needed", "") else []
    said += ["Reality was seen to differ from the journal."] if answers.diverged else []
    said += [f"First error: {view.error_code}."] if view.error_code else []
    said += [f"Its trace: {view.trace_id}."] if view.trace_id else []
    said += [f"Left to {duty.owner}: {duty.what}." for duty in view.follow_ups]
    return " ".join(said)


def next_for(view: CommandView) -> str:
    """What a person does now."""
    if view.reviews:
        review = view.reviews[0]
        return f"`remit review show {review.review_id}`, then rule: {', '.join(review.verdicts)}."
    if "HELD" in view.blockers:
        return f"`remit freeze ls` says what holds it; then `remit freeze off` or `remit resume {view.command_id}`."
    if _awaits_approval(view):
        return f"`remit approve {view.command_id}`, or `remit reject {view.command_id} --reason …`."
    return "Nothing." if view.done else "Nothing by you: a worker goes on (`remit serve` or `remit worker` must run)."


def _awaits_approval(view: CommandView) -> bool:
    """The blocker stays until a worker has seen the answer; a person is done once it is given."""
    return "AWAITING_APPROVAL" in view.blockers and view.approval.state == "PENDING"


async def _names(at: Installation, command_id: str) -> dict[str, str]:
    saga = await at.status.saga(command_id)
    assert saga is not None, "the command was found just now"
    return {row.command_id: row.command_type for row in (saga.root, *saga.members)}


def _brief(view: CommandView) -> dict[str, Any]:
    return {
        "command_id": view.command_id,
        "intent": view.intent,
        "site": view.site,
        "article_id": view.object_id,
        "version": view.object_version,
        "state": view.state,
        "done": view.done,
        "live": view.live,
        "principal": view.principal,
        "proposed_by": view.proposed_by,
        "created_at_ms": view.created_at_ms,
    }


def _schedule(view: CommandView) -> str | None:
    from server.results import moment

    local = f" ({view.publish_at_local})" if view.publish_at_local else ""
    return f"{moment(view.publish_at_ms)}{local}" if view.publish_at_ms is not None else None


def _public(view: CommandView) -> str | None:
    """Whether what this command publishes is public; of one that takes down only the article can be."""
    from server.results import moment

    if view.takes_down:
        return None
    return f"live, last seen {moment(view.verified_at_ms)}" if view.live else "not live"


def _headline(view: CommandView) -> list[tuple[str, object]]:
    from server.results import moment

    waiting = view.waiting_for
    return [
        ("command", view.command_id),
        ("article", f"{view.object_id} v{view.object_version} on {view.site}"),
        ("state", f"{view.state} ({view.phase})" if view.phase else view.state),
        ("article is", view.content),
        ("this version", _public(view)),
        ("scheduled", _schedule(view)),
        ("url", view.reference),
        ("proposed by", view.proposed_by),
        ("repeats", view.repeat_of),
        ("waits for", f"{waiting.what} ({waiting.who}) since {moment(waiting.since_ms)}" if waiting else None),
        ("approval", f"{view.approval.state} {view.approval.content_hash or ''}".strip()),
        ("key", view.idempotency_key),
    ]
