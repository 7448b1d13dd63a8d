"""The alphabet of names: segments, principals and prefixed lower-case ULIDs.

Everything a token names is ASCII out of these three shapes, so that it can be compared byte by byte, shown to a
person without surprises, and used in a resource pattern. Checks are linear and use no regular expression.
"""

from __future__ import annotations

from typing import Final, Literal, TypeGuard

SEGMENT_CHARS_MAX: Final = 64
ULID_CHARS: Final = 26

IdPrefix = Literal["cmd", "wf", "saga", "dec", "tok", "att", "rev", "art", "inst"]

_FIRST: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_REST: Final = _FIRST | frozenset("._-")
_CROCKFORD: Final = frozenset("0123456789abcdefghjkmnpqrstvwxyz")
_ULID_FIRST: Final = frozenset("01234567")  # 128 bits in 26 × 5: the first character carries three


def is_segment(text: object) -> TypeGuard[str]:
    """`[a-z0-9][a-z0-9._-]{0,63}`: a tenant, a site, an article id, a kid, one part of a resource."""
    return isinstance(text, str) and 0 < len(text) <= SEGMENT_CHARS_MAX and text[0] in _FIRST and _REST.issuperset(text)


def is_principal(text: object) -> TypeGuard[str]:
    """`kind:name`, both segments: `agent:writer-7`, `mcp-host:desk-3`."""
    if not isinstance(text, str):
        return False
    kind, colon, name = text.partition(":")
    return colon == ":" and is_segment(kind) and is_segment(name)


def is_id(text: object, prefix: IdPrefix) -> TypeGuard[str]:
    """`{prefix}_` followed by a lower-case ULID (github.com/ulid/spec, Crockford base 32)."""
    if not isinstance(text, str) or not text.startswith(prefix + "_"):
        return False
    ulid = text[len(prefix) + 1 :]
    return len(ulid) == ULID_CHARS and ulid[0] in _ULID_FIRST and _CROCKFORD.issuperset(ulid)
