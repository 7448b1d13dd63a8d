"""A definition that could leave an effect which nothing can offset or finish cannot be constructed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from execution.core.command import Context
from execution.core.definition import (
    Action,
    ApprovalGate,
    CheckGate,
    Finding,
    LookupContract,
    OnRefused,
    Part,
    Prepared,
    SagaDefinition,
    Step,
    UnsafeDefinition,
)
from execution.core.failures import Absent, CannotTell, Sighting, Unprepared
from execution.core.states import EffectClass, Repeat

LOOKUP = LookupContract(strength="strong", covers="all", authority="login", cache_bypass="none needed")


async def forward(ports: None, context: Context) -> Prepared:
    raise Unprepared(failure=None, code="unused")  # type: ignore[arg-type]  # never called: only the shape counts


async def observe(ports: None, context: Context) -> Sighting:
    return Absent()


async def check(ports: None, context: Context) -> tuple[Finding, ...] | CannotTell:
    return ()


async def subject(ports: None, context: Context) -> Mapping[str, Any] | CannotTell:
    return {}


def resource(params: Mapping[str, Any]) -> str:
    return "site/blog/a"


ACTION: Action[None] = Action(system="s", operation="o", forward=forward, observe=observe, lookup=LOOKUP)
BLIND: Action[None] = Action(system="s", operation="last", forward=forward, observe=None, looks_first=False)
COMPENSABLE: Step[None] = Step(
    name="FIRST",
    effect=EffectClass.COMPENSABLE,
    action=ACTION,
    compensation=replace(ACTION, operation="undo"),
    compensation_type="UNDO_FIRST",
    compensable_while="nobody changed it",
    resource=resource,
    receipt_columns=("status",),
    summary="do the first",
    manual="undo it by hand",
)
PIVOT: Step[None] = Step(
    name="TURN",
    effect=EffectClass.PIVOT,
    action=replace(ACTION, operation="turn"),
    resource=resource,
    receipt_columns=("status",),
    summary="turn",
    manual="look",
)
RETRYABLE: Step[None] = replace(
    PIVOT, name="LATER", effect=EffectClass.RETRYABLE, action=replace(ACTION, operation="later")
)
IRREVERSIBLE: Step[None] = replace(PIVOT, name="LAST", effect=EffectClass.IRREVERSIBLE, action=BLIND)
GATE: CheckGate[None] = CheckGate(name="CHECK", check=check, summary="look whether all is well")
APPROVAL: ApprovalGate[None] = ApprovalGate(
    name="APPROVAL", guards="TURN", subject=subject, summary="a person says yes"
)


def saga(*parts: Part[None], **changed: Any) -> SagaDefinition[None]:
    given = {"summary": "an example", "target": "site/blog/a", "decision": "the grant alone", **changed}
    return SagaDefinition(name="EXAMPLE", version=1, intent="propose", operation="do", parts=parts, **given)


def test_a_saga_in_the_order_of_recoverability_is_accepted() -> None:
    made = saga(COMPENSABLE, GATE, APPROVAL, PIVOT, RETRYABLE, IRREVERSIBLE)
    assert made.pivot is PIVOT
    assert made.steps == (COMPENSABLE, PIVOT, RETRYABLE, IRREVERSIBLE)
    assert made.part("CHECK") is GATE
    assert made.requirements("TURN") == ("FIRST", "CHECK", "APPROVAL")


def test_a_step_waits_for_what_it_names_instead_of_everything_before_it() -> None:
    made = saga(COMPENSABLE, PIVOT, replace(RETRYABLE, requires=("TURN",)))
    assert made.requirements("LATER") == ("TURN",)
    assert saga(COMPENSABLE).pivot is None


@pytest.mark.parametrize("lookup", ["part", "requirements"])
def test_a_part_that_is_not_there_is_not_found(lookup: str) -> None:
    with pytest.raises(KeyError):
        getattr(saga(COMPENSABLE), lookup)("OTHER")


UNSAFE: dict[str, tuple[Callable[[], object], str]] = {
    "no part at all": (lambda: saga(), "there must be one"),
    "a name twice": (lambda: saga(COMPENSABLE, COMPENSABLE), "unique"),
    "a name in lower case": (lambda: saga(replace(COMPENSABLE, name="first")), "upper case"),
    "a requirement that comes later": (
        lambda: saga(replace(COMPENSABLE, requires=("TURN",)), PIVOT),
        "does not stand before",
    ),
    "a requirement that does not exist": (lambda: saga(PIVOT, replace(RETRYABLE, requires=("X",))), "stand before"),
    "an approval of an earlier step": (lambda: saga(PIVOT, replace(APPROVAL, guards="TURN")), "does not come after"),
    "an approval of nothing": (lambda: saga(replace(APPROVAL, guards="NOTHING"), PIVOT), "does not come after"),
    "two pivots": (lambda: saga(PIVOT, replace(PIVOT, name="TURN_AGAIN")), "order must be"),
    "compensable after the pivot": (lambda: saga(PIVOT, COMPENSABLE), "order must be"),
    "retryable before the pivot": (lambda: saga(RETRYABLE, PIVOT), "order must be"),
    "irreversible before something retryable": (lambda: saga(IRREVERSIBLE, RETRYABLE), "order must be"),
    "irreversible before the pivot": (lambda: saga(IRREVERSIBLE, PIVOT), "order must be"),
    "a gate after the pivot": (lambda: saga(PIVOT, GATE), "could not stop anything"),
    "compensable without compensation": (
        lambda: saga(replace(COMPENSABLE, compensation=None)),
        "without a compensation",
    ),
    "a compensation without a type": (lambda: saga(replace(COMPENSABLE, compensation_type=None)), "without a comp"),
    "a pivot with a compensation": (lambda: saga(replace(PIVOT, compensation=ACTION)), "only COMPENSABLE"),
    "irreversible and repeated": (
        lambda: saga(replace(IRREVERSIBLE, action=replace(BLIND, repeat=Repeat.BY_KEY))),
        "never repeated",
    ),
    "irreversible and independent": (lambda: saga(PIVOT, replace(IRREVERSIBLE, requires=())), "waits for everything"),
    "a compensation that cannot be seen": (lambda: saga(replace(COMPENSABLE, compensation=BLIND)), "read-back"),
    "a pivot that cannot be seen": (lambda: saga(replace(PIVOT, action=BLIND)), "must be observable"),
    "a saga without a purpose": (lambda: saga(PIVOT, summary=""), "COMMAND has no answer"),
    "nobody who decides": (lambda: saga(PIVOT, decision=""), "DECISION has no answer"),
    "no resource": (lambda: saga(PIVOT, target=""), "TARGET has no answer"),
    "one key for two effects": (
        lambda: saga(replace(COMPENSABLE, compensation=ACTION)),
        "IDEMPOTENCY has no answer",
    ),
    "a part without a purpose": (lambda: saga(replace(GATE, summary=""), PIVOT), "EXECUTION"),
    "compensable until whenever": (lambda: saga(replace(COMPENSABLE, compensable_while="")), "COMPENSATION"),
    "nothing that can be seen of it": (lambda: saga(replace(PIVOT, receipt_columns=())), "OBSERVABILITY"),
    "nothing that a person can do": (lambda: saga(replace(PIVOT, manual="")), "RECOVERY"),
    "looking first without a way to look": (lambda: replace(BLIND, looks_first=True), "needs a way to look"),
    "a read-back without its contract": (lambda: replace(ACTION, lookup=None), "LookupContract"),
    "no deadline": (lambda: replace(ACTION, deadline_s=0), "deadline"),
    "a deadline of an hour": (lambda: replace(ACTION, deadline_s=3600), "deadline"),
    "a deadline that is no number": (lambda: replace(ACTION, deadline_s=float("nan")), "deadline"),
}


@pytest.mark.parametrize("shape", UNSAFE)
def test_an_unsafe_shape_cannot_be_constructed(shape: str) -> None:
    make, reason = UNSAFE[shape]
    with pytest.raises(UnsafeDefinition, match=reason):
        make()


def test_a_person_who_is_asked_or_what_a_step_leaves_to_look_for_is_an_answer() -> None:
    saga(APPROVAL, PIVOT, decision="")
    saga(replace(PIVOT, receipt_columns=(), evidence=lambda context: {"key": context.key}))


def test_what_follows_a_refusal_is_unwinding_unless_declared() -> None:
    assert (COMPENSABLE.on_refused, COMPENSABLE.on_exhausted) == (OnRefused.UNWIND, OnRefused.UNWIND)
