"""Three ways to see one object: as it was approved and last written, as it stands now, as it would be written.

Who has to rule about a change needs the texts. They go where content goes, into the content store under their hashes,
from which they can be erased; a review and the journal name hashes only. People see them through their own tools; no
answer to an agent carries them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from execution.core.decide import Decision
from execution.core.definition import Compare, ThreeWay
from execution.core.failures import Answer, CannotTell, Foreign, Present, Refused, Sighting
from execution.drive import Drive
from execution.opening import ARTIFACT
from execution.ports import Ports
from execution.store import artifacts
from execution.store.connection import Connection
from execution.store.errors import StoreError

TEXT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one text that is kept; a longer one is named as too long."""
FIELDS_MAX: Final = 12
_CHANGED: Final = frozenset({"changed", "draft_changed"})


async def three_ways(drive: Drive, command_id: str, seen: Sighting | Answer | None) -> Mapping[str, Any]:
    """What a review about this step should carry when that was seen; nothing where there is nothing to compare."""
    if not _is_comparable(seen):
        return {}
    compare = drive.action(command_id).compare
    return {} if compare is None else await compared(drive, command_id, compare)


def carrying(decision: Decision, facts: Mapping[str, Any]) -> Decision:
    """The decision with those facts for whoever is asked."""
    return replace(decision, facts=facts) if facts else decision


def _is_comparable(seen: Sighting | Answer | None) -> bool:
    match seen:
        case Foreign(code=code) | Refused(code=code):
            return code in _CHANGED
        case Present(complete=complete):
            return not complete
        case _:
            return False


async def compared(drive: Drive, command_id: str, compare: Compare[Ports]) -> Mapping[str, Any]:
    """The fields in which the three are not all one, each text by its reference. Whatever prevents it only leaves them
    out: no answer of a system waits for it."""
    found = await drive.keeping(drive.env.performer.compare(compare, drive.context(command_id)))
    if isinstance(found, CannotTell):
        return {"three_way": [], "not_compared": found.code}
    fields = [name for name in found.live if len({side.get(name) for side in _sides(found)}) > 1][:FIELDS_MAX]
    try:
        kept = await drive.env.store.transact(lambda conn: _keep(conn, found, fields, drive.env.clock.now_ms()))
    except StoreError:
        return {"three_way": [], "not_compared": "store_error"}
    return {"three_way": kept}


def _sides(found: ThreeWay) -> tuple[Mapping[str, str], ...]:
    return found.baseline, found.live, found.ours


def _keep(conn: Connection, found: ThreeWay, fields: list[str], now_ms: int) -> list[dict[str, str | None]]:
    """Store the texts; what is too long has no reference."""

    def ref(text: str | None) -> str | None:
        content = None if text is None else text.encode()
        if content is None or len(content) > TEXT_BYTES_MAX:
            return None
        put = artifacts.put(conn, content, media_type="text/plain", now_ms=now_ms, bytes_max=TEXT_BYTES_MAX)
        return ARTIFACT + put

    names = ("baseline", "live", "ours")
    return [
        {"field": name, **{side: ref(texts.get(name)) for side, texts in zip(names, _sides(found), strict=True)}}
        for name in fields
    ]
