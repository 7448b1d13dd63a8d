"""Texts as values: Markdown to HTML, titles to slugs, what a reader would see, what hides from a reader. Pure.

Three formats come in. `html` and `blocks` (WordPress block markup) pass through byte for byte: the site stores them and
a person approves them. `markdown` is CommonMark with tables and strikethrough; raw HTML inside it goes through an
allow-list, because an author of Markdown means text, and a script between two paragraphs is not text. What the list
took away is named in `Rendered.removed`, so that an approver sees it. Comments are taken away as well, `<!--more-->`
included.

Rendering is done once, when a proposal is planned, and the result is frozen: a later version of a library never changes
bytes that were approved. Its cost is bounded (`ContentRefused`, too_complex): the parser takes time in proportion to
the length of a paragraph times the number of its delimiters, and hostile text could keep a processor busy for minutes.

What hides is looked for in `execution.hidden`, slugs are made in `execution.slugs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final

import nh3

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

FORMATS: Final = ("markdown", "html", "blocks")
COST_MAX: Final = 4_000_000_000
"""Sum over paragraphs of length × delimiters: about two seconds of rendering at worst; plain prose never comes near."""
RAW_TAGS_MAX: Final = 2_000
"""Raw HTML tags in one Markdown text; whoever needs more writes `html`."""

_DELIMITERS: Final = "[]!*_~`<&|:"
_PARAGRAPHS: Final = re.compile(r"\n[ \t]*\n")
_TAG: Final = re.compile(r"</?[a-zA-Z]")

_ANYWHERE: Final = frozenset({"class", "dir", "id", "lang", "title"})
_ATTRIBUTES: Final[Mapping[str, frozenset[str]]] = {
    "a": frozenset({"href", "hreflang"}),
    "blockquote": frozenset({"cite"}),
    "col": frozenset({"span"}),
    "colgroup": frozenset({"span"}),
    "del": frozenset({"cite", "datetime"}),
    "details": frozenset({"open"}),
    "img": frozenset({"alt", "height", "src", "width"}),
    "ins": frozenset({"cite", "datetime"}),
    "li": frozenset({"value"}),
    "ol": frozenset({"reversed", "start", "type"}),
    "q": frozenset({"cite"}),
    "td": frozenset({"colspan", "headers", "rowspan", "style"}),
    "th": frozenset({"colspan", "headers", "rowspan", "scope", "style"}),
    "time": frozenset({"datetime"}),
}
_TEXT_TAGS: Final = (
    "abbr aside b bdi br caption cite code dd dfn div dl dt em figcaption figure h1 h2 h3 h4 h5 h6 hr i kbd mark p pre "
    "rp rt ruby s samp section small span strong sub summary sup table tbody tfoot thead tr u ul var wbr"
)
_TAGS: Final = frozenset(_ATTRIBUTES) | frozenset(_TEXT_TAGS.split())
_SCHEMES: Final = frozenset({"http", "https", "mailto", "tel"})


class ContentRefused(ValueError):
    """The bytes cannot be an article. `code`: not_utf8, too_complex."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """What the site is to store. `removed` names what the allow-list took out of raw HTML: `script`, `a[onclick]`."""

    html: str
    removed: tuple[str, ...] = ()


def render(content: bytes, content_format: str) -> Rendered:
    """The article's HTML or block markup. Raises ContentRefused."""
    assert content_format in FORMATS, content_format
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ContentRefused("not_utf8") from None
    if content_format != "markdown":
        return Rendered(html=text)
    return _markdown(text.removeprefix("\ufeff"))


def _markdown(text: str) -> Rendered:
    if cost(text) > COST_MAX:
        raise ContentRefused("too_complex")
    markdown = _commonmark()
    tokens = markdown.parse(text)
    raw = raw_html(tokens)
    if len(_TAG.findall(raw)) > RAW_TAGS_MAX:
        raise ContentRefused("too_complex")
    html = markdown.renderer.render(tokens, markdown.options, {})
    return Rendered(html=clean(html), removed=_Removed.of(raw))


