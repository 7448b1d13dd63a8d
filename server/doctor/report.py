"""What a doctor's look at an installation found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from execution.ports import Severity, Symptom

_ORDER: Final = (Severity.PROBLEM, Severity.WARNING, Severity.NOTE, Severity.FINE)


@dataclass(frozen=True, slots=True)
class Checked:
    """A symptom and what it is about (`clock`, `site blog`, …)."""

    subject: str
    symptom: Symptom

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {"subject": self.subject, **asdict(self.symptom)}


def about(subject: str, symptoms: Iterable[Symptom]) -> tuple[Checked, ...]:
    """These symptoms of that subject."""
    return tuple(Checked(subject, symptom) for symptom in symptoms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """How far a step's read-back can be trusted, and what follows from a doubt about it."""

    step: str
    system: str
    strength: str
    lag_s: float
    covers: str
    authority: str
    cache_bypass: str
    repeat: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How late a request to a system can still take effect. `quiescent_after_s` is Q; None: a person will be asked.

    name: the one adapter (`wordpress blog`); system: what lookups name.
    """

    name: str
    system: str
    max_run_s: float | None
    max_run_source: str
    incomplete_s: float | None
    incomplete_source: str
    transit_s: float
    quiescent_after_s: float | None
    in_doubt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that was looked at."""

    checked: tuple[Checked, ...]
    lookups: tuple[Lookup, ...] = field(default=())
    bounds: tuple[Bound, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing is broken. Warnings are not broken."""
        return self.count(Severity.PROBLEM) == 0

    def count(self, severity: Severity) -> int:
        """How many symptoms are of that severity."""
        return sum(1 for checked in self.checked if checked.symptom.severity is severity)

    @property
    def worst_first(self) -> tuple[Checked, ...]:
        """The order in which a person wants to read it."""
        return tuple(sorted(self.checked, key=lambda checked: _ORDER.index(checked.symptom.severity)))

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "ok": self.ok,
            "counts": {severity.value: self.count(severity) for severity in Severity},
            "symptoms": [checked.document() for checked in self.worst_first],
            "lookups": [asdict(lookup) for lookup in self.lookups],
            "bounds": [asdict(bound) for bound in self.bounds],
        }
