"""What every part of the story needs: the home with its commands, and the agent with its calls."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from server.cli.output import CommandFailed
from server.demo.processes import PYTHON, Child, Stage
from server.demo.telling import Teller

TITLE: Final = "Publish once"


@dataclass(frozen=True, slots=True)
class Play:
    """One telling."""

    stage: Stage
    home: Path
    teller: Teller

    async def remit(self, *words: str) -> Any:
        """The document of a `remit` command on this home, which must succeed."""
        return await self.stage.remit(*words, "--home", str(self.home))

    async def run(self, *words: str) -> Child:
        """A `remit` process that stays."""
        return await self.stage.start(words[0], *PYTHON, "server", *words, "--home", str(self.home))

    def say(self, text: str, style: str = "") -> None:
        self.teller.say(text, style)


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent's host and its one MCP session; `proposed` are the answers to its proposals."""

    host: Child
    proposed: list[dict[str, Any]]

    @classmethod
    async def started(cls, play: Play, token: Path) -> Agent:
        """A client process, which starts a gateway without a worker."""
        server = ("server", "serve", "--no-worker", "--home", str(play.home), "--token-file", str(token))
        return cls(await play.stage.start("agent", *PYTHON, "server.demo.agent", *PYTHON, *server), [])

    async def propose(self) -> Any:
        """The same proposal each time."""
        answer = await self._call("propose_publish", {**article(), "wait_seconds": 0})
        self.proposed.append(answer)
        return answer

    async def status(self, command_id: str) -> Any:
        """What the agent is told; the gateway waits a little for something to tell."""
        return await self._call("query_command_status", {"command_id": command_id, "wait_seconds": 5})

    async def _call(self, tool: str, arguments: dict[str, Any]) -> Any:
        answer = json.loads(await self.host.ask(json.dumps({"tool": tool, "arguments": arguments})))
        if answer["refused"]:
            raise CommandFailed(answer["answer"]["code"], f"{tool} was refused.", answer["answer"]["fix"])
        return answer["answer"]


def article() -> dict[str, Any]:
    """What is proposed: Markdown with code, a table, emoji and CJK."""
    content = Path(__file__).with_name("article.md").read_text(encoding="utf-8")
    named = {"article_id": "article-0028", "version": 1, "site": "blog", "title": TITLE}
    return {**named, "content": content, "notify": ["team"]}


def must(holds: bool, otherwise: str) -> None:
    """The story is told only as far as it is true."""
    if not holds:
        raise CommandFailed("demo_differs", otherwise, "Run it again with --keep DIR and look at `remit journal`.")
