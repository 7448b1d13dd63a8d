"""What `remit doctor` asks an adapter: could you do your work now, and how late can a request of yours still land?

Every adapter of an external system offers this beside its port; a field of `Ports` whose value (or whose mapping's
values) does so is examined without being named anywhere else:

    class GitHub:
        system = "github"                   the name by which sagas call it; without it the name of the field counts

        @property
        def bounds(self) -> Bounds: ...     as every port has it

        async def probe(self) -> tuple[Symptom, ...]:
            ...

A probe reads and never writes: it connects as the configured account, asks the system who that is and what it may do,
and names what is missing. It answers with one symptom for each thing it looked at, the good ones too; it neither
repeats what the system said nor shows a credential. What it raises is told as `probe_failed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


class Severity(StrEnum):
    """FINE: as it should be. NOTE: worth knowing. WARNING: works, and should not stay so. PROBLEM: does not work."""

    FINE = "fine"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One thing that was looked at.

    code: stable, lower case. detail: facts in our own words (numbers, our names, codes). fix: what a person does about
    it; nothing when it is fine.
    """

    code: str
    severity: Severity = Severity.FINE
    detail: str = ""
    fix: str = ""


@runtime_checkable
class Probed(Protocol):
    """An adapter that can be asked."""

    async def probe(self) -> tuple[Symptom, ...]:
        """Look, within seconds, and change nothing."""
        ...
