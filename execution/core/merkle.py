"""Merkle trees over the journal's events, as RFC 9162 §2.1 (and RFC 6962 before it) defines them. Pure.

A root stands for a list of entries and its order; while the list grows it costs two hashes an entry (`Tree`). An
inclusion proof shows with a few hashes that one entry stands at one place of the list that a root stands for: whoever
checks it needs neither the list nor whoever keeps it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

HASH_BYTES: Final = 32
PROOF_HASHES_MAX: Final = 64
_LEAF: Final = b"\x00"
_NODE: Final = b"\x01"


def leaf_hash(data: bytes) -> bytes:
    """The hash of one entry; its prefix keeps entries and inner nodes apart."""
    return hashlib.sha256(_LEAF + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees."""
    return hashlib.sha256(_NODE + left + right).digest()


class Tree:
    """A list that grows, of which only the roots of its full subtrees are kept: log2(size) hashes."""

    def __init__(self) -> None:
        self.size = 0
        self._full: list[bytes] = []

    def append(self, data: bytes) -> None:
        """The next entry."""
        grown, number = leaf_hash(data), self.size
        while number & 1:
            grown = node_hash(self._full.pop(), grown)
            number >>= 1
        self._full.append(grown)
        self.size += 1

    def root(self) -> bytes:
        """The hash of the whole list as it is now; of an empty one the hash of nothing."""
        if not self._full:
            return hashlib.sha256().digest()
        root = self._full[-1]
        for left in reversed(self._full[:-1]):
            root = node_hash(left, root)
        return root


class Levels:
    """A whole tree in memory, for proofs about many of its leaves."""

    def __init__(self, entries: Iterable[bytes]) -> None:
        self._levels: list[list[bytes]] = [[leaf_hash(entry) for entry in entries]]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            level = [node_hash(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)]
            self._levels.append([*level, below[-1]] if len(below) % 2 else level)

    def root(self) -> bytes:
        """As `Tree.root`."""
        top = self._levels[-1]
        return top[0] if top else hashlib.sha256().digest()

    def proof(self, index: int) -> tuple[bytes, ...]:
        """The inclusion proof of the entry at that place (RFC 9162 §2.1.3.1). Raises IndexError."""
        if not 0 <= index < len(self._levels[0]):
            raise IndexError(index)
        path = []
        for level in self._levels[:-1]:
            beside = index ^ 1
            if beside < len(level):
                path.append(level[beside])
            index >>= 1
        return tuple(path)


def includes(root: bytes, size: int, index: int, data: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that `data` is the entry at `index` of the list of that size and root (§2.1.3.2)."""
    if not 0 <= index < size or any(len(each) != HASH_BYTES for each in proof):
        return False
    place, last, grown = index, size - 1, leaf_hash(data)
    for beside in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            grown = node_hash(beside, grown)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            grown = node_hash(grown, beside)
        place, last = place >> 1, last >> 1
    return last == 0 and grown == root
