"""`revoke` and `reinstate`: taking authority back, from one token to everything a key or the tenant ever allowed.
`reauthorize`: giving it anew to one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from capabilities.revocation import RevocationKind
from server.cli.options import (
    HomeOption,
    JsonOption,
    OperatorOption,
    ReasonOption,
    acting,
    duration_s,
    with_installation,
)
from server.cli.output import CommandFailed, Exit, Output, line
from server.roles import Verb

if TYPE_CHECKING:
    from capabilities.revocation import RevocationScope
    from execution.operations import Revoked
    from server.app import Installation

REVOKED: Final = "revoked by an operator"
_CLIENT: Final = "mcp-host:"
_SEE: Final = {
    RevocationKind.TOKEN: "It looks like tok_01kb9z…; see `remit token ls`.",
    RevocationKind.DECISION: "See `remit decision ls`.",
    RevocationKind.AGENT: "See `remit decision ls`.",
    RevocationKind.CLIENT: "See `remit token ls`.",
    RevocationKind.KEY: "See `remit keys ls`.",
    RevocationKind.TENANT: "The tenant stands in remit.toml, [gateway].",
}

KindArgument = Annotated[RevocationKind, typer.Argument(help="What is revoked.")]
NameArgument = Annotated[str, typer.Argument(help="Its id or name: tok_…, dec_…, writer, mcp-host:writer, a kid.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.command("revoke")(revoke)
    app.command("reinstate")(reinstate)
    app.command("reauthorize")(reauthorize)


def revoke(
    kind: KindArgument,
    name: NameArgument,
    reason: ReasonOption = REVOKED,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Withdraw authority, and what was accepted under it, from the next fence on.

    token, decision, agent, client: what is not published ends and is undone; what is published finishes what needs no
    new authority, and a person is asked about the rest. key, tenant: nothing of it runs any more, not even undoing,
    until `remit reinstate`.
    """
    revoke_any(kind, name, reason, operator, home, as_json)


def revoke_any(
    kind: RevocationKind,
    name: str,
    reason: str,
    operator: str | None,
    home: Path | None,
    as_json: bool,
    verb: Verb = Verb.REVOKE,
) -> None:
    """The one way to revoke, whatever it is."""

    async def work(at: Installation) -> None:
        from server.approving import operating

        who, scope = acting(at, operator, verb), await _scope(at, kind, name)
        by = await who.signs(f"{kind.value}:{scope.value}", reason=reason)
        async with operating():
            met = await at.operations().revoke(scope, operator=by, reason=reason)
        data = {
            "kind": kind.value,
            "name": name,
            "revoked": True,
            "fresh": met.fresh,
            "stopped": list(met.stopped),
            "past_publication": list(met.past_pivot),
            "held": list(met.held),
        }
        Output(as_json).show(data, line(f"{kind} {name} is revoked.{_told(met)}"))

    with_installation(home, work)


def reauthorize(
    command: Annotated[str, typer.Argument(help="cmd_…")],
    lasting: Annotated[str, typer.Option("--for", help="How long its effects may begin: 12h, 7d at most.")] = "24h",
    reason: ReasonOption = "reauthorized by an operator",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a command authority anew: its grant lapsed, or what judged it is configured otherwise now."""
    from execution.repeating import GRANT_S
    from server.results import moment

    seconds = duration_s(lasting)
    if seconds > GRANT_S:
        raise CommandFailed("usage", "--for is 7d at most.", "For example --for 12h.", Exit.USAGE)

    async def work(at: Installation) -> None:
        from server.approving import operating
        from server.proposing import saga_of

        who, root = acting(at, operator, Verb.REAUTHORIZE), (await saga_of(at, command)).root
        until_ms, policy = at.clock.now_ms() + seconds * 1000, at.catalog.policy_hash(root)
        by = await who.signs(root.command_id, reason=reason, until_ms=until_ms, policy_hash=policy)
        async with operating():
            await at.operations().reauthorize(
                root.command_id, operator=by, reason=reason, until_ms=until_ms, policy_hash=policy
            )
        data = {"command_id": root.command_id, "until_ms": until_ms}
        Output(as_json).show(data, line(f"{root.command_id} may go on until {moment(until_ms)}."))

    with_installation(home, work)


def reinstate(
    kind: KindArgument,
    name: NameArgument,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take a revocation back: what it held goes on; what it ended stays ended."""
    from execution.store import authority

    async def work(at: Installation) -> None:
        who = acting(at, operator, Verb.REINSTATE)
        scope = await _scope(at, kind, name)
        await who.signs(f"{kind.value}:{scope.value}")
        lifted = await at.store.transact(lambda conn: authority.lift(conn, authority.revocation(scope)))
        text = f"{kind} {name} is valid again." if lifted else f"{kind} {name} was not revoked."
        Output(as_json).show({"kind": kind.value, "name": name, "revoked": False, "fresh": lifted}, line(text))

    with_installation(home, work)


def _told(met: Revoked) -> str:
    parts = [
        (met.stopped, "end and are undone"),
        (met.past_pivot, "are past publication and finish what needs no new authority"),
        (met.held, "are held"),
    ]
    said = [f"{len(ids)} commands {what}" for ids, what in parts if ids]
    return f" {'; '.join(said)}." if said else ""


async def _scope(at: Installation, kind: RevocationKind, name: str) -> RevocationScope:
    """What is meant; a name that nothing here has ever borne is refused, because somebody would rely on it."""
    from capabilities.revocation import RevocationScope

    scope = RevocationScope(tenant=at.tenant, kind=kind, value=_value(at, kind, name))
    if not await _is_known(at, kind, scope):
        message = f"There is no such {kind} here."
        raise CommandFailed(f"unknown_{kind}", message, f"Nothing was changed. {_SEE[kind]}", Exit.USAGE)
    return scope


def _value(at: Installation, kind: RevocationKind, name: str) -> str:
    from capabilities.identifiers import is_id
    from server.issuing import agent_subject

    match kind:
        case RevocationKind.TOKEN if not is_id(name, "tok"):
            raise CommandFailed("usage", "That is not a token id.", _SEE[kind], Exit.USAGE)
        case RevocationKind.TOKEN:
            return f"{at.config.settings.gateway.issuer} {name}"
        case RevocationKind.AGENT:
            return agent_subject(name)
        case RevocationKind.CLIENT:
            return name if ":" in name else _CLIENT + name
        case _:
            return name


async def _is_known(at: Installation, kind: RevocationKind, scope: RevocationScope) -> bool:
    """Tokens may have been issued elsewhere and not been used yet: any id passes."""
    from capabilities.jwks import load_key_set
    from execution.store import authority
    from server.issuing import issued_file, read_issued

    match kind:
        case RevocationKind.TOKEN:
            return True
        case RevocationKind.TENANT:
            return scope.value == at.tenant
        case RevocationKind.KEY if scope.value in load_key_set(at.config.path(at.config.settings.gateway.jwks)).kids:
            return True
        case RevocationKind.CLIENT if any(row.get("client_id") == scope.value for row in read_issued(issued_file(at))):
            return True
        case _:
            return await at.store.read(lambda conn: authority.is_known(conn, scope))
