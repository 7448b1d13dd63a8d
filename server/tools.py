"""The two tools, between wire and domain.

A tool call is: look for leaked credentials → check the arguments → the gateway → answer. Acceptance runs in a task of
its own that a client's time-out cannot cancel; waiting afterwards can be cancelled at any time and changes nothing.
Nothing here knows MCP: a result is a `Result` model and whether it is a refusal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from execution.ports import Clock, Ids
from execution.proposal import Accepted, CommandView
from execution.store.errors import StoreError
from server.arguments import ProposePublish, QueryCommandStatus, input_schema, parse
from server.callers import Caller
from server.errors import GatewayRefused, refusal, refused
from server.fitting import fit
from server.gateway import Admitted, Gateway
from server.results import (
    CommandList,
    CommandStatus,
    Preview,
    Result,
    listing,
    output_schema,
    problem,
    status,
)

POLL_FIRST_S: Final = 0.05
POLL_MAX_S: Final = 0.5
PEOPLE_END: Final = frozenset({"tell_user", "stop", "fix_input"})

INSTRUCTIONS: Final = """\
Remit lets you propose that an article is published. You cannot publish yourself: Remit checks, records and carries it \
out, and a person approves it.
1. Call propose_publish with the whole article. It is safe to call again with the same values: nothing happens twice.
2. Tell the user what `say_to_user` says. Never say that something is published unless `live` is true.
3. Follow `next_action`: wait = call query_command_status after `next_poll_after_s` seconds; tell_user = tell the user \
and end; stop = do nothing more; fix_input = correct the values and propose the next version number.
A person approves outside of this chat; you cannot. If an answer is lost or late, ask for the status instead of \
guessing. Never write tokens or passwords into arguments."""

log = logging.getLogger("remit.tools")


class Previewer(Protocol):
    """What would happen to an admitted proposal. Raises GatewayRefused."""

    async def preview(self, admitted: Admitted) -> Preview: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool answers: one model, and whether it is a refusal."""

    result: Result
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call. `envelope`: everything that came with it, arguments included, where no token may stand."""

    name: str
    arguments: Mapping[str, Any]
    caller: Caller
    envelope: Mapping[str, Any]
    trace_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolText:
    """A tool as it is listed."""

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    read_only: bool
    idempotent: bool


PROPOSE: Final = ToolText(
    name="propose_publish",
    title="Propose to publish an article",
    description=(
        "Propose that one version of an article is published on a site. The proposal is recorded on disk before this "
        "answers; the work, and a person's approval, come after it. Calling again with the same values returns the "
        "same command and never publishes twice, so after a time-out just call again. A changed text needs the next "
        "version.\n"
        'Example: {"article_id": "article-0028", "version": 1, "site": "blog", "title": "How to brew coffee", '
        '"content": "# How to brew coffee\\n\\nUse fresh water."}\n'
        "With preview=true it shows the plan and accepts nothing."
    ),
    input_schema=input_schema(ProposePublish),
    output_schema=output_schema(CommandStatus, Preview),
    read_only=False,
    idempotent=True,
)
QUERY: Final = ToolText(
    name="query_command_status",
    title="Ask what happened to a proposal",
    description=(
        "Tell what is known about a command: what has happened for sure, what is unknown, what remains, who is waited "
        "for, and what to tell the user. It reads the record and changes nothing. Without an id it lists the last "
        "ten commands that you may ask about.\n"
        'Example: {"command_id": "cmd_01kb9zq3m4n5p6q7r8s9t0v1w2", "wait_seconds": 10}'
    ),
    input_schema=input_schema(QueryCommandStatus),
    output_schema=output_schema(CommandStatus, CommandList),
    read_only=True,
    idempotent=True,
)


class Tools:
    """The tools of one gateway. `accepting` holds acceptances under way, so that a clean end can wait for them; `stop`
    ends all waiting: who waits is answered with what is known then."""

    def __init__(
        self, *, gateway: Gateway, previewer: Previewer, clock: Clock, ids: Ids, stop: asyncio.Event | None = None
    ) -> None:
        self.gateway = gateway
        self.deduplicated = 0
        self._previewer = previewer
        self._clock = clock
        self._ids = ids
        self._stop = stop or asyncio.Event()
        self._accepting: set[asyncio.Task[Accepted]] = set()
        self._handlers: dict[str, Callable[[Call], Awaitable[Result]]] = {
            PROPOSE.name: self._propose,
            QUERY.name: self._query,
        }

    @property
    def texts(self) -> tuple[ToolText, ...]:
        """The tools that are offered."""
        return (PROPOSE, QUERY)

    async def call(self, call: Call) -> Answer:
        """Run a tool. Every refusal is an answer."""
        try:
            handler = self._handlers.get(call.name)
            if handler is None:
                raise refused("unknown_tool")
            await self.gateway.inspect(call.name, call.envelope)
            return Answer(result=await handler(call))
        except GatewayRefused as error:
            return Answer(result=problem(error.refusal), refused=True)
        except StoreError as error:
            log.error("a call of %s met the store: %s", call.name, error.code)
            return Answer(result=problem(refusal("unavailable")), refused=True)

    async def drained(self) -> None:
        """Wait until no acceptance is under way."""
        if self._accepting:
            await asyncio.wait(self._accepting)

    async def _propose(self, call: Call) -> Result:
        arguments = parse(ProposePublish, call.arguments)
        admitted = await self.gateway.admit(arguments, call.caller, self._ids.new("req"), call.trace_id)
        if arguments.preview:
            return await self._previewer.preview(admitted)
        accepted = await self._accept(admitted)
        self.deduplicated += accepted.deduplicated
        view = await self._settle(await self.gateway.own(accepted), arguments.wait_seconds)
        answer = status(view, deduplicated=accepted.deduplicated, original_ms=accepted.original_at_ms)
        return fit(answer, detailed=False)

    async def _query(self, call: Call) -> Result:
        arguments = parse(QueryCommandStatus, call.arguments)
        if arguments.command_id is not None and arguments.idempotency_key is not None:
            fix = "Give one of command_id and idempotency_key, or neither for a list."
            raise GatewayRefused(refusal("invalid_argument", field="idempotency_key", fix=fix))
        if arguments.command_id is None and arguments.idempotency_key is None:
            return listing(await self.gateway.latest(call.caller))
        view = await self._settle(await self.gateway.command(arguments, call.caller), arguments.wait_seconds)
        detailed = arguments.detail == "detailed"
        return fit(status(view, detailed=detailed, page=int(arguments.cursor or "0")), detailed=detailed)

    async def _accept(self, admitted: Admitted) -> Accepted:
        task = asyncio.create_task(self.gateway.accept(admitted), name="acceptance")
        self._accepting.add(task)
        task.add_done_callback(self._accepted)
        return await asyncio.shield(task)

    def _accepted(self, task: asyncio.Task[Accepted]) -> None:
        self._accepting.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("acceptance ended with %s", type(task.exception()).__name__)

    async def _settle(self, view: CommandView, wait_s: int) -> CommandView:
        """Look again until nothing can change without a person, or the time is over."""
        deadline_s, pause_s = self._clock.awake_s() + wait_s, POLL_FIRST_S
        while not settled(view) and (left_s := deadline_s - self._clock.awake_s()) > 0 and not self._stop.is_set():
            await self._pause(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, POLL_MAX_S)
            view = await self.gateway.refreshed(view)
        return view

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return


def settled(view: CommandView) -> bool:
    """Whether waiting is of no use: it has ended, or only a person can move it."""
    return view.done or view.next_action in PEOPLE_END
