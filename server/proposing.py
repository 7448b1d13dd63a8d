"""What operators set in motion: a proposal without a token, under their own name, judged like any other."""

from __future__ import annotations

from execution.core.command import Saga
from execution.proposal import Accepted, IntakeRefused, Proposal, Proposer
from execution.repeating import repetition_of
from server.app import Installation
from server.cli.output import CommandFailed
from server.errors import from_intake


async def repeat(at: Installation, command_id: str, *, operator: str, reason: str) -> Accepted:
    """Open the next generation of a command. Raises CommandFailed with what acceptance refused."""
    saga = await _saga(at, command_id)
    return await propose(at, *repetition_of(saga, at.catalog, operator=operator, reason=reason))


async def propose(at: Installation, proposal: Proposal, proposer: Proposer) -> Accepted:
    """Hand over to intake; a refusal becomes a line for the operator."""
    try:
        return await at.intake().propose(proposal, proposer)
    except IntakeRefused as error:
        found = from_intake(error)
        said = f"Nothing was accepted: {error.code.replace('_', ' ')}."
        raise CommandFailed(error.code, said, _FIXES.get(error.code, found.fix)) from None


async def _saga(at: Installation, command_id: str) -> Saga:
    saga = await at.status.saga(command_id)
    if saga is None:
        raise CommandFailed("unknown_command", "There is no such command here.", "See `remit ls`.")
    return saga


_FIXES = {
    "frozen": "It is frozen: see `remit freeze ls`.",
    "not_repeatable_yet": "It has not ended beyond doubt: see `remit why`.",
    "repeat_of_not_newest": "It was repeated already: see `remit ls` for the newest.",
    "revoked": "The agent, decision or client that proposed it was revoked; have it proposed anew.",
    "stale_version": "A version as high is live or under way; there is nothing to repeat.",
}
