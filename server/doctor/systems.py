"""Could each adapter do its work now, how far can its read-backs be trusted, and how late can a request still land?

Adapters are found in the fields of `Ports`: none is named here, and one that cannot be asked is told as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from execution.catalog import Catalog
from execution.core.definition import Action
from execution.core.quiescence import Bounds
from execution.core.states import Repeat
from execution.performer import Performer
from execution.ports import Ports, Probed, Severity, Symptom
from server.doctor.report import Bound, Checked, Lookup

PROBE_S: Final = 20.0
_PERSON: Final = "a person will be asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """One adapter: `name` for people (`wordpress blog`), `system` as sagas call it."""

    name: str
    system: str
    adapter: Any

    @property
    def bounds(self) -> Bounds | None:
        declared = getattr(self.adapter, "bounds", None)
        return declared if isinstance(declared, Bounds) else None


def externals(ports: Ports) -> tuple[External, ...]:
    """Every adapter that this process holds: what has bounds can take effect outside."""
    found = [
        External(name=name, system=str(getattr(adapter, "system", field)), adapter=adapter)
        for field, name, adapter in _held(ports)
    ]
    return tuple(external for external in found if external.bounds is not None)


def _held(ports: Ports) -> Iterator[tuple[str, str, Any]]:
    for field in fields(ports):
        value = getattr(ports, field.name)
        if isinstance(value, Mapping):
            yield from ((field.name, f"{field.name} {key}", adapter) for key, adapter in value.items())
        elif value is not None:
            yield field.name, field.name, value


async def probes(ports: Ports) -> tuple[Checked, ...]:
    """Ask each whether it could do its work."""
    performer = Performer(ports=ports, observe_deadline_s=PROBE_S)
    checked: list[Checked] = []
    for external in externals(ports):
        adapter = external.adapter
        asked = await performer.probe(adapter) if isinstance(adapter, Probed) else (_CANNOT_BE_ASKED,)
        checked += [Checked(external.name, symptom) for symptom in asked]
    return tuple(checked)


_CANNOT_BE_ASKED: Final = Symptom(code="not_probed", severity=Severity.NOTE, detail="this adapter cannot be asked")


def bounds_of(ports: Ports) -> tuple[Bound, ...]:
    """What each declares about how late a request can still take effect, with who enforces it."""
    return tuple(_bound(external, external.bounds) for external in externals(ports) if external.bounds is not None)


def bound_symptoms(bounds: tuple[Bound, ...]) -> Iterator[Checked]:
    """What is not known of them."""
    for bound in bounds:
        if bound.quiescent_after_s is None:
            fix = "Fill in max_run_s and max_run_source: who ends a request there, and after how long?"
            detail = f"how long a request may run is not known: whenever an answer is lost {_PERSON}"
            yield Checked(bound.name, Symptom(code="run_time_unknown", severity=Severity.NOTE, detail=detail, fix=fix))
        else:
            detail = f"nothing lands later than {bound.quiescent_after_s:g} s after its fence"
            yield Checked(bound.name, Symptom(code="run_time_bounded", detail=detail))


def _bound(external: External, declared: Bounds) -> Bound:
    after_s = declared.quiescent_after_s()
    return Bound(
        name=external.name,
        system=external.system,
        max_run_s=declared.max_run_s,
        max_run_source=declared.max_run_source,
        incomplete_s=declared.incomplete_s,
        incomplete_source=declared.incomplete_source,
        transit_s=declared.transit_s,
        quiescent_after_s=after_s,
        in_doubt=_PERSON if after_s is None else f"absent counts after {after_s:g} s",
    )


def lookups_of(catalog: Catalog) -> tuple[Lookup, ...]:
    """The contract of every read-back that this release makes, compensations included."""
    found: dict[str, Lookup] = {}
    for name, version in sorted(catalog.known):
        for step in catalog.definition(name, version).steps:
            found[step.name] = _lookup(step.name, step.action)
            if step.compensation is not None and step.compensation_type is not None:
                found[step.compensation_type] = _lookup(step.compensation_type, step.compensation)
    return tuple(found.values())


def _lookup(step: str, action: Action[Ports]) -> Lookup:
    contract = action.lookup
    if contract is None:
        nothing = "nothing: the system cannot be asked"
        return Lookup(
            step=step,
            system=action.system,
            strength="none",
            lag_s=0.0,
            covers=nothing,
            authority="",
            cache_bypass="",
            repeat=_PERSON,
        )
    return Lookup(
        step=step,
        system=action.system,
        strength=contract.strength,
        lag_s=contract.lag_s,
        covers=contract.covers,
        authority=contract.authority,
        cache_bypass=contract.cache_bypass,
        repeat=_REPEATS[action.repeat],
    )


_REPEATS: Final = {
    Repeat.NEVER: "sent again only after a conclusive ABSENT",
    Repeat.BY_KEY: "sent again under the same key",
    Repeat.NATURAL: "sent again: twice is the same as once",
}
