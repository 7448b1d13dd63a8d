"""`token` and `decision`: who may propose what, how often, until when."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from server.cli.issued import Shown
from server.cli.options import HomeOption, JsonOption, OperatorOption, ReasonOption, acting, with_installation
from server.cli.output import CommandFailed, Exit, Output, fields, line, table
from server.cli.revoking import REVOKED, revoke_any
from server.client_config import Host, Way
from server.roles import Verb

if TYPE_CHECKING:
    from capabilities.issuer import RiskClass, TokenRequest
    from execution.store.authority import Decision
    from server.acting import Acting
    from server.app import Installation
    from server.issuing import Wanted

RENEW_BEFORE_S: Final = 120

tokens = typer.Typer(help="Short-lived tokens for agents and people.", no_args_is_help=True)
decisions = typer.Typer(help="Who allowed what, on which evidence.", no_args_is_help=True)

AgentOption = Annotated[str, typer.Option("--agent", help="Name of the agent (or person), e.g. writer.")]
IntentOption = Annotated[str | None, typer.Option("--intent", help="publish; without it all enabled intents.")]
SiteOption = Annotated[str, typer.Option("--site", help="Name of a site, or * for all configured ones.")]
ArticleOption = Annotated[str, typer.Option("--article", help="Article id, or * for any.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Write the token to this file (0600) instead of stdout.")]
TtlOption = Annotated[str, typer.Option("--ttl", help="Lifetime: 15m at most, e.g. 90s, 10m.")]


def register(app: typer.Typer) -> None:
    """Add these commands."""
    app.add_typer(tokens, name="token")
    app.add_typer(decisions, name="decision")


@tokens.command("issue")
def issue(
    agent: AgentOption,
    intent: IntentOption = None,
    site: SiteOption = "*",
    article: ArticleOption = "*",
    ttl: TtlOption = "15m",
    uses: Annotated[int, typer.Option("--uses", min=1, help="How many proposals.")] = 1,
    open_commands: Annotated[int, typer.Option("--open", min=1, help="How many unfinished at once.")] = 1,
    decision: Annotated[
        str | None, typer.Option("--decision", help="Under this decision instead of a new one.")
    ] = None,
    repeat: Annotated[bool, typer.Option("--repeat", help="May repeat ended commands on purpose.")] = False,
    query_only: Annotated[bool, typer.Option("--query-only", help="May only ask.")] = False,
    any_query: Annotated[bool, typer.Option("--any", help="With --query-only: about the whole tenant.")] = False,
    out: OutOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep renewing --out until the decision is spent.")] = False,
    host: Annotated[
        Host | None, typer.Option("--for", help="Print the configuration of this host, ready to be pasted.")
    ] = None,
    way: Annotated[
        Way, typer.Option("--transport", help="With --for: how the host reaches the gateway.")
    ] = Way.CONNECT,
    url: Annotated[str | None, typer.Option("--url", help="With --for: the gateway, instead of [http].")] = None,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Issue one token; opens a decision when none is named."""
    from capabilities.details import Intent
    from server.issuing import Wanted

    if watch and out is None and host is None:
        raise CommandFailed("usage", "--watch renews a file.", "Add --out FILE.", Exit.USAGE)
    if any_query and not query_only:
        raise CommandFailed("usage", "--any is for tokens that only ask.", "Add --query-only.", Exit.USAGE)
    if query_only and intent is not None:
        raise CommandFailed("usage", "--query-only excludes --intent.", "Use one of them.", Exit.USAGE)
    wanted = Wanted(
        agent=_agent(agent),
        intents=() if query_only else (_intent(intent),) if intent else (Intent.PUBLISH,),
        site=site,
        article=article,
        any_query=any_query,
    )
    limits = {"ttl_s": seconds(ttl), "uses": uses, "open_commands_max": open_commands, "repeat": repeat}
    shown = Shown(out=out, host=host, way=way, url=url, as_json=as_json)
    with_installation(
        home, lambda at: _issue(at, wanted, limits, decision, shown, watch, acting(at, operator, Verb.TOKEN_ISSUE))
    )


