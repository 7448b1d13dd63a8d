"""The card of every definition that is shipped: ten blocks, nothing forgotten in any of them."""

from typing import Any

import pytest

from execution.card import card_of
from execution.core.definition import SagaDefinition, Step
from execution.sagas.publish_article import SEO_ARTICLE_PUBLISH_V1
from execution.sagas.withdraw_article import ARTICLE_WITHDRAW_V1

SHIPPED = (SEO_ARTICLE_PUBLISH_V1, ARTICLE_WITHDRAW_V1)
BLOCKS = (
    "COMMAND",
    "DECISION",
    "TARGET",
    "IDEMPOTENCY",
    "EXECUTION",
    "VERIFY",
    "COMPENSATION",
    "TRANSACTION",
    "OBSERVABILITY",
    "RECOVERY",
)

each = pytest.mark.parametrize("definition", SHIPPED, ids=lambda definition: definition.name)


@each
@pytest.mark.behaviour("card.whole")
def test_every_block_says_something_of_every_step(definition: SagaDefinition[Any]) -> None:
    card = card_of(definition)
    assert tuple(card) == BLOCKS
    for part in definition.parts:
        assert any(part.name in line for line in card["COMMAND"])
    for block in ("EXECUTION", "IDEMPOTENCY", "VERIFY", "COMPENSATION", "OBSERVABILITY", "RECOVERY"):
        for step in definition.steps:
            assert any(line.startswith(step.name) for line in card[block]), (block, step.name)
    assert all(line.strip() and "None" not in line for lines in card.values() for line in lines)


@each
def test_no_two_effects_share_a_key(definition: SagaDefinition[Any]) -> None:
    keys = [line.partition(": ")[2].partition(";")[0] for line in card_of(definition)["IDEMPOTENCY"]]
    assert len(set(keys)) == len(keys)


def test_the_pivot_divides_what_is_undone_from_what_is_finished() -> None:
    before, pivot, after, *times = card_of(SEO_ARTICLE_PUBLISH_V1)["TRANSACTION"]
    assert before.endswith("UPLOAD_FEATURED_IMAGE, CREATE_WORDPRESS_DRAFT, STAGE_PUBLICATION_RECORD")
    assert pivot == "pivot: PUBLISH_WORDPRESS_POST"
    assert "SEND_NOTIFICATION" in after
    assert times == [
        "within 7 days, then a person is asked",
        "a scheduled pivot begins at most 1 hour late, then a person is asked",
    ]
    assert card_of(ARTICLE_WITHDRAW_V1)["TRANSACTION"][0].endswith(": nothing")


@each
def test_what_cannot_be_asked_says_so_and_what_to_look_for(definition: SagaDefinition[Any]) -> None:
    card = card_of(definition)
    blind = [step for step in definition.steps if step.action.observe is None]
    assert blind
    for step in blind:
        assert (
            f"{step.name}: the system cannot be asked: an answer that is lost is a question for a person"
            in (card["VERIFY"])
        )
        assert f"{step.name}, by hand: {step.manual}" in card["RECOVERY"]


@each
def test_what_is_promised_about_doubt_is_what_the_engine_goes_by(definition: SagaDefinition[Any]) -> None:
    said = card_of(definition)["IDEMPOTENCY"]
    for step in (part for part in definition.parts if isinstance(part, Step)):
        (line,) = [line for line in said if line.startswith(f"{step.name}:")]
        wording = {"never": "only once its absence is proven", "by_key": "under the same key", "natural": "twice is"}
        assert wording[step.action.repeat.value] in line
