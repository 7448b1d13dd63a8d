"""What WordPress makes of the text it is given: slugs, and the filter (kses) for accounts without unfiltered_html.

Only as much as the conformance suite compares with the real one. Sources: wp-includes/formatting.php, kses.php.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote as percent_encoded

SLUG_CHARS_MAX: Final = 200
_TITLE_TAGS: Final = frozenset(re.findall(r"\w+", "a abbr acronym b blockquote cite code del em i q s strike strong"))
_CONTENT_TAGS: Final = _TITLE_TAGS | frozenset(
    re.findall(
        r"\w+",
        "address article aside br caption col colgroup dd div dl dt figcaption figure footer h1 h2 h3 h4 h5 h6 header"
        " hr img ins kbd li main mark nav ol p pre section small span sub sup table tbody td tfoot th thead tr tt u ul",
    )
)
_ATTRIBUTES: Final = frozenset(
    re.findall(r"\w+", "alt class cite colspan datetime height href id rel rowspan src style target title width")
)
_TAG: Final = re.compile(r"<!--.*?-->|<[^>]*>", re.DOTALL)
_PARTS: Final = re.compile(r"<\s*(/?)\s*([a-zA-Z0-9]+)([^>]*?)(/?)\s*>", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r"""([a-zA-Z][\w:-]*)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_BARE_AMPERSAND: Final = re.compile(r"&(?!#?\w{1,32};)")
_BLANK_TARGET: Final = re.compile(r"<a\b[^>]*\btarget\s*=[^>]*>", re.IGNORECASE)
_LIGATURES: Final = str.maketrans({"ß": "s", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "œ": "oe", "ł": "l", "đ": "d"})


def slugify(text: str) -> str:
    """WordPress's sanitize_title: transliterated, lower case, percent-encoded beyond ASCII, at most 200 characters."""
    plain = re.sub(r"<[^>]*>", "", text).translate(_LIGATURES)
    plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    plain = unicodedata.normalize("NFC", plain).lower()
    plain = re.sub(
        r"&[^;\s]+;|[\u2018\u2019\u201c\u201d\u00a1\u00bf\u00ab\u00bb\u2026\u00a9\u00ae\u00b0\u2122\u00b4]", "", plain
    )
    plain = re.sub(r"[\u2013\u2014\u00a0/.]", "-", plain)
    encoded = "".join(c if c.isascii() else percent_encoded(c).lower() for c in plain)
    encoded = re.sub(r"%(?![0-9a-f]{2})|[^a-z0-9%_\s-]", "", encoded)
    joined = re.sub(r"-+", "-", re.sub(r"\s+", "-", encoded)).strip("-")
    return joined[:SLUG_CHARS_MAX].rstrip("-")


def unique_slug(wanted: str, taken: Iterable[str]) -> str:
    """`X`, or the first of `X-2`, `X-3` … that nobody holds; a pure number never stays one."""
    used = set(taken)
    if not wanted or (wanted not in used and not wanted.isdigit()):
        return wanted
    number = 2
    while f"{wanted}-{number}" in used:
        number += 1
    return f"{wanted}-{number}"


def stored_title(title: str, *, unfiltered: bool) -> str:
    """Titles are trimmed for everyone."""
    return (title if unfiltered else _kses(title, _TITLE_TAGS)).strip()


def stored_content(content: str, *, unfiltered: bool) -> str:
    """Links into new windows get rel=noopener for everyone."""
    return _BLANK_TARGET.sub(_noopener, content if unfiltered else _kses(content, _CONTENT_TAGS))


def stored_line(text: str) -> str:
    """WordPress's sanitize_text_field: no markup, no backslashes (they count as escapes), white space collapsed."""
    return " ".join(_TAG.sub("", text.replace("\\", "")).replace("<", "&lt;").split())


def _kses(text: str, allowed: frozenset[str]) -> str:
    pieces, at = [], 0
    for tag in _TAG.finditer(text):
        pieces += [_text(text[at : tag.start()]), _tag(tag[0], allowed)]
        at = tag.end()
    return "".join((*pieces, _text(text[at:])))


def _text(text: str) -> str:
    return _BARE_AMPERSAND.sub("&amp;", text).replace("<", "&lt;").replace(">", "&gt;")


def _tag(tag: str, allowed: frozenset[str]) -> str:
    if tag.startswith("<!--"):
        return tag
    parts = _PARTS.fullmatch(tag)
    if parts is None or parts[2].lower() not in allowed:
        return ""
    kept = "".join(
        f" {name}={quote}{_safe(value.strip(quote))}{quote}"
        for name, value in _ATTRIBUTE.findall(parts[3])
        if name.lower() in _ATTRIBUTES and (quote := value[0] if value[0] in "\"'" else '"')
    )
    return f"<{parts[1]}{parts[2]}{kept}{' /' if parts[4] else ''}>"


def _safe(value: str) -> str:
    return _BARE_AMPERSAND.sub("&amp;", re.sub(r"^(?:javascript|data|vbscript):", "", value, flags=re.IGNORECASE))


def _noopener(found: re.Match[str]) -> str:
    tag = found[0]
    return tag if re.search(r"\brel\s*=", tag, re.IGNORECASE) else tag[:-1] + ' rel="noopener">'
