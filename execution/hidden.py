"""Characters that hide from a reader, or make them read something else than is there. Pure.

Found are control characters, direction controls, invisible letters and fillers, tag characters, stray joiners and
selectors, private use, unassigned code points and surrogates. Not found is what honest text needs: line breaks and
tabs, the joiners inside emoji and inside words of scripts that use them, the selector after an emoji, the three flags
of England, Scotland and Wales.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_INVISIBLE: Final = frozenset(
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u200b\u2060\u2061\u2062\u2063\u2064\u206a\u206b"
    "\u206c\u206d\u206e\u206f\u2800\u3164\ufeff\uffa0\ufff9\ufffa\ufffb"
)
_JOINERS: Final = frozenset("\u200c\u200d")
_TAGS: Final = range(0xE0000, 0xE0080)
_SELECTORS: Final = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_FLAGS: Final = re.compile(
    "\U0001f3f4(?:"
    + "|".join("".join(chr(0xE0000 + ord(c)) for c in name) for name in ("gbeng", "gbsct", "gbwls"))
    + ")\U000e007f"
)
_JOINING_SCRIPTS: Final = (range(0x0600, 0x1000), range(0x1780, 0x1800), range(0x1800, 0x1900))
"""Arabic to Myanmar with the Indic scripts between them, Khmer, Mongolian: their words contain joiners."""
_KINDS: Final = {"Cc": "control", "Cs": "surrogate", "Co": "private", "Cn": "unassigned", "Zl": "separator"} | {
    "Zp": "separator",
    "Cf": "invisible",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicious:
    """One character that hides. kind: bidi, control, invisible, joiner, private, selector, separator, surrogate, tag or
    unassigned. position: index of the character in the text, from 0."""

    position: int
    char: str
    kind: str

    @property
    def name(self) -> str:
        """For people: `U+202E RIGHT-TO-LEFT OVERRIDE`."""
        return f"U+{ord(self.char):04X} {unicodedata.name(self.char, self.kind.upper())}"


def suspicious_characters(text: str) -> tuple[Suspicious, ...]:
    """Every character that hides, in order."""
    if text.isascii() and text.isprintable():
        return ()
    flags = {i for match in _FLAGS.finditer(text) for i in range(*match.span())}
    kinds = ((i, char, _kind(text, i)) for i, char in enumerate(text) if i not in flags)
    return tuple(Suspicious(position=i, char=char, kind=kind) for i, char, kind in kinds if kind is not None)


def misleads_in_a_line(text: str) -> bool:
    """Whether one line of text has a control, a line separator, a direction control or a tag character."""
    return any(char in _BIDI or ord(char) in _TAGS or unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in text)


def _kind(text: str, index: int) -> str | None:
    char = text[index]
    if char in "\n\r\t" or " " <= char <= "~":
        return None
    if char in _BIDI:
        return "bidi"
    if char in _JOINERS:
        return None if _joins(text, index) else "joiner"
    if any(ord(char) in selectors for selectors in _SELECTORS):
        return None if _selects(text, index) else "selector"
    if ord(char) in _TAGS:
        return "tag"
    return "invisible" if char in _INVISIBLE else _KINDS.get(unicodedata.category(char))


def _joins(text: str, index: int) -> bool:
    """A joiner between two emoji, or after a letter or mark of a script that uses it."""
    before, after = text[index - 1 : index], text[index + 1 : index + 2]
    if before and after and _is_pictorial(before) and unicodedata.category(after) == "So":
        return True
    return bool(before) and any(ord(before) in script for script in _JOINING_SCRIPTS)


def _is_pictorial(char: str) -> bool:
    return unicodedata.category(char) in ("So", "Sk") or char == "\ufe0f"


def _selects(text: str, index: int) -> bool:
    """A text or emoji selector after something that has both looks: a symbol, a digit, a sign; never after another."""
    before = text[index - 1 : index]
    return text[index] in "\ufe0e\ufe0f" and bool(before) and unicodedata.category(before)[0] in "SPN"
