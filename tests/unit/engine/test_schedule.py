"""A scheduled pivot: never early, and after its lateness only with a person's word."""

from typing import Any, Final

from execution.core.command import Context
from execution.core.definition import Action, LookupContract, Prepared, SagaDefinition, Step
from execution.core.draft import Draft
from execution.core.failures import Absent, Sighting
from execution.core.horizon import Execute, Horizon, Next, Wait
from execution.core.progress import advance
from execution.core.states import Blocker, EffectClass, ReviewKind, State
from tests.unit.engine.sagas import PUBLISH, changed, saga

HOUR_MS: Final = 3_600_000
LOOKUP: Final = LookupContract(strength="strong", covers="all", authority="none needed", cache_bypass="none there")


async def _never(ports: Any, context: Context) -> Prepared:
    raise AssertionError("a pure test sends nothing")


async def _absent(ports: Any, context: Context) -> Sighting:
    return Absent()


DEFINITION: Final[SagaDefinition[Any]] = SagaDefinition(
    name="PLAIN",
    version=1,
    intent="plain",
    operation="publish",
    parts=(
        Step(
            name=PUBLISH,
            effect=EffectClass.PIVOT,
            action=Action(system="site", operation="publish", forward=_never, observe=_absent, lookup=LOOKUP),
            resource=lambda params: "site/blog/a",
            receipt_columns=("status",),
            summary="publish",
            manual="look",
        ),
    ),
    summary="publish at a time",
    target="site/blog/a",
    decision="the grant alone",
    max_lateness_s=3_600.0,
)


def standing(now_ms: int, **publish: Any) -> tuple[Draft, Next]:
    """The saga at that moment, with its pivot scheduled for one hour after the epoch."""
    scheduled = saga(State.SUCCESS, State.SUCCESS, State.AUTHORIZED, State.SUCCESS, not_before_ms=HOUR_MS)
    draft = Draft(changed(scheduled, PUBLISH, **publish), actor="test", now_ms=now_ms)
    at = Horizon(
        now_ms=now_ms,
        quiet_at_ms={},
        new_id=lambda prefix: f"{prefix}_1",
        approval_ttl_ms=HOUR_MS,
        claims_max=12,
        review_owner="operators",
    )
    return draft, advance(draft, DEFINITION, at)


def test_before_its_time_it_waits_until_then() -> None:
    draft, following = standing(HOUR_MS - 1)
    assert following == Wait(until_ms=HOUR_MS)
    assert Blocker.SCHEDULED in draft.root.blocked_by


def test_at_its_time_it_starts() -> None:
    draft, following = standing(HOUR_MS)
    assert following == Execute(command_id="cmd_3")
    assert Blocker.SCHEDULED not in draft.root.blocked_by


def test_within_its_lateness_it_still_starts() -> None:
    assert standing(2 * HOUR_MS)[1] == Execute(command_id="cmd_3")


def test_later_than_that_a_person_is_asked() -> None:
    draft, following = standing(2 * HOUR_MS + 1)
    assert following == Wait(until_ms=None)
    assert draft.row("cmd_3").state is State.NEEDS_REVIEW
    assert [review.kind for review in draft.saga.reviews] == [ReviewKind.STUCK]


def test_a_retry_of_what_was_begun_in_time_is_not_too_late() -> None:
    _, following = standing(2 * HOUR_MS + 1, state=State.RETRY_PENDING, attempt_count=1)
    assert following == Execute(command_id="cmd_3")
