"""A definition as the ten blocks of its card: what it promises before anything runs, and whom it asks when.

Everything here is read off the definition; construction refuses one that has nothing to say to some block
(`execution.core.definition`), so that no block of a card is ever empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from execution.core.definition import Action, ApprovalGate, LookupContract, OnRefused, Part, SagaDefinition, Step
from execution.core.duty import After
from execution.core.states import EffectClass, Repeat

Definition = SagaDefinition[Any]

_IN_DOUBT: Final = {
    Repeat.NEVER: "in doubt sent again only once its absence is proven",
    Repeat.BY_KEY: "in doubt sent again under the same key, which the system honours",
    Repeat.NATURAL: "in doubt sent again: twice is the same as once",
}
_FOLLOWS: Final = {
    OnRefused.UNWIND: "what was done is undone",
    OnRefused.REVIEW: "a person is asked",
    OnRefused.WAIT_FOR_FIX: "it waits until somebody has mended the cause",
}
_ENDINGS: Final = {
    After.DONE: "when it is done",
    After.GAPS: "when some of it was given up",
    After.REMAINS: "when something of it was not undone",
    After.NOTHING: "when nothing came of it",
}
_NOT_UNDONE: Final = {
    EffectClass.PIVOT: "nothing undoes it automatically: from its fence on the saga goes forward only",
    EffectClass.RETRYABLE: "is not undone: it is repeated until it is done",
    EffectClass.IRREVERSIBLE: "nobody can take it back: it comes when nothing else can fail",
}


def card_of(definition: Definition) -> Mapping[str, list[str]]:
    """The blocks in their order, each with its lines."""
    return {
        "COMMAND": list(_command(definition)),
        "DECISION": list(_decision(definition)),
        "TARGET": list(_target(definition)),
        "IDEMPOTENCY": list(_idempotency(definition)),
        "EXECUTION": list(_execution(definition)),
        "VERIFY": list(_verify(definition)),
        "COMPENSATION": list(_compensation(definition)),
        "TRANSACTION": list(_transaction(definition)),
        "OBSERVABILITY": list(_observability(definition)),
        "RECOVERY": list(_recovery(definition)),
    }


def _command(definition: Definition) -> Iterator[str]:
    yield f"{definition.name} v{definition.version}, from the intent {definition.intent}: {definition.summary}"
    for number, part in enumerate(definition.parts, start=1):
        yield f"{number}. {part.name} ({_kind(part)}): {part.summary}"


def _kind(part: Part[Any]) -> str:
    return f"{part.effect.value} on {part.action.system}" if isinstance(part, Step) else "gate"


def _decision(definition: Definition) -> Iterator[str]:
    yield "a grant for this target, asked for again at every write: not lapsed, not revoked, not frozen"
    if definition.decision:
        yield definition.decision
    for part in definition.parts:
        if isinstance(part, ApprovalGate):
            yield f"{part.name}: a signed yes to the exact request of {part.guards}, never by whoever proposed it"
            yield f"{part.name}: unanswered for {_long(definition.approval_ttl_s)} it lapses"


def _target(definition: Definition) -> Iterator[str]:
    yield f"{definition.target}, locked from acceptance until every attempt on it is settled"
    for system in dict.fromkeys(action.system for action in definition.actions):
        names = [action.operation for action in definition.actions if action.system == system]
        yield f"{system}: {', '.join(names)}"


def _idempotency(definition: Definition) -> Iterator[str]:
    yield f"one command for one version: {_key('remit', definition.operation)}"
    for name, action in _actions(definition):
        yield f"{name}: {_key(action.system, action.operation)}; {_IN_DOUBT[action.repeat]}"


def _key(system: str, operation: str) -> str:
    return f"{{tenant}}:{system}:{operation}:{{site}}:{{object}}:v{{version}}{{generation}}"


def _execution(definition: Definition) -> Iterator[str]:
    for step in definition.steps:
        after = ", ".join(definition.requirements(step.name)) or "nothing"
        yield f"{step.name}: after {after}"
    for name, action in _actions(definition):
        retry = action.retry
        tries = f"{retry.attempts_max} attempts at most" if retry.attempts_max > 1 else "one attempt"
        yield f"{name}: {tries}, each within {_long(action.deadline_s)}; {_look(action)}"


def _look(action: Action[Any]) -> str:
    return "looks right before each" if action.looks_first else "sends without looking first"


def _verify(definition: Definition) -> Iterator[str]:
    for name, action in _actions(definition):
        read_back = "; read back after success" if action.verify is not None else ""
        yield f"{name}: {_lookup(action.lookup)}{read_back}"


def _lookup(lookup: LookupContract | None) -> str:
    if lookup is None:
        return "the system cannot be asked: an answer that is lost is a question for a person"
    lag = f" within {_long(lookup.lag_s)}" if lookup.lag_s else ""
    return f"{lookup.strength}{lag}; covers {lookup.covers}; {lookup.authority}; {lookup.cache_bypass}"


def _compensation(definition: Definition) -> Iterator[str]:
    for step in definition.steps:
        if step.compensation is None:
            yield f"{step.name}: {_NOT_UNDONE[step.effect]}"
        else:
            yield f"{step.name}: {step.compensation_type}, while {step.compensable_while}"


def _transaction(definition: Definition) -> Iterator[str]:
    pivot = definition.pivot
    names = [step.name for step in definition.steps]
    if pivot is None:
        yield f"no pivot: {', '.join(names)}"
    else:
        at = names.index(pivot.name)
        yield f"before the pivot, undone in reverse order when it stops: {', '.join(names[:at]) or 'nothing'}"
        yield f"pivot: {pivot.name}"
        yield f"after it, forward only: {', '.join(names[at + 1 :]) or 'nothing'}"
    yield f"within {_long(definition.deadline_s)}, then a person is asked"
    yield f"a scheduled pivot begins at most {_long(definition.max_lateness_s)} late, then a person is asked"


def _observability(definition: Definition) -> Iterator[str]:
    yield "journal, state and attempts of every step by command, key and trace"
    for step in definition.steps:
        kept = ", ".join(("id", "version", "reference", *step.receipt_columns))
        yield f"{step.name}: its receipt keeps {kept}"


def _recovery(definition: Definition) -> Iterator[str]:
    for step in definition.steps:
        on = f"refused: {_FOLLOWS[step.on_refused]}; attempts used up: {_FOLLOWS[step.on_exhausted]}"
        finishes = "; finishes without new authority" if step.finish_only else ""
        yield f"{step.name}: {on}{finishes}"
        yield f"{step.name}, by hand: {step.manual}"
    for duty in definition.follow_ups:
        endings = " or ".join(_ENDINGS[after] for after in After if after in duty.after)
        yield f"left to {duty.owner} {endings}: {duty.what}"


def _actions(definition: Definition) -> Iterator[tuple[str, Action[Any]]]:
    """Every action with the name of its command, forward and undoing."""
    for step in definition.steps:
        yield step.name, step.action
        if step.compensation is not None:
            yield str(step.compensation_type), step.compensation


def _long(seconds: float) -> str:
    """In the largest unit that comes out even."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {unit if count > 1 else unit[:-1]}"
    return f"{seconds:g} s"
