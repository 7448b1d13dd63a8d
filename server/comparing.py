"""Texts beside each other, for people: bounded, and with nothing in them that hides."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from execution.store import artifacts
from execution.store.writer import Store
from server.cli.output import visible

LINES_MAX: Final = 400
CHARS_MAX: Final = 400_000
"""Of each side that is compared; comparing takes time in proportion to the product of both."""
LINE_CHARS_MAX: Final = 2_000
GONE: Final = "(not kept, or not kept any more)"


def unified(before: str, after: str, names: tuple[str, str]) -> list[str]:
    """Lines of a unified difference."""
    old, new = (text[:CHARS_MAX].splitlines() for text in (before, after))
    changes = difflib.unified_diff(old, new, *names, lineterm="", n=2)
    listed = [visible(changed)[:LINE_CHARS_MAX] for changed in changes]
    more = len(listed) - LINES_MAX
    shown = listed if more <= 0 else [*listed[:LINES_MAX], f"... and {more} lines more"]
    cut = max(len(before), len(after)) > CHARS_MAX
    return [*shown, f"... only the first {CHARS_MAX} characters are compared"] if cut else shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One field three ways. changed: from what was approved last to what stands there. ours: to what we would write."""

    field: str
    changed: Sequence[str]
    ours: Sequence[str]


async def read_compared(store: Store, facts: Mapping[str, Any]) -> tuple[Compared, ...]:
    """The texts that a review names, read and compared."""
    found = []
    for each in facts.get("three_way") or ():
        baseline, live, ours = [await read_text(store, each.get(side)) for side in ("baseline", "live", "ours")]
        found.append(
            Compared(
                field=each["field"],
                changed=unified(baseline, live, ("approved", "live now")),
                ours=unified(baseline, ours, ("approved", "ours")),
            )
        )
    return tuple(found)


async def read_text(store: Store, ref: str | None) -> str:
    """A stored text, or a word that it is not there."""
    if ref is None:
        return GONE
    found = await store.read(lambda conn: artifacts.get(conn, ref.rpartition("/")[2]))
    return GONE if found is None or found.content is None else found.content.decode("utf-8", "replace")
