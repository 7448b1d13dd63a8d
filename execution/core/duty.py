"""What an ending leaves to people. Values only; `execution.duties` reads them off a saga that ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class After(StrEnum):
    """How a saga ended. DONE: whole. GAPS: a person gave some of it up after the pivot. REMAINS: it did not come to its
    end, and something of it was not undone. NOTHING: nothing of it is there."""

    DONE = "done"
    GAPS = "gaps"
    REMAINS = "remains"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """A duty that an ending leaves to people, and whose it is."""

    name: str
    owner: str
    what: str
    after: frozenset[After]
