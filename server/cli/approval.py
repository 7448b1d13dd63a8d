"""The screen on which a person decides: everything that the approved hash covers, and what it would change.

The fields are those that the subject has, found by walking it, so that nothing is approved which was not shown; the
names below only say some of them better. What differs from what is live is shown field by field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from rich.console import RenderableType

from server.approving import Shown
from server.cli.output import fields, line
from server.results import moment

_NAMES: Final = {
    "command_id": "command",
    "article_id": "article",
    "version": "version",
    "title": "title",
    "site": "site",
    "target.mode": "what it does",
    "reason": "reason",
    "target.url": "address",
    "target.slug": "slug",
    "publish_at": "not before",
    "publish_at_local": "on the site's clock",
    "recipients": "notifies",
    "webhooks": "notifies the receiver",
    "excerpt": "excerpt",
    "meta_description": "meta description",
    "categories": "categories",
    "tags": "tags",
    "sources": "sources",
    "featured_image": "image",
    "image.url": "image on the site",
    "baseline.preview": "draft",
    "difference": "stored differently",
    "removed": "removed from HTML",
    "hidden": "hidden characters",
}
"""What people read first, in this order; every other field follows under its own name."""


def rendered(shown: Shown, *, whole: bool) -> list[RenderableType]:
    """For a person: the facts first, then what would change, content last and marked as such."""
    approval = shown.approval
    facts = [*_facts(shown.subject), ("hash", approval.content_hash), ("expires", moment(approval.expires_at_ms))]
    heading = "Content (nothing is live):" if shown.live is None else "Content, compared with what is live:"
    told = [part for name in shown.changes() for part in _changed(shown, name, whole=whole)]
    return [
        fields(facts),
        *told,
        line(f"\n{heading}", "bold"),
        *(line(f"  | {changed}") for changed in shown.diff(whole=whole) or ("(no difference)",)),
        line(""),
    ]


def _changed(shown: Shown, name: str, *, whole: bool) -> Iterator[RenderableType]:
    yield line(f"\n{_named(name).capitalize()}, compared with what is live:", "bold")
    yield from (line(f"  | {changed}") for changed in shown.difference(name, whole=whole))


def _facts(subject: dict[str, Any]) -> list[tuple[str, str]]:
    """Each leaf in a row of its own. What is not there at all says nothing."""
    rows = [leaf for name, value in subject.items() if value not in (None, "", [], {}) for leaf in _leaves(name, value)]
    first = {name: place for place, name in enumerate(_NAMES)}
    rows.sort(key=lambda row: first.get(row[0], len(first)))
    lost = subject.get("difference") or ()
    return [(_named(path) + (" (this site does not keep it)" * _is_lost(path, lost)), text) for path, text in rows]


def _is_lost(path: str, lost: Any) -> bool:
    """Core WordPress has no place for it."""
    return path == "meta_description" and path in lost


def _named(path: str) -> str:
    return _NAMES.get(path, path.replace("_", " "))


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Depth is bounded where proposals are read (`capabilities.strict_json`)."""
    match value:
        case None:
            return
        case dict() if value:
            for name, inner in value.items():
                yield from _leaves(f"{path}.{name}", inner)
        case list() if value:
            for inner in value:
                yield from _leaves(path, inner)
        case str() if value:
            yield path, value
        case _:
            yield path, json.dumps(value)
