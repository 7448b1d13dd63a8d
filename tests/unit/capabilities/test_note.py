"""Signed notes in the form of C2SP signed-note: others' are understood, and nothing else is believed."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from capabilities.errors import NoteCode, NoteError
from capabilities.keys import APPROVAL_DOMAIN
from capabilities.note import (
    NoteKey,
    decode_note_key,
    generate_note_key,
    is_note_name,
    open_note,
    sign_note,
)

# The example of golang.org/x/mod/sumdb/note, a published implementation of the same form.
THEIR_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
THEIR_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
KEY = NoteKey(name="remit-journal/inst_1", private=Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
TEXT = "remit-journal/inst_1\n5\nroot\n"


def refused(note: str, key: NoteKey = KEY) -> NoteCode:
    with pytest.raises(NoteError) as caught:
        open_note(key.public_key(), note)
    return caught.value.code


def test_a_note_of_another_implementation_is_understood() -> None:
    key = decode_note_key(THEIR_KEY)
    assert key.encode() == THEIR_KEY
    assert open_note(key, THEIR_NOTE).startswith("If you think cryptography")


def test_what_is_signed_opens_with_its_key_and_no_other() -> None:
    note = sign_note(KEY, TEXT)
    assert open_note(KEY.public_key(), note) == TEXT
    assert decode_note_key(KEY.public_key().encode() + "\n") == KEY.public_key()
    other = generate_note_key(KEY.name)
    assert refused(note, other) is NoteCode.UNSIGNED_NOTE
    assert refused(note, generate_note_key("remit-journal/inst_2")) is NoteCode.UNSIGNED_NOTE


@pytest.mark.parametrize("place", range(len(sign_note(KEY, TEXT).encode())))
def test_no_byte_of_a_note_can_differ(place: int) -> None:
    raw = bytearray(sign_note(KEY, TEXT).encode())
    raw[place] ^= 1
    refused(raw.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    "note", ["", "\n\n", TEXT, TEXT + "\n", "\n\n\u2014 a b\n", TEXT + "\n- name AAAA\n", TEXT + "\n\u2014 name\n"]
)
def test_what_is_no_note_is_refused_as_such(note: str) -> None:
    assert refused(note) is NoteCode.MALFORMED_NOTE


def test_signatures_of_others_beside_ours_are_passed_over() -> None:
    theirs = sign_note(generate_note_key("witness.example/w1"), TEXT).partition("\n\n")[2]
    text, _, ours = sign_note(KEY, TEXT).partition("\n\n")
    assert open_note(KEY.public_key(), f"{text}\n\n{theirs}{ours}") == TEXT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name+00000000+AAAA",
        THEIR_KEY.replace("c74f20a3", "c74f20a4"),
        "name+00000000+" + base64.b64encode(b"\x01" + bytes(32)).decode(),
        "two words" + THEIR_KEY,
    ],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(NoteError) as caught:
        decode_note_key(text)
    assert caught.value.code is NoteCode.MALFORMED_NOTE_KEY


def test_no_note_can_be_taken_for_an_approval_or_a_token() -> None:
    """The first byte already differs from a JWS (base64url of a brace), and the prefix from an approval."""
    assert not TEXT.encode().startswith(APPROVAL_DOMAIN[:7])
    assert not TEXT.startswith("eyJ")
    assert not is_note_name("a b")
    assert not is_note_name("a+b")
    with pytest.raises(ValueError, match="without spaces"):
        generate_note_key("")
