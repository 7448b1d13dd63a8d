"""Titles to slugs: the last part of a public address. Pure, and the same for ever: a slug names a place.

What a slug may be is narrower than what WordPress accepts, so that the site stores it unchanged and a silent rename
shows as a difference: lower-case ASCII letters and digits in groups joined by single hyphens, at most 190 bytes, and

* never only digits (WordPress makes `2024` into `2024-2`, because it could be a year),
* never one of the names WordPress keeps for feeds and embeds,
* never the shape of a draft's marker (`remit-…`), which would make a public post look like a staged one.

A number at the end (`top-10`) is allowed: stored and wanted slug are compared as a whole, nobody guesses from `-N`.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from typing import Final

SLUG_BYTES_MAX: Final = 190
"""WordPress cuts at 200; ten remain for the suffix of a duplicate and of the trash."""
FALLBACK: Final = "article"
_SHAPE: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MARKER_SHAPE: Final = re.compile(r"remit-[a-z2-7]{16,52}(?:-\d+)?")
_RESERVED: Final = frozenset({"atom", "embed", "feed", "rdf", "rss", "rss2"})
_SPELT: Final = str.maketrans(
    {
        "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ð": "d", "þ": "th", "đ": "d",
        "ħ": "h", "\u0131": "i", "ł": "l", "ŋ": "n", "ŧ": "t", "ĸ": "k", "&": " and ", "'": "", "’": "", "\u02bc": "",
    }
)  # fmt: skip


def is_slug(text: str) -> bool:
    """Whether a site stores it as it is, and it cannot be taken for anything else."""
    return (
        len(text) <= SLUG_BYTES_MAX
        and _SHAPE.fullmatch(text) is not None
        and not text.replace("-", "").isdecimal()
        and text not in _RESERVED
        and _MARKER_SHAPE.fullmatch(text) is None
    )


def slugify(title: str) -> str:
    """A valid slug for any title; equal for titles that Unicode calls equal.

    Umlauts are spelt out as in German (`ä` → `ae`), other accents dropped, scripts without a Latin spelling and emoji
    left out. When the rest cannot stand alone, `article-` is put before it, or before a hash of the title when letters
    of other scripts were left out of it.
    """
    composed = unicodedata.normalize("NFC", title).lower()
    folded = unicodedata.normalize("NFKD", composed.translate(_SPELT))
    letters = "".join(char for char in folded if not unicodedata.combining(char))
    slug = _cut("-".join(re.findall(r"[a-z0-9]+", letters)))
    if is_slug(slug):
        return slug
    if slug and composed.isascii():
        return _cut(f"{FALLBACK}-{slug}")
    digest = hashlib.sha256(composed.encode(errors="surrogatepass")).digest()
    return f"{FALLBACK}-{base64.b32encode(digest).decode().lower()[:10]}"


def _cut(slug: str) -> str:
    """At most the limit, at a hyphen when there is one in the last quarter."""
    if len(slug) <= SLUG_BYTES_MAX:
        return slug
    head = slug[:SLUG_BYTES_MAX]
    whole = slug[SLUG_BYTES_MAX] == "-"
    parent = head.rpartition("-")[0]
    return head if whole or len(parent) < SLUG_BYTES_MAX * 3 // 4 else parent
