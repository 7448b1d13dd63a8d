"""Sagas as data. A definition that breaks the order of recoverability cannot be constructed.

A `Step` has one forward `Action` and, when it is COMPENSABLE, a second `Action` that offsets it; both are executed by
the same engine path, because a compensation is a command like any other. A `Gate` sends nothing: a check or a person's
yes.

Each of the ten blocks of `remit card` has an answer, or a definition cannot be constructed either: what nobody can say
about a saga beforehand, nobody can look up when it is in trouble.

Order of recoverability, checked here: COMPENSABLE steps, then at most one PIVOT, then RETRYABLE steps, IRREVERSIBLE
ones last. What stands before the pivot can be unwound; what stands after it can be repeated until it succeeds; what
cannot be taken back comes when nothing else can fail.

`P` is the bundle of ports that the functions of a definition use; it belongs to whoever composes the program.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeGuard, TypeVar

from execution.core.command import Context
from execution.core.duty import FollowUp
from execution.core.failures import Answer, CannotTell, Receipt, Sighting
from execution.core.quiescence import Bounds
from execution.core.retry import RetryPolicy
from execution.core.states import EffectClass, Repeat

P = TypeVar("P")
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]{2,63}")


class UnsafeDefinition(ValueError):
    """A definition whose shape could leave an effect that nothing can offset or finish."""


class Prepared(Protocol):
    """One request whose exact bytes are known, before anything was sent.

    The engine calls `connect` before the fence, commits the attempt, then `send` once; nothing may connect after the
    fence. `close` is always called. `request_digest` is the hex SHA-256 of the exact bytes (method, target, body; no
    credentials). `bounds` says how late the request can still take effect.
    """

    @property
    def request_digest(self) -> str: ...

    @property
    def bounds(self) -> Bounds: ...

    async def connect(self) -> Answer | None:
        """Open what the request will be written on; None when open, `Unsent` (or a `Refused` login) when it is not."""
        ...

    async def send(self, deadline_s: float) -> Answer:
        """Write the request on what `connect` opened and read the answer, all within the deadline."""
        ...

    async def close(self) -> None:
        """Release the connection; abortive when an answer is outstanding."""
        ...


class TellsWriting(Protocol):
    """A prepared request that says when bytes of it left: `written` is called after each write to the connection."""

    written: Callable[[], None]


def tells_writing(prepared: Prepared) -> TypeGuard[TellsWriting]:
    """Whether that request says it."""
    return hasattr(prepared, "written")


class AsksToWrite(Protocol):
    """A prepared effect that takes several requests: before each further one it asks whether there is still time.

    Its `bounds.budget_s` says until when after the fence; only whoever holds the clocks can tell.
    """

    may_write: Callable[[], bool]


def asks_to_write(prepared: Prepared) -> TypeGuard[AsksToWrite]:
    """Whether that request asks."""
    return hasattr(prepared, "may_write")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeWay:
    """One object's texts by field, for a person to compare. baseline: as approved and written last; live: as it stands;
    ours: as it would be written."""

    baseline: Mapping[str, str]
    live: Mapping[str, str]
    ours: Mapping[str, str]


Forward = Callable[[P, Context], Awaitable[Prepared]]
Compare = Callable[[P, Context], Awaitable[ThreeWay | CannotTell]]
Observe = Callable[[P, Context], Awaitable[Sighting]]
Verify = Callable[[P, Context, Receipt], Awaitable[Sighting]]


class OnRefused(StrEnum):
    """What follows when a step is refused for good, or has used its retries."""

    UNWIND = "unwind"
    REVIEW = "review"
    WAIT_FOR_FIX = "wait_for_fix"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupContract:
    """What a read-back can be trusted for; shown to people and measured by the conformance suites.

    strength: "strong" or "eventual" (then `lag_s` bounds it). covers: whether objects that others created are seen.
    authority: how the read proves that it may see the object. cache_bypass: how caches are avoided.
    """

    strength: str
    covers: str
    authority: str
    cache_bypass: str
    lag_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Generic[P]):
    """One thing done to an external system, with the way to find out whether it happened.

    observe None: the system cannot be asked (SMTP): doubt goes to a person. looks_first: look immediately before each
    attempt's fence (creates, and updates under an expected version). verify None: nothing to compare after success.
    adopts False: an object that carries our marker but no attempt of ours on record is FOREIGN. per_site: each site has
    a system of its own, with a pace of its own. mend: adds what is missing to an object of ours that a read-back found
    unfinished (`Present.mendable`); it makes no second one. compare: reads what a person must see when the object is
    not as expected.
    deadline_s bounds connect, write and answer.
    """

    system: str
    operation: str
    forward: Forward[P]
    observe: Observe[P] | None
    verify: Verify[P] | None = None
    looks_first: bool = True
    adopts: bool = True
    repeat: Repeat = Repeat.NEVER
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    deadline_s: float = 20.0
    lookup: LookupContract | None = None
    per_site: bool = False
    mend: Forward[P] | None = None
    compare: Compare[P] | None = None

    def paced_as(self, site: str) -> str:
        """The name under which the system's pace is kept."""
        return f"{self.system}/{site}" if self.per_site else self.system

    def __post_init__(self) -> None:
        if self.looks_first and self.observe is None:
            raise UnsafeDefinition(f"{self.operation}: looking first needs a way to look")
        if self.mend is not None and not (self.looks_first and self.verify is not None):
            raise UnsafeDefinition(f"{self.operation}: mending needs a look before and one after")
        if self.observe is not None and self.lookup is None:
            raise UnsafeDefinition(f"{self.operation}: a read-back needs its LookupContract")
        if not 0 < self.deadline_s <= 300:
            raise UnsafeDefinition(f"{self.operation}: the deadline is 0 to 300 seconds")


