"""`approve`, `reject`, `cancel`, `hold`, `resume`, `freeze`: what a person decides about what has not happened yet.

An approval is signed with an operator's key over one hash. The person sees what exactly would be done first; on a
terminal the home's key is found by itself, elsewhere it is named, so that no script approves by accident.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

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
from server.cli.output import CommandFailed, Exit, Output, line, on_terminal, table
from server.roles import Verb

if TYPE_CHECKING:
    from capabilities.keys import OperatorKey
    from execution.core.command import Approval
    from server.app import Installation
    from server.config import Config

freeze = typer.Typer(help="Hold everything, or one site, system or tenant.", no_args_is_help=True)
CommandArgument = Annotated[str, typer.Argument(help="cmd_…")]
ScopeOption = Annotated[
    str | None, typer.Option("--scope", help="site:NAME, system:NAME or tenant:NAME; default: everything.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Everything, said out loud.")]

_KINDS: Final = ("all", "site", "system", "tenant")


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("approve")(approve)
    app.command("reject")(reject)
    app.command("cancel")(cancel)
    app.command("hold")(hold)
    app.command("resume")(resume)
    app.add_typer(freeze, name="freeze")


def approve(
    command: CommandArgument,
    content_hash: Annotated[str | None, typer.Option("--hash", help="What you approve, as shown.")] = None,
    operator_key: Annotated[Path | None, typer.Option("--operator-key", help="Your key file (0600).")] = None,
    show: Annotated[bool, typer.Option("--show", help="Only show what would be approved.")] = False,
    full: FullOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what would be published, and approve exactly that."""
    from server import approving
    from server.cli.approval import rendered

    async def work(at: Installation) -> None:
        output = Output(as_json)
        shown = await approving.pending(at, command)
        if show or content_hash is None:
            output.show(shown.document(), *rendered(shown, whole=full))
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
            by = await acting(at, operator, Verb.REJECT).signs(command, reason=reason)
            await at.operations().reject(command, operator=by, reason=reason)
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
            by = await acting(at, operator, Verb.CANCEL).signs(command, reason=reason)
            await at.operations().cancel(command, operator=by, reason=reason)
        Output(as_json).show({"command_id": command, "cancelled": True}, line(f"{command} is cancelled; it unwinds."))

    with_installation(home, work)


def hold(
    command: CommandArgument,
    reason: ReasonOption = "held by an operator",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hold one command: from its next fence on nothing of it is sent. Looking and finding out go on."""

    async def work(at: Installation) -> None:
        from server.approving import operating

        async with operating():
            by = await acting(at, operator, Verb.HOLD).signs(command, reason=reason)
            await at.operations().hold(command, operator=by, reason=reason)
        Output(as_json).show({"command_id": command, "held": True}, line(f"{command} is held until `remit resume`."))

    with_installation(home, work)


def resume(
    command: CommandArgument, operator: OperatorOption = None, home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Let a held command go on. A freeze that stands beside the hold stays."""

    async def work(at: Installation) -> None:
        from server.approving import operating

        async with operating():
            by = await acting(at, operator, Verb.RESUME).signs(command)
            await at.operations().resume(command, operator=by)
        Output(as_json).show({"command_id": command, "held": False}, line(f"{command} goes on."))

    with_installation(home, work)


@freeze.command("on")
def freeze_on(
    scope: ScopeOption = None,
    everything: AllOption = False,
    reason: ReasonOption = "frozen by an operator",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """From the next fence on nothing of that scope is sent. Looking and finding out go on."""
    from execution.store import authority

    kind, name = _scope(scope, everything=everything)
    named = _restriction(kind, name)

    async def work(at: Installation) -> None:
        who, now_ms = acting(at, operator, Verb.FREEZE_ON), at.clock.now_ms()
        _check_known(at, kind, name)
        by = await who.signs(named, reason=reason)
        fresh = await at.store.transact(
            lambda conn: authority.restrict(conn, named, reason=reason, by=by, now_ms=now_ms)
        )
        Output(as_json).show({"scope": named, "frozen": True, "fresh": fresh}, line(f"{named} is in force."))

    with_installation(home, work)


@freeze.command("off")
def freeze_off(
    scope: ScopeOption = None,
    everything: AllOption = False,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let it go on."""
    from execution.store import authority

    kind, name = _scope(scope, everything=everything)
    named = _restriction(kind, name)

    async def work(at: Installation) -> None:
        await acting(at, operator, Verb.FREEZE_OFF).signs(named)
        lifted = await at.store.transact(lambda conn: authority.lift(conn, named))
        if not lifted:
            _check_known(at, kind, name)
        text = f"{named} is lifted." if lifted else f"{named} was not in force."
        Output(as_json).show({"scope": named, "frozen": False, "fresh": lifted}, line(text))

    with_installation(home, work)


@freeze.command("ls")
def freeze_list(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Freezes, holds and revocations in force."""
    from execution.store import authority
    from server.results import moment

    async def work(at: Installation) -> None:
        found = await at.store.read(authority.restrictions)
        data = [{"scope": r.scope, "reason": r.reason, "by": r.by, "since_ms": r.since_ms} for r in found]
        rows = [(r.scope, r.reason, r.by, moment(r.since_ms)) for r in found]
        shown = table(["scope", "reason", "by", "since"], rows) if rows else line("Nothing is frozen, held or revoked.")
        Output(as_json).show({"restrictions": data}, shown)

    with_installation(home, work)


def _scope(text: str | None, *, everything: bool) -> tuple[str, str]:
    """What is to be frozen: a kind of scope and a name of that kind, empty for everything."""
    if text is not None and everything:
        raise CommandFailed("usage", "--all and --scope exclude each other.", "Use one of them.", Exit.USAGE)
    kind, _, name = (text or "all").partition(":")
    if kind not in _KINDS or (kind == "all") != (name == ""):
        fix = "Use --all, or --scope with site:NAME, system:NAME or tenant:NAME. One command: `remit hold`."
        raise CommandFailed("usage", "There is no such scope.", fix, Exit.USAGE)
    return kind, name


def _restriction(kind: str, name: str) -> str:
    return f"freeze:{kind}:{name}" if name else f"freeze:{kind}"


def _check_known(at: Installation, kind: str, name: str) -> None:
    """A freeze of what does not exist would hold nothing, and somebody would rely on it."""
    known = {
        "all": {""},
        "site": set(at.config.settings.site),
        "system": set(at.catalog.systems),
        "tenant": {at.tenant},
    }[kind]
    if name not in known:
        fix = f"Nothing was changed. Use one of: {', '.join(f'{kind}:{one}' for one in sorted(known))}."
        raise CommandFailed(f"unknown_{kind}", f"There is no such {kind} here.", fix, Exit.USAGE)


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
