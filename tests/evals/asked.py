"""Situations about the question itself: repeated, conflicting, foreign and malformed calls, and large answers."""

from typing import Any, Final

from execution.core.draft import Draft
from execution.core.events import Fact
from execution.orchestrator import drive_saga
from server.results import CommandList, CommandStatus, Problem
from tests.evals.play import OTHER, OTHER_DECISION, Play
from tests.evals.situations import situation
from tests.security import forge

OPERATOR: Final = "operator:olivia"
EVENTS: Final = 2_000
ARTICLE_BYTES: Final = 300_000
UNKNOWN_ID: Final = "cmd_01kb9zq3m4n5p6q7r8s9t0v1w2"


@situation("the same proposal again")
async def again(play: Play) -> None:
    command_id = await play.proposed()
    assert await play.proposed() == command_id
    await play.world.settle(command_id)
    assert await play.proposed() == command_id
    await play.world.approve(command_id)
    await play.world.settle(command_id)
    assert await play.proposed() == command_id
    assert [row.live for row in play.rows] == [False, False, False, True]


@situation("the same proposal again after it was rejected")
async def again_after_no(play: Play) -> None:
    command_id = await play.until_approval()
    await play.world.operations.reject(command_id, operator=OPERATOR, reason="no")
    await play.world.settle(command_id)
    await play.proposed()
    repeated = await play.proposed(play.caller(repeat=True), repeat_of=command_id)
    assert repeated != command_id
    await play.look(repeated, "the repetition", live=False, done=False)
    play.note("repeated without leave", await play.propose(repeat_of=command_id))


@situation("other values under the same version")
async def conflicting(play: Play) -> None:
    await play.proposed()
    refused = await play.propose(title="Another title")
    play.note("not yet published", refused, code="idempotency_conflict", retryable=False, differing=["title"])
    (view,) = await play.world.first.status.recent("acme", None)
    await play.world.settle(view.command_id)
    await play.world.approve(view.command_id)
    await play.world.settle(view.command_id)
    play.note("published", await play.propose(content="# Other"), code="idempotency_conflict", retryable=False)


@situation("already proposed by another agent")
async def already(play: Play) -> None:
    await play.proposed()
    play.note("not yet published", await play.propose(play.other()), code="already_proposed", command_id=None)


@situation("a version that is not newer")
async def stale(play: Play) -> None:
    await play.published(version=2)
    play.note("refused", await play.propose(content="# Old"), code="stale_version", retryable=False)


@situation("preview before and after the proposal")
async def previewed(play: Play) -> None:
    play.note("nothing is known", await play.propose(preview=True), accepted=False)
    command_id = await play.published()
    play.note("it is live", await play.propose(preview=True), accepted=False)
    await play.look(command_id, "asked properly", live=True)


@situation("asked by key, by id, without id")
async def by_all_names(play: Play) -> None:
    command_id = await play.until_approval()
    status = await play.look(command_id, "by id", live=False)
    before = play.world.reality()
    by_key = await play.call("query_command_status", {"idempotency_key": status.idempotency_key})
    await play.record("by key", play.status(by_key), before)
    for number in range(11):
        await play.proposed(article_id=f"article-{number}", slug=f"slug-{number}")
    listed = await play.call("query_command_status", {})
    play.note("the list of twelve", listed)
    assert isinstance(listed, CommandList)
    assert len(listed.commands) == 10 or listed.truncated is not None, listed


@situation("another agent's command looks like none")
async def foreign(play: Play) -> None:
    command_id = await play.published()
    status = await play.look(command_id, "to its own agent", live=True)
    answers = [
        await play.call("query_command_status", given, play.other())
        for given in (
            {"command_id": command_id},
            {"command_id": UNKNOWN_ID},
            {"idempotency_key": status.idempotency_key},
            {"idempotency_key": "acme:remit:publish:blog:nothing:v1"},
        )
    ]
    for point, answer in zip(("foreign id", "no id", "foreign key", "no key"), answers, strict=True):
        play.note(point, answer, code="command_not_found", retryable=False)
    assert len({answer.model_dump_json() for answer in answers}) == 1
    listed = await play.call("query_command_status", {}, play.other())
    assert listed == CommandList(commands=[]), listed
    play.note("the other's list", listed)


