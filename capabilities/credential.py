"""Finding tokens where none may be: in arguments a model wrote, in text about to be stored.

A capability in a tool argument has been through a prompt and a transcript, so it is burnt: the gateway refuses the
call (`credential_in_arguments`), redacts, and revokes what it finds. The search takes any compact JWS whose header
says it is an access token (RFC 9068 §2.1), also glued to other text and also unsigned, in time linear in the text.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from capabilities.jws import HEADER_CHARS_MAX

REDACTED: Final = "[redacted:credential]"
HEADER_CHARS_MIN: Final = 22  # {"typ":"at+jwt"}
_TOKEN_TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})
_RUN: Final = re.compile(r"[A-Za-z0-9_\-.]++")
_BRACE: Final = ord("{")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCredential:
    """Where a token stands in a text. `raw` is for verifying and revoking it, and is kept out of `repr`."""

    start: int
    end: int
    raw: str = field(repr=False)


def find_credentials(text: str) -> tuple[FoundCredential, ...]:
    """All access tokens in `text`, in order, without overlap."""
    return tuple(found for run in _RUN.finditer(text) for found in _in_run(run.group(), run.start()))


def contains_credential(text: str) -> bool:
    """Is there an access token in `text`?"""
    return any(True for run in _RUN.finditer(text) for _ in _in_run(run.group(), run.start()))


def redact(text: str) -> str:
    """`text` with every access token replaced by a fixed word. Redacting twice changes nothing more."""
    parts: list[str] = []
    at = 0
    for found in find_credentials(text):
        parts += [text[at : found.start], REDACTED]
        at = found.end
    return "".join([*parts, text[at:]])


def _in_run(run: str, offset: int) -> Iterator[FoundCredential]:
    segments = run.split(".")
    index = position = 0
    while index + 2 < len(segments):
        header = _header_start(segments[index]) if segments[index + 1] else None
        if header is None:
            position += len(segments[index]) + 1
            index += 1
            continue
        end = position + sum(map(len, segments[index : index + 3])) + 2
        yield FoundCredential(start=offset + position + header, end=offset + end, raw=run[position + header : end])
        position = end + 1
        index += 3


def _header_start(segment: str) -> int | None:
    """Where in a segment a header of an access token begins that ends with the segment.

    Text glued in front may shift the groups of four; a suffix of each possible length modulo 4 is decoded once. Work
    is bounded by the cap on headers, whatever the segment holds.
    """
    if len(segment) < HEADER_CHARS_MIN:
        return None
    longest = min(len(segment), HEADER_CHARS_MAX)
    for remainder in (0, 2, 3):
        start = len(segment) - longest + (longest - remainder) % 4
        raw = base64.urlsafe_b64decode(segment[start:] + "=" * (-remainder % 4))
        if (at := _object_start(raw)) is not None:
            return start + at // 3 * 4
    return None


def _object_start(raw: bytes) -> int | None:
    """The first group of three bytes from which to the end `raw` is a header of an access token."""
    if not raw.rstrip().endswith(b"}") or (b"at+jwt" not in raw.lower() and b"\\" not in raw):
        return None
    starts = (at for at in range(0, len(raw), 3) if at == 0 or raw[at] == _BRACE)
    return next((at for at in starts if _is_access_token_header(raw[at:])), None)


def _is_access_token_header(raw: bytes) -> bool:
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError):
        return False
    kind = header.get("typ") if isinstance(header, dict) else None
    return isinstance(kind, str) and kind.lower() in _TOKEN_TYPES
