"""What the database said went wrong, in the store's words: come back later, or something is to be done first."""

from __future__ import annotations

from typing import Final

from sqlalchemy.exc import DBAPIError

from execution.store.errors import StoreUnavailable, StoreUnusable

_DAMAGED: Final = ("malformed", "not a database", "corrupt", "could not decode", "no such table", "no such column")
_SHUT: Final = ("readonly", "unable to open")
_WRITABLE: Final = "let this user write to the file and its folder (owner, mode, mount); even reading needs it"
_RESTORE: Final = (
    "stop everything that uses it, keep the file for whoever looks into it, and put back the newest backup; nothing "
    "was changed"
)


def failure(error: DBAPIError, target: str = "the database") -> StoreUnusable | StoreUnavailable:
    """What to raise for it. `target`: how people know the database."""
    reason = " ".join(str(error.orig).split())
    said = reason.lower()
    if any(words in said for words in _DAMAGED):
        return damaged(target, reason)
    if any(words in said for words in _SHUT):
        return StoreUnusable(f"{target} cannot be written by this user", _WRITABLE)
    if "disk is full" in said:
        return StoreUnavailable("the disk is full: free some space; nothing was written")
    return StoreUnavailable(reason)


def damaged(target: str, reason: str) -> StoreUnusable:
    """Bytes of it are not what was written."""
    return StoreUnusable(f"{target} is damaged ({reason})", _RESTORE)
