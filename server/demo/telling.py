"""How the story is told: plain lines, with colour only where a person watches, and nothing at all beside JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from execution.core.events import Fact
from execution.core.states import State
from execution.core.transitions import Trigger, move
from server.cli.output import visible

_TOLD: Final = frozenset(
    {
        Fact.TAKEN_OVER,
        Trigger.OUTCOME_LOST,
        Trigger.PROBING,
        Trigger.STILL_UNKNOWN,
        Trigger.FOUND_PRESENT,
        Trigger.SUCCEEDED,
    }
)


class Teller:
    """Prints one line at a time, as it happens."""

    def __init__(self, *, silent: bool) -> None:
        self._console = Console(quiet=silent, highlight=False, soft_wrap=True)
        self._chapters = 0

    def chapter(self, title: str) -> None:
        """The next part."""
        self._chapters += 1
        self._console.print()
        self._line(f"{self._chapters}. {title}", "bold")

    def say(self, text: str, style: str = "") -> None:
        """One thing that happened."""
        self._line(f"   {text}", style)

    def did(self, command: str) -> None:
        """A command that anybody can type."""
        self._line(f"   $ {command}", "cyan")

    def event(self, event: dict[str, Any], state: State) -> None:
        """What the journal says, as far as it belongs to the story."""
        if event["type"] == Fact.OBSERVED:
            self.say(f"{event['step']:24} looked: {event['body']['verdict']}")
        elif event["type"] in _TOLD:
            self.say(f"{event['step']:24} {event['type']:14} -> {state}")

    def _line(self, text: str, style: str) -> None:
        self._console.print(Text(visible(text), style=style))


def replayed(events: Sequence[dict[str, Any]]) -> list[State]:
    """The state of each event's command after it: the journal's triggers through the transition table."""
    states: dict[str, State] = {}
    return [_follow(states, event) for event in events]


def _follow(states: dict[str, State], event: dict[str, Any]) -> State:
    name, kind = event["command_id"], event["type"]
    if name not in states:  # a root is received; its steps are written in AUTHORIZED
        states[name] = State.RECEIVED if kind == Fact.COMMAND_RECEIVED else State.AUTHORIZED
    if kind in Trigger.__members__:
        states[name] = move(states[name], Trigger(kind))
    return states[name]