def cost(text: str) -> int:
    """An upper estimate of the work of rendering, in characters looked at."""
    paragraphs = _PARAGRAPHS.split(text.replace("\r\n", "\n").replace("\r", "\n"))
    return sum(len(p) * sum(map(p.count, _DELIMITERS)) for p in paragraphs)


@lru_cache(maxsize=1)
def _commonmark() -> MarkdownIt:
    """Loaded when the first text is rendered: most processes render none."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def raw_html(tokens: list[Token]) -> str:
    """The raw HTML that stood in a Markdown text, one piece a line."""
    nested = [child for token in tokens for child in (token, *(token.children or ()))]
    return "\n".join(token.content for token in nested if token.type in ("html_block", "html_inline"))


def clean(html: str) -> str:
    """The allow-list: no scripts, frames, forms, event handlers or styles (but the alignment of table cells)."""
    return nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()} | {"*": set(_ANYWHERE)},
        clean_content_tags={"script", "style"},
        filter_style_properties={"text-align"},
        url_schemes=set(_SCHEMES),
        link_rel=None,
    )


class _Removed(HTMLParser):
    """Names what stands in raw HTML and is not on the allow-list."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.names: set[str] = set()

    @classmethod
    def of(cls, raw: str) -> tuple[str, ...]:
        parser = cls()
        parser.feed(raw)
        parser.close()
        return tuple(sorted(parser.names))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            self.names.add(tag)
            return
        allowed = _ANYWHERE | _ATTRIBUTES.get(tag, frozenset())
        self.names |= {f"{tag}[{name}]" for name, value in attrs if name not in allowed or _is_bad_link(name, value)}

    def handle_comment(self, data: str) -> None:
        self.names.add("comment")


def _is_bad_link(name: str, value: str | None) -> bool:
    scheme, colon, _ = (value or "").strip().partition(":")
    is_scheme = colon == ":" and not set(scheme) & set("/?#")
    return name in ("href", "src", "cite") and is_scheme and scheme.lower() not in _SCHEMES


def with_structured_data(html: str, data: Mapping[str, Any] | None, content_format: str) -> str:
    """The content with its JSON-LD as one script element at the end, in a block of its own where blocks are used.

    `<`, `>` and `&` are escaped inside the JSON, so that no text in it can end the element.
    """
    if data is None:
        return html
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    script = f'<script type="application/ld+json">{text}</script>'
    if content_format == "blocks":
        script = f"<!-- wp:html -->\n{script}\n<!-- /wp:html -->"
    return f"{html}{'' if html.endswith(chr(10)) else chr(10)}{script}\n"


_SET_APART: Final = (
    "address article aside blockquote br caption dd details div dl dt figcaption figure footer h1 h2 h3 h4 h5 h6 "
    "header hr li main nav ol p pre section summary table tbody td tfoot th thead tr ul"
)
_BLOCK_LEVEL: Final = frozenset(_SET_APART.split())
_UNREAD: Final = frozenset({"script", "style", "template", "noscript"})
_SHOWN: Final = frozenset({"audio", "canvas", "embed", "iframe", "img", "object", "picture", "svg", "video"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What HTML says to a reader. text: white space collapsed. links: of href and src. shows: has media to look at."""

    text: str
    links: tuple[str, ...]
    shows: bool


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.links: list[str] = []
        self.shows = False
        self._unread = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unread += tag in _UNREAD
        self.shows = self.shows or tag in _SHOWN
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self._apart(tag)

    def handle_endtag(self, tag: str) -> None:
        self._unread = max(0, self._unread - (tag in _UNREAD))
        self._apart(tag)

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self.pieces.append(data)

    def _apart(self, tag: str) -> None:
        if tag in _BLOCK_LEVEL:
            self.pieces.append("\n")


def read(html: str) -> Reading:
    """The text, links and media of HTML or block markup."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return Reading(text=" ".join("".join(reader.pieces).split()), links=tuple(reader.links), shows=reader.shows)


def plain_text(html: str) -> str:
    """What a reader reads: no markup, no scripts, white space collapsed."""
    return read(html).text
