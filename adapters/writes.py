"""Prepared writes over one connection: bytes first, connection second, fence third, send last.

Most writes are one request. Some systems make an effect in several: objects that nobody sees are stored first, then one
request makes them count. Such a write goes out in turn on the one connection that was opened before the fence:

* a `Preparation` has no effect of its own. It is content-addressed: sent again it makes the same object. Whatever goes
  wrong with it proves that the effect was not asked for, `Unsent`, unless the system refuses it with a reason.
* the effect comes last and alone. Its bytes are known beforehand too: where an answer decides between a few known
  requests (a system may store a text with or without its last line end), all of them are prepared, one is sent, and the
  digest covers all.

Between two requests the connection may have ended: then nothing follows, because nothing connects after the fence.
`bounds` of such a write say so: its last byte may leave later than that of a single request, and what the system drops
as incomplete may have begun as late as that.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Protocol

from adapters.answers import NoReply, Reply, Unreadable
from execution.core.failures import Answer, FailureClass, Lost, Refused, Unsent
from execution.core.quiescence import Bounds

Judge = Callable[[Reply], Answer]
"""What a complete answer proves; may raise `Unreadable` for one that is none."""
Made = Callable[[Reply], str | Answer]
"""What a preparation made, by name, or why it did not; may raise `Unreadable`."""
ANSWER_S: Final = 30.0
"""How long after a long body the answer is waited for."""
ONLY: Final = ""
"""The name of the effect where there is but one."""


class Planned(Protocol):
    """One request whose bytes are known. `digest` covers method, target and body, and no credentials."""

    @property
    def digest(self) -> str: ...


class Connection(Protocol):
    """Opened before the fence. `idle`: it stands, and nothing has arrived that nobody asked for."""

    @property
    def closed_by_peer(self) -> bool: ...

    @property
    def idle(self) -> bool: ...

    def abortive(self) -> None:
        """From now on closing resets it: what is unsent is dropped."""
        ...

    def graceful(self) -> None:
        """From now on closing finishes it."""
        ...

    async def release(self) -> None: ...


class Opener(Protocol):
    """What opens connections and exchanges on them; `adapters.http.HttpSystem`."""

    async def open(self) -> Connection | Unsent | Refused: ...

    async def exchange(
        self, planned: Planned, connection: Connection, written: Callable[[], None], deadline_s: float, write_s: float
    ) -> Reply | NoReply: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """See the module. `made` names what the answer says was stored, which chooses the effect after the last one."""

    request: Planned
    made: Made


def _nobody_asked() -> None:
    """Nobody asked to be told of writing."""


def _nobody_minds() -> bool:
    """Nobody asked to be asked."""
    return True


def bounds_in_turn(bounds: Bounds, within_s: float) -> Bounds:
    """The bounds of a write in turn whose last request begins at most `within_s` after its fence."""
    incomplete_s = None if bounds.incomplete_s is None else bounds.incomplete_s + within_s
    return replace(bounds, budget_s=within_s, incomplete_s=incomplete_s)


class HttpWrite:
    """One write (`execution.core.definition.Prepared`), sent once, on what `connect` opened or not at all.

    write_s: for a body that is too long to leave at once: its last byte leaves within this of its first, or the
    connection is reset.
    """

    def __init__(
        self,
        system: Opener,
        bounds: Bounds,
        effects: Mapping[str, Planned],
        judge: Judge,
        preparations: tuple[Preparation, ...] = (),
        write_s: float | None = None,
    ) -> None:
        self._write_s = write_s
        self._system, self._bounds, self._judge = system, bounds, judge
        self._effects, self._preparations = MappingProxyType(dict(effects)), preparations
        self._connection: Connection | None = None
        self.written: Callable[[], None] = _nobody_asked
        self.may_write: Callable[[], bool] = _nobody_minds

    @property
    def request_digest(self) -> str:
        digests = [step.request.digest for step in self._preparations]
        digests += [planned.digest for _, planned in sorted(self._effects.items())]
        return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()

    @property
    def bounds(self) -> Bounds:
        known = self._bounds
        return known if self._write_s is None else replace(known, budget_s=known.budget_s + self._write_s)

    async def connect(self) -> Answer | None:
        await self.close()
        opened = await self._system.open()
        if isinstance(opened, Unsent | Refused):
            return opened
        self._connection = opened
        return None

    async def send(self, deadline_s: float) -> Answer:
        connection = self._connection
        if connection is None:
            return Unsent(code="no_connection")
        if connection.closed_by_peer:
            await self.close()
            return Unsent(code="connection_closed")
        longest_s = math.inf if self._write_s is None else self._write_s + ANSWER_S
        until_s = asyncio.get_running_loop().time() + min(deadline_s, longest_s)
        try:
            return await self._in_turn(connection, until_s)
        finally:
            await self.close()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.release()

    async def _in_turn(self, connection: Connection, until_s: float) -> Answer:
        name = ONLY
        for step in self._preparations:
            reply = await self._exchange(step.request, connection, until_s)
            made = _made(step, reply)
            if not isinstance(made, str):
                return made
            if not connection.idle or (isinstance(reply, Reply) and reply.last):
                return Unsent(code="connection_closed")
            if not self.may_write():
                return Unsent(code="send_budget")
            name = made
        effect = self._effects.get(name)
        if effect is None:
            return Refused(failure=FailureClass.PERMANENT, code="prepared_differently")
        return self._judged(await self._exchange(effect, connection, until_s))

    async def _exchange(self, planned: Planned, connection: Connection, until_s: float) -> Reply | NoReply:
        left_s = until_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            return NoReply(code="no_answer_in_time", sent=False)
        connection.abortive()
        write_s = math.inf if self._write_s is None else self._write_s
        reply = await self._system.exchange(planned, connection, self.written, left_s, write_s)
        if isinstance(reply, Reply):
            connection.graceful()
        return reply

    def _judged(self, reply: Reply | NoReply) -> Answer:
        if isinstance(reply, NoReply):
            return Lost(code=reply.code) if reply.sent else Unsent(code=reply.code)
        try:
            return self._judge(reply)
        except Unreadable:
            return Lost(code="unreadable_answer")


def _made(step: Preparation, reply: Reply | NoReply) -> str | Answer:
    """A preparation is in doubt without harm: the effect was not asked for."""
    if isinstance(reply, NoReply):
        return Unsent(code=reply.code)
    try:
        made = step.made(reply)
    except Unreadable:
        return Unsent(code="unreadable_answer")
    return Unsent(code=made.code) if isinstance(made, Lost) else made
