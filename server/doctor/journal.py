"""Can the journal be written, by us alone, and what waits in it?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from execution.moments import age
from execution.ports import Severity, Symptom
from execution.store import condition, registry, rounds
from execution.store.condition import Backlog, DatabaseBroken, FileCondition
from execution.store.connection import Connection
from execution.store.meta import has_changed
from execution.store.opening import HEAD
from execution.store.rounds import Round
from server.app import Installation
from server.doctor.holders import Holder, holders

WAL_BYTES_MAX: Final = 64 * 1024 * 1024
FRAMES_KEPT_MAX: Final = 2_000
CLOCK_BACK_S: Final = 2.0
OVERDUE_S: Final = 60.0
WORKER_SEEN_S: Final = 60.0
"""Six of a worker's signs of life."""
REVIEW_OLD_S: Final = 86_400.0
APPROVAL_SOON_S: Final = 6 * 3_600.0
SHUT: Final = frozenset({"database_missing", "database_broken", "write_lock_held"})
"""With one of these the journal cannot be opened, or only after a long wait."""
_FULL: Final = "2"


def file_symptoms(database: Path) -> Iterator[Symptom]:
    """Of the file, through a connection of its own."""
    try:
        found = condition.examine_file(database)
    except FileNotFoundError:
        fix = "Restore it from a backup together with its side file, or make another home: a new journal knows nothing."
        yield Symptom(code="database_missing", severity=Severity.PROBLEM, detail=database.name, fix=fix)
        return
    except DatabaseBroken as error:
        fix = "Look at the file's owner, mode and mount; if it is damaged, restore it from a backup."
        yield Symptom(code="database_broken", severity=Severity.PROBLEM, detail=str(error), fix=fix)
        return
    yield _mode(found)
    yield _log(found)
    yield from _held(found, holders(database))


def _mode(found: FileCondition) -> Symptom:
    detail = f"SQLite {found.sqlite_version}, {found.bytes // 1024} KiB, journal_mode {found.journal_mode}"
    if found.journal_mode == "wal":
        return Symptom(code="database_readable", detail=detail)
    fix = "Some program switched the mode: any `remit` command that writes switches it back."
    return Symptom(code="journal_mode_differs", severity=Severity.WARNING, detail=detail, fix=fix)


def _log(found: FileCondition) -> Symptom:
    detail = f"{found.wal_bytes // 1024} KiB, {found.frames_kept} pages held back by a reader"
    if found.frames_kept > FRAMES_KEPT_MAX:
        fix = "End the program that keeps a long read open (see who holds the database): the log grows meanwhile."
        return Symptom(code="log_held_back", severity=Severity.WARNING, detail=detail, fix=fix)
    if found.wal_bytes > WAL_BYTES_MAX:
        fix = "Something held it back once; it is emptied when the last process closes the journal."
        return Symptom(code="log_large", severity=Severity.NOTE, detail=detail, fix=fix)
    return Symptom(code="log_moves_on", detail=detail)


def _held(found: FileCondition, others: tuple[Holder, ...]) -> Iterator[Symptom]:
    named = ", ".join(f"{holder.name} ({holder.pid})" for holder in others if holder.ours)
    strangers = ", ".join(f"{holder.name} ({holder.pid})" for holder in others if not holder.ours)
    yield Symptom(code="database_in_use" if named else "database_free", detail=named)
    if strangers:
        fix = "Only remit may hold the journal open: end that program, or let it read a copy."
        yield Symptom(code="database_held_by_others", severity=Severity.WARNING, detail=strangers, fix=fix)
    if found.write_locked:
        fix = "Somebody keeps a write transaction open; nothing can be accepted or carried out meanwhile."
        detail = f"for {condition.LOCK_WAIT_S} s"
        yield Symptom(code="write_lock_held", severity=Severity.PROBLEM, detail=detail, fix=fix)


async def content_symptoms(at: Installation) -> tuple[Symptom, ...]:
    """Of what is in it."""
    now_ms, known = at.clock.now_ms(), at.catalog.known
    changed = await has_changed(at.store)
    settings = await at.store.hot(condition.settings)

    def read(conn: Connection) -> tuple[Backlog, int, Round | None]:
        waits = condition.backlog(conn, at.tenant, now_ms - int(OVERDUE_S * 1000))
        return waits, sum(registry.unknown_definitions(conn, known).values()), rounds.last(conn, rounds.AUDIT)

    waits, unknown, audited = await at.store.read(read)
    return (
        _durable(settings.get("synchronous", _FULL), at),
        _history(changed, at),
        _clock(waits.clock_high_ms, now_ms),
        *_backlog(waits, unknown, now_ms),
        *_people(waits, now_ms),
        _audit(at.config.settings.audit.every_h, audited, now_ms),
    )


