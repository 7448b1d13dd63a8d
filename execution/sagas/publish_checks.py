"""What the validation gate finds wrong with an article by reading it. Pure; nothing is fetched.

A finding sends the publication to a person, who may let it pass or abandon it. Optional fields that are absent are no
finding, unless the site's rules require them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from execution.content import Reading, read
from execution.core.definition import Finding
from execution.hidden import suspicious_characters
from execution.sagas.publish_params import PublishParams
from execution.slugs import is_slug

TITLE_CHARS_MAX: Final = 200
LISTED_MAX: Final = 10
"""Findings of one kind; more of the same tell nobody more."""
_OTHER_SCHEMES: Final = frozenset({"mailto", "tel"})


def findings(params: PublishParams, html: str) -> tuple[Finding, ...]:
    """Everything wrong with the frozen article, in the order in which a reader would meet it."""
    reading = read(html)
    return (
        *_title(params),
        *_hidden("title", params.title),
        *_slug(params),
        *_content(reading),
        *_links(params, reading),
        *_structured_data(params.structured_data),
        *_required(params),
    )


def _title(params: PublishParams) -> Iterator[Finding]:
    if not params.title.strip():
        yield Finding(code="title_missing", where="title")
    if len(params.title) > TITLE_CHARS_MAX:
        yield Finding(code="title_too_long", where="title", detail=f"{len(params.title)} of {TITLE_CHARS_MAX}")


def _hidden(where: str, text: str) -> Iterator[Finding]:
    for found in suspicious_characters(text)[:LISTED_MAX]:
        yield Finding(code="hidden_character", where=where, detail=f"{found.name} at {found.position}")


def _slug(params: PublishParams) -> Iterator[Finding]:
    if not is_slug(params.slug):
        yield Finding(code="slug_invalid", where="slug")
        yield from _hidden("slug", params.slug)


def _content(reading: Reading) -> Iterator[Finding]:
    if not reading.text and not reading.shows:
        yield Finding(code="content_empty", where="content")


def _links(params: PublishParams, reading: Reading) -> Iterator[Finding]:
    only_https = "links_https" in params.require
    content = [("content", link) for link in reading.links if not _is_inline_image(link)]
    named = dict.fromkeys([*content, *(("sources", link) for link in params.sources)])
    broken = [(where, link) for where, link in named if not is_link(link, absolute=where == "sources")]
    for where, link in broken[:LISTED_MAX]:
        yield Finding(code="link_invalid", where=where, detail=link[:200])
    plain = [(where, link) for where, link in named if only_https and link.lower().startswith("http:")]
    for where, link in plain[:LISTED_MAX]:
        yield Finding(code="link_not_https", where=where, detail=link[:200])


def _is_inline_image(link: str) -> bool:
    return link.strip().lower().startswith("data:image/")


def is_link(link: str, *, absolute: bool) -> bool:
    """Whether it is an http(s) address; in content also one relative to the site, an anchor, mailto or tel."""
    if not link or any(char.isspace() or not char.isprintable() for char in link):
        return False
    try:
        parts = urlsplit(link)
        parts.port  # noqa: B018 - a malformed port shows only when it is read
    except ValueError:
        return False
    if parts.scheme in ("http", "https"):
        return bool(parts.hostname)
    return not absolute and (parts.scheme in _OTHER_SCHEMES or not parts.scheme)


def _structured_data(data: Any) -> Iterator[Finding]:
    if data is None:
        return
    if not isinstance(data, dict) or "@context" not in data:
        yield Finding(code="structured_data_invalid", where="structured_data", detail="@context is missing")
    elif not all(isinstance(node, dict) and "@type" in node for node in _nodes(data)):
        yield Finding(code="structured_data_invalid", where="structured_data", detail="@type is missing")


def _nodes(data: dict[str, Any]) -> list[Any]:
    graph = data.get("@graph")
    return graph if isinstance(graph, list) and graph else [data]


_PRESENT: Final[dict[str, Callable[[PublishParams], bool]]] = {
    "featured_image": lambda params: bool(params.featured_image),
    "meta_description": lambda params: bool(params.meta_description.strip()),
    "sources": lambda params: bool(params.sources),
    "structured_data": lambda params: bool(params.structured_data),
}


def _required(params: PublishParams) -> Iterator[Finding]:
    for name, is_present in _PRESENT.items():
        if name in params.require and not is_present(params):
            yield Finding(code="required_field_missing", where=name)
