"""The answers of the tools: one pydantic model per result gives the schema, the text and the documentation.

A concise answer fits into about 400 tokens, a detailed one into about 4,000; what does not fit is left out in a fixed
order and the answer says so. Content is never in an answer, nor any text of a provider.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from execution.folding import CANCELLED, NOT_RUN
from execution.moments import spelt
from execution.proposal import CommandView, StepView
from server.errors import Refusal

CONCISE_CHARS_MAX: Final = 1_600
STEPS_PER_PAGE: Final = 12
SENTENCE_CHARS_MAX: Final = 400
_SETTLED: Final = frozenset({"SUCCESS", "AUTHORIZED", NOT_RUN, CANCELLED})


class Result(BaseModel):
    """A closed part of an answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Approval(Result):
    """Whether a person must say yes, and to what exactly. Agents cannot approve."""

    required: bool
    state: str
    content_hash: str | None = None
    expires_at: str | None = None
    rejection: str | None = None


class Step(Result):
    """One step. SUCCESS: done and verified. OUTCOME_UNKNOWN: being found out. NOT_RUN: the command ended before it."""

    name: str
    state: str
    system: str | None = None
    effect: str | None = Field(default=None, description="COMPENSABLE, RETRYABLE, PIVOT, IRREVERSIBLE or NONE")
    attempts: int | None = None
    compensation: str | None = None
    resource_id: str | None = None
    reference: str | None = None
    error_code: str | None = None
    completed_at: str | None = None
    next_check_at: str | None = None
    key_strategy: str | None = Field(default=None, description="slug or plugin: by what the object is known as ours")


class Answers(Result):
    """Has it already happened? What is sure, what is open, may it be done again, does a person have to act?"""

    executed: str
    succeeded: list[str]
    remaining: list[str]
    unknown: list[str]
    retry_safe: str
    direction: str = Field(description="forward, backward or none")
    compensation: str
    diverged: bool = Field(description="true: reality was seen to differ from the record")
    checked_at: str | None = None
    resumable: bool
    human: str | None = None


class WaitingFor(Result):
    """What ends the wait."""

    what: str
    who: str
    since: str


class Review(Result):
    """An open question for a person."""

    review_id: str
    kind: str
    step: str
    owner: str


class FollowUp(Result):
    """What is left to people, and to whom."""

    name: str
    owner: str
    what: str


class CommandStatus(Result):
    """What is known about one command, proven by the journal. `live` is true only after the published article was read
    back; `done` means that nothing more happens by itself. Tell the user `say_to_user`, then do `next_action`."""

    command_id: str
    say_to_user: str
    next_action: str = Field(description="wait (ask again after next_poll_after_s), tell_user, stop or fix_input")
    next_poll_after_s: float
    state: str
    phase: str | None = None
    done: bool
    live: bool = Field(description="true: what this command was to publish is public, and was read back")
    verified_at: str | None = None
    content: str | None = Field(default=None, description="what has become of the article, whatever command did it")
    publish_at: str | None = Field(default=None, description="when it is to be published, in UTC")
    publish_at_local: str | None = Field(default=None, description="the same on the site's clock")
    url: str | None = None
    external_version: str | None = Field(default=None, description="base_version for the next version")
    error_code: str | None = None
    deduplicated: bool | None = Field(default=None, description="true: it had been proposed before; nothing runs twice")
    to_repeat: str | None = Field(default=None, description="how to do it once more on purpose, if that is wanted")
    original_at: str | None = None
    proposed_by: str | None = None
    repeat_of: str | None = Field(default=None, description="the command that this one does once more on purpose")
    approval: Approval
    waiting_for: WaitingFor | None = None
    answers: Answers
    steps: list[Step] = Field(description="concise: only steps that are under way or in trouble; detailed: all")
    reviews: list[Review] | None = None
    follow_ups: list[FollowUp] | None = Field(default=None, description="what its ending leaves to people")
    idempotency_key: str
    workflow_id: str
    saga_id: str
    decision_id: str
    trace_id: str | None = Field(default=None, description="the trace that the proposal came with")
    cursor: str | None = Field(default=None, description="pass it to get the next page of steps")
    truncated: str | None = None


