"""Metrics for Prometheus, on an address of their own: off unless the configuration says so.

They are read from the journal when they are asked for: gauges from what stands there now, counters from what was
written since this process began. One process a journal is enough, whoever works on it. Labels come from closed lists of
our own: no id, no name, no text of anybody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from capabilities.errors import CredentialCode, ScopeCode
from execution.core.events import Fact
from execution.core.states import TERMINAL, State
from execution.core.transitions import Trigger
from execution.ports import Clock
from execution.store.condition import Backlog, wal_bytes
from execution.store.errors import StoreError
from execution.store.happened import Happened, Position, Unfinished, figures, here
from execution.store.writer import Store
from server.errors import KNOWN_CODES, refusal
from server.http_door import Guard, HttpRefused, answering, only

PATH: Final = "/metrics"
OVERDUE_MS: Final = 60_000
OTHER: Final = "other"
"""A name that this release does not know."""
_WAITS_S: Final = (1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400, 259_200)
_DOUBTS_S: Final = (0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 900, 3_600)
_PREVENTED: Final[Mapping[str, str]] = {Trigger.ADOPTED: "first_look", Trigger.FOUND_PRESENT: "reconciliation"}
_TAKEN: Final = (Trigger.LEASE_LOST, Fact.TAKEN_OVER)
_TYPES: Final = frozenset({*Trigger, *Fact})
_CODES: Final = frozenset({*KNOWN_CODES, *CredentialCode, *ScopeCode})

log = logging.getLogger("remit.metrics")


class Metrics:
    """The figures of one journal. `deduplicated`: proposals of this process that were known already."""

    def __init__(self, store: Store, clock: Clock, tenant: str, deduplicated: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self._tenant = tenant
        self._deduplicated = deduplicated
        self._repeated = 0
        self._position: Position | None = None
        self._registry = CollectorRegistry()
        self._gauges = _gauges(self._registry)
        self._found = Histogram(
            "remit_reconcile_seconds",
            "From a lost answer until it was found out.",
            registry=self._registry,
            buckets=_DOUBTS_S,
        )
        self._decided = Histogram(
            "remit_approval_wait_seconds",
            "From the question to a person's answer.",
            registry=self._registry,
            buckets=_WAITS_S,
        )
        self._prevented = self._counter("remit_duplicates_prevented", "Not done again, and who noticed.", "by")
        self._events = self._counter("remit_events", "What was journaled, by type.", "type")
        self._refusals = self._counter("remit_refusals", "Calls that were refused, by code.", "code")
        self._lost = self._counter("remit_leases_lost", "Sagas that another worker took over.")
        for by in ("proposal", *_PREVENTED.values()):
            self._prevented.labels(by)

    async def begin(self) -> None:
        """Count from here. Raises StoreError."""
        self._position = await self._store.read(here)

    async def text(self) -> bytes:
        """Everything, in Prometheus' text format. Raises StoreError."""
        now_ms, position = self._clock.now_ms(), self._position
        assert position is not None, "begun before it is asked"
        read = await self._store.read(lambda conn: figures(conn, self._tenant, position, now_ms - OVERDUE_MS))
        self._position = read.happened.position
        self._count(read.happened)
        self._measure(read.stands, read.unfinished, now_ms)
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _count(self, happened: Happened) -> None:
        for kind, count in happened.events.items():
            self._events.labels(kind if kind in _TYPES else OTHER).inc(count)
        for kind, by in _PREVENTED.items():
            self._prevented.labels(by).inc(happened.events.get(kind, 0))
        repeated = self._deduplicated()
        self._prevented.labels("proposal").inc(repeated - self._repeated)
        self._repeated = repeated
        self._lost.inc(sum(happened.events.get(kind, 0) for kind in _TAKEN))
        for code, count in happened.refusals.items():
            self._refusals.labels(code if code in _CODES else OTHER).inc(count)
        for seconds in happened.doubts_s:
            self._found.observe(seconds)
        for seconds in happened.approvals_s:
            self._decided.observe(seconds)

    def _measure(self, stands: Backlog, open_: Unfinished, now_ms: int) -> None:
        def age_s(since_ms: int | None) -> float:
            return 0.0 if since_ms is None else max(0, now_ms - since_ms) / 1000

        for state in State:
            self._set("remit_commands", stands.states.get(state, 0), state.value)
            if state not in TERMINAL:
                self._set("remit_oldest_seconds", age_s(open_.oldest_ms.get(state)), state.value)
        waiting = {
            "approval": (stands.approvals, stands.oldest_approval_ms),
            "review": (stands.reviews, stands.oldest_review_ms),
            "worker": (stands.overdue, stands.overdue_since_ms),
        }
        for what, (count, since_ms) in waiting.items():
            self._set("remit_waiting", count, what)
            self._set("remit_waiting_seconds", age_s(since_ms), what)
        self._set("remit_steps_in_doubt", open_.in_doubt)
        self._set("remit_attempts_watched", stands.watched)
        self._set("remit_outbox_unsent", stands.unsent)
        self._set("remit_wal_bytes", wal_bytes(self._store.engine))
        self._set("remit_worker_seen_seconds", age_s(stands.clock_high_ms))

    def _set(self, name: str, value: float, *labels: str) -> None:
        gauge = self._gauges[name]
        (gauge.labels(*labels) if labels else gauge).set(value)


def _gauges(registry: CollectorRegistry) -> Mapping[str, Gauge]:
    described: Mapping[str, tuple[str, tuple[str, ...]]] = {
        "remit_commands": ("Commands by state.", ("state",)),
        "remit_oldest_seconds": ("Age of the oldest unfinished command of a state.", ("state",)),
        "remit_waiting": ("What waits: approvals and reviews for people, due sagas for a worker.", ("what",)),
        "remit_waiting_seconds": ("How long the oldest of them has waited.", ("what",)),
        "remit_steps_in_doubt": ("Steps whose outcome is not known.", ()),
        "remit_attempts_watched": ("Attempts that are not individually settled.", ()),
        "remit_outbox_unsent": ("Accepted and not yet announced.", ()),
        "remit_wal_bytes": ("Size of the write-ahead log; 0 where there is none.", ()),
        "remit_worker_seen_seconds": ("Since a worker last showed a sign of life.", ()),
    }
    return {name: Gauge(name, text, labels, registry=registry) for name, (text, labels) in described.items()}


def metrics_app(metrics: Metrics, guard: Guard) -> ASGIApp:
    """`GET /metrics` and nothing else, for the hosts that are allowed."""

    async def answer(request: Request) -> Response:
        await guard(request)
        if request.url.path != PATH:
            raise HttpRefused(404, refusal("not_found"))
        only(request, "GET", "HEAD")
        try:
            return Response(await metrics.text(), media_type=CONTENT_TYPE_LATEST)
        except StoreError as error:
            log.warning("the journal could not be read: %s", error.code)
            raise HttpRefused(503, refusal("unavailable")) from None

    return answering(answer)
