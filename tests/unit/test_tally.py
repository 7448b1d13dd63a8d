"""The soak's count of effects: whatever is there twice, or not there, shows in it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.soak.tally import Round, tally
from tests.stage.judging import Report
from tests.stage.sandbox import Branch, Image, Outside, Post, Row

POST: Final = Post(post_id="1", status="publish", slug="tea", title="Tea", content="tea", image_id="2")
DONE: Final = Outside(
    branches=(Branch(name="b", commit="c", content="tea"),),
    commits=1,
    pulls=(),
    posts=(POST,),
    images=(Image(image_id="2", sha256="s", whole=True),),
    rows=(Row(key="k", version=1, status="published", post_id="1", revision=2),),
    mails=("m",),
    writes={"POST /wp-json/wp/v2/posts": 1},
)
TWICE: Final[dict[str, Callable[[Outside], Outside]]] = {
    "branch": lambda o: replace(o, branches=o.branches * 2),
    "commit": lambda o: replace(o, commits=2),
    "image": lambda o: replace(o, images=o.images * 2),
    "row": lambda o: replace(o, rows=o.rows * 2),
    "message": lambda o: replace(o, mails=o.mails * 2),
    "draft": lambda o: replace(o, writes={"POST /wp-json/wp/v2/posts": 2}),
    "live": lambda o: replace(o, posts=o.posts * 2),
}
GONE: Final[dict[str, Callable[[Outside], Outside]]] = {
    "branch": lambda o: replace(o, branches=()),
    "commit": lambda o: replace(o, commits=0),
    "image": lambda o: replace(o, images=()),
    "row": lambda o: replace(o, rows=()),
    "draft": lambda o: replace(o, writes={}),
    "live": lambda o: replace(o, posts=()),
}


def played(outside: Outside) -> Report:
    return Report(name="", wrong=(), words=(), sprung=True, seconds=0.0, outside=outside)


def test_one_of_each_is_right() -> None:
    counted = tally([Round(version=1, report=played(DONE))])
    assert (counted.effects, counted.right) == (7, True)


@pytest.mark.parametrize("thing", sorted(TWICE))
def test_whatever_is_there_twice_is_a_duplicate(thing: str) -> None:
    counted = tally([Round(version=1, report=played(TWICE[thing](DONE)))])
    assert (counted.duplicates, counted.lost, counted.right) == (1, 0, False)


@pytest.mark.parametrize("thing", sorted(GONE))
def test_whatever_is_not_there_is_lost(thing: str) -> None:
    counted = tally([Round(version=1, report=played(GONE[thing](DONE)))])
    assert (counted.duplicates, counted.lost, counted.right) == (0, 1, False)


def test_a_message_may_wait_for_a_person_and_nothing_else_may() -> None:
    assert tally([Round(version=1, report=played(replace(DONE, mails=())))]).right
    assert tally([Round(version=2, report=played(replace(DONE, mails=())))]).lost > 0


def test_what_was_undone_may_be_gone_and_may_not_be_there_twice() -> None:
    nothing = Outside(branches=(), commits=0, pulls=(), posts=(), images=(), rows=(), mails=(), writes={})
    assert tally([Round(version=0, report=played(nothing))]).right
    assert tally([Round(version=0, report=played(TWICE["draft"](nothing)))]).duplicates == 1


def test_a_round_that_does_not_come_to_rest_is_stuck() -> None:
    counted = tally([Round(version=1, report=None), Round(version=1, report=played(DONE))])
    assert (counted.rounds, counted.stuck, counted.right) == (2, 1, False)
