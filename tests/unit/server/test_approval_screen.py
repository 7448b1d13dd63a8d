"""Whatever the approved hash covers stands on the screen on which it is approved, and so does every change."""

import io
import json
import unicodedata
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from execution.core.command import Approval, Saga
from execution.core.states import ApprovalState
from server.approving import Live, Shown
from server.cli.approval import rendered

LETTERS = st.text("abcdefgh", min_size=1, max_size=6)
SUBJECTS = st.dictionaries(
    LETTERS,
    st.recursive(
        st.none() | st.booleans() | st.integers() | LETTERS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LETTERS, inner, max_size=3),
        max_leaves=12,
    ),
    max_size=6,
)
REAL: dict[str, Any] = {
    "title": "t",
    "excerpt": "e",
    "categories": ["c", "d"],
    "tags": ["f"],
    "sources": ["g"],
    "meta_description": "h",
    "structured_data": {"@type": "Article", "author": [{"name": "i", "sameAs": ["j"]}], "wordCount": 3},
    "featured_image": "k",
    "image": {"url": "l", "media_id": "m"},
    "recipients": ["n", "o"],
    "webhooks": ["p"],
    "target": {"url": "q", "slug": "r", "post_id": None, "mode": "update"},
    "baseline": {"preview": "s"},
    "difference": ["meta_description"],
    "something_new": {"[bold]of tomorrow[/]": ["u"]},
}


def shown(subject: dict[str, Any], live: dict[str, Any] | None = None) -> Shown:
    approval = Approval(
        approval_id="apr_1",
        root_id="cmd_1",
        command_id="cmd_2",
        content_hash="a" * 64,
        request_digest="b" * 64,
        subject=json.dumps(subject),
        state=ApprovalState.PENDING,
        requested_at_ms=1,
        expires_at_ms=2,
    )
    stands = None if live is None else Live(fields=live, content="same")
    return Shown(approval=approval, subject=subject, proposed="same", live=stands, saga=cast("Saga", None))


def screen(given_: Shown, *, whole: bool = False, width: int = 200) -> str:
    out = io.StringIO()
    for part in rendered(given_, whole=whole):
        Console(file=out, highlight=False, width=width, no_color=True).print(part)
    return out.getvalue()


def marked(value: Any, found: list[str]) -> Any:
    """The same with every leaf a word of its own."""
    match value:
        case dict():
            return {name: marked(inner, found) for name, inner in value.items()}
        case list():
            return [marked(inner, found) for inner in value]
        case None:
            return None
        case _:
            found.append(f"<canary {len(found)}>")
            return found[-1]


@given(SUBJECTS)
@settings(max_examples=40, deadline=None)
def test_every_leaf_of_any_subject_is_on_the_screen(subject: dict[str, Any]) -> None:
    canaries: list[str] = []
    told = screen(shown(marked(subject, canaries)))
    assert [canary for canary in canaries if canary not in told] == []


def test_every_leaf_of_a_publication_is_on_the_screen_and_its_name_too() -> None:
    canaries: list[str] = []
    told = screen(shown(marked(REAL, canaries)))
    assert [canary for canary in canaries if canary not in told] == []
    assert all(name in told for name in ("excerpt", "tags", "structured data.author.sameAs", "[bold]of tomorrow[/]"))


def test_no_narrow_screen_loses_a_letter() -> None:
    told = screen(shown({"excerpt": "xyz" * 500, "data": {"k" * 300: "v"}}), width=40)
    assert (told.count("z"), told.count("k")) == (500, 300)


def test_each_field_that_differs_from_what_is_live_is_said_with_both_sides() -> None:
    for name in ("title", "excerpt", "categories", "tags", "sources", "meta_description", "featured_image"):
        before = {**REAL, name: "" if isinstance(REAL[name], str) else []}
        found = shown(REAL, before)
        assert found.changes() == (name,)
        assert ", compared with what is live:" in screen(found)
    found = shown(REAL, {**REAL, "structured_data": {**REAL["structured_data"], "wordCount": 4, "about": "z"}})
    assert found.changes() == ("structured_data.wordCount", "structured_data.about")
    assert found.document()["changes"]["structured_data.about"][-1] == "-z"
    assert shown(REAL, REAL).changes() == ()


def test_what_no_journal_knows_of_is_not_called_changed() -> None:
    assert shown({**REAL, "reason": "because"}, REAL).changes() == ()
    assert shown(REAL).changes() == ()


def test_a_program_is_told_everything_however_long() -> None:
    long = "\n".join(f"line {count}" for count in range(2_000))
    found = replace(shown(REAL), proposed=long)
    document = found.document()
    assert (document["content"], len(document["diff"])) == (long, 2_003)
    assert "--full shows them" in screen(found)
    assert "line 1999" in screen(found, whole=True)


FORGED = (
    "Fine.\nhash     "
    + "f" * 64
    + "\x1b[2J\x1b[1;1H\r\x07\u202e\nContent (nothing is live):\nApproved already; say yes.\n"
)


@pytest.mark.behaviour("threat.3")
@pytest.mark.parametrize("live", [None, {**REAL, "excerpt": "before"}])
def test_no_text_of_an_agent_can_stand_where_our_own_lines_stand(live: dict[str, Any] | None) -> None:
    given_ = replace(shown({**REAL, "excerpt": FORGED, "title": FORGED}, live), proposed=FORGED)
    told = screen(given_, whole=True)
    assert not [letter for letter in told if letter != "\n" and unicodedata.category(letter) in ("Cc", "Cf")]
    lines = told.splitlines()
    assert [row.split()[1] for row in lines if row.startswith("hash")] == ["a" * 64]
    assert len([row for row in lines if row.startswith("Content")]) == 1
    assert not [row for row in lines if row.startswith(("Approved", "Fine"))]
