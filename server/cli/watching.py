"""`watch`: a command, or everything, as it happens; read from the journal by position.

On a terminal one command is a table that is redrawn; elsewhere each event that says something to a person is a line,
with `--json` every event is a JSON document. Of what had happened before only the last is told to people. It ends when
the command has ended or waits for a person, with the exit code of `status` (1 when it ended without success).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console, Group
from rich.live import Live

from server.cli.commands import exit_code, find
from server.cli.options import HomeOption, JsonOption, duration_s, with_installation
from server.cli.output import CommandFailed, Exit, fields, line, table, visible

if TYPE_CHECKING:
    from execution.following import Follower
    from execution.proposal import CommandView
    from execution.store.journal import Entry
    from server.app import Installation

POLL_S: Final = 0.25
EVENTS_SHOWN: Final = 12
_ENDED_WELL: Final = "SUCCESS"


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command("watch")(watch)


def watch(
    command: Annotated[str | None, typer.Argument(help="cmd_…, or an idempotency key.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every command, from now on, until Ctrl-C.")] = False,
    forever: Annotated[bool, typer.Option("--forever", help="Also after it ended or waits for a person.")] = False,
    timeout: Annotated[str | None, typer.Option("--timeout", help="Stop after this long, e.g. 30s.")] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a command until it ended or waits for a person. Exit codes as of `status`; 1: ended without success."""
    if (command is None) != everything:
        raise CommandFailed("usage", "It is not clear what to watch.", "Name a command, or --all.", Exit.USAGE)
    for_s = None if timeout is None else float(duration_s(timeout))
    endless = everything or forever
    try:
        code = _watch(home, command, for_s, endless=endless, as_json=as_json)
    except KeyboardInterrupt:
        code = Exit.OK if endless else Exit.FAILED
    raise typer.Exit(code)


def _watch(home: Path | None, command: str | None, for_s: float | None, *, endless: bool, as_json: bool) -> int:
    async def work(at: Installation) -> int:
        if command is None:
            return await _everything(at, for_s, as_json=as_json)
        return await _one(at, await find(at, command), for_s, endless=endless, as_json=as_json)

    return with_installation(home, work)


async def _everything(at: Installation, for_s: float | None, *, as_json: bool) -> int:
    from execution.following import Follower
    from execution.store import journal

    follower = Follower(at.store, at.clock, after=await at.store.read(journal.last_position))
    until_s = None if for_s is None else at.clock.awake_s() + for_s
    tell = _telling(as_json=as_json, named=True)
    while until_s is None or at.clock.awake_s() < until_s:
        for entry in await follower.take():
            tell(entry)
        await asyncio.sleep(POLL_S)
    return Exit.OK


async def _one(at: Installation, view: CommandView, for_s: float | None, *, endless: bool, as_json: bool) -> int:
    from execution.following import Follower

    command_id = view.command_id
    follower = Follower(at.store, at.clock, root_id=command_id)
    until_s = None if for_s is None else at.clock.awake_s() + for_s
    live = None if as_json or not sys.stdout.isatty() else Live(auto_refresh=False, console=Console(highlight=False))
    recent: deque[Entry] = deque(maxlen=EVENTS_SHOWN)
    tell = _kept(recent) if live is not None else _telling(as_json=as_json, named=False)
    if live is None and not as_json:
        await _catch_up(follower, _kept(recent))
        for entry in recent:
            tell(entry)
    frame: AbstractContextManager[Any] = nullcontext() if live is None else live
    with frame:
        while True:
            view = await find(at, command_id)
            await _catch_up(follower, tell)
            if live is not None:
                live.update(_drawn(view, recent), refresh=True)
            late = until_s is not None and at.clock.awake_s() >= until_s
            if late or (not endless and _rests(view)):
                break
            await asyncio.sleep(POLL_S)
    code = _code(view)
    _tell_end(view, code, as_json=as_json, drawn=live is not None)
    return code


async def _catch_up(follower: Follower, tell: Callable[[Entry], None]) -> None:
    while entries := await follower.take():
        for entry in entries:
            tell(entry)


def _kept(recent: deque[Entry]) -> Callable[[Entry], None]:
    """Keeps the last ones that a person is shown."""
    from server.cli.telling import is_told

    def keep(entry: Entry) -> None:
        if is_told(entry.event):
            recent.append(entry)

    return keep


def _rests(view: CommandView) -> bool:
    """It ended, or nothing goes on before a person acts."""
    return view.done or (view.waiting_for is not None and view.waiting_for.needs_person)


def _code(view: CommandView) -> int:
    code = exit_code(view)
    if code is not Exit.OK:
        return code
    if view.done:
        return Exit.OK if view.state == _ENDED_WELL else Exit.FAILED
    return Exit.APPROVAL if _rests(view) else Exit.OK


def _telling(*, as_json: bool, named: bool) -> Callable[[Entry], None]:
    from server.cli.telling import gist, is_told
    from server.results import moment

    def as_document(entry: Entry) -> None:
        event = entry.event
        document = {
            "position": entry.position,
            "command_id": entry.root_id,
            "step": entry.step,
            "seq": event.seq,
            "type": event.type.value,
            "actor": event.actor,
            "at_ms": event.at_ms,
            "body": json.loads(event.body),
        }
        print(json.dumps(document, ensure_ascii=True), flush=True)

    def as_line(entry: Entry) -> None:
        event = entry.event
        if is_told(event):
            whose = f"{entry.root_id} {entry.step}" if named else entry.step
            told = f"{moment(event.at_ms)} {whose} {event.type.value} {event.actor} {gist(event)}"
            print(visible(told.rstrip()), flush=True)

    return as_document if as_json else as_line


def _tell_end(view: CommandView, code: int, *, as_json: bool, drawn: bool) -> None:
    if as_json:
        end = {"end": True, "command_id": view.command_id, "state": view.state, "done": view.done, "exit": code}
        print(json.dumps(end | {"say": view.say_to_user}), flush=True)
    elif not drawn:
        print(visible(f"{view.state}: {view.say_to_user}"), flush=True)


def _drawn(view: CommandView, recent: deque[Entry]) -> Group:
    from server.cli.telling import gist
    from server.results import moment

    waiting = view.waiting_for
    steps = [(s.name, s.state, s.attempts, s.reference or s.external_resource_id, s.error_code) for s in view.steps]
    events = [(moment(e.event.at_ms), e.step, e.event.type.value, e.event.actor, gist(e.event)) for e in recent]
    head = [
        ("command", view.command_id),
        ("article", f"{view.object_id} v{view.object_version} on {view.site}"),
        ("state", f"{view.state} ({view.phase})" if view.phase else view.state),
        ("waits for", f"{waiting.what} ({waiting.who})" if waiting else None),
    ]
    return Group(
        fields(head),
        line(""),
        table(["step", "state", "attempts", "reference", "error"], steps),
        line(""),
        table(["at", "step", "event", "by", "says"], events),
        line(f"\n{view.say_to_user}", "bold"),
    )
