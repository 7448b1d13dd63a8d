"""What would happen to a proposal that is not made: the plan, from the definition in force."""

from __future__ import annotations

from execution.catalog import Intent
from execution.core.definition import ApprovalGate, CheckGate, Part, Step
from execution.intake import Intake
from execution.ports import Ports
from execution.proposal import IntakeRefused
from server.errors import GatewayRefused, from_intake
from server.gateway import Admitted
from server.results import Approval, PlannedStep, Preview, moment


class PlanPreview:
    """`server.tools.Previewer` over intake, which plans without writing."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def preview(self, admitted: Admitted) -> Preview:
        """The steps, the target and what has to be approved. Raises GatewayRefused for what planning refuses."""
        proposal = admitted.proposal
        try:
            intent, plan, key = await self._intake.preview(proposal, admitted.proposer)
        except IntakeRefused as error:
            raise GatewayRefused(from_intake(error)) from None
        known = not plan.params
        parts = [] if known else [part for part in intent.definition.parts if part.when(plan.params)]
        needed = any(isinstance(part, ApprovalGate) for part in parts)
        return Preview(
            accepted=False,
            say_to_user=_KNOWN if known else _sentence(intent, admitted, needed),
            idempotency_key=key,
            target=f"{proposal.site}: {proposal.object_id}, version {proposal.version}",
            content_sha256=str(proposal.arguments["content_sha256"]),
            content_bytes=admitted.content_bytes,
            publish_at=moment(plan.not_before_ms),
            publish_at_local=plan.params.get("publish_at_local"),
            approval=Approval(required=needed, state="NOT_REQUESTED"),
            steps=[_planned(part) for part in parts],
            notes=list(plan.notes) or None,
        )


_KNOWN = "This version was proposed before; proposing the same values again returns that command. Nothing was proposed."


def _sentence(intent: Intent, admitted: Admitted, needed: bool) -> str:
    proposal = admitted.proposal
    approval = " A person would have to approve it." if needed else ""
    what = f"version {proposal.version} of {intent.object_kind} {proposal.object_id} on {proposal.site}"
    return f"This is only a preview of {what}; nothing was proposed.{approval}"


def _planned(part: Part[Ports]) -> PlannedStep:
    match part:
        case Step():
            return PlannedStep(name=part.name, system=part.action.system, effect=part.effect.value)
        case CheckGate() | ApprovalGate():
            return PlannedStep(name=part.name, system="remit", effect="NONE")
