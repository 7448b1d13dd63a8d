"""Signed notes: a few lines of text and a signature that names its key (C2SP signed-note v1).

Checkpoints of the journal are such notes, so that tools of other people can check them. The key is one of its own: a
note's text begins with its origin and an approval's statement with another prefix, so that neither signature is ever
taken for the other; a token is signed with the issuer's key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from capabilities.errors import NoteCode, NoteError
from capabilities.keys import is_strong_ed25519

NOTE_BYTES_MAX: Final = 65_536
SIGNATURES_MAX: Final = 16
_ED25519: Final = b"\x01"
_KEY_ID_BYTES: Final = 4
_SIGNED: Final = "\u2014 "


@dataclass(frozen=True, slots=True, kw_only=True)
class NotePublicKey:
    """Whoever has it can check the notes of that name."""

    name: str
    public: Ed25519PublicKey

    @property
    def key_id(self) -> bytes:
        """Four bytes that find the key of a signature; they prove nothing."""
        named = self.name.encode() + b"\n" + _ED25519 + self.public.public_bytes_raw()
        return hashlib.sha256(named).digest()[:_KEY_ID_BYTES]

    def encode(self) -> str:
        """NAME+ID+KEY on one line."""
        raw = base64.b64encode(_ED25519 + self.public.public_bytes_raw()).decode()
        return f"{self.name}+{self.key_id.hex()}+{raw}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteKey:
    """Signs notes under a name."""

    name: str
    private: Ed25519PrivateKey = field(repr=False)

    def public_key(self) -> NotePublicKey:
        """What others check with."""
        return NotePublicKey(name=self.name, public=self.private.public_key())


def generate_note_key(name: str) -> NoteKey:
    """A new key, not yet in any file. Raises ValueError when no note could bear the name."""
    if not is_note_name(name):
        raise ValueError("a note's key has a name without spaces and plus signs")
    return NoteKey(name=name, private=Ed25519PrivateKey.generate())


def is_note_name(name: str) -> bool:
    """Whether a signature line can bear it."""
    return bool(name) and "+" not in name and name.isascii() and name.isprintable() and " " not in name


def decode_note_key(text: str) -> NotePublicKey:
    """Read back `NotePublicKey.encode`. Raises NoteError."""
    name, _, rest = text.strip().partition("+")
    key_id, _, encoded = rest.partition("+")
    raw = _decoded(encoded)
    if not is_note_name(name) or raw is None or raw[:1] != _ED25519 or not is_strong_ed25519(raw[1:]):
        raise NoteError(NoteCode.MALFORMED_NOTE_KEY)
    key = NotePublicKey(name=name, public=Ed25519PublicKey.from_public_bytes(raw[1:]))
    if key.key_id.hex() != key_id:
        raise NoteError(NoteCode.MALFORMED_NOTE_KEY)
    return key


def sign_note(key: NoteKey, text: str) -> str:
    """The note. `text`: lines, each ended, none of them empty."""
    assert text.endswith("\n") and "\n\n" not in text, "an empty line ends a note's text"
    signature = key.public_key().key_id + key.private.sign(text.encode())
    return f"{text}\n{_SIGNED}{key.name} {base64.b64encode(signature).decode()}\n"


def open_note(key: NotePublicKey, note: str) -> str:
    """The text that this key signed. Raises NoteError: malformed_note, unsigned_note or bad_note_signature."""
    text, blank, signatures = note.partition("\n\n")
    lines = signatures.split("\n")
    ended = lines.pop() == ""
    if not blank or not text or not ended or len(note) > NOTE_BYTES_MAX or not 0 < len(lines) <= SIGNATURES_MAX:
        raise NoteError(NoteCode.MALFORMED_NOTE)
    text += "\n"
    for signed in lines:
        name, _, encoded = signed.removeprefix(_SIGNED).partition(" ")
        raw = _decoded(encoded)
        if not signed.startswith(_SIGNED) or raw is None or len(raw) <= _KEY_ID_BYTES:
            raise NoteError(NoteCode.MALFORMED_NOTE)
        if name == key.name and raw[:_KEY_ID_BYTES] == key.key_id:
            _verify(key, text, raw[_KEY_ID_BYTES:])
            return text
    raise NoteError(NoteCode.UNSIGNED_NOTE)


def _verify(key: NotePublicKey, text: str, signature: bytes) -> None:
    try:
        key.public.verify(signature, text.encode())
    except InvalidSignature:
        raise NoteError(NoteCode.BAD_NOTE_SIGNATURE) from None


def _decoded(encoded: str) -> bytes | None:
    """The one encoding of those bytes, or None."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if base64.b64encode(raw).decode() == encoded else None