async def _issue(
    at: Installation, wanted: Wanted, limits: dict[str, Any], named: str | None, shown: Shown, watch: bool, who: Acting
) -> None:
    from server import issuing

    shown = shown.checked(at, wanted.agent)
    if named is not None:
        _check_agent(await _decision(at, named), wanted.agent)
    _warn_about_operators(at, wanted)
    by = await who.signs(wanted.agent, decision=named, watch=watch, **limits)
    dec = named or await issuing.open_decision(
        at, wanted, by=by, tokens=issuing.TOKENS_DEFAULT, uses=issuing.USES_DEFAULT, days=7
    )
    while True:
        decision = await _decision(at, dec)
        raw, claims = await issuing.issue(at, decision, _request(at, decision, wanted, limits))
        if shown.out is not None:
            issuing.write_token(shown.out, raw)
        shown.show(at, claims, raw)
        if not watch:
            return
        shown = replace(shown, host=None)
        await asyncio.sleep(renewed_after_s(limits["ttl_s"]))


def renewed_after_s(ttl_s: int) -> float:
    """Long before a token ends; at half of a short life, because each renewal spends one of the decision's."""
    return max(ttl_s / 2, ttl_s - RENEW_BEFORE_S)


def _check_agent(decision: Decision, agent: str) -> None:
    """A decision is about one agent, and its tokens are that agent's whatever else is asked for."""
    from server.issuing import agent_subject, record_of

    try:
        of = record_of(decision).agent
    except ValueError:
        fix = "Use another decision (`remit decision ls`)."
        raise CommandFailed(
            "no_tokens", "That decision is an operator's own: no token is under it.", fix, Exit.AUTH
        ) from None
    if of != agent_subject(agent):
        bare = of.removeprefix("agent:")
        fix = f"Use --agent {bare}, or another decision (`remit decision ls`)."
        raise CommandFailed("agent_differs", f"That decision is about the agent {bare}.", fix, Exit.AUTH)


def _warn_about_operators(at: Installation, wanted: Wanted) -> None:
    """Nobody approves what they proposed, by whatever name: an agent named like an operator takes that one's voice."""
    named = {name for name in at.config.settings.operator if name.casefold() == wanted.agent.casefold()}
    if named and wanted.intents:
        Output(as_json=False).note(
            f"{wanted.agent} is the name of an operator too: that operator cannot approve what this agent proposes"
        )


def _risk(name: str) -> RiskClass:
    from capabilities.issuer import RiskClass

    try:
        return RiskClass(name)
    except ValueError:
        known = ", ".join(RiskClass)
        raise CommandFailed("usage", "There is no such risk class.", f"Known: {known}.", Exit.USAGE) from None


def _check_others_approve(at: Installation, wanted: Wanted, by: str) -> None:
    """What only its opener could approve would wait for ever."""
    from capabilities.issuer import RiskClass
    from server.operators import approvers_of

    if wanted.risk is RiskClass.HIGH and wanted.intents and not set(approvers_of(at.config.settings)) - {by}:
        fix = "Add another [operator.NAME] with the role approve, or open it with --risk medium."
        raise CommandFailed("nobody_else_approves", "At high risk somebody else must approve.", fix, Exit.AUTH)


def _request(at: Installation, decision: Decision, wanted: Wanted, limits: dict[str, Any]) -> TokenRequest:
    from capabilities.issuer import Permission, TokenRequest
    from server import issuing

    record = issuing.record_of(decision)
    narrowed = issuing.patterns(at, wanted) if wanted.site != "*" or wanted.article != "*" else None
    permissions = [
        Permission(intent=item.intent, resources=narrowed or item.resources)
        for item in record.permissions
        if item.intent in wanted.intents
    ]
    return TokenRequest(
        client_id=f"mcp-host:{wanted.agent}",
        permissions=tuple(permissions),
        queries=issuing.queries_of(record),
        **limits,
    )


