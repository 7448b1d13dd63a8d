"""Power cuts: an installation's life is recorded once, then the power goes at many instants of it, on paper.

The life: `remit init`, a gateway with its worker in one process, an agent that proposes, a person who approves. At each
cut a disk that kept only what it had to (`tests.crash.disk`) is opened with the product's own code and held against
what had been told and sent before the cut.
"""

import asyncio
import bisect
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from execution.core.states import ApprovalState
from execution.store import journal, meta, registry, schema
from execution.store.connection import Connection
from execution.store.errors import StoreError
from execution.store.opening import open_store
from server.config import DATABASE_NAME
from tests.crash.disk import Disk
from tests.crash.recording import Kind, Record, recorded, recorder, records
from tests.desk import Finished
from tests.e2e.world import Home, agent, environment

COMMAND_MAX_S: Final = 120.0
SIDE: Final = DATABASE_NAME + ".incarnation"
CONTENT: Final = "# How to brew coffee\n\n" + "Use fresh water, and not too hot. " * 7_000
"""Long enough that the write-ahead log is copied into the database several times."""
WRITE: Final = re.compile(rb"(?:POST|PUT|PATCH|DELETE) |MAIL FROM:", re.IGNORECASE)
HTTP: Final = re.compile(rb"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/1\.1\r\n(?P<head>.*?)\r\n\r\n", re.DOTALL)
LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
NAMING: Final = (Kind.CREATED, Kind.RENAMED, Kind.UNLINKED, Kind.RESIZED)
MEMORY: Final = Path("/dev/shm")
IN_PROCESS: Final = ("remit", "database", "monitoring")
"""Target systems whose writes leave by no socket here: gates, and the table, which is a file."""


@dataclass(frozen=True, slots=True)
class RecordedHome(Home):
    """Every command runs under the recorder. `program`: what is run in the place of `python -m server`."""

    library: Path = Path()
    program: tuple[str, ...] = ("-m", "server")

    @property
    def record(self) -> Path:
        return self.path.parent.with_name("record")

    @property
    def extra(self) -> dict[str, str]:
        return dict(recorded(self.library, self.path.parent, self.record))

    def remit(self, *arguments: str, as_json: bool = True) -> Finished:
        words = [sys.executable, *self.program, *arguments, "--home", str(self.path), *(["--json"] if as_json else [])]
        ended = subprocess.run(
            words, env=environment(**self.extra), capture_output=True, text=True, timeout=COMMAND_MAX_S, check=False
        )
        return Finished(ended.returncode, ended.stdout, ended.stderr)

    def serving(self, *options: str) -> list[str]:
        token = ("--token-file", str(self.token))
        return [sys.executable, *self.program, "serve", "--home", str(self.path), *token, *options]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Told at that record: the command is accepted; ended; approved."""

    at: int
    command_id: str
    ended: bool = False
    approved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What was recorded, and what is read from it. sent: the record at which a request with that digest began to leave.
    writes: the records at which a connection began to carry a write."""

    home: Path
    records: Sequence[Record]
    events: tuple[str, ...]
    accepted: dict[str, tuple[int, int]]
    promises: tuple[Promise, ...]
    sent: tuple[tuple[int, str], ...]
    writes: tuple[int, ...]

    @property
    def begin(self) -> int:
        """The first record after which something was promised."""
        return min(promise.at for promise in self.promises)


def scratch() -> Path | None:
    """Where what cuts leave is written: in memory where that is to be had, for it needs no disk any more."""
    return MEMORY if os.access(MEMORY, os.W_OK) else None


async def lived(folder: Path, program: tuple[str, ...] = ("-m", "server"), proposals: int = 3) -> Life:
    """Record a life: so many proposals, the first of them published."""
    world = folder / "world"
    world.mkdir(parents=True)
    home = RecordedHome(world / "home", library=recorder(folder), program=program)
    assert (await asyncio.to_thread(home.remit, "init", "--operator", "olivia")).code == 0
    await asyncio.to_thread(home.issue, "--uses", "9", "--open", "9")
    async with agent(home, extra=home.extra) as writer:
        first = (await writer.propose(content=CONTENT, notify=["team"], wait_seconds=0))["command_id"]
        await writer.settled(first)
        others = [
            (await writer.propose(article_id=f"article-{number}", content=f"{CONTENT}{number}", wait_seconds=0))
            for number in range(1, proposals)
        ]
        assert (await asyncio.to_thread(home.approve, first)).code == 0
        for proposed in ({"command_id": first}, *others):
            await writer.settled(proposed["command_id"])
    return await read(home)


