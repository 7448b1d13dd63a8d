"""`approve`, `reject`, `cancel`, `freeze`: what a person decides about what has not happened yet.

An approval is signed with an operator's key over one hash. The person sees what exactly would be done first; on a
terminal the home's key is found by itself, elsewhere it is named, so that no script approves by accident.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import HomeOption, JsonOption, OperatorOption, ReasonOption, acting, with_installation
from server.cli.output import CommandFailed, Exit, Output, line, on_terminal, table

if TYPE_CHECKING:
    from capabilities.keys import OperatorKey
    from execution.core.command import Approval
    from server.app import Installation
    from server.config import Config

freeze = typer.Typer(help="Hold everything, or one site or system.", no_args_is_help=True)
CommandArgument = Annotated[str, typer.Argument(help="cmd_…")]
ScopeOption = Annotated[str, typer.Option("--scope", help="all, site:NAME or system:NAME.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("approve")(approve)
    app.command("reject")(reject)
    app.command("cancel")(cancel)
    app.add_typer(freeze, name="freeze")


def approve(
    command: CommandArgument,
    content_hash: Annotated[str | None, typer.Option("--hash", help="What you approve, as shown.")] = None,
    operator_key: Annotated[Path | None, typer.Option("--operator-key", help="Your key file (0600).")] = None,
    show: Annotated[bool, typer.Option("--show", help="Only show what would be approved.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would be published, and approve exactly that."""
    from server import approving

    async def work(at: Installation) -> None:
        output = Output(as_json)
        shown = await approving.pending(at, command)
        if show or content_hash is None:
            output.show(shown.document(), *approving.rendered(shown))
            if show or not on_terminal() or as_json:
                if show:
                    return
                again = f"remit approve {command} --hash {shown.approval.content_hash} --operator-key FILE"
                fix = f"Look at it, then: {again}"
                raise CommandFailed("hash_needed", "Nothing was approved: the hash is missing.", fix, Exit.USAGE)
            if typer.prompt("Type the article's id to approve exactly this") != shown.subject.get("article_id"):
                raise CommandFailed("not_confirmed", "Nothing was approved.")
        key = _key(at.config, operator_key)
        given = content_hash or shown.approval.content_hash
        decided = await approving.approve(at, shown, given, key)
        _show_approved(output, command, decided)

    with_installation(home, work)


def _show_approved(output: Output, command: str, decided: Approval) -> None:
    data = {"command_id": command, "approved": True, "content_hash": decided.content_hash, "by": decided.decided_by}
    output.show(data, line(f"Approved by {decided.decided_by}: {decided.content_hash}", "bold green"))


def reject(
    command: CommandArgument,
    reason: ReasonOption = "rejected by an operator",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say no, or take back a yes that was not used yet: what was prepared is undone."""

    async def work(at: Installation) -> None:
        from server.approving import operating

        async with operating():
            await at.operations().reject(command, operator=acting(at, operator), reason=reason)
        Output(as_json).show({"command_id": command, "rejected": True}, line(f"{command} is rejected; it unwinds."))

    with_installation(home, work)


def cancel(
    command: CommandArgument,
    reason: ReasonOption = "cancelled by an operator",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop before it is published: what was prepared is undone."""

    async def work(at: Installation) -> None:
        from server.approving import operating

        async with operating():
            await at.operations().cancel(command, operator=acting(at, operator), reason=reason)
        Output(as_json).show({"command_id": command, "cancelled": True}, line(f"{command} is cancelled; it unwinds."))

    with_installation(home, work)


@freeze.command("on")
def freeze_on(
    scope: ScopeOption = "all",
    reason: ReasonOption = "frozen by an operator",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """From the next fence on nothing of that scope is sent. Looking and finding out go on."""
    from execution.store import authority

    named = _scope(scope)

    async def work(at: Installation) -> None:
        by, now_ms = acting(at, operator), at.clock.now_ms()
        known = at.config.settings.site
        if scope.startswith("site:") and scope.removeprefix("site:") not in known:
            fix = f"Nothing was frozen. Use one of: {', '.join(f'site:{name}' for name in sorted(known))}."
            raise CommandFailed("unknown_site", "There is no such site here.", fix, Exit.USAGE)
        fresh = await at.store.transact(
            lambda conn: authority.restrict(conn, named, reason=reason, by=by, now_ms=now_ms)
        )
        Output(as_json).show({"scope": named, "frozen": True, "fresh": fresh}, line(f"{named} is in force."))

    with_installation(home, work)


@freeze.command("off")
def freeze_off(scope: ScopeOption = "all", home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Let it go on."""
    from execution.store import authority

    named = _scope(scope)

    async def work(at: Installation) -> None:
        lifted = await at.store.transact(lambda conn: authority.lift(conn, named))
        text = f"{named} is lifted." if lifted else f"{named} was not in force."
        Output(as_json).show({"scope": named, "frozen": False, "fresh": lifted}, line(text))

    with_installation(home, work)


@freeze.command("ls")
def freeze_list(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Freezes and revocations in force."""
    from execution.store import authority
    from server.results import moment

    async def work(at: Installation) -> None:
        found = await at.store.read(authority.restrictions)
        data = [{"scope": r.scope, "reason": r.reason, "by": r.by, "since_ms": r.since_ms} for r in found]
        rows = [(r.scope, r.reason, r.by, moment(r.since_ms)) for r in found]
        Output(as_json).show({"restrictions": data}, table(["scope", "reason", "by", "since"], rows))

    with_installation(home, work)


def _scope(text: str) -> str:
    from execution.store.authority import scope_kind

    try:
        scope_kind(f"freeze:{text}")
    except ValueError:
        fix = "Use all, site:NAME or system:NAME."
        raise CommandFailed("usage", "There is no such scope.", fix, Exit.USAGE) from None
    return f"freeze:{text}"


def _key(config: Config, named: Path | None) -> OperatorKey:
    """The key that is named (option or REMIT_OPERATOR_KEY); on a terminal the only one of the home."""
    from capabilities.keys import load_operator_key
    from server.config import operator_key_from_environment

    path = named or operator_key_from_environment()
    if path is None and on_terminal():
        found = sorted((config.home / "operators").glob("*.pem"))
        path = found[0] if len(found) == 1 else None
    if path is None:
        fix = "Add --operator-key FILE. Off a terminal no key is ever picked by itself."
        raise CommandFailed("operator_key_needed", "An approval is signed with an operator's key.", fix, Exit.AUTH)
    return load_operator_key(path)
