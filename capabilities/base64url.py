"""base64url (RFC 4648 §5) as JWS uses it (RFC 7515 §2): no padding, and one spelling per byte string.

The library decoder accepts padding, foreign characters and non-zero trailing bits; with those, one signature has many
spellings, and a token could be changed without becoming another one.
"""

from __future__ import annotations

import base64
import string
from typing import Final

ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "-_")


def encode(raw: bytes) -> str:
    """Without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode(text: str) -> bytes | None:
    """The bytes, or None unless `encode` gives exactly `text` back."""
    if not ALPHABET.issuperset(text) or len(text) % 4 == 1:
        return None
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return raw if encode(raw) == text else None
