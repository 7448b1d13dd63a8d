"""Doing it once more on purpose: an operator's repetition of a command that has ended.

It is the same proposal by the same agent, under the operator's authority instead of a token's: the agent finds it under
its own name, and whoever wrote the content still may not approve it. Acceptance judges the rest (terminal, quiescent,
the newest generation), exactly as for an agent whose grant allows repeating.
"""

from __future__ import annotations

import json
from typing import Any, Final

from execution.catalog import Catalog
from execution.core.command import Command, Saga
from execution.operations import PERSON
from execution.proposal import Proposal, Proposer

ISSUER: Final = "remit:operators"
"""Stands in grants where a token's issuer would; no token of that issuer can exist."""

GRANT_S: Final = 7 * 86_400
"""How long the effects of what an operator sets in motion may begin: the most that a grant may last."""


def repetition_of(
    saga: Saga, catalog: Catalog, *, operator: str, reason: str, now_ms: int
) -> tuple[Proposal, Proposer]:
    """The proposal that opens the next generation of that saga, and under whose authority."""
    root = saga.root
    params: dict[str, Any] = json.loads(root.params)
    definition = catalog.definition(root.command_type, root.definition_version)
    proposal = Proposal(
        intent=definition.intent,
        site=root.site,
        object_id=root.object_id,
        version=root.object_version,
        arguments=params["arguments"],
        payload_ref=root.payload_ref,
        generation=params["of_generation"],
        repeat_of=root.command_id,
        reason=reason,
    )
    return proposal, proposer_for(
        operator,
        tenant=root.tenant,
        principal=root.principal,
        decision_id=root.decision_id,
        chain=tuple(params["chain"]),
        four_eyes=params["four_eyes"],
        now_ms=now_ms,
    )


def proposer_for(
    operator: str,
    *,
    tenant: str,
    principal: str,
    decision_id: str,
    now_ms: int,
    chain: tuple[str, ...] = (),
    four_eyes: bool = True,
) -> Proposer:
    """Who proposes when an operator does: no token, no uses to count, a grant that outlasts an approval."""
    return Proposer(
        principal=principal,
        client_id="remit",
        tenant=tenant,
        issuer=ISSUER,
        token_id=operator,
        key_id="",
        decision_id=decision_id,
        chain=chain,
        grant_until_s=now_ms // 1000 + GRANT_S,
        operator=operator,
        four_eyes=four_eyes,
    )


def proposed_by(root: Command) -> str:
    """Who proposed a command, and for whom where a person did an agent's once more."""
    person = root.capability_id if root.capability_id.startswith(PERSON) else root.principal
    return person if person == root.principal else f"{person} for {root.principal}"