@situation("a token that can only ask")
async def query_only(play: Play) -> None:
    command_id = await play.published()
    detail = forge.query_detail(resources=["command/any"], limits={"max_uses": 100})
    person = play.caller(**OTHER, dec=OTHER_DECISION, authorization_details=[detail])
    before = play.world.reality()
    answer = await play.call("query_command_status", {"command_id": command_id, "detail": "detailed"}, person)
    await play.record("asks", play.status(answer), before, detailed_only=True)
    play.note("proposes", await play.propose(person), code="intent_not_granted", retryable=False)


@situation("calls that are refused")
async def errors(play: Play) -> None:
    now_s = play.world.clock.now_ms() // 1000
    old = {"iat": now_s - 2000, "nbf": now_s - 2000, "exp": now_s - 1100}
    calls: dict[str, tuple[Any, str]] = {
        "unknown argument": (await play.propose(titel="x"), "unknown_argument"),
        "title too long": (await play.propose(title="x" * 201), "too_long"),
        "content too large": (await play.propose(content="x" * 1_048_577), "limit_exceeded"),
        "missing argument": (await play.call("propose_publish", {"version": 1}), "missing_argument"),
        "no token": (await play.propose(play.nobody), "no_token"),
        "expired token": (await play.propose(play.caller(**old)), "expired"),
        "unknown site": (await play.propose(play.at_any_site(), site="elsewhere"), "unknown_site"),
        "site not granted": (await play.propose(site="elsewhere"), "resource_not_granted"),
        "unknown list": (await play.propose(notify=["everybody"]), "unknown_list"),
        "unknown tool": (await play.call("publish_now", {}), "unknown_tool"),
        "nothing stored": (await play.propose(payload_ref="artifact://sha256/" + "0" * 64), "payload_missing"),
        "two names": (
            await play.call("query_command_status", {"command_id": UNKNOWN_ID, "idempotency_key": "x"}),
            "invalid_argument",
        ),
        "schedule past": (await play.propose(publish_at="2020-01-01T00:00:00Z"), "schedule_missed"),
        "token in the text": (await play.propose(content=f"see {play.token()}"), "credential_in_arguments"),
    }
    for point, (answer, code) in calls.items():
        assert isinstance(answer, Problem), (point, answer)
        play.note(point, answer, code=code, retryable=False)
    assert play.world.reality().posts == {}


@situation("a 300 kB article with 2,000 events behind it")
async def large(play: Play) -> None:
    world = play.world
    command_id = await play.proposed(content="# Long\n\n" + "water and coffee\n" * (ARTICLE_BYTES // 17))
    await world.settle(command_id)
    saga = await world.saga(command_id)
    draft = Draft(saga, actor="test", now_ms=world.clock.now_ms())
    for number in range(EVENTS):
        draft.note(command_id, Fact.FINDING_ADDED, {"kind": "DRIFT", "number": number})
    await world.store.commit(draft.unit())
    assert len(await world.first.status.journal(command_id)) >= EVENTS
    await play.look(command_id, "awaiting approval", state="AWAITING_APPROVAL", live=False)
    await world.approve(command_id)
    await drive_saga(world.first.worker.env, command_id)
    await world.settle(command_id)
    answer = await play.look(command_id, "published", state="SUCCESS", live=True, done=True)
    assert isinstance(answer, CommandStatus)


@situation("the longest names there may be, in every standing")
async def long_names(play: Play) -> None:
    article, slug = "a" * 64, "b" * 60
    command_id = await play.until_approval(article_id=article, slug=slug)
    await play.look(command_id, "awaiting approval", live=False)
    await play.world.approve(command_id)
    play.world.passage.after_send["publish"] = play.looking(command_id, "landed, not recorded", live=False)
    await play.world.settle(command_id)
    await play.look(command_id, "published", live=True)
    await play.proposed(article_id=article, slug=slug)
