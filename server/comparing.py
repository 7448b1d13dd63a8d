"""Texts beside each other, for people: nothing in them hides, and whatever is left out is said.

A long line is folded, never cut: at the end of a sentence or before a tag, so that what comes after an insertion falls
into the same pieces again and only what differs is shown as different. Lines end at a newline and nowhere else.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from execution.store import artifacts
from execution.store.writer import Store
from server.cli.output import visible

LINES_MAX: Final = 400
"""Of a difference that nobody asked to see whole."""
CHARS_MAX: Final = 400_000
"""Of each side that is compared line by line, which takes time in proportion to the product of both."""
LINE_CHARS_MAX: Final = 160
GONE: Final = "(not kept, or not kept any more)"
CONTINUED: Final = "↪ "
"""What stands before a piece that continues the line above it."""
_MARK: Final = "\n"
"""The same while comparing: no line holds one, so that a folded line never equals several."""
_CONTEXT: Final = 2
_PIECE: Final = re.compile(
    rf".{{1,{LINE_CHARS_MAX}}}?(?:(?=<[A-Za-z])|(?<=[.!?])(?=\s))|.{{1,{LINE_CHARS_MAX}}}", re.DOTALL
)


def unified(before: str, after: str, names: tuple[str, str], *, whole: bool = False) -> list[str]:
    """Lines of a unified difference; unless `whole` is asked for at most `LINES_MAX` and a word about the rest."""
    old, new = list(_pieces(before)), list(_pieces(after))
    if max(len(before), len(after)) > CHARS_MAX:
        changes = _apart(old, new, names)
    else:
        changes = list(difflib.unified_diff(old, new, *names, lineterm="", n=_CONTEXT))
    listed = [_shown(change) for change in changes]
    if whole or len(listed) <= LINES_MAX:
        return listed
    rest = listed[LINES_MAX:]
    return [*listed[:LINES_MAX], f"… {len(rest)} lines more, {sum(map(len, rest))} characters: --full shows them"]


def _pieces(text: str) -> Iterator[str]:
    for line in text.split("\n") if text else ():
        if len(line) <= LINE_CHARS_MAX:
            yield line
            continue
        for found in _PIECE.finditer(line):
            yield found.group() if found.start() == 0 else _MARK + found.group()


def _shown(change: str) -> str:
    sign, text = change[:1], change[1:]
    continued = CONTINUED if text.startswith(_MARK) else ""
    return sign + continued + visible(text.removeprefix(_MARK))


def _apart(old: list[str], new: list[str], names: tuple[str, str]) -> list[str]:
    """Of long texts: everything between what both begin with and what both end with."""
    if old == new:
        return []
    begin = _alike(old, new)
    end = _alike(old[begin:][::-1], new[begin:][::-1])
    context = max(0, begin - _CONTEXT)
    gone, come = old[begin : len(old) - end], new[begin : len(new) - end]
    return [
        f"--- {names[0]}",
        f"+++ {names[1]}",
        f"@@ -{context + 1} +{context + 1} @@ too long to be compared line by line",
        *(f" {piece}" for piece in new[context:begin]),
        *(f"-{piece}" for piece in gone),
        *(f"+{piece}" for piece in come),
        *(f" {piece}" for piece in new[len(new) - end :][:_CONTEXT]),
    ]


def _alike(old: list[str], new: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One field three ways. changed: from what was approved last to what stands there. ours: to what we would write."""

    field: str
    changed: Sequence[str]
    ours: Sequence[str]


async def read_compared(store: Store, facts: Mapping[str, Any], *, whole: bool) -> tuple[Compared, ...]:
    """The texts that a review names, read and compared."""
    found = []
    for each in facts.get("three_way") or ():
        baseline, live, ours = [await read_text(store, each.get(side)) for side in ("baseline", "live", "ours")]
        found.append(
            Compared(
                field=each["field"],
                changed=unified(baseline, live, ("approved", "live now"), whole=whole),
                ours=unified(baseline, ours, ("approved", "ours"), whole=whole),
            )
        )
    return tuple(found)


async def read_text(store: Store, ref: str | None) -> str:
    """A stored text, or a word that it is not there."""
    if ref is None:
        return GONE
    found = await store.read(lambda conn: artifacts.get(conn, ref.rpartition("/")[2]))
    return GONE if found is None or found.content is None else found.content.decode("utf-8", "replace")
