"""An agent at the real tools of a real installation: every answer it gets is judged and recorded.

Gateway, intake, status reader, engine, adapters and sandbox are those of the product; only the machine's clock can be
moved on. `look` asks in every way there is and records one row; whatever else the agent calls is judged as well.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from execution.core.definition import Prepared
from execution.core.failures import Answer as Outcome
from execution.performer import Performer
from server.callers import Caller
from server.errors import refused
from server.gateway import Gateway
from server.preview import PlanPreview
from server.records import StoreRecords
from server.results import CommandLine, CommandList, CommandStatus, Preview, Problem, Result, text
from server.tools import Call, Tools
from tests.evals.judging import Outside, judge, judge_line, judge_preview, judge_refusal, tokens
from tests.integration.honesty import Reality
from tests.integration.world import CONTENT, CountedIds, Process, World, person
from tests.security import forge

DAY_S: Final = 86_400
ARTICLE: Final = "article-0028"
MIB: Final = 1_048_576
IMPATIENT_CALLS: Final = 2
OTHER: Final = {"sub": "agent:editor", "client_id": "mcp-host:other", "jti": forge.JTI[:-1] + "3"}
"""Another agent, under a decision of its own."""
OTHER_DECISION: Final = forge.DEC[:-1] + "8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One recorded answer (the concise one), the sizes of both, and everything wrong with either."""

    situation: str
    point: str
    state: str
    live: bool | None
    done: bool | None
    next_action: str
    concise: int
    detailed: int | None
    says: str
    wrong: tuple[str, ...]


