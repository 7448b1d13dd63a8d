"""Looking at what a step left in the world: what the look may read, and one look by somebody who owns nothing.

The engine looks while it owns a saga. An audit and a person who has to rule look beside it: they read the same journal,
ask the same question and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from execution.core.apply import action_of, landed_receipt, step_of
from execution.core.command import Command, Context, Saga, receipt_of
from execution.core.definition import SagaDefinition
from execution.core.failures import Sighting
from execution.core.identity import BusinessKey, marker
from execution.core.states import Kind
from execution.pace import Pace
from execution.performer import Performer
from execution.ports import Clock, Ports


def context_of(
    saga: Saga, definition: SagaDefinition[Ports], command_id: str, *, installation: str, plan: dict[str, Any]
) -> Context:
    """Frozen parameters and earlier receipts; for a compensation, the receipt of what it undoes among them."""
    row = saga.member(command_id)
    receipts = {
        member.command_type: receipt_of(member.receipt)
        for member in saga.members
        if member.receipt and member.command_id != command_id
    }
    known = landed_receipt(saga, row)
    if known is not None:
        receipts[row.command_type] = known
    return Context(
        installation=installation,
        tenant=row.tenant,
        site=row.site,
        key=row.idempotency_key,
        marker=marker(installation, _key(saga, definition, row)),
        command_id=command_id,
        root_id=row.root_id,
        correlation_id=row.correlation_id,
        params=plan,
        accepted_at_ms=saga.root.created_at_ms,
        receipts=receipts,
        expected_version=row.expected_version,
        attempt_number=row.attempt_count + 1,
        unproven=len(saga.open_attempts(command_id)),
    )


def _key(saga: Saga, definition: SagaDefinition[Ports], row: Command) -> BusinessKey:
    """The key of the step; a compensation uses that of what it undoes, so that it finds the object."""
    part = definition.part(row.command_type) if row.compensates is None else None
    is_step = part is None or hasattr(part, "action")
    action = step_of(definition, saga, row).action if is_step else None
    return BusinessKey(
        tenant=row.tenant,
        system=action.system if action else row.target_system,
        operation=action.operation if action else row.command_type.lower(),
        site=row.site,
        object_id=row.object_id,
        version=row.object_version,
        generation=row.generation,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen of one step. `asked_at_ms`: when the read began, by our clock."""

    command_id: str
    step: str
    system: str
    asked_at_ms: int
    sighting: Sighting


@dataclass(frozen=True, slots=True, kw_only=True)
class Looker:
    """Whoever looks without owning. Needs the credentials of the systems that are asked, and keeps to their pace."""

    performer: Performer
    clock: Clock
    pace: Pace
    installation: str

    async def look(
        self, saga: Saga, definition: SagaDefinition[Ports], command_id: str, plan: dict[str, Any]
    ) -> Look | None:
        """Ask the system; None when this row has nothing that could be asked for."""
        row = saga.member(command_id)
        if row.kind not in (Kind.STEP, Kind.COMPENSATION):
            return None
        action = action_of(definition, saga, row)
        if action.observe is None:
            return None
        context = context_of(saga, definition, command_id, installation=self.installation, plan=plan)
        paced = action.paced_as(row.site)
        if not self.pace.enter(paced):
            await self.pace.wait(paced, tenant=row.tenant, urgent=False)
        try:
            asked = self.clock.now_ms()
            sighting = await self.performer.observe(action, context)
        finally:
            self.pace.leave(paced)
        self.pace.learn(paced, sighting)
        assert sighting is not None, "it can be observed"
        return Look(
            command_id=command_id, step=row.command_type, system=action.system, asked_at_ms=asked, sighting=sighting
        )