async def read(home: RecordedHome) -> Life:
    """The record, and the journal at the end of that life."""
    held = list(records(home.record))
    _faithful(home.path, held)
    store = open_store(home.path / DATABASE_NAME)
    try:
        events = await store.read(_events)
        accepted = await store.read(_accepted)
        digests = await store.read(lambda conn: {str(row[0]) for row in conn.execute(sa.select(A.c.request_digest))})
    finally:
        await store.close()
    return Life(
        home=home.path,
        records=held,
        events=events,
        accepted=accepted,
        promises=tuple(_promises(held)),
        sent=tuple((at, digest) for at, digest in _requests(held) if digest in digests),
        writes=tuple(_writes(held)),
    )


A: Final = schema.ATTEMPTS
C: Final = schema.COMMANDS


def _events(conn: Connection) -> tuple[str, ...]:
    last = journal.last_position(conn)
    return tuple(leaf.hash for leaf in journal.hashes(conn, 0, journal.count(conn), last))


def _accepted(conn: Connection) -> dict[str, tuple[int, int]]:
    """Of each root: how many events the journal had when it was accepted, and how many rows it had then."""
    found: dict[str, tuple[int, int]] = {}
    for number, entry in enumerate(journal.entries(conn, 0, journal.count(conn)), start=1):
        _, rows = found.get(entry.root_id, (0, 0))
        root = registry.find(conn, entry.root_id)
        if root is not None and entry.event.seq == 1 and entry.event.at_ms == root.created_at_ms:
            found[entry.root_id] = number, rows + (entry.event.command_id != entry.root_id)
    return found


def _faithful(home: Path, held: Sequence[Record]) -> None:
    """The record, played back, gives the very files: nothing was done to them that was not seen."""
    disk = Disk(str(home.parent))
    for record in held:
        disk.take(record)
    for name in (DATABASE_NAME, SIDE):
        assert disk.now(home / name) == (home / name).read_bytes(), f"{name} was written unseen"


def _promises(held: Sequence[Record]) -> Iterator[Promise]:
    """Lines of JSON-RPC from the gateway, documents from commands."""
    said: dict[int, str] = {}
    for at, record in enumerate(held):
        if record.kind is not Kind.SAID:
            continue
        text = said.get(record.pid, "") + record.data.decode()
        with suppress(ValueError):
            document = json.loads(text)
            said[record.pid], text = "", ""
            yield from _promised(at, document)
        said[record.pid] = text


def _promised(at: int, document: Any) -> Iterator[Promise]:
    result = document.get("result", {})
    told = result.get("structuredContent") if isinstance(result, dict) else None
    if isinstance(told, dict) and "command_id" in told:
        yield Promise(at=at, command_id=told["command_id"], ended=bool(told["done"]))
    elif "approved" in document:
        yield Promise(at=at, command_id=document["command_id"], approved=True)


def _requests(held: Sequence[Record]) -> Iterator[tuple[int, str]]:
    """Whole HTTP requests that left: at which record their first byte did, and the digest that an attempt of one such
    request has (`adapters.http`)."""
    streams: dict[int, tuple[int, bytes]] = {}
    for at, record in enumerate(held):
        if record.kind is not Kind.SENT:
            continue
        begun, before = streams.pop(record.inode, (at, b""))
        text = before + record.data
        found = HTTP.match(text)
        if found is None:
            continue
        length = LENGTH.search(found["head"])
        body = text[found.end() :]
        if len(body) < (0 if length is None else int(length[1])):
            streams[record.inode] = begun, text
            continue
        yield begun, hashlib.sha256(b"%b %b\n%b" % (found["method"], found["path"], body)).hexdigest()


def _writes(held: Sequence[Record]) -> Iterator[int]:
    seen: set[int] = set()
    for at, record in enumerate(held):
        if record.kind is Kind.SENT and record.inode not in seen and WRITE.match(record.data):
            seen.add(record.inode)
            yield at


