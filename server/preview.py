"""What would happen to a proposal that is not made: the plan, from the definition in force."""

from __future__ import annotations

import hashlib

from execution.catalog import Catalog, Intent, Previous
from execution.core.definition import ApprovalGate, CheckGate, Part, Step
from execution.ports import Ports
from execution.proposal import IntakeRefused
from server.errors import GatewayRefused, from_intake
from server.gateway import Admitted
from server.results import Approval, PlannedStep, Preview


class PlanPreview:
    """`server.tools.Previewer` over the catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def preview(self, admitted: Admitted) -> Preview:
        """The steps, the target and what has to be approved. Raises GatewayRefused for what planning refuses."""
        proposal = admitted.proposal
        intent = self._catalog.intents[proposal.intent]
        digest = _digest(admitted)
        try:
            plan = intent.plan(proposal, digest, Previous())
        except IntakeRefused as error:
            raise GatewayRefused(from_intake(error)) from None
        parts = [part for part in intent.definition.parts if part.when(plan.params)]
        needed = any(isinstance(part, ApprovalGate) for part in parts)
        return Preview(
            accepted=False,
            say_to_user=_sentence(intent, proposal.object_id, proposal.version, proposal.site, needed),
            target=f"{proposal.site}: {proposal.object_id}, version {proposal.version}",
            content_sha256=digest,
            content_bytes=admitted.content_bytes,
            publish_at=proposal.arguments.get("publish_at"),
            approval=Approval(required=needed, state="NOT_REQUESTED"),
            steps=[_planned(part) for part in parts],
        )


def _digest(admitted: Admitted) -> str:
    proposal = admitted.proposal
    if proposal.content is not None:
        return hashlib.sha256(proposal.content).hexdigest()
    return str(proposal.arguments.get("content_sha256", ""))


def _sentence(intent: Intent, name: str, version: int, site: str, needed: bool) -> str:
    approval = " A person would have to approve it." if needed else ""
    return f"This is only a preview of version {version} of {name} on {site}; nothing was proposed.{approval}"


def _planned(part: Part[Ports]) -> PlannedStep:
    match part:
        case Step():
            return PlannedStep(name=part.name, system=part.action.system, effect=part.effect.value)
        case CheckGate() | ApprovalGate():
            return PlannedStep(name=part.name, system="remit", effect="NONE")