class CommandLine(Result):
    """One command in a list."""

    command_id: str
    article: str
    version: int
    site: str
    state: str
    done: bool
    live: bool
    verified_at: str | None = None
    created_at: str


class CommandList(Result):
    """Your latest commands, newest first."""

    commands: list[CommandLine]
    truncated: str | None = None


class PlannedStep(Result):
    """One step that would run. undone_by: what undoes it before the pivot. The rest is for operators."""

    name: str
    system: str
    effect: str
    undone_by: str | None = None
    key: str | None = None
    repeat: str | None = None
    lookup: str | None = None
    summary: str | None = None


class Preview(Result):
    """What would happen. Nothing was accepted; call again without preview to propose it."""

    accepted: bool
    say_to_user: str
    idempotency_key: str | None = None
    command_id: str | None = Field(default=None, description="the command that it already is")
    target: str
    mode: str | None = Field(default=None, description="first, update (over what is live) or republish")
    slug: str | None = None
    url: str | None = None
    base_version: str | None = Field(default=None, description="what must stand there until it is written")
    content_sha256: str | None = None
    content_bytes: int | None = None
    publish_at: str | None = None
    publish_at_local: str | None = None
    approval: Approval
    gives_way: list[str] | None = Field(default=None, description="what is under way and would turn back for it")
    pivot: str | None = Field(default=None, description="from this step on nothing is undone automatically")
    steps: list[PlannedStep]
    notes: list[str] | None = Field(default=None, description="what would not be as asked")


class Problem(Result):
    """Why the call was refused and what to do. Nothing was changed."""

    code: str
    field: str | None = None
    limit: int | None = None
    actual: int | None = None
    retryable: bool
    retry_after_s: float | None = None
    fix: str
    differing: list[str] | None = None
    command_id: str | None = None


def output_schema(*models: type[Result]) -> dict[str, Any]:
    """The schema of a tool that answers with one of these models."""
    schemas = [model.model_json_schema() for model in models]
    if len(schemas) == 1:
        return schemas[0]
    definitions: dict[str, Any] = {}
    for schema in schemas:
        definitions |= schema.pop("$defs", {})
    return {"type": "object", "anyOf": schemas, "$defs": definitions}


def status(
    view: CommandView,
    *,
    detailed: bool = False,
    page: int = 0,
    deduplicated: bool | None = None,
    original_ms: int | None = None,
) -> CommandStatus:
    """The answer about one command; `server.fitting.fit` brings it within its size."""
    steps, cursor = _page(view.steps, page) if detailed else (_in_motion(view.steps), None)
    changes = {
        "say_to_user": view.say_to_user[:SENTENCE_CHARS_MAX],
        "deduplicated": deduplicated,
        "original_at": moment(original_ms) if deduplicated else None,
        "to_repeat": _to_repeat(view) if deduplicated else None,
        "steps": [_step(step, detailed) for step in steps],
        "reviews": _reviews(view) if detailed and view.reviews else None,
        "trace_id": view.trace_id if detailed else None,
        **({} if detailed else {"follow_ups": None, "proposed_by": None, "repeat_of": None}),
        "cursor": cursor,
        "truncated": f"{len(view.steps)} steps in pages; pass cursor for the next" if cursor else None,
    }
    return full(view).model_copy(update=changes)


def _to_repeat(view: CommandView) -> str | None:
    """An identical proposal of what has ended finds it again; only a deliberate repetition does it anew."""
    if not view.done or view.live:
        return None
    return f"same values and repeat_of={view.command_id}, if your token allows it; only when the user wants that"


def full(view: CommandView) -> CommandStatus:
    """Everything that is known about one command."""
    return CommandStatus(
        command_id=view.command_id,
        say_to_user=view.say_to_user,
        next_action=view.next_action,
        next_poll_after_s=view.next_poll_after_s,
        state=view.state,
        phase=view.phase,
        done=view.done,
        live=view.live,
        verified_at=moment(view.verified_at_ms),
        content=view.content,
        publish_at=moment(view.publish_at_ms),
        publish_at_local=view.publish_at_local,
        url=view.reference,
        external_version=view.external_version,
        error_code=view.error_code,
        proposed_by=view.proposed_by,
        repeat_of=view.repeat_of,
        approval=_approval(view),
        waiting_for=_waiting(view),
        answers=_answers(view),
        steps=[_step(step, True) for step in view.steps],
        reviews=_reviews(view),
        follow_ups=[FollowUp(name=duty.name, owner=duty.owner, what=duty.what) for duty in view.follow_ups] or None,
        idempotency_key=view.idempotency_key,
        workflow_id=view.workflow_id,
        saga_id=view.saga_id,
        decision_id=view.decision_id,
        trace_id=view.trace_id,
    )


