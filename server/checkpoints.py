"""Checkpoints of the journal, exported to a file outside the database.

The file only grows: one signed note after the other, each followed by an empty line. Its place is configured, and best
lies where whoever can write the database cannot (another machine's mount, `chattr +a`). A checkpoint is never signed
over a journal that contradicts the last one: that would be the keeper's signature under a forgery.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from capabilities.errors import KeyFileError, NoteError
from capabilities.keyfile import PUBLIC_MODE, read_public_file, replace_file, sync
from capabilities.keys import load_private_key, save_private_key
from capabilities.note import NOTE_BYTES_MAX, NoteKey, NotePublicKey, decode_note_key, generate_note_key
from execution.checkpoint import (
    ORIGIN,
    Checkpoint,
    Contradicted,
    Ledger,
    contradicted,
    in_force,
    open_checkpoint,
    origin_of,
)
from execution.core.merkle import Levels
from execution.inclusion import Included, document_of
from execution.store import authority, journal
from execution.store.connection import Connection
from execution.store.errors import StoreError
from server.app import Installation
from server.config import CONFIG_NAME, Config, ConfigError

FILE_BYTES_MAX: Final = 256 * 1024 * 1024
TAIL_BYTES: Final = 4_096
"""Holds the newest note whole."""
CONTRADICTED_S: Final = 60.0
"""After this a journal that contradicts what was exported is read once more."""
LOCK_POLL_S: Final = 0.05
LOCK_TRIES: Final = 1_200

log = logging.getLogger("remit.checkpoints")


class JournalContradicts(Exception):
    """The journal does not bear out what was said about it: nothing is signed."""

    code = "journal_contradicts"

    def __init__(self, found: Contradicted) -> None:
        super().__init__(f"{found.kind.value}: the checkpoint of {found.checkpoint.size} events")
        self.found = found


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What the file says. unreadable: notes in it that the key did not sign or that are none."""

    checkpoints: tuple[Checkpoint, ...] = ()
    unreadable: int = 0


def public_file(config: Config) -> Path:
    """Where the public half lies, for whoever checks."""
    return config.path(config.settings.checkpoints.public_file)


def make_key(private: Path, public: Path, installation: str) -> NoteKey:
    """A new key pair in two files. Raises KeyFileError."""
    key = generate_note_key(origin_of(installation))
    save_private_key(key, private)
    public.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(public, key.public_key().encode().encode() + b"\n", mode=PUBLIC_MODE)
    return key


def signing_key(config: Config) -> NoteKey:
    """The key of this journal's checkpoints, made where there was none. Raises KeyFileError.

    One of which only the public half is left is lost, not new: nothing is made in its place.
    """
    path, installation = config.path(config.settings.checkpoints.key_file), config.settings.installation.id
    if not path.exists() and not public_file(config).exists():
        return make_key(path, public_file(config), installation)
    return NoteKey(name=origin_of(installation), private=load_private_key(path))


def checking_key(config: Config) -> NotePublicKey:
    """The public half. Raises KeyFileError, NoteError."""
    return read_checking_key(public_file(config))


def read_checking_key(path: Path) -> NotePublicKey:
    """From a file. Raises KeyFileError, NoteError."""
    return decode_note_key(read_public_file(path, bytes_max=NOTE_BYTES_MAX).decode("ascii", "replace"))


def export_file(config: Config) -> Path:
    """Where checkpoints go. Raises ConfigError."""
    named = config.settings.checkpoints.file
    if named is None:
        fix = "Set file under [checkpoints], at a place where nobody who can write the database can write."
        raise ConfigError(f"{config.home / CONFIG_NAME}, checkpoints", "no file is named", fix)
    return config.path(named)


def read_exported(path: Path, key: NotePublicKey) -> Exported:
    """Everything in the file, in order; an unfinished last note is being written. Raises KeyFileError."""
    if not path.exists():
        return Exported()
    return _parsed(read_public_file(path, bytes_max=FILE_BYTES_MAX).decode("utf-8", "replace"), key)


