"""What is said about the whole journal: how many events it has and the root of the tree over them, signed.

A chain shows that its own events follow each other. That a chain and its registry were rewritten together, that the end
was cut off, that events changed places or that an older copy of the journal was put back shows only against a statement
that lies elsewhere: a checkpoint. It is a note in the form of C2SP tlog-checkpoint, with the time as an extension.

`restart`: an operator said that the history went back on purpose (a restored backup); what earlier checkpoints say is
not held against the journal any more, and everybody can see that.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from capabilities.errors import NoteCode, NoteError
from capabilities.note import NoteKey, NotePublicKey, open_note, sign_note
from execution.core.merkle import HASH_BYTES, Tree
from execution.store import journal
from execution.store.writer import Store

ORIGIN: Final = "remit-journal/"
LEAVES_READ: Final = 2_000
_TIME: Final = "time "
_RESTART: Final = "restart"
_NUMBER: Final = re.compile("[0-9]{1,15}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The journal of one installation at one moment. `at_ms`: Unix milliseconds by the clock of whoever signed."""

    origin: str
    size: int
    root: bytes
    at_ms: int
    restart: bool = False

    def encode(self) -> str:
        """The text that is signed."""
        root = base64.b64encode(self.root).decode()
        restart = f"{_RESTART}\n" if self.restart else ""
        return f"{self.origin}\n{self.size}\n{root}\n{_TIME}{self.at_ms}\n{restart}"

    def signed(self, key: NoteKey) -> str:
        """The note."""
        return sign_note(key, self.encode())


def origin_of(installation: str) -> str:
    """How the journal of an installation, and the key of its checkpoints, are called."""
    return ORIGIN + installation


def open_checkpoint(note: str, key: NotePublicKey) -> Checkpoint:
    """What the note says, when that key signed it. Raises NoteError."""
    text = open_note(key, note)
    lines = text.splitlines()
    if len(lines) not in (4, 5) or lines[0] != key.name:
        raise NoteError(NoteCode.MALFORMED_NOTE)
    at = lines[3].removeprefix(_TIME)
    found = Checkpoint(
        origin=lines[0],
        size=int(lines[1]) if _NUMBER.fullmatch(lines[1]) else -1,
        root=_root(lines[2]),
        at_ms=int(at) if _NUMBER.fullmatch(at) else -1,
        restart=lines[4:] == [_RESTART],
    )
    if found.encode() != text:
        raise NoteError(NoteCode.MALFORMED_NOTE)
    return found


def _root(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != HASH_BYTES:
        raise NoteError(NoteCode.MALFORMED_NOTE)
    return raw


class Contradiction(StrEnum):
    """How a journal disagrees with what was said about it.

    JOURNAL_SHORTER: its end was cut off, or an older copy was put back. HISTORY_DIFFERS: events of that time were
    changed, exchanged or written anew.
    """

    JOURNAL_SHORTER = "JOURNAL_SHORTER"
    HISTORY_DIFFERS = "HISTORY_DIFFERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradicted:
    """One checkpoint that the journal does not bear out."""

    checkpoint: Checkpoint
    kind: Contradiction
    events: int


class Ledger:
    """Follows the journal's events, and knows the root of everything read so far."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._position = 0
        self._tree = Tree()

    @property
    def size(self) -> int:
        """How many events were read."""
        return self._tree.size

    @property
    def root(self) -> bytes:
        """Of those."""
        return self._tree.root()

    async def advance(self, sizes: frozenset[int] = frozenset()) -> dict[int, bytes]:
        """Read on to the journal's present end; the roots at those of `sizes` that were passed."""
        roots = {self.size: self.root} if self.size in sizes else {}
        until = await self._store.transact(journal.settled_position)
        while self._position < until:
            after = self._position
            leaves = await self._store.read(lambda conn, after=after: journal.hashes(conn, after, LEAVES_READ, until))  # type: ignore[misc]  # a default argument binds the loop's value
            for leaf in leaves:
                self._tree.append(leaf.digest)
                if self.size in sizes:
                    roots[self.size] = self.root
            self._position = leaves[-1].position if leaves else until
        return roots


def in_force(checkpoints: Sequence[Checkpoint]) -> Sequence[Checkpoint]:
    """Those that are held against the journal: the last restart and what came after it."""
    last = max((place for place, each in enumerate(checkpoints) if each.restart), default=0)
    return checkpoints[last:]


def contradicted(checkpoints: Sequence[Checkpoint], roots: Mapping[int, bytes], size: int) -> Iterator[Contradicted]:
    """Which of them a journal of that size, with those roots at their sizes, does not bear out."""
    for each in checkpoints:
        if each.size > size:
            yield Contradicted(checkpoint=each, kind=Contradiction.JOURNAL_SHORTER, events=size)
        elif roots.get(each.size) != each.root:
            yield Contradicted(checkpoint=each, kind=Contradiction.HISTORY_DIFFERS, events=size)
