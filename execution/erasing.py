"""Erasing content: the bytes go, their hash stays, and with it every chain that names it.

What a command that has not ended still needs is not erased. Each command that was about the content says in its journal
who erased it and why; what was published under it elsewhere is not touched.
"""

from __future__ import annotations

from typing import Final

from execution.core.draft import Draft
from execution.core.events import Fact
from execution.operations import REASON_CHARS_MAX, OperationRefused
from execution.ports import Clock
from execution.store import artifacts, registry
from execution.store.connection import Connection
from execution.store.errors import Stale
from execution.store.writer import Store

TRIES: Final = 20
NAMED_MAX: Final = 5


async def erase(store: Store, clock: Clock, sha256: str, *, operator: str, reason: str) -> tuple[str, ...]:
    """Remove the bytes; ids of the commands that were about them. Raises OperationRefused: artifact_missing,
    artifact_erased, artifact_in_use (with who needs it), reason_too_long."""
    if len(reason) > REASON_CHARS_MAX:
        raise OperationRefused("reason_too_long", f"{len(reason)} > {REASON_CHARS_MAX}")
    now_ms = clock.now_ms()

    def remove(conn: Connection) -> tuple[str, ...]:
        roots = registry.mentioning(conn, sha256)
        needed = [root.command_id for root in roots if not root.is_terminal]
        if needed:
            raise OperationRefused("artifact_in_use", f"by {', '.join(needed[:NAMED_MAX])}")
        if not artifacts.erase(conn, sha256, now_ms):
            gone = artifacts.erased_at_ms(conn, sha256) is not None
            raise OperationRefused("artifact_erased" if gone else "artifact_missing")
        return tuple(root.command_id for root in roots)

    concerned = await store.transact(remove)
    for root_id in concerned:
        await _note(store, clock, root_id, operator, {"sha256": sha256, "by": operator, "reason": reason})
    return concerned


async def _note(store: Store, clock: Clock, root_id: str, operator: str, body: dict[str, str]) -> None:
    for _ in range(TRIES):
        saga = await store.hot(lambda conn: registry.load_saga(conn, root_id))
        draft = Draft(saga, actor=operator, now_ms=clock.now_ms())
        draft.note(root_id, Fact.CONTENT_ERASED, body)
        try:
            await store.commit(draft.unit())
        except Stale:
            continue
        return
