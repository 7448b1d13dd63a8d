"""What a program did to its disk and told the world, in order: `recorder.c`, loaded before libc, writes it down.

The program runs as anybody would start it, unmodified. Needs a C compiler.
"""

import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("recorder.c")
HEADER: Final = struct.Struct("<Ic3xQQQII")


class Kind(StrEnum):
    """What was done. SAID: bytes to a pipe, which is standard output here. SENT: bytes to a TCP socket, just before."""

    CREATED = "C"
    FOLDER = "D"
    WRITTEN = "W"
    RESIZED = "T"
    SYNCED = "F"
    UNLINKED = "U"
    RENAMED = "R"
    SAID = "S"
    SENT = "N"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One operation. inode: of the file, or the socket's number. data: what was written, or a rename's target."""

    pid: int
    kind: Kind
    inode: int
    offset: int
    size: int
    path: str
    data: bytes


def compiler() -> str | None:
    """A C compiler of this machine."""
    return shutil.which("cc") or shutil.which("gcc")


def recorder(folder: Path) -> Path:
    """The library, compiled."""
    found, made = compiler(), folder / "recorder.so"
    assert found is not None
    flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    subprocess.run([found, *flags, "-o", made, SOURCE, "-ldl", "-lpthread"], check=True)
    return made


def recorded(library: Path, folder: Path, record: Path) -> Mapping[str, str]:
    """What the environment of a program needs so that all it does in the folder is recorded."""
    return {"LD_PRELOAD": str(library), "POWER_FOLDER": str(folder), "POWER_RECORD": str(record)}


def records(file: Path) -> Iterator[Record]:
    """Everything in it, in order."""
    held = memoryview(file.read_bytes())
    at = 0
    while at < len(held):
        pid, kind, inode, offset, size, path_bytes, data_bytes = HEADER.unpack_from(held, at)
        named = at + HEADER.size
        filled = named + path_bytes
        at = filled + data_bytes
        yield Record(
            pid=pid,
            kind=Kind(kind.decode()),
            inode=inode,
            offset=offset,
            size=size,
            path=bytes(held[named:filled]).decode(),
            data=bytes(held[filled:at]),
        )