def _no_evidence(context: Context) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[P]):
    """One forward action and its compensation. `name` is the command type.

    requires: command types that must be SUCCESS before it (None: everything before it). resource: what it locks.
    finish_only: may complete after the pivot without new authority. when: whether a proposal has this step at all.
    evidence: what a person looks for in the system when nobody else can tell whether it happened; receipt_columns: what
    the receipt keeps beside id, version and reference; at least one of the two. manual: what a person does by hand when
    nothing else helps.
    """

    name: str
    effect: EffectClass
    action: Action[P]
    resource: Callable[[Mapping[str, Any]], str]
    compensation: Action[P] | None = None
    compensation_type: str | None = None
    compensable_while: str = ""
    requires: tuple[str, ...] | None = None
    when: Callable[[Mapping[str, Any]], bool] = lambda params: True
    on_refused: OnRefused = OnRefused.UNWIND
    on_exhausted: OnRefused = OnRefused.UNWIND
    finish_only: bool = False
    receipt_columns: tuple[str, ...] = ()
    summary: str = ""
    manual: str = ""
    evidence: Callable[[Context], Mapping[str, str]] = _no_evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check found wrong. `code` is stable; `where` names the field."""

    code: str
    where: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckGate(Generic[P]):
    """A gate that looks and judges; findings → a person, with what `compare` reads about those in `compares`."""

    name: str
    check: Callable[[P, Context], Awaitable[tuple[Finding, ...] | CannotTell]]
    retry: RetryPolicy = field(default_factory=lambda: RetryPolicy(attempts_max=5))
    when: Callable[[Mapping[str, Any]], bool] = lambda params: True
    compare: Compare[P] | None = None
    compares: frozenset[str] = frozenset()
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGate(Generic[P]):
    """A gate that waits for a person's signed yes to exactly what the step `guards` would send.

    subject: what is shown and hashed, beside the digest of the guarded request.
    """

    name: str
    guards: str
    subject: Callable[[P, Context], Awaitable[Mapping[str, Any] | CannotTell]]
    when: Callable[[Mapping[str, Any]], bool] = lambda params: True
    summary: str = ""


Part = Step[P] | CheckGate[P] | ApprovalGate[P]

_RANK: Final = {
    EffectClass.COMPENSABLE: 0,
    EffectClass.PIVOT: 1,
    EffectClass.RETRYABLE: 2,
    EffectClass.IRREVERSIBLE: 3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaDefinition(Generic[P]):
    """An ordered saga. Seconds: deadline_s of the whole, approval_ttl_s until an unanswered approval expires,
    max_lateness_s of a scheduled pivot.

    summary: what it is for. target: the resource that it locks and that a token must cover. decision: who decides when
    no gate asks a person. past: what its object is once it has succeeded, in a word for people ("published").
    takes_down: its pivot ends what another saga's made; it takes the place of whatever is under way on the object, and
    nothing takes its place.
    """

    name: str
    version: int
    intent: str
    operation: str
    parts: tuple[Part[P], ...]
    summary: str
    target: str
    decision: str = ""
    deadline_s: float = 7 * 86_400.0
    approval_ttl_s: float = 72 * 3_600.0
    max_lateness_s: float = 3_600.0
    past: str = "done"
    takes_down: bool = False
    follow_ups: tuple[FollowUp, ...] = ()

    def __post_init__(self) -> None:
        check_names(self)
        check_order(self)
        for step in self.steps:
            check_step(step, self)
        check_answers(self)

    @property
    def steps(self) -> tuple[Step[P], ...]:
        """The parts with an effect."""
        return tuple(part for part in self.parts if isinstance(part, Step))

    @property
    def actions(self) -> tuple[Action[P], ...]:
        """Everything that may be done to a system: forward, then what undoes it."""
        undoing = (step.compensation for step in self.steps if step.compensation is not None)
        return (*(step.action for step in self.steps), *undoing)

    @property
    def pivot(self) -> Step[P] | None:
        """The step after which recovery goes forward only."""
        return next((step for step in self.steps if step.effect is EffectClass.PIVOT), None)

    def part(self, name: str) -> Part[P]:
        """The part of that name; KeyError when the definition has none."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(name)

    def requirements(self, name: str) -> tuple[str, ...]:
        """Names of the parts that must be SUCCESS before that part starts."""
        earlier: list[str] = []
        for part in self.parts:
            if part.name == name:
                explicit = part.requires if isinstance(part, Step) else None
                return tuple(earlier) if explicit is None else explicit
            earlier.append(part.name)
        raise KeyError(name)


