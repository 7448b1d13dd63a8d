"""Which addresses a publication purges, and in how many requests. Pure arithmetic over configured texts.

An entry with `{url}` stands for the article's own address: the one where it is live, which only the pivot's receipt
knows, and the one where the version before was. All other entries are addresses as they stand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

LIVE: Final = "{url}"
BATCHES_MAX: Final = 4
"""Requests of one publication, each a command of its own: a definition has its steps before anybody configures it."""


def is_entry(entry: str) -> bool:
    """Whether it begins with `{url}`, or is an http(s) address by itself."""
    scheme, host = origin(entry)
    return entry.startswith(LIVE) or (LIVE not in entry and scheme in ("http", "https") and bool(host))


def planned(entries: Iterable[str], previous_url: str | None) -> tuple[str, ...]:
    """What is frozen: entries for the live address as they are, those for the version before filled in, others once."""
    named: list[str] = []
    for entry in entries:
        named.append(entry)
        if LIVE in entry and previous_url:
            named.append(entry.replace(LIVE, previous_url))
    return tuple(dict.fromkeys(named))


def batches_at_most(entries: Iterable[str], size: int) -> int:
    """How many requests the largest plan with these entries takes."""
    return batches(planned(entries, "https://an.earlier.example/address/"), size)


def batches(named: tuple[str, ...], size: int) -> int:
    """How many requests these addresses take."""
    return -(-len(named) // size)


def batch(named: tuple[str, ...], number: int, size: int) -> tuple[str, ...]:
    """The addresses of that request; the first is number 1."""
    return named[(number - 1) * size : number * size]


def filled(named: tuple[str, ...], live_url: str) -> tuple[str, ...]:
    """Each address once, with the live one filled in; entries for it are left out when nobody knows it."""
    known = (entry.replace(LIVE, live_url) for entry in named if live_url or LIVE not in entry)
    return tuple(dict.fromkeys(known))


def live_address(reported: str, expected: str) -> str:
    """Where readers find the article: as the site reports it, unless it reports another origin than its public one."""
    if expected and origin(reported) != origin(expected):
        return expected
    return reported or expected


def origin(address: str) -> tuple[str, str]:
    """Scheme and host with port; empty for what is no address."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "", ""
    return parts.scheme.lower(), parts.netloc.lower()
