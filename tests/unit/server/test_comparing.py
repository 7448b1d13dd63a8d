"""Differences for people: nothing is cut where nobody sees it, and equal on the screen is equal."""

import pytest

from server.comparing import CHARS_MAX, CONTINUED, LINE_CHARS_MAX, LINES_MAX, unified

NAMES = ("live", "proposed")
LINK = '<a href="https://evil.example/">here</a>'
PROSE = "<p>" + " ".join(f"Sentence number {count} says what it says." for count in range(60)) + "</p>"


def signed(text: str, sign: str, before: str = "", *, whole: bool = False) -> str:
    """What the lines with that sign say together."""
    lines = unified(before, text, NAMES, whole=whole)[3:]
    return "".join(line[1:].removeprefix(CONTINUED) for line in lines if line.startswith(sign))


@pytest.mark.parametrize(
    "text",
    ["x" * 2_100 + LINK, PROSE, "<" * 500, "a b " * 700, "é. " * 500],
    ids=["no place to fold", "prose", "signs", "words", "short sentences"],
)
def test_a_long_line_is_folded_and_never_cut(text: str) -> None:
    assert signed(text, "+", whole=True) == text
    assert max(map(len, unified("", text, NAMES, whole=True))) <= LINE_CHARS_MAX + 1 + len(CONTINUED)


@pytest.mark.parametrize("inserted_at", [0, 40, 1_000, 2_099])
def test_what_differs_far_inside_a_line_is_shown_and_little_beside_it(inserted_at: int) -> None:
    after = PROSE[:inserted_at] + LINK + PROSE[inserted_at:]
    lines = unified(PROSE, after, NAMES)
    assert LINK in "".join(line[1:].removeprefix(CONTINUED) for line in lines[3:] if line[0] in "+ ")
    assert len(lines) < 20, lines


def test_a_folded_line_is_not_the_same_as_several_lines() -> None:
    several = "\n".join(line[1:].removeprefix(CONTINUED) for line in unified("", PROSE, NAMES)[3:])
    assert unified(PROSE, several, NAMES) != []


@pytest.mark.behaviour("threat.3")
@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0c", "\r"])
def test_only_a_newline_ends_a_line(end: str) -> None:
    assert f"+a<U+{ord(end):04X}>b" in unified("a\nb", f"a{end}b", NAMES)


def test_an_empty_line_at_the_end_is_a_difference() -> None:
    assert unified("a", "a\n", NAMES)[-1] == "+"


def test_what_is_left_out_is_counted_and_can_be_asked_for() -> None:
    many = "\n".join(f"line {count:03}" for count in range(LINES_MAX + 97))
    listed = unified("", many, NAMES)
    assert (len(listed), listed[-1]) == (LINES_MAX + 1, "… 100 lines more, 900 characters: --full shows them")
    assert signed(many, "+", whole=True) == many.replace("\n", "")


def test_texts_too_long_to_compare_are_shown_between_what_they_share() -> None:
    shared = ["the same line"] * (CHARS_MAX // 13)
    before, after = "\n".join([*shared, "old", *shared]), "\n".join([*shared, "new", *shared])
    lines = unified(before, after, NAMES)
    assert [line for line in lines if line[0] in "+-"][2:] == ["-old", "+new"]
    assert len(lines) == 9
    assert unified(before, before, NAMES) == []
    assert signed("y" * (CHARS_MAX + 1) + LINK, "+", whole=True).endswith(LINK)


@pytest.mark.parametrize("char", ["\u3164", "\ufe0f", "\u00ad", "\u202e", "\u2800"])
def test_every_hidden_character_is_marked_wherever_it_stands(char: str) -> None:
    mark = f"<U+{ord(char):04X}>"
    assert f"+a{mark}b" in unified("", f"a{char}b", NAMES)
    assert f"+{mark}b" in unified("", f"{char}b", NAMES)
