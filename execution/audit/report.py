"""What is audited, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

COMMANDS_MAX: Final = 500


class Kind(StrEnum):
    """What is wrong.

    DRIFT: an effect vanished or was changed. DUPLICATE: more than one, or one that should be gone. ORPHAN: something
    that carries a marker of ours and belongs to no command here. COMPENSATION_UNFINISHED: an unwinding that does not go
    on. REVIEW_FORGOTTEN: a question nobody has touched. STUCK: nobody works on it, and nobody is asked. UNREADABLE: a
    system did not answer, so that nothing is known about what it holds.
    """

    DRIFT = "DRIFT"
    DUPLICATE = "DUPLICATE"
    ORPHAN = "ORPHAN"
    COMPENSATION_UNFINISHED = "COMPENSATION_UNFINISHED"
    REVIEW_FORGOTTEN = "REVIEW_FORGOTTEN"
    STUCK = "STUCK"
    UNREADABLE = "UNREADABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to go over. since_ms: commands accepted from then on. command_id: this one alone.

    pace_s: pause between looks. review_old_s: a question that nobody touched for so long is forgotten. stuck_s: what
    was due so long ago is done by nobody.
    """

    tenant: str
    since_ms: int = 0
    command_id: str | None = None
    commands_max: int = COMMANDS_MAX
    pace_s: float = 0.1
    review_old_s: float = 3 * 86_400.0
    stuck_s: float = 15 * 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. `known`: a person is or was asked about exactly this. `review_id`: the question."""

    kind: Kind
    code: str
    command_id: str | None = None
    step: str | None = None
    about: str = ""
    asked_at_ms: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    known: bool = False
    review_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """Everything that was looked at. `in_motion`: commands whose object is being changed; they are for another time."""

    began_ms: int
    ended_ms: int
    commands: int
    looks: int
    in_motion: int
    findings: tuple[Finding, ...]
    more: bool = False

    @property
    def fresh(self) -> tuple[Finding, ...]:
        """What no person has been asked about before."""
        return tuple(finding for finding in self.findings if not finding.known)

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "ok": not self.findings, "findings": [_plain(asdict(f)) for f in self.findings]}


def _plain(finding: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in finding.items() if value not in (None, "", {})}
