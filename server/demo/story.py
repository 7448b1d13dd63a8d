"""The story, told as it happens: the same article, four calls and lost answer, with Remit and without."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from execution.core.events import canonical
from execution.core.states import TERMINAL, State
from execution.core.transitions import Trigger
from server.cli.output import CommandFailed, Exit, Output
from server.demo import sandbox as sandboxes
from server.demo.play import Agent, Play, article, must
from server.demo.processes import PYTHON, Child, Stage
from server.demo.sandbox import Sandbox
from server.demo.scoreboard import EXPECTED, Counts, count, differences, drawn
from server.demo.telling import Teller, replayed
from server.settings import EngineSection

TIME_SCALE: Final = 0.25
CALLS: Final = EXPECTED.calls
ROUNDS_MAX: Final = 20
ENDING_MAX_S: Final = 120.0
FOLLOW_S: Final = 0.5
PIVOT: Final = "PUBLISH_WORDPRESS_POST"
SETTING: Final = f"""
[engine]
# Real systems cannot be hurried, stand-ins can: leases, waits and the sandbox's limits are multiplied by this.
time_scale = {TIME_SCALE}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the story ended, with Remit and without."""

    remit: Counts
    naive: Counts
    command_ids: list[str]
    seconds: float


def tell(keep: Path | None, *, as_json: bool) -> int:
    """Tell it all; 0 when the counts are right."""
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise CommandFailed("home_exists", f"{keep} is there already and not empty.", "Name another with --keep.")
    teller = Teller(silent=as_json)
    with tempfile.TemporaryDirectory(prefix="remit-demo-") as folder:
        home = Path(folder) / "home" if keep is None else keep.absolute()
        try:
            outcome = asyncio.run(_perform(Path(folder), home, teller))
        except asyncio.CancelledError:  # SIGTERM and SIGHUP end the story as Ctrl-C does
            raise KeyboardInterrupt from None
    return conclude(outcome, keep, teller, as_json=as_json)


def conclude(outcome: Outcome, keep: Path | None, teller: Teller, *, as_json: bool, expected: Counts = EXPECTED) -> int:
    """Show the scoreboard and judge it."""
    wrong = differences(outcome.remit, outcome.naive, expected)
    wrong += [] if len(outcome.command_ids) == 1 else [f"commands: {len(outcome.command_ids)} instead of 1"]
    teller.chapter("The scoreboard, counted in the sandboxes' own state")
    for line in drawn(outcome.remit, outcome.naive):
        teller.say(line)
    for line in wrong:
        teller.say(f"WRONG: {line}", "bold red")
    verdict = "As it must be" if not wrong else "Not as it must be"
    teller.say(f"{verdict}, after {outcome.seconds:.0f} s.", "bold red" if wrong else "bold green")
    if keep is not None:
        teller.say(f"The home is kept: remit serve --home {keep}")
    if as_json:
        document = {"ok": not wrong, "differences": wrong, "time_scale": TIME_SCALE, **asdict(outcome)}
        Output(as_json).show(document | {"home": None if keep is None else str(keep.absolute())})
    return Exit.FAILED if wrong else Exit.OK


async def _perform(folder: Path, home: Path, teller: Teller) -> Outcome:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    started_s = loop.time()
    async with Stage(folder) as stage:
        play = Play(stage, home, teller)
        remit, command_ids = await _with_remit(play)
        naive = await _without(play)
    return Outcome(remit=remit, naive=naive, command_ids=command_ids, seconds=round(loop.time() - started_s, 1))


async def _with_remit(play: Play) -> tuple[Counts, list[str]]:
    key = await _make_home(play)
    sandbox = await sandboxes.of_home(play.stage, play.home)
    worker = await play.run("worker")
    play.say(f"the sandbox is process {sandbox.child.process.pid}, the worker is process {worker.process.pid}")
    agent = await _bring_agent(play)
    command_id = await _propose(play, agent, worker)
    await _approve(play, sandbox, command_id, key)
    await _kill(play, sandbox, worker)
    seen = await _ask_again(play, agent, command_id)
    successor = await _recover(play, command_id, seen)
    for child in (successor, agent.host):
        await child.end()  # nothing can happen after this, and now it is counted
    counts = count(len(agent.proposed), (worker, successor), await sandbox.effects())
    await sandbox.child.end()
    return counts, sorted({answer["command_id"] for answer in agent.proposed})


async def _make_home(play: Play) -> str:
    play.teller.chapter("A fresh home, and a sandbox: stand-ins for WordPress, GitHub and a mail relay on this machine")
    play.teller.did("remit init; remit sandbox; remit worker")
    made = await play.remit("init", "--operator", "editor")
    with (play.home / "remit.toml").open("a", encoding="utf-8") as configuration:
        configuration.write(SETTING)
    play.say(f"one line was added to its remit.toml: time_scale = {TIME_SCALE}. Leases and the maximum run times that")
    play.say(f"the sandbox declares and keeps are {TIME_SCALE:.0%} of what they would be.")
    return str(made["operator_key"])


async def _bring_agent(play: Play) -> Agent:
    play.teller.chapter("An agent proposes an article over MCP; all it holds is a short-lived token")
    token = play.home / "tokens" / "writer"
    narrow = ("--site", "blog", "--article", "article-0028", "--ttl", "5m", "--uses", "1")
    play.teller.did(f"remit token issue --agent writer --intent publish {' '.join(narrow)} --out tokens/{token.name}")
    agent = await Agent.started(play, token)
    await play.remit("token", "issue", "--agent", "writer", "--intent", "publish", *narrow, "--out", str(token))
    play.say(f"its file has mode {token.stat().st_mode & 0o777:04o}; the gateway reopens it on every call")
    return agent


async def _propose(play: Play, agent: Agent, worker: Child) -> str:
    accepted = await agent.propose()
    command_id = str(accepted["command_id"])
    play.say(f"call 1: propose_publish -> {command_id}, {accepted['state']}")
    for _ in range(ROUNDS_MAX):
        worker.check()
        status = await agent.status(command_id)
        if status["next_action"] != "wait":
            break
    play.say(f'the draft is made and validated: {status["state"]}. "{status["say_to_user"]}"')
    must(status["state"] == "AWAITING_APPROVAL", f"It should wait for approval, but is {status['state']}.")
    return command_id


async def _approve(play: Play, sandbox: Sandbox, command_id: str, key: str) -> None:
    play.teller.chapter("A person approves one hash, and nothing else")
    shown = await play.remit("approve", command_id, "--show")
    subject, wanted = shown["subject"], shown["content_hash"]
    must(_hash(subject) == wanted, "The hash is not the hash of what is shown.")
    other = _hash({**subject, "title": subject["title"][:-1] + "E"})
    words = ("--operator-key", key, "--home", str(play.home))
    code, answer = await play.stage.command("approve", command_id, "--hash", other, *words)
    play.teller.did(f"remit approve {command_id} --hash {other[:12]}...   (one byte of the title differs)")
    must(code != Exit.OK, "Another hash was approved.")
    play.say(f"refused, exit status {code}: {answer['error']['code']}", "yellow")
    await sandbox.lose_answer_to("POST /wp-json/wp/v2/posts/")
    play.teller.did(f"remit approve {command_id} --hash {wanted[:12]}...")
    approved = await play.remit("approve", command_id, "--hash", wanted, "--operator-key", key)
    play.say(f"approved by {approved['by']}", "green")


def _hash(subject: dict[str, Any]) -> str:
    """What an approver sees as a hash."""
    return hashlib.sha256(canonical(subject).encode()).hexdigest()


async def _kill(play: Play, sandbox: Sandbox, worker: Child) -> None:
    play.teller.chapter("The worker is killed after WordPress has published and before it has answered")
    await sandbox.answer_is_lost()
    await worker.kill()
    public = [post["slug"] for post in (await sandbox.effects())["posts"] if post["status"] == "publish"]
    play.say(f"SIGKILL to process {worker.process.pid}. Live on the site: {', '.join(public) or 'nothing'}", "red")


async def _ask_again(play: Play, agent: Agent, command_id: str) -> int:
    """The agent calls on while nobody works; how many events the journal has then."""
    for number in range(2, CALLS + 1):
        answer = await agent.propose()
        same = "the same command" if answer["command_id"] == command_id else answer["command_id"]
        play.say(f"call {number}: propose_publish -> {same}, deduplicated: {_yes(answer['deduplicated'])}")
    play.teller.did(f"remit status {command_id}")
    status = await play.remit("status", command_id)
    play.say(f'published? {status["answers"]["executed"]}. "{status["say_to_user"]}"', "yellow")
    must(status["answers"]["executed"] == "unknown", "The status claims to know what nobody can know.")
    events = (await play.remit("journal", command_id))["events"]
    last = next(event["type"] for event in reversed(events) if event["step"] == PIVOT)
    play.say(f"the journal's last word about {PIVOT} is {last}, committed before the first byte was sent")
    must(last == Trigger.FENCED, "The worker lived long enough to write down the answer.")
    return len(events)


async def _recover(play: Play, command_id: str, seen: int) -> Child:
    play.teller.chapter("Another worker finds out what happened before it does anything")
    worker = await play.run("worker")
    play.teller.did(f"remit worker; remit journal {command_id}")
    lease_s = EngineSection().lease_s * TIME_SCALE
    play.say(f"process {worker.process.pid} waits until the lease of the dead one ({lease_s:g} s) has lapsed")
    try:
        async with asyncio.timeout(ENDING_MAX_S):
            await _follow(play, command_id, seen, worker)
    except TimeoutError:
        raise worker.failure(f"did not finish within {ENDING_MAX_S:.0f} s") from None
    status = await play.remit("status", command_id)
    play.say(f'"{status["say_to_user"]}" {status.get("url", "")}', "green")
    verified = await play.remit("verify")
    play.say(f"remit verify: {verified['events']} events, every chain is whole: {_yes(verified['ok'])}")
    return worker


async def _follow(play: Play, command_id: str, seen: int, worker: Child) -> None:
    """Tell the journal as it grows, until the command has come to an end."""
    while True:
        worker.check()
        events = (await play.remit("journal", command_id))["events"]
        told = [*zip(events, replayed(events), strict=True)]
        for event, state in told[seen:]:
            play.teller.event(event, state)
        latest = {event["command_id"]: state for event, state in told}
        if latest[command_id] in TERMINAL or State.NEEDS_REVIEW in latest.values():
            return
        seen = len(events)
        await asyncio.sleep(FOLLOW_S)


async def _without(play: Play) -> Counts:
    play.teller.chapter("The same lost answer, and a tool for which a time-out is a failure; nobody even kills it")
    sandbox = await sandboxes.of_its_own(play.stage)
    await sandbox.lose_answer_to("POST /wp-json/wp/v2/posts")
    tools = []
    for number in range(1, CALLS + 1):
        tool = await play.stage.start("naive tool", *PYTHON, "server.demo.naive", str(sandbox.port_file))
        tools.append(tool)
        code, _ = await tool.finished(json.dumps(article()))
        play.say(f"call {number}: {'posted and mailed' if code == 0 else tool.last_words()}")
    counts = count(len(tools), tools, await sandbox.effects())
    await sandbox.child.end()
    return counts


def _yes(value: object) -> str:
    return "yes" if value else "no"