def check_names(saga: SagaDefinition[Any]) -> None:
    """Names are unique and well formed; what is required or guarded exists and stands before or after as it must."""
    names = [part.name for part in saga.parts]
    duties = [duty.name for duty in saga.follow_ups]
    if len(set(duties)) != len(duties) or not all(_NAME.fullmatch(name) for name in duties):
        raise UnsafeDefinition(f"{saga.name}: names of duties must be unique and upper case")
    if not names or len(set(names)) != len(names) or not all(_NAME.fullmatch(name) for name in names):
        raise UnsafeDefinition(f"{saga.name}: part names must be unique, upper case, and there must be one")
    for index, part in enumerate(saga.parts):
        needed = part.requires or () if isinstance(part, Step) else ()
        if not set(needed) <= set(names[:index]):
            raise UnsafeDefinition(f"{part.name}: requires something that does not stand before it")
        if isinstance(part, ApprovalGate) and part.guards not in names[index + 1 :]:
            raise UnsafeDefinition(f"{part.name}: guards a step that does not come after it")


def check_order(saga: SagaDefinition[Any]) -> None:
    """COMPENSABLE → PIVOT → RETRYABLE → IRREVERSIBLE, and at most one pivot; gates stand before the pivot."""
    ranks = [_RANK[step.effect] for step in saga.steps]
    if ranks != sorted(ranks) or ranks.count(1) > 1:
        raise UnsafeDefinition(f"{saga.name}: order must be COMPENSABLE, one PIVOT, RETRYABLE, IRREVERSIBLE")
    after_pivot = False
    for part in saga.parts:
        if after_pivot and not isinstance(part, Step):
            raise UnsafeDefinition(f"{part.name}: a gate after the pivot could not stop anything")
        after_pivot = after_pivot or (isinstance(part, Step) and part.effect is EffectClass.PIVOT)


def check_step(step: Step[Any], saga: SagaDefinition[Any]) -> None:
    """Each effect class has what its recovery needs."""
    if step.effect is EffectClass.COMPENSABLE and (step.compensation is None or not step.compensation_type):
        raise UnsafeDefinition(f"{step.name}: COMPENSABLE without a compensation")
    if step.effect is not EffectClass.COMPENSABLE and step.compensation is not None:
        raise UnsafeDefinition(f"{step.name}: only COMPENSABLE steps are compensated automatically")
    if step.effect is EffectClass.IRREVERSIBLE and step.action.repeat is not Repeat.NEVER:
        raise UnsafeDefinition(f"{step.name}: an IRREVERSIBLE step is never repeated in doubt")
    if step.effect is EffectClass.IRREVERSIBLE and step.requires is not None:
        raise UnsafeDefinition(f"{step.name}: an IRREVERSIBLE step waits for everything before it")
    if step.compensation is not None and step.compensation.observe is None:
        raise UnsafeDefinition(f"{step.name}: a compensation must be verified by read-back")
    if step.effect is EffectClass.PIVOT and step.action.observe is None:
        raise UnsafeDefinition(f"{step.name}: a pivot must be observable")


def check_answers(saga: SagaDefinition[Any]) -> None:
    """Each block of its card says something. Raises UnsafeDefinition naming the block."""
    asked = any(isinstance(part, ApprovalGate) for part in saga.parts)
    for block, said in (("COMMAND", saga.summary), ("DECISION", saga.decision or asked), ("TARGET", saga.target)):
        if not said:
            raise UnsafeDefinition(f"{saga.name}: {block} has no answer")
    if not all(duty.owner and duty.what and duty.after for duty in saga.follow_ups):
        raise UnsafeDefinition(f"{saga.name}: a duty without an owner, a purpose or an ending")
    keys = [(action.system, action.operation) for action in saga.actions]
    if len(set(keys)) < len(keys):
        raise UnsafeDefinition(f"{saga.name}: IDEMPOTENCY has no answer: two of its actions would share one key")
    for part in saga.parts:
        if unanswered := _unanswered(part):
            raise UnsafeDefinition(f"{part.name}: {unanswered} has no answer")


def _unanswered(part: Part[Any]) -> str:
    """The first block to which a part has nothing to say; empty when there is none."""
    if not part.summary:
        return "EXECUTION (summary)"
    if not isinstance(part, Step):
        return ""
    if part.effect is EffectClass.COMPENSABLE and not part.compensable_while:
        return "COMPENSATION (compensable_while)"
    if not part.receipt_columns and part.evidence is _no_evidence:
        return "OBSERVABILITY (receipt_columns or evidence)"
    return "" if part.manual else "RECOVERY (manual)"
