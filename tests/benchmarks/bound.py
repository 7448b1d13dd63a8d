"""The bound: the same commits and rows, written by hand.

Plain `sqlite3`, one writer thread, group commit with `executemany`, one hop to the event loop per batch, statements
that set only what changes, no objects. Events are really hashed and fences really read. Nobody would maintain this; it
says what the machine allows. `__main__` checks that it leaves exactly the rows that the product leaves.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from execution.core.events import GENESIS
from execution.store.opening import open_store
from execution.store.rows import COMMAND, EVENT_COLUMNS
from tests.benchmarks import noop
from tests.benchmarks.measure import STEPS, WRITER_THREAD, Measured, measure

BATCH_MAX: Final = 256


def _insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _update(columns: str) -> str:
    sets = ", ".join(f"{name} = ?" for name in columns.split())
    return f"UPDATE commands SET {sets} WHERE command_id = ? AND version = ?"


ATTEMPT_COLUMNS: Final = (
    "attempt_id command_id root_id number idempotency_key resource cause lease_epoch request_digest deadline_s "
    "fenced_at_ms terms quiescent_after_s incarnation settlement sent_late"
)
GRANT_COLUMNS: Final = (
    "root_id iss jti kid sub client_id decision_id tenant details details_hash policy_hash grant_until_ms operator "
    "created_at_ms"
)
USE: Final = (
    "INSERT INTO token_uses (iss, jti, used, max_uses, tenant, first_use_at_ms, last_use_at_ms) VALUES (?,?,1,1,?,?,?)"
)
CLAIM_ROOT: Final = _update(
    "state lease_owner lease_epoch lease_until_ms next_check_at_ms claim_count started_at_ms chain_seq chain_head "
    "version"
)
CLAIM_STEP: Final = _update("state lease_epoch claim_count started_at_ms chain_seq chain_head version")
FENCE_STEP: Final = _update("state attempt_count last_attempt_at_ms chain_seq chain_head version")
BUMP_ROOT: Final = _update("version")
END_STEP: Final = _update(
    "state receipt external_resource_id external_version result_reference verified_at_ms completed_at_ms chain_seq "
    "chain_head version"
)
END_ROOT: Final = _update(
    "state phase lease_owner lease_until_ms next_check_at_ms completed_at_ms chain_seq chain_head version"
)
SETTLE: Final = "UPDATE attempts SET settlement = ?, settled_at_ms = ?, receipt = ? WHERE attempt_id = ?"
COMMANDS: Final = _insert("commands", COMMAND.columns)
EVENTS: Final = _insert("events", EVENT_COLUMNS)
ATTEMPTS: Final = _insert("attempts", tuple(ATTEMPT_COLUMNS.split()))
GRANTS: Final = _insert("grants", tuple(GRANT_COLUMNS.split()))
OUTBOX: Final = "INSERT INTO outbox (topic, root_id) VALUES (?, ?)"
GUARDED: Final = (CLAIM_ROOT, CLAIM_STEP, FENCE_STEP, BUMP_ROOT, END_STEP, END_ROOT)
ORDER: Final = (*GUARDED, COMMANDS, EVENTS, ATTEMPTS, SETTLE, OUTBOX, USE, GRANTS)

Rows = list[tuple[str, tuple[Any, ...]]]
Submitted = tuple[Rows, "asyncio.Future[None]", str]


class Writer:
    """One thread with one connection."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._queue: SimpleQueue[Submitted | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=WRITER_THREAD)
        self._thread.start()

    def commit(self, rows: Rows, fence: str = "") -> asyncio.Future[None]:
        """Write the rows in one transaction with whatever else is waiting; `fence` is a root to judge."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((rows, future, fence))
        return future

    def close(self) -> None:
        """Finish and stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        conn = sqlite3.connect(self._path, isolation_level=None)
        for pragma in ("busy_timeout=30000", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            conn.execute(f"PRAGMA {pragma}")
        while (first := self._queue.get()) is not None:
            batch = [first]
            while len(batch) < BATCH_MAX:
                try:
                    following = self._queue.get_nowait()
                except Empty:
                    break
                if following is None:
                    self._queue.put(None)
                    break
                batch.append(following)
            _write(conn, batch)
            self._loop.call_soon_threadsafe(_tell, [future for _, future, _ in batch])
        conn.close()


def _write(conn: sqlite3.Connection, batch: list[Submitted]) -> None:
    grouped: dict[str, list[tuple[Any, ...]]] = {statement: [] for statement in ORDER}
    for rows, _, _ in batch:
        for statement, values in rows:
            grouped[statement].append(values)
    conn.execute("BEGIN IMMEDIATE")
    _judge(conn, [fence for _, _, fence in batch if fence])
    for statement in ORDER:
        if grouped[statement]:
            changed = conn.executemany(statement, grouped[statement]).rowcount
            assert changed == len(grouped[statement])
    conn.execute("COMMIT")


def _judge(conn: sqlite3.Connection, roots: list[str]) -> None:
    if not roots:
        return
    assert conn.execute("SELECT revision FROM authority WHERE id = 1").fetchone() is not None
    scopes = noop.SCOPES
    marks = ",".join("?" * len(scopes))
    assert not conn.execute(f"SELECT scope FROM restrictions WHERE scope IN ({marks})", scopes).fetchall()
    marks = ",".join("?" * len(roots))
    grants = conn.execute(f"SELECT root_id, grant_until_ms FROM grants WHERE root_id IN ({marks})", roots).fetchall()
    assert len(grants) == len(roots)
    assert all(until > noop.NOW_MS for _, until in grants)


def _tell(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


class _Chains:
    """The chains of one saga."""

    def __init__(self, number: int) -> None:
        self.ids = [f"cmd_{number:020d}_{position}" for position in range(STEPS + 1)]
        self.seq = [0] * (STEPS + 1)
        self.head = [GENESIS] * (STEPS + 1)
        self.version = [1] * (STEPS + 1)

    def event(self, position: int, type_: str, body: dict[str, Any] | None = None, actor: str = "worker-1") -> Any:
        """The next event's row."""
        text = json.dumps(body or {}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        self.seq[position] += 1
        prev, cid, seq = self.head[position], self.ids[position], self.seq[position]
        parts = [p.encode() for p in (prev, cid, str(seq), type_, actor, str(noop.NOW_MS), text)]
        digest = hashlib.sha256(b"".join(b"%d:%b" % (len(p), p) for p in parts)).hexdigest()
        self.head[position] = digest
        return EVENTS, (cid, seq, type_, actor, noop.NOW_MS, text, prev, digest)

    def guarded(self, statement: str, position: int, *values: Any, chained: bool = True) -> Any:
        """A guarded update that raises the version."""
        version = self.version[position]
        self.version[position] = version + 1
        chain = (self.seq[position], self.head[position]) if chained else ()
        return statement, (*values, *chain, version + 1, self.ids[position], version)


async def run(path: Path, *, sagas: int, concurrency: int) -> Measured:
    """Measure on a fresh database."""
    await open_store(path).close()
    writer = Writer(path, asyncio.get_running_loop())

    async def saga(number: int) -> None:
        await _saga(writer, number)

    measured = await measure(saga, sagas=sagas, concurrency=concurrency)
    writer.close()
    return measured


async def _saga(writer: Writer, number: int) -> None:
    chains = _Chains(number)
    await writer.commit(_acceptance(chains, number))
    await writer.commit(_claim(chains))
    for position in range(1, STEPS + 1):
        await writer.commit(_fence(chains, number, position), fence=chains.ids[0])
        await writer.commit(_outcome(chains, position))


def _acceptance(chains: _Chains, number: int) -> Rows:
    key = f"acme:noop:0:blog:article-{number}:v1"
    rows: Rows = [chains.event(0, "COMMAND_RECEIVED", {"key": key, "principal": "agent:bench"}, "gateway")]
    for position in range(1, STEPS + 1):
        body = {"key": f"acme:noop:{position}:blog:article-{number}:v1", "type": f"NOOP_{position}"}
        rows.append(chains.event(position, "PLANNED", body, "gateway"))
    for type_ in ("VALIDATION_STARTED", "COMMAND_AUTHORIZED", "ENQUEUED"):
        rows.append(chains.event(0, type_, None, "gateway"))
    rows += [(COMMANDS, _command(chains, number, position)) for position in range(STEPS + 1)]
    grant = noop.grant(number)
    rows.append((GRANTS, tuple(getattr(grant, name) for name in GRANT_COLUMNS.split())))
    rows.append((USE, (grant.iss, grant.jti, grant.tenant, noop.NOW_MS, noop.NOW_MS)))
    rows.append((OUTBOX, ("run", chains.ids[0])))
    return rows


_TEMPLATES: Final = [COMMAND.values(noop.command(0, position)) for position in range(STEPS + 1)]
_AT: Final = {name: index for index, name in enumerate(COMMAND.columns)}


def _command(chains: _Chains, number: int, position: int) -> tuple[Any, ...]:
    row = list(_TEMPLATES[position])
    root = position == 0
    row[0], row[1], row[2] = chains.ids[position], chains.ids[0], None if root else chains.ids[0]
    row[_AT["object_id"]] = f"article-{number}"
    row[_AT["workflow_id"]] = f"wf_{number}"
    row[_AT["saga_id"]] = f"saga_{number}"
    row[_AT["correlation_id"]] = f"corr-{number}"
    row[_AT["target_resource"]] = "" if root else f"noop/{number}"
    row[_AT["idempotency_key"]] = f"acme:noop:{position}:blog:article-{number}:v1"
    row[_AT["state"]] = "QUEUED" if root else "AUTHORIZED"
    row[_AT["chain_seq"]], row[_AT["chain_head"]] = chains.seq[position], chains.head[position]
    return tuple(row)


def _claim(chains: _Chains) -> Rows:
    rows: Rows = [chains.event(0, "CLAIMED", {"epoch": 1}), chains.event(0, "STARTED")]
    until = noop.NOW_MS + noop.LEASE_MS
    rows.append(chains.guarded(CLAIM_ROOT, 0, "RUNNING", "worker-1", 1, until, until, 1, noop.NOW_MS))
    return rows + _claim_step(chains, 1)


def _claim_step(chains: _Chains, position: int) -> Rows:
    events: Rows = [chains.event(position, "ENQUEUED"), chains.event(position, "CLAIMED", {"epoch": 1})]
    return [*events, chains.guarded(CLAIM_STEP, position, "DISPATCHING", 1, 1, noop.NOW_MS)]


def _fence(chains: _Chains, number: int, position: int) -> Rows:
    cid = chains.ids[position]
    attempt = f"att_{cid}"
    body = {"attempt": attempt, "cause": "FIRST", "digest": noop.DIGEST, "number": 1}
    key = f"acme:noop:{position}:blog:article-{number}:v1"
    names = (attempt, cid, chains.ids[0], 1, key, f"noop/{number}", "FIRST", 1, noop.DIGEST)
    terms = (20.0, noop.NOW_MS, noop.TERMS, 97.0, "inc_bench", "OPEN", False)
    return [
        chains.event(position, "ATTEMPT_STARTED", body),
        chains.event(position, "FENCED", {"epoch": 1}),
        chains.guarded(FENCE_STEP, position, "RUNNING", 1, noop.NOW_MS),
        chains.guarded(BUMP_ROOT, 0, chained=False),
        (ATTEMPTS, (*names, *terms)),
    ]


def _outcome(chains: _Chains, position: int) -> Rows:
    receipt = (noop.RECEIPT_TEXT, "7", "1", noop.URL)
    rows: Rows = [chains.event(position, "RECEIPT_RECORDED", noop.RECEIPT), chains.event(position, "SUCCEEDED")]
    rows.append(chains.guarded(END_STEP, position, "SUCCESS", *receipt, noop.NOW_MS, noop.NOW_MS))
    rows.append((SETTLE, ("LANDED", noop.NOW_MS, noop.RECEIPT_TEXT, f"att_{chains.ids[position]}")))
    if position < STEPS:
        rows.append(chains.guarded(BUMP_ROOT, 0, chained=False))
        return rows + _claim_step(chains, position + 1)
    rows.append(chains.event(0, "PHASE_CHANGED", {"from": "PRE_PIVOT", "to": "COMPLETED"}))
    rows.append(chains.event(0, "SUCCEEDED"))
    rows.append(chains.guarded(END_ROOT, 0, "SUCCESS", "COMPLETED", None, None, None, noop.NOW_MS))
    return rows
