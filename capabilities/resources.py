"""Resource names and the patterns that grant them.

A resource is one to eight segments joined by `/` (`site/blog/article-0028`). A pattern is the same, and its last
segment may be `*`, which stands for exactly one segment. There is no other wildcard, no decoding and no regular
expression; matching compares segment by segment and is linear in the length of the resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from capabilities.identifiers import SEGMENT_CHARS_MAX, is_id, is_segment

SEGMENTS_MAX: Final = 8
RESOURCE_CHARS_MAX: Final = SEGMENTS_MAX * (SEGMENT_CHARS_MAX + 1) - 1
AGENT_PREFIX: Final = "agent:"
_WILDCARD: Final = "*"


def is_resource(text: object) -> bool:
    """One concrete resource, without a wildcard."""
    return isinstance(text, str) and _segments(text) is not None


def is_pattern(text: object) -> bool:
    """A resource, or a resource whose whole last segment is `*`. A lone `*` grants one one-segment name."""
    if not isinstance(text, str):
        return False
    parent, slash, last = text.rpartition("/")
    if last != _WILDCARD:
        return is_resource(text)
    return slash == "" or (is_resource(parent) and parent.count("/") < SEGMENTS_MAX - 1)


def matches(pattern: str, resource: str) -> bool:
    """Does a well-formed `pattern` grant this concrete `resource`? False for anything not well-formed."""
    return is_pattern(pattern) and is_resource(resource) and _covers(pattern, resource)


def covers(wider: str, narrower: str) -> bool:
    """Does every resource that pattern `narrower` grants lie within pattern `wider`?"""
    return is_pattern(wider) and is_pattern(narrower) and _covers(wider, narrower)


def _covers(wider: str, narrower: str) -> bool:
    if wider == narrower:
        return True
    parent, _, last = wider.rpartition("/")
    return last == _WILDCARD and narrower.rpartition("/")[0] == parent


def _segments(text: str) -> list[str] | None:
    if not text or len(text) > RESOURCE_CHARS_MAX:
        return None
    segments = text.split("/")
    return segments if len(segments) <= SEGMENTS_MAX and all(map(is_segment, segments)) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryScope:
    """Which commands a token may ask about: one decision's, one agent's, or (both None) the whole tenant's.

    `agent` is the full subject (`agent:writer-7`); in the resource its `agent:` is left out, as a segment has no colon.
    """

    dec: str | None = None
    agent: str | None = None

    @property
    def resource(self) -> str:
        """The spelling in `authorization_details`."""
        if self.dec is not None:
            return f"command/by-dec/{self.dec}"
        if self.agent is not None:
            return f"command/by-agent/{self.agent.removeprefix(AGENT_PREFIX)}"
        return "command/any"

    def includes(self, *, dec: str, agent: str) -> bool:
        """Is a command of this decision and this agent (full subject) inside the scope?"""
        if self.dec is not None:
            return dec == self.dec
        return self.agent is None or agent == self.agent


def parse_query_scope(resource: str) -> QueryScope | None:
    """Read one of the three closed forms; None for anything else, wildcards included."""
    match resource.split("/"):
        case ["command", "any"]:
            return QueryScope()
        case ["command", "by-dec", dec] if is_id(dec, "dec"):
            return QueryScope(dec=dec)
        case ["command", "by-agent", name] if is_segment(name):
            return QueryScope(agent=AGENT_PREFIX + name)
        case _:
            return None