@dataclass
class Play:
    """One installation and who calls it."""

    world: World
    situation: str
    rows: list[Row] = field(default_factory=list)
    public: set[str] = field(default_factory=set)
    taken_ms: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first, clock = self.world.first, self.world.clock
        gateway = Gateway(
            verifier=forge.verifier(),
            proposals=first.intake,
            statuses=first.status,
            records=StoreRecords(first.store, clock),
            clock=clock,
            lists=frozenset(self.world.publish.lists),
            sites=frozenset(self.world.publish.sites),
        )
        self.tools = Tools(
            gateway=gateway,
            previewer=PlanPreview(first.intake, first.worker.env.catalog),
            clock=clock,
            ids=CountedIds(),
        )

    # -- who calls --------------------------------------------------------------------------------------------------

    def token(self, *, repeat: bool = False, until_s: int | None = None, **changes: Any) -> str:
        """A token of an agent that may propose on both sites and ask about its decision's commands."""
        now_s = self._now_s()
        publish = self._publishing("site/blog/*", "site/shop/*", repeat=repeat, until_s=until_s)
        decision = changes.get("dec", forge.DEC)
        query = forge.query_detail(resources=[f"command/by-dec/{decision}"], limits={"max_uses": 10_000})
        times = {"iat": now_s, "nbf": now_s, "exp": now_s + 840}
        return forge.token(forge.claims(**{**times, "authorization_details": [publish, query], **changes}))

    def caller(self, **changes: Any) -> Caller:
        return self.bearing(self.token(**changes))

    def at_any_site(self) -> Caller:
        """A token for sites that there are not."""
        return self.caller(authorization_details=[self._publishing("site/elsewhere/*"), forge.query_detail()])

    def other(self) -> Caller:
        """Another agent."""
        return self.caller(**OTHER, dec=OTHER_DECISION)

    def bearing(self, raw: str) -> Caller:
        return lambda: forge.verifier().verify(raw, self._now_s())

    def _publishing(self, *sites: str, repeat: bool = False, until_s: int | None = None) -> forge.JsonObject:
        return forge.detail(
            resources=list(sites),
            limits={"max_uses": 100, "max_bytes": MIB, "max_open_commands": 50},
            constraints={
                "approval": "human:1",
                "effect_not_after": until_s or self._now_s() + 6 * DAY_S,
                "repeat": repeat,
            },
        )

    def _now_s(self) -> int:
        return self.world.clock.now_ms() // 1000

    @staticmethod
    def nobody() -> Any:
        raise refused("no_token")

    def at(self, process: Process) -> "Play":
        """The same agent at another process's gateway; what it records stands here."""
        there = replace(self.world, first=process)
        return Play(there, self.situation, self.rows, self.public, self.taken_ms)

    # -- calling ----------------------------------------------------------------------------------------------------

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller | None = None) -> Result:
        answer = await self.tools.call(
            Call(name=name, arguments=arguments, caller=caller or self.caller(), envelope=arguments)
        )
        assert answer.refused == isinstance(answer.result, Problem), answer
        return answer.result

    async def propose(self, caller: Caller | None = None, **arguments: Any) -> Result:
        """What the tool answers to a proposal of the usual article."""
        given = {"article_id": ARTICLE, "version": 1, "site": "blog", "title": "How to brew coffee"}
        body = {} if "payload_ref" in arguments else {"content": CONTENT}
        return await self.call(
            "propose_publish", {**given, **body, "notify": ["team"], "wait_seconds": 0, **arguments}, caller
        )

    async def proposed(self, caller: Caller | None = None, **arguments: Any) -> str:
        """The id of the command that a proposal becomes; its answer is recorded."""
        before = self.world.reality()
        answer = await self.propose(caller, **arguments)
        assert isinstance(answer, CommandStatus), answer
        await self.record("answer to the proposal", answer, before)
        return answer.command_id

    async def until_approval(self, **arguments: Any) -> str:
        command_id = await self.proposed(**arguments)
        assert (await self.world.settle(command_id)).state == "AWAITING_APPROVAL"
        return command_id

    async def published(self, **arguments: Any) -> str:
        command_id = await self.until_approval(**arguments)
        await self.world.approve(command_id)
        await self.world.settle(command_id)
        return command_id

    # -- recording ----------------------------------------------------------------------------------------------------

    async def look(self, command_id: str, point: str, **expected: Any) -> CommandStatus:
        """Ask concisely, in detail and for the list, and record it. `expected`: fields of the concise answer."""
        before = self.world.reality()
        concise = await self.call("query_command_status", {"command_id": command_id})
        assert isinstance(concise, CommandStatus), concise
        detailed = await self.call("query_command_status", {"command_id": command_id, "detail": "detailed"})
        assert isinstance(detailed, CommandStatus), detailed
        listed = await self.call("query_command_status", {})
        assert isinstance(listed, CommandList), listed
        lines = [line for line in listed.commands if line.command_id == command_id]
        wrong = [f"{n}: {getattr(concise, n)}, not {v}" for n, v in expected.items() if getattr(concise, n) != v]
        await self.record(point, concise, before, detailed, lines, [*wrong, *await self._impatient(concise)])
        return concise

    async def _impatient(self, first: CommandStatus) -> list[str]:
        """Asking again before the hint gets the same answer, byte for byte, while nothing was written in between."""
        before = (await self.world.saga(first.command_id)).root.version
        answers = [
            await self.call("query_command_status", {"command_id": first.command_id}) for _ in range(IMPATIENT_CALLS)
        ]
        if (await self.world.saga(first.command_id)).root.version != before:
            return []
        return ["asked again before the hint, and told otherwise"] * (len(set(map(text, answers))) > 1)

    async def record(
        self,
        point: str,
        concise: CommandStatus,
        before: Reality,
        detailed: CommandStatus | None = None,
        lines: list[CommandLine] | None = None,
        wrong: list[str] | None = None,
        *,
        detailed_only: bool = False,
    ) -> None:
        """Judge and record an answer about one command; `before` was counted before it was asked."""
        outside = await self.outside(concise.command_id, before)
        found = [*(wrong or []), *judge(concise, outside, detailed=detailed_only)]
        if detailed is not None:
            found += [f"detailed: {fault}" for fault in judge(detailed, outside, detailed=True)]
        for line in lines or []:
            found += judge_line(line, outside)
        self.rows.append(
            Row(
                situation=self.situation,
                point=point,
                state=concise.state,
                live=concise.live,
                done=concise.done,
                next_action=concise.next_action,
                concise=0 if detailed_only else tokens(concise),
                detailed=None if detailed is None else tokens(detailed),
                says=concise.say_to_user,
                wrong=tuple(dict.fromkeys(found)),
            )
        )

    @staticmethod
    def status(answer: Result) -> CommandStatus:
        assert isinstance(answer, CommandStatus), answer
        return answer

    async def outside(self, command_id: str, before: Reality) -> Outside:
        """What is really there, and what was there before the agent asked."""
        saga, after = await self.world.saga(command_id), self.world.reality()
        if before.shows(saga) or after.shows(saga):
            self.public.add(command_id)
        public = command_id in self.public
        return Outside(saga=saga, before=before, after=after, public=public, taken_ms=self.taken_ms.get(command_id))

    def note(self, point: str, answer: Result, **expected: Any) -> None:
        """Judge and record an answer that is not about one command's standing: a refusal, a preview, a list."""
        wrong = [f"{n}: {getattr(answer, n, None)}, not {v}" for n, v in expected.items() if getattr(answer, n) != v]
        match answer:
            case Problem():
                word, said, found = answer.code, answer.fix, judge_refusal(answer)
            case Preview():
                word, said, found = "(preview)", answer.say_to_user, judge_preview(answer)
            case _:
                word, said, found = "(list)", "", []
        self.rows.append(
            Row(
                situation=self.situation,
                point=point,
                state=word,
                live=None,
                done=None,
                next_action="retry" if isinstance(answer, Problem) and answer.retryable else "-",
                concise=tokens(answer),
                detailed=None,
                says=said,
                wrong=(*wrong, *found),
            )
        )

    # -- what happens meanwhile ---------------------------------------------------------------------------------------

    def looking(self, command_id: str, point: str, **expected: Any) -> Callable[[], Awaitable[None]]:
        """A hook that asks at that very moment."""

        async def hook() -> None:
            await self.look(command_id, point, **expected)

        return hook

    async def taken(self, command_id: str, **fields: Any) -> None:
        """A person changes in the site what is public there, or throws it away (no fields)."""
        assert self.world.reality().shows(await self.world.saga(command_id)), "it must have been public"
        self.public.add(command_id)
        draft = await self.world.step(command_id, "CREATE_WORDPRESS_DRAFT")
        self.taken_ms[command_id] = self.world.clock.now_ms()
        method = "POST" if fields else "DELETE"
        await person(self.world.sandbox.url, int(draft.external_resource_id or "0"), fields, method)

    def hurry(self, deadline_s: float) -> None:
        """From now on writes are given up after that long, whatever the system does with them."""

        class Hurried(Performer):
            async def send(self, prepared: Prepared, _: float) -> Outcome:
                return await Performer.send(self, prepared, deadline_s)

        env = self.world.first.worker.env
        performer = Hurried(ports=env.performer.ports, observe_deadline_s=env.performer.observe_deadline_s)
        self.world.first.worker.env = replace(env, performer=performer)

    async def turns(self, command_id: str, count: int = 3, seconds: float = 1.0) -> None:
        """A worker's sweeps, that far apart."""
        for _ in range(count):
            await self.world.turn(command_id)
            self.world.clock.move_on(seconds)
