"""What operators look at before anything is set in motion, and what was planned for a command: no token, no write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rich.console import RenderableType

from execution.moments import instant
from execution.proposal import IntakeRefused, Proposal, Proposer
from execution.repeating import repetition_of
from execution.sagas.withdraw_article import withdrawal_of
from server.app import Installation
from server.arguments import ProposePublish, parse
from server.cli.commands import find
from server.cli.output import CommandFailed, Exit, fields, line, table
from server.errors import GatewayRefused
from server.gateway import normal_form, payload_of
from server.preview import foreseen, planned, shown
from server.proposing import is_for_another_reason, own_proposer, refusals_said, saga_of
from server.records import StoreRecords
from server.results import PlannedStep, Preview


async def publication(at: Installation, given: Mapping[str, Any], operator: str) -> Preview:
    """What `propose_publish` with these arguments would come to. Raises CommandFailed."""
    try:
        arguments = parse(ProposePublish, given)
        payload = await payload_of(arguments, StoreRecords(at.store, at.clock))
    except GatewayRefused as error:
        found = error.refusal
        said = f"Nothing can be planned: {found.code.replace('_', ' ')}{f' ({found.field})' if found.field else ''}."
        raise CommandFailed(found.code, said, found.fix, Exit.USAGE) from None
    proposal = normal_form(arguments, payload.sha256, at.ids.new("req"), None)
    return await _foreseen(at, proposal, _whoever(at, operator, arguments), content_bytes=payload.size)


def _whoever(at: Installation, operator: str, arguments: ProposePublish) -> Proposer:
    """Whoever is to propose it, under a token that is taken to last until it is to be published."""
    proposer = own_proposer(at, operator, "")
    if arguments.publish_at is None:
        return proposer
    lasts_until_s = int(instant(arguments.publish_at).timestamp()) + 1
    return replace(proposer, grant_until_s=max(proposer.grant_until_s or 0, lasts_until_s))


async def withdrawal(at: Installation, command_id: str, operator: str) -> Preview:
    """What taking down what that command published would come to. Raises CommandFailed."""
    proposal = withdrawal_of(await saga_of(at, command_id), reason="")
    return await _set_in_motion(at, proposal, own_proposer(at, operator, ""))


async def repetition(at: Installation, command_id: str, operator: str) -> Preview:
    """What doing that command once more would come to. Raises CommandFailed."""
    saga, now_ms = await saga_of(at, command_id), at.clock.now_ms()
    return await _set_in_motion(at, *repetition_of(saga, at.catalog, operator=operator, reason="", now_ms=now_ms))


async def of_command(at: Installation, command_id: str) -> Preview:
    """What was planned when it was accepted. Raises CommandFailed."""
    root, view = (await saga_of(at, command_id)).root, await find(at, command_id)
    if at.catalog.find(root.command_type, root.definition_version) is None:
        said = f"This version of Remit does not have {root.command_type} v{root.definition_version}."
        raise CommandFailed("unknown_definition", said, "Ask a worker of the version that accepted it.")
    found = shown(planned(root, at.catalog), detailed=True)
    said = f"This is what was planned for {root.command_id}, which is {view.state}."
    return found.model_copy(update={"say_to_user": said})


async def _foreseen(
    at: Installation, proposal: Proposal, proposer: Proposer, *, content_bytes: int | None = None
) -> Preview:
    with refusals_said():
        judged = await at.intake().foresee(proposal, proposer)
    return shown(foreseen(judged, at.catalog), content_bytes=content_bytes, detailed=True)


async def _set_in_motion(at: Installation, proposal: Proposal, proposer: Proposer) -> Preview:
    """What an operator would set in motion; what was asked for before, for whatever reason, as it was planned then."""
    with refusals_said():
        try:
            judged = await at.intake().foresee(proposal, proposer)
        except IntakeRefused as error:
            if not is_for_another_reason(error, proposal) or error.command_id is None:
                raise
            return await of_command(at, error.command_id)
    if judged.known is not None:
        return await of_command(at, judged.known.command_id)
    return shown(foreseen(judged, at.catalog), detailed=True)


def rendered(plan: Preview) -> list[RenderableType]:
    """For a person: the facts, then the steps with the pivot between what can be undone and what cannot."""
    facts: list[tuple[str, object]] = [
        ("what", plan.target),
        ("mode", plan.mode),
        ("address", plan.url or plan.slug),
        ("slug", plan.slug),
        ("over version", plan.base_version),
        ("not before", plan.publish_at),
        ("on the site's clock", plan.publish_at_local),
        ("takes the place of", ", ".join(plan.gives_way or ()) or None),
        ("approval", "a person has to say yes" if plan.approval.required else "none is asked for"),
        ("key", plan.idempotency_key),
        ("content", plan.content_sha256),
        ("known as", plan.command_id),
        ("to be known", ", ".join(plan.notes or ()) or None),
    ]
    return [line(plan.say_to_user, "bold"), fields(facts), line(""), table(_COLUMNS, _rows(plan))]


_COLUMNS = ("", "step", "system", "effect", "in doubt", "undone by", "key")


def _rows(plan: Preview) -> Iterable[tuple[object, ...]]:
    for number, step in enumerate(plan.steps, start=1):
        if step.name == plan.pivot:
            yield ("", "-- pivot: from here on nothing is undone automatically --", "", "", "", "", "")
        yield (number, step.name, step.system, step.effect, _in_doubt(step), step.undone_by, step.key)


def _in_doubt(step: PlannedStep) -> str | None:
    """What is done when nobody knows whether it happened."""
    if step.repeat is None:
        return None
    look = "a person is asked" if step.lookup == "cannot be asked" else "looked up"
    return {"never": look, "by_key": "sent again under its key", "natural": "sent again"}[step.repeat]
