"""What would happen, or what was planned: the steps, where the pivot stands, the target, keys, times and approvals.

A preview is judged like an acceptance and writes nothing. What was proposed before is shown as it was frozen then, by
the definition that it runs on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from execution.catalog import Catalog
from execution.core.command import Command
from execution.core.definition import ApprovalGate, Part, SagaDefinition, Step
from execution.core.identity import BusinessKey
from execution.intake import Intake
from execution.opening import Judged
from execution.ports import Ports
from execution.proposal import IntakeRefused
from server.errors import GatewayRefused, from_intake
from server.gateway import Admitted
from server.results import Approval, PlannedStep, Preview, moment

_KNOWN: Final = (
    "This version was proposed before; proposing the same values again returns that command. Nothing was proposed."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan: of what would be accepted, or of a command (`known`) as it was."""

    definition: SagaDefinition[Ports]
    object_kind: str
    key: BusinessKey
    params: Mapping[str, Any]
    resources: tuple[str, ...]
    not_before_ms: int | None
    base_version: str | None
    known: Command | None = None
    giving_way: tuple[Command, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Part[Ports], ...]:
        """Those that this plan has."""
        return tuple(part for part in self.definition.parts if part.when(self.params))

    @property
    def approvals(self) -> tuple[ApprovalGate[Ports], ...]:
        """Where a person is asked."""
        return tuple(part for part in self.parts if isinstance(part, ApprovalGate))


class PlanPreview:
    """`server.tools.Previewer` over intake."""

    def __init__(self, intake: Intake, catalog: Catalog) -> None:
        self._intake = intake
        self._catalog = catalog

    async def preview(self, admitted: Admitted) -> Preview:
        """What would become of the proposal. Raises GatewayRefused for what acceptance would refuse now."""
        try:
            judged = await self._intake.foresee(admitted.proposal, admitted.proposer)
        except IntakeRefused as error:
            raise GatewayRefused(from_intake(error)) from None
        return shown(foreseen(judged, self._catalog), content_bytes=admitted.content_bytes)


def foreseen(judged: Judged, catalog: Catalog) -> Planned:
    """The plan of a proposal, judged."""
    if judged.known is not None:
        return planned(judged.known, catalog)
    incoming = judged.incoming
    return Planned(
        definition=incoming.intent.definition,
        object_kind=incoming.intent.object_kind,
        key=judged.key,
        params=incoming.plan.params,
        resources=incoming.plan.resources,
        not_before_ms=incoming.plan.not_before_ms,
        base_version=incoming.plan.base_version,
        giving_way=judged.giving_way,
        notes=incoming.plan.notes,
    )


def planned(root: Command, catalog: Catalog) -> Planned:
    """The plan of a command. KeyError when this process does not have its definition."""
    definition, params = catalog.definition(root.command_type, root.definition_version), json.loads(root.params)
    return Planned(
        definition=definition,
        object_kind=root.object_kind,
        key=BusinessKey(
            tenant=root.tenant,
            system="remit",
            operation=definition.operation,
            site=root.site,
            object_id=root.object_id,
            version=root.object_version,
            generation=root.generation,
        ),
        params=params["plan"],
        resources=tuple(params["resources"]),
        not_before_ms=root.not_before_ms,
        base_version=root.expected_version,
        known=root,
    )


def shown(plan: Planned, *, content_bytes: int | None = None, detailed: bool = False) -> Preview:
    """The answer. `detailed`: with what operators ask of a step."""
    pivot = plan.definition.pivot
    return Preview(
        accepted=False,
        say_to_user=_sentence(plan),
        idempotency_key=plan.key.shown(),
        command_id=plan.known.command_id if plan.known else None,
        target=f"{plan.key.site}: {plan.key.object_id}, version {plan.key.version}",
        mode=plan.params.get("mode"),
        slug=plan.params.get("slug") or None,
        url=plan.params.get("url") or None,
        base_version=plan.base_version,
        content_sha256=plan.params.get("content_sha256"),
        content_bytes=content_bytes,
        publish_at=moment(plan.not_before_ms),
        publish_at_local=plan.params.get("publish_at_local"),
        approval=Approval(required=bool(plan.approvals), state="NOT_REQUESTED"),
        gives_way=[_named(root) for root in plan.giving_way] or None,
        pivot=pivot.name if pivot else None,
        steps=[_step(part, plan.key, detailed) for part in plan.parts],
        notes=list(plan.notes) or None,
    )


def _sentence(plan: Planned) -> str:
    if plan.known is not None:
        return _KNOWN
    key = plan.key
    what = f"version {key.version} of {plan.object_kind} {key.object_id} on {key.site}"
    said = [f"This is only a preview of {what}, as it would be {plan.definition.past}; nothing was proposed."]
    if plan.giving_way:
        said.append(f"It would take the place of {', '.join(map(_named, plan.giving_way))}.")
    if plan.approvals:
        said.append("A person would have to approve it.")
    return " ".join(said)


def _named(root: Command) -> str:
    return f"version {root.object_version}"


def _step(part: Part[Ports], key: BusinessKey, detailed: bool) -> PlannedStep:
    action = part.action if isinstance(part, Step) else None
    step = PlannedStep(
        name=part.name,
        system=action.system if action else "remit",
        effect=part.effect.value if isinstance(part, Step) else "NONE",
        undone_by=part.compensation_type if isinstance(part, Step) else None,
    )
    if not detailed:
        return step
    more: dict[str, Any] = {"summary": part.summary}
    if action is not None:
        more |= {
            "key": key.of(action.system, action.operation).shown(),
            "repeat": action.repeat.value,
            "lookup": f"{action.lookup.strength}: {action.lookup.covers}" if action.lookup else "cannot be asked",
        }
    return step.model_copy(update=more)
