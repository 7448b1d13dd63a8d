"""Tokens are found and removed wherever a model may have put them, and nothing else is."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capabilities.credential import REDACTED, contains_credential, find_credentials, redact
from tests.security.forge import JTI, NOW_S, STRANGER, b64, header, token, verifier

TOKEN = token()
NESTED = b64((b'{"a":' * 74 + b'"at+jwt"}')[:384]) + "."
PLACES = [
    "{}",
    "please use {} to publish",
    '{{"authorization": "Bearer {}"}}',
    "https://gw.example/mcp?token={}&x=1",
    "token_{}",
    "a.b.{}",
    "({})",
    "The end is {}.",
    "\u202e{}\u202c",
    "\n\t{}\r\n",
    "eyJ{}",
    "{}{{}}",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_token_is_found_and_removed_wherever_it_stands(place: str) -> None:
    text = place.format(TOKEN)
    [found] = find_credentials(text)
    assert found.raw.startswith(TOKEN)
    assert text[found.start : found.end] == found.raw
    assert contains_credential(text)
    assert TOKEN not in redact(text)
    assert TOKEN.split(".")[1] not in redact(text)
    assert REDACTED in redact(text)


def test_a_found_token_verifies_so_that_it_can_be_revoked_and_is_not_in_its_repr() -> None:
    [found] = find_credentials(f"use {TOKEN} now")
    assert verifier().verify(found.raw, NOW_S).claims.jti == JTI
    assert TOKEN not in repr(found)


@pytest.mark.parametrize(
    "raw",
    [
        token(sign=STRANGER.sign),
        token(head=header(alg="none"), sign=lambda _: b""),
        token(head=header(typ="AT+JWT")),
        token(head=header(typ="application/at+jwt")),
        token(head=json.dumps(header(), indent=2)),
        token(head=" " + json.dumps(header())),
        token(head='{"typ":"at\\u002bjwt"}'),
        token(head=header(kid="\u00fc")),
    ],
    ids=["stranger", "unsigned", "upper case", "long type", "indented", "spaced", "escaped", "not ASCII"],
)
def test_a_token_of_anyone_in_any_spelling_is_found(raw: str) -> None:
    assert contains_credential(f"x {raw} y")


def test_several_tokens_are_all_removed() -> None:
    text = f"{TOKEN} and {token(sign=STRANGER.sign)}, {TOKEN}.{TOKEN}"
    assert len(find_credentials(text)) == 4
    assert redact(text) == f"{REDACTED} and {REDACTED}, {REDACTED}.{REDACTED}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain text",
        "www.example.com and 1.2.3.4",
        "eyJ.eyJ.eyJ",
        token(head=header(typ="JWT")),
        b64(json.dumps(header()).encode()),
        b64(json.dumps(header()).encode()) + "." + b64(b"{}"),
        b64(b"[" * 300) + ".AA.AA",
        b64(b'{"typ":["at+jwt"]}') + ".AA.AA",
        "at+jwt",
    ],
)
def test_what_is_no_access_token_is_left_alone(text: str) -> None:
    assert not contains_credential(text)
    assert redact(text) == text


@given(st.text(max_size=200), st.text(max_size=200))
def test_redaction_leaves_no_token_and_redacting_again_changes_nothing(before: str, after: str) -> None:
    cleaned = redact(before + " " + TOKEN + " " + after)
    assert not contains_credential(cleaned)
    assert redact(cleaned) == cleaned


@given(st.text(alphabet="eyJw.0-_ {\"'", max_size=300))
def test_no_text_makes_the_search_fail(text: str) -> None:
    assert isinstance(contains_credential(text), bool)


@pytest.mark.parametrize(
    "unit", ["eyJ", "eyJ.", "ey", ".", "a", "a.", "eyJhbGciOiJFZERTQSJ9.", TOKEN[:200] + ".", "ew" * 255 + ".", NESTED]
)
def test_a_megabyte_made_to_slow_the_search_is_searched_in_bounded_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    began = time.process_time()
    contains_credential(text)
    assert time.process_time() - began < 5
