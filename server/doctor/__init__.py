"""`remit doctor`: is this installation fit to be trusted with production, and if not, what is to be done?

Each module looks at one thing and answers with symptoms (`execution.ports.probing`), the good ones too, so that a
report says what was looked at. Nothing is mended, nothing is written that outlives the look, and no secret is shown.
What cannot be looked at because something else is broken is left out; the broken thing is in the report.

    clock      does time go as it should?            packages   does our own code run, and can others change it?
    disk       does fsync reach it, is there room?   files      who can read or write what the home holds?
    journal    can it be written, what waits?        keys       do keys and tokens work, who can approve?
    exported   is it told elsewhere what the journal says?
    systems    could each adapter do its work, and how late can a request still land?
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from execution.ports import Severity, Symptom
from execution.store.errors import StoreError, StoreUnusable
from server.app import Installation, SystemClock, looked_into
from server.config import Config, ConfigError, load_config
from server.doctor import clock, disk, exported, files, issuance, journal, key_sets, keys, packages, systems
from server.doctor.report import Bound, Checked, Lookup, Report, about
from server.sandbox_process import is_listening

__all__ = ["Report", "at_start", "examine"]

_NOT_RUNNING: Final = Symptom(
    code="sandbox_not_running",
    severity=Severity.NOTE,
    detail="nothing was asked of the stand-ins",
    fix="`remit serve`, `remit worker` and `remit sandbox` start it.",
)


async def examine(home: Path, *, offline: bool) -> Report:
    """Look at everything. `offline`: no external system is asked."""
    checked, config = _beside_the_journal(home)
    if config is None:
        return Report(checked=checked)
    try:
        async with looked_into(config) as at:
            content = about("journal", (*await journal.content_symptoms(at), await exported.symptom(at)))
            content += about("tokens", await issuance.symptoms(at))
            content += about("keys", await key_sets.symptoms(at))
            asked, lookups, bounds = await _systems(at, offline=offline)
            return Report(checked=(*checked, *content, *asked), lookups=lookups, bounds=bounds)
    except StoreError as error:
        fix = error.fix if isinstance(error, StoreUnusable) else "look at the file's owner, mode and mount"
        detail = error.what if isinstance(error, StoreUnusable) else str(error)
        broken = Symptom(code=error.code, severity=Severity.PROBLEM, detail=detail, fix=fix)
        return Report(checked=(*checked, Checked("journal", broken)))


def at_start(config: Config) -> tuple[Checked, ...]:
    """The cheap part, for whoever starts a process that stays: who can read and change what."""
    return (*about("packages", packages.symptoms()), *about("files", files.symptoms(config)))


def _beside_the_journal(home: Path) -> tuple[tuple[Checked, ...], Config | None]:
    """What can be looked at without opening it; no configuration when it cannot be opened."""
    ours = SystemClock()
    checked = about("packages", packages.symptoms())
    if any(found.symptom.code == packages.MIXED for found in checked):
        return checked, None
    if home.is_dir():
        checked += (*about("clock", clock.symptoms(home, ours)), *about("disk", disk.symptoms(home, ours)))
    try:
        config = load_config(home)
    except ConfigError as error:
        return (*checked, Checked("configuration", _unusable(error))), None
    checked += (*about("configuration", _configuration(config)), *_files_and_keys(config, ours))
    file = about("journal", journal.file_symptoms(config.database))
    shut = any(found.symptom.code in journal.SHUT for found in file)
    return (*checked, *file), None if shut else config


def _files_and_keys(config: Config, ours: SystemClock) -> Iterator[Checked]:
    yield from about("files", files.symptoms(config))
    yield from about("keys", keys.symptoms(config, ours))
    yield from about("operators", keys.operator_symptoms(config))


async def _systems(
    at: Installation, *, offline: bool
) -> tuple[tuple[Checked, ...], tuple[Lookup, ...], tuple[Bound, ...]]:
    from server.outside import adapters_of

    lookups = systems.lookups_of(at.catalog)
    try:
        outside = adapters_of(at)
    except ConfigError as error:
        return (Checked("systems", _unusable(error)),), lookups, ()
    try:
        if at.config.settings.sandbox.start and not is_listening(at.config):
            asked: tuple[Checked, ...] = (Checked("sandbox", _NOT_RUNNING),)
        else:
            asked = () if offline else await systems.probes(outside.ports)
        bounds = systems.bounds_of(outside.ports)
    finally:
        await outside.aclose()
    return (*asked, *systems.bound_symptoms(bounds)), lookups, bounds


def _configuration(config: Config) -> Iterator[Symptom]:
    settings = config.settings
    detail = f"{len(settings.site)} sites, tenant {settings.gateway.tenant}"
    yield Symptom(code="configuration_understood", detail=detail)
    if settings.sandbox.start:
        fix = "For real systems fill in the lines marked `real:` and set [sandbox] start = false."
        detail = "stand-ins on this machine take the place of the outside world"
        yield Symptom(code="sandbox_in_use", severity=Severity.NOTE, detail=detail, fix=fix)
    if settings.engine.time_scale != 1.0:
        detail = f"every wait is multiplied by {settings.engine.time_scale:g}"
        yield Symptom(code="time_is_hurried", severity=Severity.NOTE, detail=detail, fix="Remove [engine] time_scale.")


def _unusable(error: ConfigError) -> Symptom:
    return Symptom(code=error.code, severity=Severity.PROBLEM, detail=str(error), fix=error.fix)
