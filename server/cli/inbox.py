"""`inbox`: facts from outside, as operators saw them or as systems reported them. Evidence; nothing is done by it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.options import HomeOption, JsonOption, OperatorOption, acting, with_installation
from server.cli.output import WHICH_COMMAND, CommandFailed, Exit, Output, line, table
from server.roles import Verb

if TYPE_CHECKING:
    from execution.store.inbox import Delivery
    from server.app import Installation

inbox = typer.Typer(help="Facts from outside: what was seen, and by whom.", no_args_is_help=True)

_EXAMPLE = "remit inbox add gone --about cmd_…`, or `remit inbox add gone --message 'mail=<ID>' --code bounced"
_FIXES = {
    "unknown_command": WHICH_COMMAND,
    "unknown_step": "`remit status` lists the steps of that command.",
    "delivery_conflict": "Another fact has that id: give this one its own with --delivery.",
    "busy": "Ask again.",
}
_INVALID = {
    "source": "An operator's name has another form.",
    "delivery_id": "--delivery is 1 to 200 visible characters without spaces.",
    "code": "--code is one word of a-z, 0-9 and _ that begins with a letter, for example bounced.",
    "note": "--note is too long: a few sentences.",
    "command_id": f"Say whom it is about, in one of two ways: `{_EXAMPLE}`.",
}
"""What to do about a fact that has not the form of one, by what is wrong with it."""


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.add_typer(inbox, name="inbox")


@inbox.command("add")
def add(
    says: Annotated[str, typer.Argument(help="there, or gone.")],
    command: Annotated[str | None, typer.Option("--about", help="cmd_… whose effect it is.")] = None,
    step: Annotated[
        str | None, typer.Option("--step", help="Which of its steps; without it what it published.")
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", help="Instead of --about: SYSTEM=ID, as in mail=<remit.…@…>.")
    ] = None,
    code: Annotated[str, typer.Option("--code", help="What happened, in one word of a-z, 0-9 and _.")] = "seen",
    delivery: Annotated[
        str | None, typer.Option("--delivery", help="The id of this observation; the same id is kept once.")
    ] = None,
    note: Annotated[str, typer.Option("--note", help="In your own words; it stands in the journal.")] = "",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Note what you saw of an effect. What contradicts how it ended becomes a question."""
    from execution.core.inbound import Says
    from execution.inbox import Inbound, InboxRefused

    if says not in set(Says):
        said = f"What was seen is said as there or as gone, not as {says}."
        raise CommandFailed("usage", said, f"For example `{_EXAMPLE}`.", Exit.USAGE)
    system, _, name = (message or "").partition("=")

    async def work(at: Installation) -> None:
        said = "\n".join((says, command or "", step or "", message or "", code, note))
        about = hashlib.sha256(said.encode()).hexdigest()
        fact = Inbound(
            source=await acting(at, operator, Verb.INBOX_ADD).signs(command or message or "", said=about),
            delivery_id=delivery or f"seen-{about[:16]}",
            says=Says(says),
            code=code,
            command_id=command or "",
            step=step or "",
            system=system,
            resource_id=name,
            note=note,
        )
        try:
            received = await at.inbox().receive(fact)
        except InboxRefused as error:
            raise _failed(error) from None
        data = _document(received.delivery) | {"again": received.again}
        Output(as_json).show(data, line(_told(received.delivery, again=received.again)))

    with_installation(home, work)


@inbox.command("ls")
def ls(
    unmatched: Annotated[bool, typer.Option("--unmatched", help="Only what is about nobody we know.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500)] = 50,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """What reached us, newest first."""
    from execution.inbox import UNMATCHED
    from execution.store import inbox as stored

    async def work(at: Installation) -> None:
        wanted = UNMATCHED if unmatched else None
        found = await at.store.read(lambda conn: stored.recent(conn, at.tenant, outcome=wanted, limit=limit))
        documents = [_document(each) for each in found]
        rows = [
            (d["received_at"], d["source"], d["delivery_id"], d["says"], d["code"], d["about"], d["outcome"])
            for d in documents
        ]
        columns = ("at", "from", "delivery", "says", "code", "about", "outcome")
        Output(as_json).show({"facts": documents}, table(columns, rows) if rows else line("Nothing came in."))

    with_installation(home, work)


def _failed(error: Any) -> CommandFailed:
    usage = error.code == "invalid_fact"
    fix = _INVALID.get(error.field, "") if usage else _FIXES.get(error.code, "")
    said = f"Nothing was kept: {error.code.replace('_', ' ')}."
    return CommandFailed(error.code, said, fix, Exit.USAGE if usage else Exit.FAILED)


def _told(delivery: Delivery, *, again: bool) -> str:
    known = " It had been kept before." if again else ""
    match delivery.outcome:
        case "contradicts":
            return f"That contradicts how it ended: `remit review show {delivery.review_id}`.{known}"
        case "unmatched":
            return f"It is kept; nobody here is known under that name.{known}"
        case _:
            return f"It is kept as evidence of {delivery.command_id}.{known}"


def _document(delivery: Delivery) -> dict[str, Any]:
    from server.results import moment

    return {
        "source": delivery.source,
        "delivery_id": delivery.delivery_id,
        "says": delivery.says,
        "code": delivery.code,
        "about": delivery.command_id or f"{delivery.system}={delivery.resource_id}",
        "root_id": delivery.root_id,
        "outcome": delivery.outcome,
        "review_id": delivery.review_id,
        "received_at": moment(delivery.received_at_ms),
    }
