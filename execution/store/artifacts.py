"""Content by its SHA-256, and names that are bound to one content for good.

Erasing removes bytes and keeps the row: the journal only ever names hashes, so its chains stay whole.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, func, select, update

from execution.store import schema
from execution.store.errors import ArtifactTooLarge, NameTaken
from execution.store.statements import Query, insert_new, of, one

_COLUMNS: Final = tuple(schema.ARTIFACTS.columns.keys())
_A: Final = schema.ARTIFACTS.c
_SHOWN: Final = ("sha256", "content", "size", "media_type", "created_at_ms")
_STORED: Final = Query(select(*(_A[name] for name in _SHOWN)).where(_A.sha256 == bindparam("sha256_")), "sha256_")
_ERASED: Final = Query(select(_A.sha256).where(_A.sha256 == bindparam("sha256_"), _A.content.is_(None)), "sha256_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Stored content. `content` is None once it was erased."""

    sha256: str
    content: bytes | None
    size: int
    media_type: str
    created_at_ms: int


def put(conn: Connection, content: bytes, *, media_type: str, now_ms: int, bytes_max: int) -> str:
    """Store content, once; its SHA-256. Content that was erased is stored again. Raises ArtifactTooLarge."""
    if len(content) > bytes_max:
        raise ArtifactTooLarge(f"{len(content)} bytes exceed {bytes_max}")
    digest = hashlib.sha256(content).hexdigest()
    row = {"sha256": digest, "content": content, "size": len(content), "media_type": media_type}
    values = tuple((row | {"created_at_ms": now_ms}).get(name) for name in _COLUMNS)
    if one(conn, of(conn).insert_artifact, values) != 1 and _ERASED.first(conn, digest) is not None:
        a = schema.ARTIFACTS
        conn.execute(update(a).where(a.c.sha256 == digest).values(content=content, erased_at_ms=None))
    return digest


def get(conn: Connection, sha256: str) -> Artifact | None:
    """The content of that hash, checked against it: ValueError when the stored bytes are others."""
    row = _STORED.first(conn, sha256)
    if row is None:
        return None
    artifact = Artifact(**dict(zip(_SHOWN, row, strict=True)))
    if artifact.content is not None and hashlib.sha256(artifact.content).hexdigest() != sha256:
        raise ValueError(f"artifact {sha256} holds other bytes")
    return artifact


def head(conn: Connection, sha256: str, length: int) -> tuple[int, bytes] | None:
    """Size and first bytes of stored content, without reading the rest; None when there is none (any more)."""
    a = schema.ARTIFACTS.c
    wanted = select(a.size, func.substr(a.content, 1, length)).where(a.sha256 == sha256, a.content.is_not(None))
    row = conn.execute(wanted).first()
    return None if row is None else (row[0], bytes(row[1]))


def bind(conn: Connection, name: str, sha256: str, now_ms: int) -> None:
    """Bind a name (article/0028/v1) to stored content for good. Raises NameTaken when it is bound to another."""
    if not insert_new(conn, schema.ARTIFACT_NAMES, {"name": name, "sha256": sha256, "created_at_ms": now_ms}):
        bound = resolve(conn, name)
        if bound != sha256:
            raise NameTaken(f"{name} is bound to {bound}")


def resolve(conn: Connection, name: str) -> str | None:
    """The SHA-256 that a name is bound to."""
    table = schema.ARTIFACT_NAMES.c
    return conn.execute(select(table.sha256).where(table.name == name)).scalar()


def erase(conn: Connection, sha256: str, now_ms: int) -> bool:
    """Remove the bytes, from the file's free pages too (SQLite overwrites what it frees); False when there are none."""
    a = schema.ARTIFACTS
    if conn.dialect.name == "sqlite":
        conn.exec_driver_sql("PRAGMA secure_delete=ON")
    held = update(a).where(a.c.sha256 == sha256, a.c.content.is_not(None))
    return conn.execute(held.values(content=None, erased_at_ms=now_ms)).rowcount == 1


def erased_at_ms(conn: Connection, sha256: str) -> int | None:
    """When its bytes were removed, None when they were not."""
    return conn.execute(select(_A.erased_at_ms).where(_A.sha256 == sha256)).scalar()
