"""A disk that keeps what it was made to sync, and of everything else whatever it likes.

At a power cut every synced byte is there. Every write and change of size since a file's last sync is there, missing,
torn at a sector's boundary, or only the size has grown; none depends on another. A folder's changes (a name that is
new, renamed or removed) persist in their order, up to any of them, all of them only once the folder itself was synced.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from tests.crash.recording import Kind, Record

SECTOR: Final = 512
ROOT: Final = 0
"""The number of the recorded folder itself."""


@dataclass(frozen=True, slots=True)
class Change:
    """Of a file: `data` at `offset`, or (None) the size that is `offset`."""

    offset: int
    data: bytes | None

    def on(self, content: bytearray) -> None:
        if self.data is None:
            del content[self.offset :]
            content.extend(bytes(self.offset - len(content)))
            return
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data

    def some(self, chance: random.Random, there: float) -> Change | None:
        """What a power cut leaves of it."""
        if chance.random() < there:
            return self
        kind = chance.choice(("missing", "missing", "torn", "grown"))
        if self.data is None or kind == "missing":
            return None
        if kind == "grown":
            return Change(self.offset + len(self.data), b"")
        first = SECTOR - self.offset % SECTOR
        cuts = range(first, len(self.data), SECTOR)
        if not cuts:
            return None
        cut = chance.choice(cuts)
        if chance.random() < 0.5:
            return Change(self.offset, self.data[:cut])
        return Change(self.offset + cut, self.data[cut:])


@dataclass(slots=True)
class Disk:
    """Fed with records in their order; `cut` says what is left when the power goes now."""

    folder: str
    synced: dict[int, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    pending: dict[int, list[Change]] = field(default_factory=lambda: defaultdict(list))
    names: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    kept: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    renamings: dict[int, list[dict[str, int]]] = field(default_factory=lambda: defaultdict(list))

    def take(self, record: Record) -> None:
        """One more operation."""
        match record.kind:
            case Kind.WRITTEN:
                self.pending[record.inode].append(Change(record.offset, record.data))
            case Kind.RESIZED:
                self.pending[record.inode].append(Change(record.size, None))
            case Kind.SYNCED:
                self._sync(ROOT if record.path == self.folder else record.inode)
            case Kind.CREATED | Kind.FOLDER:
                if record.kind is Kind.FOLDER:
                    self.names[record.inode], self.kept[record.inode] = {}, {}
                parent, name = self._place(record.path)
                self._changed(parent, {**self.names[parent], name: record.inode})
            case Kind.UNLINKED:
                parent, name = self._place(record.path)
                self._changed(parent, {n: i for n, i in self.names[parent].items() if n != name})
            case Kind.RENAMED:
                parent, name = self._place(record.path)
                onto, target = self._place(record.data.decode())
                assert onto == parent, "only within one folder"
                moved = self.names[parent][name]
                self._changed(parent, {n: i for n, i in self.names[parent].items() if n != name} | {target: moved})
            case Kind.SAID | Kind.SENT:
                pass

    def now(self, path: Path) -> bytes:
        """What a running program reads there."""
        parent, name = self._place(str(path))
        inode = self.names[parent][name]
        content = bytearray(self.synced[inode])
        for change in self.pending[inode]:
            change.on(content)
        return bytes(content)

    def files(self) -> Iterator[str]:
        """All that a running program sees, as paths in the folder."""
        yield from _walk(self.names, ROOT, "")

    def cut(self, seed: int, onto: Path) -> None:
        """What is left of it, written to that folder."""
        chance = random.Random(seed)
        there = chance.choice((0.0, 0.0, 0.5, 0.9, 1.0))
        left = {inode: chance.choice([held, *self.renamings[inode]]) for inode, held in self.kept.items()}
        for path in _walk(left, ROOT, ""):
            inode = _found(left, path)
            content = bytearray(self.synced[inode])
            for change in self.pending[inode]:
                some = change.some(chance, there)
                if some is not None:
                    some.on(content)
            file = onto / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def _sync(self, inode: int) -> None:
        if inode in self.names:
            self.kept[inode] = self.names[inode]
            self.renamings[inode].clear()
            return
        for change in self.pending.pop(inode, ()):
            change.on(self.synced[inode])

    def _place(self, path: str) -> tuple[int, str]:
        """The folder's number and the name in it."""
        inside = PurePosixPath(path).relative_to(self.folder)
        return _found(self.names, str(inside.parent)), inside.name

    def _changed(self, parent: int, names: dict[str, int]) -> None:
        self.names[parent] = names
        self.renamings[parent].append(names)


def _found(names: dict[int, dict[str, int]], path: str) -> int:
    inode = ROOT
    for part in PurePosixPath(path).parts:
        inode = names[inode][part]
    return inode


def _walk(names: dict[int, dict[str, int]], inode: int, prefix: str) -> Iterator[str]:
    for name, found in names[inode].items():
        if found in names:
            yield from _walk(names, found, f"{prefix}{name}/")
        else:
            yield prefix + name
