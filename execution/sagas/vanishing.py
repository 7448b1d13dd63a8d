"""What is gone, and what only seems so.

A read that lags behind does not know yet what is young: to it that is gone as well. So a step whose effect is that
something is gone believes nobody but the system itself, in its answer to the write, which it takes as done when there
is nothing any more; and whoever needs something that is nowhere to be seen looks again before a person is asked.
"""

from __future__ import annotations

from typing import Final

from execution.core.command import Context
from execution.core.failures import Absent, Foreign, Present, Sighting

_GONE: Final = frozenset({"gone", "deleted"})


def once_told(seen: Sighting, context: Context, *steps: str) -> Sighting:
    """`steps`: under which names the step that looks keeps its receipt. Without one, gone is not done yet."""
    vanished = isinstance(seen, Present) and seen.receipt.data.get("status") in _GONE
    return Absent() if vanished and not context.receipts.keys() & set(steps) else seen


def nowhere(seen: Sighting) -> bool:
    """Not even a trace of it was seen: so does a read that lags behind see what is young."""
    return isinstance(seen, Absent) or (isinstance(seen, Foreign) and seen.code == "gone" and seen.receipt is None)