def _durable(synchronous: str, at: Installation) -> Symptom:
    detail = f"schema {HEAD}, synchronous {'FULL' if synchronous == _FULL else synchronous}"
    if synchronous == _FULL:
        return Symptom(code="commits_are_durable", detail=detail)
    return Symptom(
        code="commits_not_durable", severity=Severity.PROBLEM, detail=detail, fix="Use this release's store."
    )


def _history(changed: bool, at: Installation) -> Symptom:
    if at.identity.installation != at.config.settings.installation.id:
        fix = f'The journal is of installation "{at.identity.installation}": put that id back, or name another home.'
        return Symptom(code="installation_differs", severity=Severity.PROBLEM, detail="installation.id", fix=fix)
    detail = f"{at.identity.installation}, incarnation {at.identity.incarnation}"
    if not changed:
        return Symptom(code="history_unbroken", detail=detail)
    fix = "The journal was copied or restored: the next start freezes everything and puts what is unfinished in doubt."
    return Symptom(code="history_changed", severity=Severity.WARNING, detail=detail, fix=fix)


def _clock(high_ms: int, now_ms: int) -> Symptom:
    behind_s = (high_ms - now_ms) / 1000
    if behind_s <= CLOCK_BACK_S:
        return Symptom(code="clock_after_journal", detail="now is later than everything that was journaled")
    fix = "Set the clock right: until it passes that time again, waits are longer than they should be."
    detail = f"the journal has seen a time {behind_s:.0f} s later than now"
    return Symptom(code="clock_went_back", severity=Severity.PROBLEM, detail=detail, fix=fix)


def _backlog(waits: Backlog, unknown: int, now_ms: int) -> Iterator[Symptom]:
    seen_s = (now_ms - waits.clock_high_ms) / 1000
    total = sum(waits.states.values())
    detail = f"{total} commands; {waits.unsent} announcements unsent, {waits.watched} attempts on the watch list"
    yield Symptom(code="backlog", detail=detail)
    if waits.overdue:
        late_s = (now_ms - (waits.overdue_since_ms or now_ms)) / 1000
        worker = "no worker has shown a sign of life" if seen_s > WORKER_SEEN_S else "a worker runs"
        detail = f"{waits.overdue} commands should have been looked at, the oldest {age(late_s)} ago; {worker}"
        fix = "Start `remit worker` (or `remit serve`), or look at its log."
        yield Symptom(code="work_overdue", severity=Severity.WARNING, detail=detail, fix=fix)
    if unknown:
        fix = "Run a release that has them: commands finish on the version they started with."
        detail = f"{unknown} commands wait for a definition that this release lacks"
        yield Symptom(code="definition_missing", severity=Severity.PROBLEM, detail=detail, fix=fix)
    if waits.restrictions:
        detail = f"{waits.restrictions} freezes and revocations are in force"
        yield Symptom(code="restricted", severity=Severity.NOTE, detail=detail, fix="See `remit freeze ls`.")


def _people(waits: Backlog, now_ms: int) -> Iterator[Symptom]:
    if waits.oldest_review_ms is not None:
        old_s = (now_ms - waits.oldest_review_ms) / 1000
        severity = Severity.WARNING if old_s > REVIEW_OLD_S else Severity.NOTE
        detail = f"{waits.reviews} open, the oldest for {age(old_s)}"
        yield Symptom(code="reviews_open", severity=severity, detail=detail, fix="See `remit review ls`.")
    if waits.next_expiry_ms is not None and waits.oldest_approval_ms is not None:
        left_s, old_s = (waits.next_expiry_ms - now_ms) / 1000, (now_ms - waits.oldest_approval_ms) / 1000
        severity = Severity.WARNING if left_s < APPROVAL_SOON_S else Severity.NOTE
        detail = f"{waits.approvals} wait, the oldest for {age(old_s)}; the next expires in {age(max(0.0, left_s))}"
        yield Symptom(code="approvals_wait", severity=severity, detail=detail, fix="See `remit ls`.")


def _audit(every_h: float | None, last: Round | None, now_ms: int) -> Symptom:
    """Whether anybody compares what the journal calls done with what is really there."""
    if every_h is None:
        fix = "Set [audit] every_h where a worker runs, or run `remit audit` from time to time."
        return Symptom(code="audit_off", severity=Severity.NOTE, detail="no worker audits by itself", fix=fix)
    ended_ms = last.ended_ms if last is not None else None
    if last is None or ended_ms is None or now_ms - ended_ms > 2 * every_h * 3_600_000:
        fix = "Look at the worker's log: an audit should have ended."
        detail = (
            "none has ended yet" if ended_ms is None else f"the last one ended {age((now_ms - ended_ms) / 1000)} ago"
        )
        return Symptom(code="audit_late", severity=Severity.WARNING, detail=detail, fix=fix)
    found = json.loads(last.result).get("findings", 0)
    detail = f"{age((now_ms - ended_ms) / 1000)} ago: {found} findings"
    severity = Severity.NOTE if found else Severity.FINE
    return Symptom(code="audited", severity=severity, detail=detail, fix="See `remit audit`." if found else "")
