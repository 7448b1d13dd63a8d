"""The reader of sentences: what is a claim, what is a denial, what is neither."""

import pytest

from tests.evals.phrases import Reading, readings

CLAIMS, DENIES = Reading.CLAIMS, Reading.DENIES


@pytest.mark.parametrize(
    "text",
    [
        "article-0028 version 1 is published.",
        "It is online now.",
        "The article is live and people read it.",
        "All done.",
        "It waits for nobody. It was published yesterday.",
        "A later version took its place.",
        "Readers can see it.",
        "The work is not over, but it is published.",
    ],
)
def test_a_claim_of_publication_is_read_as_one(text: str) -> None:
    assert readings(text) == {CLAIMS}


@pytest.mark.parametrize(
    "text",
    [
        "article-0028 version 1 is not published.",
        "It was never published.",
        "It failed before it could be published.",
        "Nothing happened.",
        "Nothing was published.",
        "It is no longer online.",
    ],
)
def test_a_denial_is_read_as_one(text: str) -> None:
    assert readings(text) == {DENIES}


@pytest.mark.parametrize(
    "text",
    [
        "It is not known yet whether article-0028 version 1 was published. Remit is finding out.",
        "It waits for a person's approval.",
        "What stands there now is not what was published.",
        "A later version was proposed in its place.",
        "A person would have to approve it before it is published.",
        "This version is not newer than the live one. Use a higher version number.",
        "What had been prepared was undone.",
        "Do not say that it failed.",
        "",
    ],
)
def test_what_leaves_it_open_is_neither(text: str) -> None:
    assert readings(text) == frozenset()


def test_a_text_that_says_both_is_read_as_both() -> None:
    assert readings("It is published. It failed.") == {CLAIMS, DENIES}
