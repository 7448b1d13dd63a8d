"""A PostgreSQL server for a test run: its own data, a socket in a temporary folder, no network."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text


def missing_programs() -> tuple[str, ...]:
    """What must be installed and is not."""
    return tuple(name for name in ("initdb", "pg_ctl") if _program(name) is None)


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a running server's first database."""
    folder = Path(tempfile.mkdtemp(prefix="remit-pg-"))
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    quiet: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL, "user": user, "cwd": folder}
    pg_ctl = [str(_program("pg_ctl")), "-D", str(data)]
    initdb = [str(_program("initdb")), "-D", str(data), "-U", "remit", "-A", "trust", "--no-sync"]
    options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
    try:
        subprocess.run(initdb, **quiet)
        subprocess.run([*pg_ctl, "-w", "-o", options, "-l", str(folder / "log"), "start"], **quiet)
        try:
            yield f"postgresql://remit@/postgres?host={folder}"
        finally:
            subprocess.run([*pg_ctl, "-m", "immediate", "stop"], **quiet)
    finally:
        shutil.rmtree(folder)


def fresh_database(server: str, name: str) -> str:
    """The URL of a new, empty database."""
    admin = create_engine(server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with admin.connect() as conn:
        conn.execute(text(f'CREATE DATABASE "{name}"'))
    admin.dispose()
    return server.replace("/postgres?", f"/{name}?")


def _program(name: str) -> str | None:
    """On the path, or where Debian keeps it."""
    kept = sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), reverse=True)
    return shutil.which(name) or next(iter(kept), None)