@tokens.command("header")
def header(file: Annotated[Path, typer.Argument(help="A token file.")], as_json: JsonOption = False) -> None:
    """Print the HTTP header that a token file stands for, for hosts that run a command for it (headersHelper)."""
    from server.callers import read_token

    print(json.dumps({"Authorization": f"Bearer {read_token(file)}"}))


@tokens.command("inspect")
def inspect(
    file: Annotated[Path, typer.Argument(help="A token file.")], home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """Verify a token file as the gateway would, and show what it allows (never its text)."""
    from capabilities.details import hash_details
    from capabilities.keyfile import read_private_file
    from server.results import moment

    async def work(at: Installation) -> None:
        raw = read_private_file(file).decode("ascii", "replace").strip()
        capability = at.verifier().verify(raw, at.clock.now_ms() // 1000)
        claims = capability.claims
        data = {
            "token_id": claims.jti,
            "agent": claims.sub,
            "client": claims.client_id,
            "decision_id": claims.dec,
            "key_id": capability.kid,
            "expires": claims.exp,
            "seconds_left": claims.exp - at.clock.now_ms() // 1000,
            "details_hash": hash_details(claims.details),
            "details": [detail.to_json() for detail in claims.details],
        }
        told = data | {"expires": moment(claims.exp * 1_000)}
        shown = [(name, value) for name, value in told.items() if name != "details"]
        grants = [(d.intent.value, " ".join(d.resources), d.limits.max_uses) for d in claims.details]
        Output(as_json).show(data, fields(shown), table(["intent", "resources", "uses"], grants))

    with_installation(home, work)


@tokens.command("ls")
def list_tokens(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """What this home's issuer signed, newest first."""
    from execution.store import authority
    from server.issuing import issued_file, read_issued

    async def work(at: Installation) -> None:
        issuer, now_s = at.config.settings.gateway.issuer, at.clock.now_ms() // 1000
        rows = read_issued(issued_file(at))[:-101:-1]
        for row in rows:
            jti = row["jti"]
            row["used"] = await at.store.read(lambda conn, jti=jti: authority.token_uses(conn, issuer, jti))  # type: ignore[misc]  # a default argument binds the loop's value
            row["expired"] = row["exp"] <= now_s
        cells = [(r["jti"], r["sub"], r["dec"], r["used"], "expired" if r["expired"] else "valid") for r in rows]
        Output(as_json).show({"tokens": rows}, table(["token", "agent", "decision", "used", ""], cells))

    with_installation(home, work)


@tokens.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(help="tok_…")],
    reason: ReasonOption = REVOKED,
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Withdraw a token and what was accepted under it: `remit revoke token`."""
    from capabilities.revocation import RevocationKind

    revoke_any(RevocationKind.TOKEN, token_id, reason, operator, home, as_json, Verb.TOKEN_REVOKE)


@decisions.command("open")
def open_(
    agent: AgentOption,
    intent: IntentOption = None,
    site: SiteOption = "*",
    article: ArticleOption = "*",
    budget: Annotated[int, typer.Option("--tokens", min=1, help="How many tokens it is worth.")] = 100,
    uses: Annotated[int, typer.Option("--uses", min=1, help="How many proposals over all of them.")] = 100,
    days: Annotated[float, typer.Option("--days", min=0.001, max=365)] = 7,
    evidence: Annotated[str, typer.Option("--evidence", help="Why: a reference that a person can follow.")] = "",
    risk: Annotated[str, typer.Option("--risk", help="low, medium, or high: its opener cannot approve.")] = "medium",
    operator: OperatorOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide that an agent may propose something."""
    from capabilities.details import Intent
    from server.issuing import Wanted, open_decision

    intents = (_intent(intent),) if intent else (Intent.PUBLISH,)
    wanted = Wanted(
        agent=_agent(agent), intents=intents, site=site, article=article, evidence=evidence, risk=_risk(risk)
    )

    async def work(at: Installation) -> None:
        who = acting(at, operator, Verb.DECISION_OPEN)
        _check_others_approve(at, wanted, who.by)
        by = await who.signs(wanted.agent, evidence=list(evidence), tokens=budget, uses=uses, days=days)
        dec = await open_decision(at, wanted, by=by, tokens=budget, uses=uses, days=days)
        Output(as_json).show({"decision_id": dec}, line(f"Opened {dec}."))

    with_installation(home, work)


@decisions.command("ls")
def list_decisions(home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Decisions, newest first."""
    from execution.store import authority

    async def work(at: Installation) -> None:
        found = [_decision_json(d) for d in await at.store.read(lambda conn: authority.decisions(conn, at.tenant))]
        cells = [(d["decision_id"], d["opened_by"], " ".join(d["resources"]), d["tokens"], d["open"]) for d in found]
        Output(as_json).show({"decisions": found}, table(["decision", "by", "for", "tokens", "open"], cells))

    with_installation(home, work)


@decisions.command("show")
def show_decision(decision_id: str, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """One decision."""

    async def work(at: Installation) -> None:
        data = _decision_json(await _decision(at, decision_id))
        Output(as_json).show(data, fields([*data.items()]))

    with_installation(home, work)


@decisions.command("close")
def close(
    decision_id: str, operator: OperatorOption = None, home: HomeOption = None, as_json: JsonOption = False
) -> None:
    """No more tokens, and no more proposals with those that are out. What was accepted goes on (`remit revoke`)."""
    from execution.store import authority

    async def work(at: Installation) -> None:
        who, now_ms = acting(at, operator, Verb.DECISION_CLOSE), at.clock.now_ms()
        await _decision(at, decision_id)
        by = await who.signs(decision_id)
        closed = await at.store.transact(lambda conn: authority.close_decision(conn, decision_id, by=by, now_ms=now_ms))
        text = f"{decision_id} is closed." if closed else f"{decision_id} was closed already."
        Output(as_json).show({"decision_id": decision_id, "closed": True, "fresh": closed}, line(text))

    with_installation(home, work)


def seconds(text: str) -> int:
    """90, 90s, 15m."""
    number, factor = (text[:-1], {"s": 1, "m": 60}[text[-1]]) if text[-1:] in ("s", "m") else (text, 1)
    if not number.isdecimal() or not 0 < int(number) * factor <= 900:
        raise CommandFailed("usage", "--ttl is 1s to 15m.", "For example --ttl 10m.", Exit.USAGE)
    return int(number) * factor


async def _decision(at: Installation, decision_id: str) -> Decision:
    from execution.store import authority

    found = await at.store.read(lambda conn: authority.find_decision(conn, decision_id))
    if found is None:
        raise CommandFailed("decision_not_found", "There is no such decision.", "See `remit decision ls`.")
    return found


def _decision_json(found: Decision) -> dict[str, Any]:
    return {
        "decision_id": found.decision_id,
        "opened_by": found.opened_by,
        "intents": json.loads(found.intents),
        "resources": json.loads(found.resources),
        "evidence": json.loads(found.evidence),
        "risk_class": found.risk_class,
        "outcome": found.outcome,
        "tokens": f"{found.tokens_issued}/{found.tokens_max}",
        "uses": f"{found.uses}/{found.uses_max}",
        "valid_until_ms": found.valid_until_ms,
        "open": found.closed_at_ms is None,
    }


def _agent(name: str) -> str:
    from capabilities.identifiers import is_segment

    bare = name.removeprefix("agent:")
    if not is_segment(bare):
        fix = "Use 1 to 64 characters out of a-z, 0-9, '.', '_' and '-'."
        raise CommandFailed("invalid_name", "That is not a usable agent name.", fix, Exit.USAGE)
    return bare


def _intent(name: str) -> Any:
    from capabilities.details import Intent

    if name != Intent.PUBLISH.value:
        raise CommandFailed("unknown_intent", "There is no such intent here.", "Use publish.", Exit.USAGE)
    return Intent.PUBLISH
