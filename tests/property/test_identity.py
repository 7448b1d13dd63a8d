"""Business keys and fingerprints: what is equal, what can never be."""

import re
import unicodedata
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from execution.core.identity import (
    BusinessKey,
    differing,
    fingerprint,
    generation_suffix,
    marker,
)

# Separators on purpose: parts that look like joined parts are what a naive key confuses.
PART = st.text(alphabet="a1:#v|-\x00,", max_size=6)
KEY = st.builds(
    BusinessKey,
    tenant=PART,
    system=PART,
    operation=PART,
    site=PART,
    object_id=PART,
    version=st.integers(1, 111),
    generation=PART,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(max_size=6), JSON, max_size=6)
ACME = BusinessKey(
    tenant="acme", system="wordpress", operation="draft", site="blog", object_id="article-0028", version=1
)


def reordered(value: Any) -> Any:
    """The same value with the keys of every object the other way round."""
    if isinstance(value, dict):
        return {name: reordered(value[name]) for name in reversed(list(value))}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@given(KEY, KEY)
def test_two_keys_have_one_digest_only_when_all_their_parts_are_equal(one: BusinessKey, other: BusinessKey) -> None:
    assert (one.digest() == other.digest()) == (one == other)


@given(PART, PART, st.integers(0, 12))
def test_moving_a_character_across_a_border_makes_another_key(left: str, right: str, cut: int) -> None:
    joined = left + right
    one = replace(ACME, site=left, object_id=right)
    other = replace(ACME, site=joined[:cut], object_id=joined[cut:])
    assert (one.digest() == other.digest()) == (one == other)


def test_a_key_is_shown_with_colons() -> None:
    assert ACME.shown() == "acme:wordpress:draft:blog:article-0028:v1"
    again = replace(ACME, generation=generation_suffix("cmd_1"))
    assert again.shown() == ACME.shown() + generation_suffix("cmd_1")


@given(KEY, PART, PART)
def test_a_step_key_keeps_everything_but_system_and_operation(key: BusinessKey, system: str, operation: str) -> None:
    assert key.of(system, operation) == replace(key, system=system, operation=operation)


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_generation_is_named_after_the_command_it_repeats(one: str, other: str) -> None:
    assert re.fullmatch(r"#[a-z2-7]{16}", generation_suffix(one))
    assert (generation_suffix(one) == generation_suffix(other)) == (one == other)


@given(PART, KEY, PART, KEY)
def test_a_marker_belongs_to_one_installation_and_one_key(a: str, one: BusinessKey, b: str, other: BusinessKey) -> None:
    assert re.fullmatch(r"[a-z2-7]{24}", marker(a, one))
    assert (marker(a, one) == marker(b, other)) == ((a, one) == (b, other))


def test_a_marker_never_changes() -> None:
    assert marker("inst_1", ACME) == "fvp27wlmfzmju6auhzyhtcxl"
    assert generation_suffix("cmd_1") == "#7umzfm3bk2f2zxca"
    assert (
        fingerprint({"title": "ü", "n": [1, 2.5, None, True]})
        == "f1:a9f6a34abb90e71ec4ea48858cc649fbc1ee156e2825ff5d959be06bf85a24a7"
    )


@given(ARGUMENTS)
def test_the_order_of_keys_does_not_matter_to_a_fingerprint(arguments: dict[str, Any]) -> None:
    assert fingerprint(reordered(arguments)) == fingerprint(arguments)
    assert differing(arguments, reordered(arguments)) == ()


@given(ARGUMENTS, st.text(max_size=6), JSON)
def test_a_changed_argument_changes_the_fingerprint_and_is_named(
    arguments: dict[str, Any], name: str, value: Any
) -> None:
    changed = {**arguments, name: value}
    same = differing(arguments, changed) == ()
    assert same or differing(arguments, changed) == (name,)
    if name in arguments:
        assert (fingerprint(changed) == fingerprint(arguments)) == same


def test_an_integer_and_the_equal_float_are_two_texts_and_two_fingerprints() -> None:
    assert fingerprint({"n": 1}) != fingerprint({"n": 1.0})
    assert fingerprint({"n": 1}) != fingerprint({"n": True})
    assert differing({"n": 1}, {"n": 1.0}) == ("n",)


def test_composed_and_decomposed_letters_are_two_fingerprints_here_and_made_one_before() -> None:
    text = "Käse"
    nfd = unicodedata.normalize("NFD", text)
    assert fingerprint({"t": text}) != fingerprint({"t": nfd})
    assert fingerprint({"t": unicodedata.normalize("NFC", nfd)}) == fingerprint({"t": text})


def test_an_absent_argument_and_null_are_no_difference_to_name() -> None:
    assert differing({"a": None}, {}) == ()


def test_a_fingerprint_names_its_algorithm() -> None:
    assert re.fullmatch(r"f1:[0-9a-f]{64}", fingerprint({}))