@dataclass(slots=True)
class Cuts:
    """What many cuts showed."""

    made: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return f"{self.made} power cuts, {len(self.wrong)} findings"


async def cut(life: Life, folder: Path, count: int, seed: int) -> Cuts:
    """The power goes at that many instants, many of them soon after something was told, left or named."""
    chance = random.Random(seed)
    last = len(life.records)
    told = [promise.at for promise in life.promises] + list(life.writes)
    named = [at for at in range(life.begin, last) if life.records[at].kind in NAMING]
    whenever = range(life.begin, last)
    instants = sorted(
        min(chance.choice(chance.choice((told, named, whenever))) + chance.randint(1, 9), last) for _ in range(count)
    )
    disk, found, fed = Disk(str(life.home.parent)), Cuts(), 0
    for number, at in enumerate(instants):
        for record in life.records[fed:at]:
            disk.take(record)
        fed = max(fed, at)
        left = folder / f"cut{number}"
        disk.cut(seed * count + number, left)
        wrong = await _judged(life, at, left / life.home.name)
        found.made += 1
        found.wrong += [f"power cut after record {at}, seed {seed * count + number}: {each}" for each in wrong]
        shutil.rmtree(left, ignore_errors=True)
    return found


async def _judged(life: Life, at: int, home: Path) -> list[str]:
    """What is wrong with what is left, in words."""
    database = home / DATABASE_NAME
    if not database.exists():
        return ["the database is gone"]
    _same_disk(database)
    try:
        store = open_store(database)
    except StoreError as error:
        return [f"it does not open: {error}"]
    try:
        found = ["the journal counts as put back"] if await meta.has_changed(store) else []
        return found + await store.hot(lambda conn: _wrong(life, at, conn))
    except StoreError as error:
        return [f"it cannot be read: {error}"]
    finally:
        await store.close()


def _same_disk(database: Path) -> None:
    """A power cut leaves a file's number and its time of change: the copy has others, so its note gets those."""
    side = database.with_name(SIDE)
    if side.exists():
        with suppress(ValueError):
            noted = json.loads(side.read_bytes())
            noted["inode"] = database.stat().st_ino
            side.write_text(json.dumps(noted))
            noted["written_ms"] = side.stat().st_mtime_ns // 1_000_000
            side.write_text(json.dumps(noted))


def _wrong(life: Life, at: int, conn: Connection) -> list[str]:
    events = _events(conn)
    found = [f"{each.command_id} {each.kind}" for batch in journal.verify_all(conn) for each in batch.findings]
    if events != life.events[: len(events)]:
        found.append("the journal tells another story")
    for promise in life.promises:
        if promise.at < at:
            found += _broken(life, promise, len(events), conn)
    digests = {str(row[0]) for row in conn.execute(sa.select(A.c.request_digest))}
    found += [
        f"{digest} left and no attempt says so" for began, digest in life.sent if began < at and digest not in digests
    ]
    known = sa.select(sa.func.count()).select_from(A.join(C, A.c.command_id == C.c.command_id))
    attempts = conn.execute(known.where(C.c.target_system.not_in(IN_PROCESS))).scalar_one()
    writes = bisect.bisect_left(life.writes, at)
    if writes > attempts:
        found.append(f"{writes} writes left and {attempts} attempts are on record")
    return found


def _broken(life: Life, promise: Promise, events: int, conn: Connection) -> list[str]:
    command = registry.find(conn, promise.command_id)
    if command is None:
        return [f"{promise.command_id} was acknowledged and is lost"]
    saga = registry.load_saga(conn, promise.command_id)
    needed, rows = life.accepted[promise.command_id]
    found = []
    if events < needed or len(saga.members) < rows:
        found.append(f"{promise.command_id} was acknowledged and is not whole")
    if promise.ended and not command.is_terminal:
        found.append(f"{promise.command_id} was said to have ended and is {command.state}")
    if promise.approved and not any(each.state is not ApprovalState.PENDING for each in saga.approvals):
        found.append(f"{promise.command_id} was approved and the approval is lost")
    return found
