"""Is somebody told what the journal says, at a place where whoever changes the journal cannot change that too?"""

from __future__ import annotations

from capabilities.errors import CapabilityError, KeyFileError
from execution.moments import age
from execution.ports import Severity, Symptom
from execution.store.journal import count
from server.app import Installation
from server.checkpoints import Exported, checking_key, export_file, read_exported
from server.private_files import told


async def symptom(at: Installation) -> Symptom:
    """Of the newest checkpoint; `remit verify` holds all of them against the journal."""
    section = at.config.settings.checkpoints
    if section.file is None:
        fix = "Set [checkpoints] file: without it nobody can tell a journal that was cut off or put back."
        return Symptom(code="checkpoints_off", severity=Severity.NOTE, detail="nothing is exported", fix=fix)
    path = export_file(at.config)
    if not path.exists():
        fix = "Run `remit checkpoint`, or a worker: it exports by itself."
        return Symptom(code="checkpoints_none", severity=Severity.NOTE, detail=f"{path.name} is not there", fix=fix)
    try:
        exported = read_exported(path, checking_key(at.config))
    except KeyFileError as error:
        fix = "Put the public key back from where it is kept elsewhere."
        return Symptom(code="checkpoints_unusable", severity=Severity.PROBLEM, detail=told(error)[0], fix=fix)
    except CapabilityError as error:
        fix = "Put the public key back from where it is kept elsewhere."
        return Symptom(code="checkpoints_unusable", severity=Severity.PROBLEM, detail=str(error), fix=fix)
    events = await at.store.read(count)
    if events == 0 and exported == Exported():
        fix = "Run `remit checkpoint`, or a worker: it exports by itself."
        return Symptom(code="checkpoints_none", severity=Severity.NOTE, detail=f"{path.name} is empty", fix=fix)
    if exported.unreadable or not exported.checkpoints or exported.checkpoints[-1].size > events:
        detail = f"{len(exported.checkpoints)} checkpoints, {exported.unreadable} unreadable, {events} events"
        fix = "`remit verify` tells what differs. Do not trust the journal until it is explained."
        return Symptom(code="checkpoints_contradict", severity=Severity.PROBLEM, detail=detail, fix=fix)
    newest = exported.checkpoints[-1]
    old = age((at.clock.now_ms() - newest.at_ms) / 1000)
    detail = f"{newest.size} of {events} events, {old} ago"
    return Symptom(code="checkpoints_exported", detail=detail)
