"""Counting what happened in the world, and judging it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from server.demo.processes import Child

WORDPRESS: Final = " /wp-json/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """calls and kills are what was done to the tool; the rest is what it did, counted in the sandbox's own state."""

    calls: int
    kills: int
    posts_published: int
    emails: int
    wordpress_writes: int


EXPECTED: Final = Counts(calls=4, kills=1, posts_published=1, emails=1, wordpress_writes=2)
"""One effect each, however often it was asked for: one draft made, that draft published, one message."""

_WORDS: Final = {
    "calls": "calls by the agent",
    "kills": "processes killed",
    "posts_published": "posts published",
    "emails": "e-mails sent",
    "wordpress_writes": "writes WordPress accepted",
}


def count(calls: int, tools: Sequence[Child], effects: Any) -> Counts:
    """`tools` are the processes that did the work; `effects` is what the sandbox says."""
    return Counts(
        calls=calls,
        kills=sum(tool.was_killed for tool in tools),
        posts_published=sum(post["status"] == "publish" for post in effects["posts"]),
        emails=len(effects["messages"]),
        wordpress_writes=sum(n for line, n in effects["writes"].items() if WORDPRESS in line),
    )


def differences(remit: Counts, naive: Counts, expected: Counts = EXPECTED) -> list[str]:
    """What is not as it must be; empty when all is well. The naive tool must have had the same calls, and done more."""
    wanted, found, other = asdict(expected), asdict(remit), asdict(naive)
    wrong = [
        f"{_WORDS[name]}: {found[name]} instead of {wanted[name]}" for name in wanted if found[name] != wanted[name]
    ]
    if naive.calls != expected.calls:
        wrong.append(f"naive tool, {_WORDS['calls']}: {naive.calls} instead of {expected.calls}")
    effects = ("posts_published", "emails")
    wrong += [f"naive tool, {_WORDS[name]}: only {other[name]}" for name in effects if other[name] <= wanted[name]]
    return wrong


def drawn(remit: Counts, naive: Counts) -> list[str]:
    """The scoreboard, a line each."""
    left, right = asdict(remit), asdict(naive)
    heading = f"{'':28}{'Remit':>8}{'naive tool':>14}"
    return [heading, *(f"{_WORDS[name]:28}{left[name]:>8}{right[name]:>14}" for name in left)]