def listing(views: Iterable[CommandView]) -> CommandList:
    """The answer without an id."""
    lines = [
        CommandLine(
            command_id=view.command_id,
            article=view.object_id,
            version=view.object_version,
            site=view.site,
            state=view.state,
            done=view.done,
            live=view.live,
            verified_at=moment(view.verified_at_ms),
            created_at=moment(view.created_at_ms) or "",
        )
        for view in views
    ]
    shown = CommandList(commands=lines)
    while len(text(shown)) > CONCISE_CHARS_MAX and shown.commands:
        kept = shown.commands[:-1]
        shown = CommandList(commands=kept, truncated=f"the newest {len(kept)} of {len(lines)}; query others by id")
    return shown


def problem(refusal: Refusal) -> Problem:
    """A refusal on the wire."""
    return Problem(
        code=refusal.code,
        field=refusal.field,
        limit=refusal.limit,
        actual=refusal.actual,
        retryable=refusal.retryable,
        retry_after_s=refusal.retry_after_s,
        fix=refusal.fix,
        differing=list(refusal.differing) or None,
        command_id=refusal.command_id,
    )


def text(result: Result) -> str:
    """The answer as compact JSON without the fields that say nothing."""
    return result.model_dump_json(exclude_none=True)


def moment(at_ms: int | None) -> str | None:
    """Unix milliseconds as RFC 3339 in UTC, whole seconds."""
    return None if at_ms is None else spelt(at_ms)


def _page(steps: tuple[StepView, ...], page: int) -> tuple[tuple[StepView, ...], str | None]:
    start = page * STEPS_PER_PAGE
    more = start + STEPS_PER_PAGE < len(steps)
    return steps[start : start + STEPS_PER_PAGE], str(page + 1) if more else None


def _in_motion(steps: tuple[StepView, ...]) -> tuple[StepView, ...]:
    return tuple(step for step in steps if step.state not in _SETTLED or step.compensation_state != "NOT_NEEDED")


def _step(step: StepView, detailed: bool) -> Step:
    undone = step.compensation_state if step.compensation_state != "NOT_NEEDED" else None
    if not detailed:
        return Step(name=step.name, state=step.state, compensation=undone, error_code=step.error_code)
    return Step(
        name=step.name,
        state=step.state,
        system=step.system,
        effect=step.effect_class,
        attempts=step.attempts,
        compensation=undone,
        resource_id=step.external_resource_id,
        reference=step.reference,
        error_code=step.error_code,
        completed_at=moment(step.completed_at_ms),
        next_check_at=moment(step.next_check_at_ms),
        key_strategy=step.key_strategy,
    )


def _approval(view: CommandView) -> Approval:
    approval = view.approval
    return Approval(
        required=approval.required,
        state=approval.state,
        content_hash=approval.content_hash,
        expires_at=moment(approval.expires_at_ms),
        rejection=approval.rejection[:SENTENCE_CHARS_MAX] if approval.rejection else None,
    )


def _waiting(view: CommandView) -> WaitingFor | None:
    waiting = view.waiting_for
    if waiting is None:
        return None
    return WaitingFor(what=waiting.what, who=waiting.who, since=moment(waiting.since_ms) or "")


def _answers(view: CommandView) -> Answers:
    answers = view.answers
    return Answers(
        executed=answers.executed,
        succeeded=list(answers.succeeded),
        remaining=list(answers.remaining),
        unknown=list(answers.unknown),
        retry_safe=answers.retry_safe,
        direction=answers.direction,
        compensation=answers.compensation,
        diverged=answers.diverged,
        checked_at=moment(answers.checked_at_ms),
        resumable=answers.resumable,
        human=answers.human,
    )


def _reviews(view: CommandView) -> list[Review]:
    return [Review(review_id=r.review_id, kind=r.kind, step=r.step, owner=r.owner) for r in view.reviews[:10]]
