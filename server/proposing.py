"""What operators set in motion: a proposal without a token, under their own name, judged like any other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from capabilities.issuer import Outcome, RiskClass
from execution.core.command import Saga
from execution.core.events import canonical
from execution.proposal import Accepted, IntakeRefused, Proposal, Proposer
from execution.repeating import GRANT_S, proposer_for, repetition_of
from execution.sagas.withdraw_article import WITHDRAW, withdrawal_of
from execution.store import authority
from execution.store.connection import Connection
from server.app import Installation
from server.cli.commands import find
from server.cli.output import WHICH_COMMAND, CommandFailed
from server.errors import from_intake
from server.publishing import policy_hash


async def repeat(at: Installation, command_id: str, *, operator: str, reason: str) -> Accepted:
    """Open the next generation of a command. Raises CommandFailed with what acceptance refused."""
    saga = await saga_of(at, command_id)
    now_ms = at.clock.now_ms()
    try:
        return await propose(at, *repetition_of(saga, at.catalog, operator=operator, reason=reason, now_ms=now_ms))
    except CommandFailed as error:
        raise CommandFailed(
            error.code, f"{error.message} {(await find(at, command_id)).say_to_user}", error.fix
        ) from None


async def withdraw(at: Installation, command_id: str, *, operator: str, reason: str) -> Accepted:
    """Have what a command published taken down. Raises CommandFailed with what acceptance refused.

    The operator's decision is recorded first; under it no token can be issued. Where somebody else could approve it,
    somebody else must.
    """
    publication, now_ms = await saga_of(at, command_id), at.clock.now_ms()
    decision = _decision(at, publication, operator=operator, reason=reason, now_ms=now_ms)
    await at.store.transact(lambda conn: authority.open_decision(conn, decision))
    used = False
    try:
        proposer = own_proposer(at, operator, decision.decision_id)
        accepted = await propose(at, withdrawal_of(publication, reason=reason), proposer)
        used = not accepted.deduplicated
    finally:
        if not used:
            await at.store.transact(partial(_unused, decision_id=decision.decision_id, by=operator, now_ms=now_ms))
    return accepted


def own_proposer(at: Installation, operator: str, decision_id: str) -> Proposer:
    """An operator who proposes something of their own."""
    return proposer_for(
        operator,
        tenant=at.tenant,
        principal=operator,
        decision_id=decision_id,
        four_eyes=len(at.config.settings.operator) > 1,
        now_ms=at.clock.now_ms(),
    )


def _unused(conn: Connection, decision_id: str, by: str, now_ms: int) -> None:
    authority.close_decision(conn, decision_id, by=by, now_ms=now_ms)


def _decision(at: Installation, publication: Saga, *, operator: str, reason: str, now_ms: int) -> authority.Decision:
    root = publication.root
    return authority.Decision(
        decision_id=at.ids.new("dec"),
        tenant=at.tenant,
        opened_by=operator,
        intents=canonical(["withdraw"]),
        resources=canonical([root.target_resource]),
        evidence=canonical([reason] if reason else []),
        risk_class=RiskClass.HIGH.value,
        policy_hash=policy_hash(at.config),
        outcome=Outcome.APPROVED.value,
        opened_at_ms=now_ms,
        valid_until_ms=now_ms + GRANT_S * 1000,
        tokens_max=0,
        uses_max=1,
    )


async def propose(at: Installation, proposal: Proposal, proposer: Proposer) -> Accepted:
    """Hand over to intake."""
    with refusals_said():
        try:
            return await at.intake().propose(proposal, proposer)
        except IntakeRefused as error:
            if not is_for_another_reason(error, proposal):
                raise
            said = f"Nothing was accepted: {error.command_id} was asked for before, for another reason."
            fix = (
                f"See `remit why {error.command_id}`; when it has ended, `remit repeat {error.command_id}` asks again."
            )
            raise CommandFailed(error.code, said, fix) from None


def is_for_another_reason(error: IntakeRefused, proposal: Proposal) -> bool:
    """The same thing was asked for already, and only why it is asked for differs."""
    return error.code == "idempotency_conflict" and proposal.intent == WITHDRAW and error.command_id is not None


@contextmanager
def refusals_said() -> Iterator[None]:
    """What acceptance refuses becomes a line for the operator."""
    try:
        yield
    except IntakeRefused as error:
        found = from_intake(error)
        known = f" It is {error.command_id}." if error.command_id else ""
        said = f"Nothing was accepted: {error.code.replace('_', ' ')}.{known}"
        raise CommandFailed(error.code, said, _FIXES.get(error.code, found.fix)) from None


async def saga_of(at: Installation, command_id: str) -> Saga:
    """The command. Raises CommandFailed when there is none."""
    saga = await at.status.saga(command_id)
    if saga is None:
        raise CommandFailed("unknown_command", f"There is no command {command_id} here.", WHICH_COMMAND)
    return saga


_FIXES = {
    "earlier_version_in_doubt": "A later version may have been published: see `remit ls`, and ask again once it ended.",
    "frozen": "It is frozen: see `remit freeze ls`.",
    "not_live": "Name the command that published what is live now: see `remit ls`.",
    "not_repeatable_yet": "It has not ended beyond doubt: see `remit why`.",
    "repeat_of_not_newest": "It was repeated already: see `remit ls` for the newest.",
    "revoked": "The agent, decision or client that proposed it was revoked; have it proposed anew.",
    "withdrawal_under_way": "It is being withdrawn already: see `remit ls`.",
    "stale_version": "A version as high is live or under way; there is nothing to repeat.",
}
