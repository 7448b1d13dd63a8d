"""Strict JSON agrees with the library on what it accepts, and refuses the rest at a linear cost."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capabilities import base64url
from capabilities.identifiers import is_id, is_principal, is_segment
from capabilities.strict_json import INTEGER_MAX, JsonValue, StrictJsonError, canonical, load_object, loads

VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-INTEGER_MAX, INTEGER_MAX)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_canonical_json_reads_back_and_does_not_depend_on_order(value: JsonValue) -> None:
    assert loads(canonical(value)) == value
    if isinstance(value, dict):
        assert canonical(dict(reversed(value.items()))) == canonical(value)


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\u0d89e1-. \n', max_size=200).map(str.encode))
def test_whatever_is_accepted_the_library_reads_alike_and_nothing_else_is_raised(raw: bytes) -> None:
    try:
        value = loads(raw)
    except StrictJsonError:
        return
    assert value == json.loads(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"1.0",
        b"1e3",
        b"-1E-2",
        b"NaN",
        b"-Infinity",
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":2}',
        b'"\\ud800"',
        b'"\xff"',
        b"\xef\xbb\xbf1",
        '"a"'.encode("utf-16"),
        b"",
        b" ",
        b"[1,]",
        b"01",
        b"'a'",
        b'"\n"',
        b"1 2",
        b"9" * 5000,
        str(INTEGER_MAX + 1).encode(),
        str(-INTEGER_MAX - 1).encode(),
        b"[" * 33 + b"]" * 33,
        b" " * 65_537,
    ],
)
def test_what_two_readers_could_read_differently_is_refused(raw: bytes) -> None:
    with pytest.raises(StrictJsonError) as refused:
        loads(raw)
    assert refused.value.__cause__ is None


def test_limits_are_inclusive() -> None:
    assert loads(str(INTEGER_MAX).encode()) == INTEGER_MAX
    assert loads(b"[" * 32 + b"]" * 32)
    assert loads(b"1" + b" " * 65_535) == 1
    assert loads(b'"' + b"[" * 1000 + b'"') == "[" * 1000
    assert loads(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_floats_pass_where_they_are_allowed_if_finite() -> None:
    assert loads(b"1.5", allow_floats=True) == 1.5
    for raw in (b"1e400", b"NaN", b"1." + b"0" * 100):
        with pytest.raises(StrictJsonError):
            loads(raw, allow_floats=True)


def test_an_object_is_asked_for_and_nothing_else_given() -> None:
    assert load_object(b"{}") == {}
    with pytest.raises(StrictJsonError, match="object"):
        load_object(b"[]")


@pytest.mark.parametrize("unit", [b"[],", b"1,", b'"a",', b"{},", b'[["a"]],'])
def test_more_values_than_wanted_are_refused_before_any_is_made(unit: bytes) -> None:
    def listed(count: int) -> bytes:
        return b"[" + (unit * count).removesuffix(b",") + b"]"

    assert loads(listed(10_000), bytes_max=4_000_000)
    assert loads(listed(1_000), values_max=4_000)
    for count, most in ((10, 9), (300_000, 250_000)):
        with pytest.raises(StrictJsonError, match="too many values"):
            loads(listed(count), bytes_max=4_000_000, values_max=most)


@pytest.mark.behaviour("threat.30")
@pytest.mark.parametrize("unit", [b'"', b'\\"', b"[", b"]", b'"\\', b"{", b'"a\\"'])
def test_a_megabyte_made_to_slow_the_depth_check_is_refused_in_bounded_time(unit: bytes) -> None:
    began = time.process_time()
    with pytest.raises(StrictJsonError):
        loads(unit * (1_000_000 // len(unit)), bytes_max=1_000_000)
    assert time.process_time() - began < 5


@given(st.binary(max_size=100))
def test_base64url_has_one_spelling_per_value(raw: bytes) -> None:
    text = base64url.encode(raw)
    assert base64url.decode(text) == raw
    assert base64url.decode(text + "=") is None
    if len(text) % 4 in (2, 3):
        others = [text[:-1] + letter for letter in base64url.ALPHABET if letter != text[-1]]
        assert raw not in [base64url.decode(other) for other in others]


@pytest.mark.parametrize("text", ["A", "AAAAA", "AA=", "AA==", "A+/A", " AA", "AA\n", "ÄA", "AB", "\ud800AAA"])
def test_what_is_not_canonical_base64url_is_not_decoded(text: str) -> None:
    assert base64url.decode(text) is None


def test_identifiers_have_one_grammar() -> None:
    assert is_segment("a")
    assert is_segment("0.a_b-c")
    assert not is_segment("-a")
    assert not is_segment(".a")
    assert not is_segment("a" * 65)
    assert not is_segment("\u00e9")
    assert is_principal("agent:writer-7")
    assert not is_principal("agent:")
    assert is_id("cmd_01kb9zq3m4n5p6q7r8s9t0v1w2", "cmd")
    assert not is_id("cmd_01kb9zq3m4n5p6q7r8s9t0v1w2", "dec")
    assert not is_id("cmd_01kb9zq3m4n5p6q7r8s9t0v1wi", "cmd")
    assert not is_id("cmd_01kb9zq3m4n5p6q7r8s9t0v1w2\n", "cmd")