def _parsed(text: str, key: NotePublicKey) -> Exported:
    """Notes begin with the line that names their origin."""
    starts = [found.start() for found in re.finditer(f"^{re.escape(ORIGIN)}", text, re.MULTILINE)]
    before = 1 if text[: starts[0] if starts else None].strip() else 0
    notes = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    if notes and not notes[-1].endswith("\n\n"):
        notes.pop()
    found: list[Checkpoint] = []
    for note in notes:
        with suppress(NoteError):
            found.append(open_checkpoint(note.removesuffix("\n"), key))
    return Exported(checkpoints=tuple(found), unreadable=before + len(notes) - len(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared(Exported):
    """What the file says, and what of it the journal does not bear out, the earliest first."""

    findings: tuple[Contradicted, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the journal."""
        return not self.findings and not self.unreadable

    @property
    def restarts(self) -> tuple[Checkpoint, ...]:
        """Where an operator said that the history went back on purpose."""
        return tuple(each for each in self.checkpoints if each.restart)

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "ok": self.ok,
            "count": len(self.checkpoints),
            "newest_size": self.checkpoints[-1].size if self.checkpoints else None,
            "unreadable": self.unreadable,
            "restarts": [each.at_ms for each in self.restarts],
            "findings": [
                {"kind": f.kind.value, "size": f.checkpoint.size, "at_ms": f.checkpoint.at_ms, "events": f.events}
                for f in self.findings
            ],
        }


async def compare(at: Installation, exported: Exported) -> Compared:
    """Hold everything in the file against the journal."""
    found = await _compare(Ledger(at.store), exported)
    return Compared(checkpoints=exported.checkpoints, unreadable=exported.unreadable, findings=found)


async def write_checkpoint(at: Installation, *, restart: bool = False) -> tuple[Checkpoint, str]:
    """Sign the journal as it is and export that. Raises ConfigError, KeyFileError, JournalContradicts, OSError.

    restart: what was exported before is not held against the journal any more, and the note says so.
    """
    path, key, ledger = export_file(at.config), signing_key(at.config), Ledger(at.store)
    async with _alone(path) as descriptor:
        found = await _compare(ledger, read_exported(path, key.public_key()))
        if found and not restart:
            raise JournalContradicts(found[0])
        checkpoint = _checkpoint(at, ledger, key, restart=restart)
        return checkpoint, _append(descriptor, checkpoint.signed(key))


async def prove(at: Installation, root_id: str) -> dict[str, Any]:
    """Every event of a saga with its proof, under a fresh checkpoint. Raises what `write_checkpoint` does."""
    checkpoint, note = await write_checkpoint(at)

    def read(conn: Connection) -> tuple[tuple[journal.Entry, ...], tuple[int, ...], list[bytes]]:
        last = journal.last_position(conn)
        found = journal.entries(conn, 0, checkpoint.size, root_id=root_id)
        places = journal.places(conn, [entry.position for entry in found])
        leaves = journal.hashes(conn, 0, checkpoint.size, last)
        return found, places, [leaf.digest for leaf in leaves]

    found, places, leaves = await at.store.read(read)
    tree = await asyncio.to_thread(Levels, leaves)
    assert tree.root() == checkpoint.root, "a journal only grows, so its beginning is what was signed"
    pairs = zip(found, places, strict=True)
    included = [
        Included(index=place, event=entry.event, proof=tree.proof(place))
        for entry, place in pairs
        if place < checkpoint.size
    ]
    return document_of(note, included)


class Exporter:
    """Exports as the journal grows: one pass over all of it when it starts, then only over what is new."""

    def __init__(self, at: Installation) -> None:
        self._at = at
        self._path = export_file(at.config)
        self._key = signing_key(at.config)
        self._ledger = Ledger(at.store)
        self._begun = False

    async def turn(self) -> Checkpoint | None:
        """Export what is new, if anything is. Raises JournalContradicts, KeyFileError, OSError, StoreError."""
        async with _alone(self._path) as descriptor:
            exported = read_exported(self._path, self._key.public_key()) if not self._begun else self._last(descriptor)
            found = await _compare(self._ledger, exported)
            if found:
                raise JournalContradicts(found[0])
            self._begun = True
            if exported.checkpoints and exported.checkpoints[-1].size == self._ledger.size:
                return None
            checkpoint = _checkpoint(self._at, self._ledger, self._key, restart=False)
            _append(descriptor, checkpoint.signed(self._key))
            return checkpoint

    def _last(self, descriptor: int) -> Exported:
        """The newest note alone: another process may have written it."""
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, TAIL_BYTES, max(0, size - TAIL_BYTES)).decode("utf-8", "replace")
        start = tail.rfind(f"\n{ORIGIN}", 0, -1) + 1
        return _parsed(tail[start:], self._key.public_key())


async def export_from_time_to_time(at: Installation) -> None:
    """Until it is cancelled. What cannot be exported is said at every turn, and tried again.

    A journal that is not what was signed may have forgotten what it sent: everything is frozen, once, until an operator
    has looked.
    """
    every_s, exporter, frozen = at.config.settings.checkpoints.every_s, Exporter(at), False
    while True:
        try:
            await exporter.turn()
        except JournalContradicts as error:
            log.error("no checkpoint is signed, and nothing is sent: %s (`remit verify` tells more)", error)
            frozen = frozen or await _freeze(at)
            exporter = Exporter(at)
            await asyncio.sleep(CONTRADICTED_S)
        except (StoreError, KeyFileError, OSError) as error:
            log.warning("no checkpoint could be exported: %s", getattr(error, "code", None) or error)
        await asyncio.sleep(every_s)


async def _freeze(at: Installation) -> bool:
    """Whether it could be written down."""
    reason, now_ms = "the journal is not what was signed", at.clock.now_ms()
    try:
        await at.store.transact(
            lambda conn: authority.restrict(conn, authority.FROZEN_ALL, reason=reason, by="remit", now_ms=now_ms)
        )
    except StoreError as error:
        log.warning("the store could not be reached: %s", error.code)
        return False
    return True


async def _compare(ledger: Ledger, exported: Exported) -> tuple[Contradicted, ...]:
    held = in_force(exported.checkpoints)
    roots = await ledger.advance(frozenset(each.size for each in held))
    return tuple(contradicted(held, roots, ledger.size))


def _checkpoint(at: Installation, ledger: Ledger, key: NoteKey, *, restart: bool) -> Checkpoint:
    now_ms = at.clock.now_ms()
    return Checkpoint(origin=key.name, size=ledger.size, root=ledger.root, at_ms=now_ms, restart=restart)


def _append(descriptor: int, note: str) -> str:
    """Whole or not at all, and on disk. What a power cut left unfinished is ended first."""
    size = os.fstat(descriptor).st_size
    ended = size == 0 or os.pread(descriptor, 2, size - 2) == b"\n\n"
    written = (note if ended else f"\n\n{note}").encode() + b"\n"
    if os.write(descriptor, written) != len(written):
        os.ftruncate(descriptor, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)
    return note


@asynccontextmanager
async def _alone(path: Path) -> AsyncIterator[int]:
    """The file, open for appending, for one process at a time (flock(2): it ends with the process)."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, PUBLIC_MODE)
    try:
        sync(path.parent)
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(LOCK_POLL_S)
            else:
                break
        else:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
        yield descriptor
    finally:
        os.close(descriptor)
