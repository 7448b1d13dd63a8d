"""Whose public keys were believed? Each acceptance journals the digest of the key set that its token was verified with,
so that a set which somebody swapped, and perhaps put back, shows afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from capabilities.errors import KeyFileError
from execution.acts import invalid
from execution.ports import Severity, Symptom
from execution.store import acts, journal
from execution.store.acts import Act
from execution.store.connection import Connection
from server.app import Installation
from server.operators import known_operators
from server.results import moment
from server.roles import Verb
from server.rotating import key_set_digest

ACCEPTED_MAX: Final = 10_000
"""How many acceptances are looked at, the newest."""
ACTS_MAX: Final = 1_000
NAMED_MAX: Final = 3
SLACK_MS: Final = 60_000
"""An operator signs before the set changes; what is accepted in between is still under the old one."""
_CHANGES_IT: Final = frozenset({Verb.KEYS_ROTATE.value, Verb.KEYS_RETIRE.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A set that was in force at a time."""

    at_ms: int
    digest: str


async def symptoms(at: Installation) -> tuple[Symptom, ...]:
    """Nothing while the set cannot be read: that is a symptom of the keys."""
    try:
        now = InForce(at_ms=at.clock.now_ms(), digest=key_set_digest(at.config))
    except KeyFileError:
        return ()
    seen, signed = await at.store.read(_read)
    believed = known_operators(at.config.settings)
    ordered = [act.at_ms for act in signed if act.verb in _CHANGES_IT and invalid(act, believed) is None]
    unordered = tuple(_unordered((*seen, now), ordered))
    if not unordered:
        return (Symptom(code="key_sets_accounted_for", detail=f"{now.digest}, {len(seen)} accepted commands"),)
    named = "; ".join(
        f"{before.digest} until {moment(before.at_ms)}, then {after.digest}" for before, after in unordered[:NAMED_MAX]
    )
    fix = (
        "Where nobody put another set there, tokens of a stranger may have been accepted since: `remit keys ls`, "
        "`remit revoke key KID`, and restore the issuer's set. Compare with the digest on the issuer's machine."
    )
    detail = f"{len(unordered)} changes that no `remit keys` made: {named}"
    return (Symptom(code="key_set_swapped", severity=Severity.WARNING, detail=detail, fix=fix),)


def _read(conn: Connection) -> tuple[tuple[InForce, ...], tuple[Act, ...]]:
    found = ((event.at_ms, json.loads(event.body).get("key_set")) for event in journal.received(conn, ACCEPTED_MAX))
    seen = tuple(InForce(at_ms=at_ms, digest=digest) for at_ms, digest in found if digest)
    return seen, acts.recent(conn, ACTS_MAX)


def _unordered(seen: tuple[InForce, ...], ordered_ms: list[int]) -> Iterator[tuple[InForce, InForce]]:
    """What was signed accounts for one change and no later one."""
    waiting = ordered_ms
    for before, after in pairwise(seen):
        if before.digest == after.digest:
            continue
        if not any(before.at_ms - SLACK_MS <= at_ms <= after.at_ms for at_ms in waiting):
            yield before, after
        waiting = [at_ms for at_ms in waiting if at_ms > after.at_ms]
