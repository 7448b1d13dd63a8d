"""When can no open attempt on a key land any more? The inequality of the protocol, as arithmetic.

Terms, all in seconds:

    B  latest time after the stamp taken before the fence at which the last byte may leave (the send budget)
    P  pause between the check of the clock and the write
    D  bytes in flight or queued until the server has received them
    M  receipt → effect: the server's true maximum run time; no default
    H  the server drops an incomplete request after this long; no default
    S  staleness of reads
    J  error or step of the store's clock

    Q₁ = B + P + D + M + J + S
    Q₂ = H + M + S + J          (the connection was opened before the fence and nothing connects after it)

H known → the larger of both. H unknown → Q₁. M unknown → there is no Q: a person decides, nothing is resent.
An `atomic` system (a transaction in a database that ends with its connection) has no request that outlives the
connection; it still declares its terms, they are only small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

SEND_BUDGET_S: Final = 2.0
"""B and law 5: a request is written within this long of the stamp taken before its fence, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a system declares about how late a request can take effect, each with where the number comes from."""

    max_run_s: float | None = None
    max_run_source: str = ""
    incomplete_s: float | None = None
    incomplete_source: str = ""
    transit_s: float = 60.0
    pause_s: float = 2.0
    stale_s: float = 5.0
    clock_s: float = 2.0
    budget_s: float = SEND_BUDGET_S

    def __post_init__(self) -> None:
        terms = (self.transit_s, self.pause_s, self.stale_s, self.clock_s, self.budget_s)
        optional = tuple(term for term in (self.max_run_s, self.incomplete_s) if term is not None)
        if any(not 0 <= term <= 86_400 for term in terms + optional):
            raise ValueError("a bound is a number of seconds between 0 and 86400")
        if self.max_run_s is not None and not self.max_run_source:
            raise ValueError("max_run_s needs its source: a limit that somebody enforces")
        if self.incomplete_s is not None and not self.incomplete_source:
            raise ValueError("incomplete_s needs its source")

    def quiescent_after_s(self) -> float | None:
        """Q, counted from the fence; None when a term is unknown."""
        if self.max_run_s is None:
            return None
        tail = self.max_run_s + self.clock_s + self.stale_s
        by_transit = self.budget_s + self.pause_s + self.transit_s + tail
        if self.incomplete_s is None:
            return by_transit
        return max(by_transit, self.incomplete_s + tail)

    def terms(self) -> dict[str, Any]:
        """For the attempt's record: everything needed to compute the doubt later, by whatever version."""
        return {
            "B": self.budget_s,
            "P": self.pause_s,
            "D": self.transit_s,
            "M": self.max_run_s,
            "H": self.incomplete_s,
            "S": self.stale_s,
            "J": self.clock_s,
            "M_source": self.max_run_source,
            "H_source": self.incomplete_source,
            "Q": self.quiescent_after_s(),
        }


def seen_after_s(terms: Mapping[str, Any]) -> float:
    """How long after its answer a read shows what landed, by the terms of its attempt; 0 where it has none."""
    return float(terms.get("S", 0.0) + terms.get("J", 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One attempt that is not individually proven unsent, refused or landed.

    fenced_ms: the store's clock at its fence (Unix ms). q_s: its Q, None when unknown. seen_awake_s: how long the
    observing process has been awake since it first saw this doubt (a clock step must not end the wait).
    """

    fenced_ms: int
    q_s: float | None
    seen_awake_s: float


def remaining_s(doubts: Iterable[Doubt], now_ms: int) -> float | None:
    """Seconds until every doubt is quiescent (0 when all are); None when some doubt never is by itself.

    Conclusions use the smallest elapsed of the store's clock and the observer's awake time.
    """
    longest = 0.0
    for doubt in doubts:
        if doubt.q_s is None:
            return None
        elapsed = min((now_ms - doubt.fenced_ms) / 1000.0, doubt.seen_awake_s)
        longest = max(longest, doubt.q_s - elapsed)
    return longest
