"""`python -m tests.crash.faulty FAULT …`: the product with a store that promises too much.

relaxed  `synchronous=NORMAL`: a commit is on disk at the next checkpoint
early    who waits for a commit is answered before what it wrote is synced, a moment later
"""

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from execution.store import engine
from server.cli.main import main

LATER_S: Final = 0.2
_pragmas = engine._writer_pragmas


def relaxed(dbapi: sqlite3.Connection, record: Any) -> None:
    _pragmas(dbapi, record)
    dbapi.execute("PRAGMA synchronous=NORMAL").close()


def early(dbapi: sqlite3.Connection, record: Any) -> None:
    _pragmas(dbapi, record)
    dbapi.execute("PRAGMA synchronous=OFF").close()
    database = dbapi.execute("PRAGMA database_list").fetchone()[2]
    threading.Thread(target=_sync_again_and_again, args=(f"{database}-wal",), daemon=True).start()


def _sync_again_and_again(path: str) -> None:
    while not threading.Event().wait(LATER_S):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        os.fsync(descriptor)
        os.close(descriptor)


FAULTS: Final[Mapping[str, Callable[[sqlite3.Connection, Any], None]]] = {"relaxed": relaxed, "early": early}

if __name__ == "__main__":
    setattr(engine, "_writer_pragmas", FAULTS[sys.argv[1]])  # noqa: B010 (of this process alone)
    main(sys.argv[2:])
