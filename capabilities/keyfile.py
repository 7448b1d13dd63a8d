"""Reading and writing the files that hold keys and tokens.

A secret in a file is only as private as the file. Reading refuses symbolic links, anything but a regular file, another
owner, and any permission for group or others; all of it is checked on the open descriptor, so that nothing can be
swapped between check and read. Writing goes to a new file in the same folder and renames it into place.

Raises KeyFileError throughout.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from capabilities.errors import KeyFileCode, KeyFileError

PRIVATE_FILE_BYTES_MAX: Final = 4096
PRIVATE_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_GROUP_OR_OTHERS: Final = 0o077
_WRITABLE_BY_OTHERS: Final = 0o022


def read_private_file(path: Path, *, bytes_max: int = PRIVATE_FILE_BYTES_MAX) -> bytes:
    """Read a file that only this user can open: a private key, or a token an agent's host holds."""
    return _read(path, bytes_max, _check_private)


def read_public_file(path: Path, *, bytes_max: int) -> bytes:
    """Read a file that others may read but only its owner can write: a set of public keys."""
    _check_folder(path)
    return _read(path, bytes_max, _check_public)


def create_private_file(path: Path, content: bytes) -> None:
    """Write a new 0600 file; refuses to replace anything (code `exists`)."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_MODE)
    except FileExistsError:
        raise KeyFileError(KeyFileCode.EXISTS, str(path)) from None
    except OSError:
        raise KeyFileError(KeyFileCode.UNREADABLE, str(path)) from None
    _fill(descriptor, content, PRIVATE_MODE)
    sync(path.parent)


def replace_file(path: Path, content: bytes, *, mode: int) -> None:
    """Write `content` beside `path` and rename it over: a reader sees the old file or the new one, never a part."""
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        _fill(descriptor, content, mode)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        raise KeyFileError(KeyFileCode.UNREADABLE, str(path)) from None
    sync(path.parent)


def _read(path: Path, bytes_max: int, check: Callable[[Path, os.stat_result], None]) -> bytes:
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except OSError:
        raise KeyFileError(KeyFileCode.UNREADABLE, str(path)) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise KeyFileError(KeyFileCode.NOT_REGULAR, str(path))
        check(path, found)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(bytes_max + 1)
    finally:
        os.close(descriptor)
    if len(content) > bytes_max:
        raise KeyFileError(KeyFileCode.TOO_LARGE, str(path))
    return content


def _check_private(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise KeyFileError(KeyFileCode.FOREIGN_OWNER, str(path))
    if found.st_mode & _GROUP_OR_OTHERS:
        raise KeyFileError(KeyFileCode.OPEN_PERMISSIONS, str(path))


def _check_public(path: Path, found: os.stat_result) -> None:
    if found.st_mode & _WRITABLE_BY_OTHERS:
        raise KeyFileError(KeyFileCode.OPEN_PERMISSIONS, str(path))


def _check_folder(path: Path) -> None:
    """Whoever may rename in the folder may replace the file: others may only where the sticky bit protects it."""
    try:
        mode = os.stat(path.parent).st_mode
    except OSError:
        raise KeyFileError(KeyFileCode.UNREADABLE, str(path)) from None
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise KeyFileError(KeyFileCode.OPEN_PERMISSIONS, str(path), field="folder")


def _fill(descriptor: int, content: bytes, mode: int) -> None:
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # the umask may have taken bits away, or mkstemp chosen others
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def sync(path: Path) -> None:
    """Returns when the file's content, or the names in the folder, are on disk: a file's own sync keeps no name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
