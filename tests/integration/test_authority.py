"""Authority is judged at every fence, from the same database, and what stops an effect stops it before it is sent."""

import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from adapters.sandbox.faults import FaultKind
from execution.catalog import Catalog
from execution.operations import OperationRefused
from execution.proposal import IntakeRefused
from execution.recovery import doubt_everything
from execution.sagas import publish_article, withdraw_article
from execution.sagas.publish_plan import SiteRules
from execution.store import authority
from tests.integration.passage import CANCEL, CREATE, NOTIFY, PUBLISH, RECORD, STAGE, TRASH
from tests.integration.world import PROPOSER, World, decided, proposal

REVOCATIONS = (
    "revoked:token:https://issuer.example tok_1",
    "revoked:decision:dec_1",
    "revoked:agent:agent:writer",
    "revoked:client:mcp-host:desk",
)
HOLDS = (
    "freeze:all",
    "freeze:tenant:acme",
    "freeze:site:blog",
    "revoked:key:acme-2026",
    "revoked:tenant:acme",
)
TURNS_MAX = 8
BEFORE_PIVOT = (CREATE, STAGE, PUBLISH)
EVERY_STEP = (CREATE, STAGE, PUBLISH, RECORD, NOTIFY)
SYSTEM_OF = {CREATE: "wordpress", STAGE: "publications", PUBLISH: "wordpress", RECORD: "publications", NOTIFY: "mail"}
UNDOING = {CREATE: [], STAGE: [TRASH], PUBLISH: [CANCEL, TRASH]}


def restricting(world: World, scope: str) -> Callable[[], Awaitable[None]]:
    async def restrict() -> None:
        await world.restrict(scope)

    return restrict


async def renew(world: World, command_id: str) -> None:
    """An operator's authority for another hour, under what is configured now."""
    root = (await world.saga(command_id)).root
    await world.operations.reauthorize(
        command_id,
        operator="operator:olivia",
        reason="looked at it",
        until_ms=world.clock.now_ms() + 3_600_000,
        policy_hash=world.first.worker.env.catalog.policy_hash(root),
    )


def configured(world: World, **changed: Any) -> None:
    """The worker starts anew with other rules of publishing."""
    rules = replace(world.publish, **changed)
    catalog = Catalog([publish_article.intent(rules), withdraw_article.intent(rules)])
    world.first.worker.env = replace(world.first.worker.env, catalog=catalog)


def with_blog(world: World, **changed: Any) -> dict[str, SiteRules]:
    return {**world.publish.sites, "blog": replace(world.publish.sites["blog"], **changed)}


async def run(world: World) -> str:
    """From proposal as far as it comes, with an approval when one is asked for."""
    command_id = await world.accepted(proposal(notify=["team"]))
    if (await world.settle(command_id)).state == "AWAITING_APPROVAL":
        await world.approve(command_id)
        await world.settle(command_id)
    return command_id


@pytest.mark.behaviour("threat.15")
@pytest.mark.behaviour("law.fence")
@pytest.mark.parametrize("scope", REVOCATIONS)
@pytest.mark.parametrize("step", BEFORE_PIVOT)
async def test_a_revocation_stops_the_very_next_fence_and_what_was_done_is_undone(
    world: World, step: str, scope: str
) -> None:
    world.passage.before_fence[step] = restricting(world, scope)
    command_id = await run(world)
    view = await world.view(command_id)
    made = EVERY_STEP[: EVERY_STEP.index(step)]
    assert world.passage.sent == [*made, *UNDOING[step]]
    assert (view.state, view.ending) == ("COMPENSATED" if made else "FAILED", "revoked")
    assert "authority" in view.say_to_user
    real = world.reality()
    assert real.live == []
    assert real.messages == ()
    assert [row["status"] for row in real.rows] == (["cancelled"] if step == PUBLISH else [])


@pytest.mark.parametrize("scope", REVOCATIONS)
async def test_after_the_pivot_a_revocation_undoes_nothing_and_stops_only_what_needs_new_authority(
    world: World, scope: str
) -> None:
    world.passage.before_fence[RECORD] = restricting(world, scope)
    command_id = await run(world)
    view = await world.view(command_id)
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]
    assert (view.state, view.live, view.done) == ("NEEDS_REVIEW", True, False)
    assert [(r.kind, r.step, r.verdicts) for r in view.reviews] == [
        ("REVOKED_AFTER_PIVOT", "SEND_NOTIFICATION", ("continue", "abandon"))
    ]
    assert [row["status"] for row in world.reality().rows] == ["published"]


FOR_THE_ARTICLE = replace(
    PROPOSER, details=({"actions": ["propose_publish"], "resources": ["site/blog/article-0028"]},)
)
ELSEWHERE = {
    "the row's site": "UPDATE commands SET site = 'shop' WHERE root_id = ?",
    "the row's article": "UPDATE commands SET object_id = 'article-0029' WHERE root_id = ?",
    "the plan": 'UPDATE commands SET params = replace(params, \'"article_id":"article-0028"\', '
    '\'"article_id":"article-0029"\') WHERE root_id = ? AND parent_id IS NULL',
}


def aimed_elsewhere(world: World, statement: str) -> Callable[[], Awaitable[None]]:
    async def aim() -> None:
        with contextlib.closing(sqlite3.connect(world.database)) as other, other:
            root_id = other.execute("SELECT root_id FROM commands WHERE parent_id IS NULL").fetchone()[0]
            assert other.execute(statement, (root_id,)).rowcount > 0

    return aim


@pytest.mark.behaviour("threat.8")
@pytest.mark.parametrize("statement", ELSEWHERE.values(), ids=ELSEWHERE)
async def test_a_command_that_was_aimed_at_something_else_is_not_sent_with_our_credentials(
    world: World, statement: str
) -> None:
    """Whatever led the worker there: what is about to be touched is not what the token was for."""
    command_id = await world.accepted(proposer=FOR_THE_ARTICLE)
    await aimed_elsewhere(world, statement)()
    view = await world.settle(command_id)
    assert world.passage.sent == []
    assert (view.state, (await world.saga(command_id)).root.error_code) == ("FAILED", "out_of_scope")


@pytest.mark.behaviour("threat.8")
async def test_what_the_token_was_for_is_done(world: World) -> None:
    command_id = await world.until_approval(proposer=FOR_THE_ARTICLE)
    await world.approve(command_id)
    assert (await world.settle(command_id)).live


@pytest.mark.behaviour("incident.72")
@pytest.mark.behaviour("law.freeze")
@pytest.mark.parametrize("step", EVERY_STEP)
@pytest.mark.parametrize("scope", [*HOLDS, "freeze:system"])
async def test_a_freeze_holds_everything_beside_the_state_and_lifting_it_releases(
    world: World, step: str, scope: str
) -> None:
    scope = f"freeze:system:{SYSTEM_OF[step]}" if scope == "freeze:system" else scope
    world.passage.before_fence[step] = restricting(world, scope)
    command_id = await world.accepted(proposal(notify=["team"]))

    async def held() -> None:
        for _ in range(TURNS_MAX):
            await world.turn(command_id)
            world.clock.move_on(1.0)
            if "HELD" in (await world.saga(command_id)).root.blockers:
                return
        raise AssertionError("it is not held")

    if step in (CREATE, STAGE):
        await held()
    else:
        await world.settle(command_id)
        await world.approve(command_id)
        await held()
    sent = EVERY_STEP[: EVERY_STEP.index(step)]
    for _ in range(3):
        world.clock.move_on(10.0)
        await world.turn(command_id)
    view = await world.view(command_id)
    assert world.passage.sent == list(sent)
    assert (view.state, view.next_action, view.live) == ("HELD", "tell_user", step in (RECORD, NOTIFY))
    assert view.waiting_for is not None
    assert view.waiting_for.who == "an operator"
    root = (await world.saga(command_id)).root
    assert (root.state, root.phase) == ("RUNNING", "POST_PIVOT" if step in (RECORD, NOTIFY) else "PRE_PIVOT")

    await world.lift(scope)
    await world.settle(command_id)
    if step in (CREATE, STAGE):
        await world.approve(command_id)
        await world.settle(command_id)
    assert (await world.view(command_id)).state == "SUCCESS"
    assert world.passage.sent == list(EVERY_STEP)


@pytest.mark.parametrize("scope", ["freeze:all", "revoked:tenant:acme"])
async def test_a_freeze_stops_a_compensation_too(world: World, scope: str) -> None:
    command_id = await world.until_approval()
    await world.operations.reject(command_id, operator="operator:olivia", reason="no")
    world.passage.before_fence[CANCEL] = restricting(world, scope)
    for _ in range(5):
        await world.turn(command_id)
        world.clock.move_on(1.0)
    view = await world.view(command_id)
    assert world.passage.sent == [CREATE, STAGE]
    assert "HELD" in view.blockers
    assert not view.done
    await world.lift(scope)
    assert (await world.settle(command_id)).state == "COMPENSATED"
    assert world.passage.sent == [CREATE, STAGE, CANCEL, TRASH]


@pytest.mark.behaviour("operator.hold")
@pytest.mark.parametrize("step", EVERY_STEP)
async def test_a_held_command_sends_nothing_more_until_it_is_resumed_and_others_go_on(world: World, step: str) -> None:
    command_id = await world.accepted(proposal(notify=["team"]))
    around: list[int] = []

    async def hold() -> None:
        around.append(world.clock.now_ms())
        await world.operations.hold(command_id, operator="operator:olivia", reason="wait for the lawyer")
        around.append(world.clock.now_ms())

    world.passage.before_fence[step] = hold
    for _ in range(TURNS_MAX):
        await world.turn(command_id)
        world.clock.move_on(1.0)
        view = await world.view(command_id)
        if view.state == "AWAITING_APPROVAL" and view.approval.state == "PENDING":
            await world.approve(command_id)
    assert world.passage.sent == list(EVERY_STEP[: EVERY_STEP.index(step)])
    assert (view.state, view.live) == ("HELD", step in (RECORD, NOTIFY))
    assert view.waiting_for is not None
    assert view.waiting_for.who == "an operator"
    assert around[0] <= view.waiting_for.since_ms <= around[1]
    assert "HOLD_REQUESTED" in await world.facts(command_id)

    other = await world.published(proposal(article="article-0029", slug="another-one"))
    assert (await world.view(other)).live
    world.passage.sent.clear()
    await world.operations.resume(command_id, operator="operator:olivia")
    if (await world.settle(command_id)).state == "AWAITING_APPROVAL":
        await world.approve(command_id)
    assert (await world.settle(command_id)).state == "SUCCESS"
    assert world.passage.sent == list(EVERY_STEP[EVERY_STEP.index(step) :])


async def test_a_hold_shows_at_once_and_a_freeze_beside_it_stays_when_it_ends(world: World) -> None:
    command_id = await world.until_approval()
    await world.operations.hold(command_id, operator="operator:olivia", reason="why")
    assert (await world.view(command_id)).state == "HELD"
    await world.approve(command_id)
    await world.restrict("freeze:site:blog")
    await world.operations.resume(command_id, operator="operator:olivia")
    for _ in range(3):
        await world.turn(command_id)
        world.clock.move_on(10.0)
    assert (await world.view(command_id)).state == "HELD"
    assert world.passage.sent == [CREATE, STAGE]
    await world.lift("freeze:site:blog")
    assert (await world.settle(command_id)).live


async def test_what_is_held_still_expires_and_is_undone_once_it_is_resumed(world: World) -> None:
    command_id = await world.until_approval()
    await world.operations.hold(command_id, operator="operator:olivia", reason="why")
    world.clock.move_on(73 * 3600)
    for _ in range(5):
        await world.turn(command_id)
        world.clock.move_on(10.0)
    view = await world.view(command_id)
    assert (view.state, view.ending, world.passage.sent) == ("HELD", "approval_expired", [CREATE, STAGE])
    await world.operations.resume(command_id, operator="operator:olivia")
    assert (await world.settle(command_id)).state == "COMPENSATED"
    assert world.passage.sent == [CREATE, STAGE, CANCEL, TRASH]


async def test_what_has_ended_is_not_held_and_what_is_not_held_is_not_resumed(world: World) -> None:
    command_id = await world.published()
    with pytest.raises(OperationRefused, match="already_ended: PUBLISH_WORDPRESS_POST succeeded on 1"):
        await world.operations.hold(command_id, operator="operator:olivia", reason="why")
    with pytest.raises(OperationRefused, match="not_held"):
        await world.operations.resume(command_id, operator="operator:olivia")
    with pytest.raises(OperationRefused, match="unknown_command"):
        await world.operations.hold("cmd_nothing", operator="operator:olivia", reason="why")


async def test_a_freeze_of_one_system_accepts_and_holds_at_its_fence(world: World) -> None:
    await world.restrict("freeze:system:publications")
    command_id = await world.accepted()
    for _ in range(TURNS_MAX):
        await world.turn(command_id)
        world.clock.move_on(1.0)
    assert ((await world.view(command_id)).state, world.passage.sent) == ("HELD", [CREATE])


@pytest.mark.parametrize("scope", ["freeze:all", "freeze:tenant:acme", "freeze:site:blog"])
async def test_a_freeze_refuses_what_is_new_and_another_site_goes_on(world: World, scope: str) -> None:
    await world.restrict(scope)
    with pytest.raises(IntakeRefused, match="frozen") as caught:
        await world.propose()
    assert caught.value.retryable
    elsewhere = proposal(site="shop", slug="in-the-shop")
    if scope == "freeze:site:blog":
        await world.accepted(elsewhere)
    else:
        with pytest.raises(IntakeRefused, match="frozen"):
            await world.propose(elsewhere)


async def test_a_revoked_token_does_not_stop_a_compensation(world: World) -> None:
    command_id = await world.until_approval()
    await world.restrict(REVOCATIONS[0])
    await world.operations.reject(command_id, operator="operator:olivia", reason="no")
    view = await world.settle(command_id)
    assert (view.state, view.ending) == ("COMPENSATED", "rejected")


async def test_a_command_in_doubt_is_reconciled_first_and_held_then(world: World) -> None:
    world.arm("POST /wp-json/wp/v2/posts/", FaultKind.DROP_AFTER)
    world.passage.after_send[PUBLISH] = restricting(world, "freeze:all")
    command_id = await world.until_approval(proposal(notify=["team"]))
    await world.approve(command_id)
    for _ in range(5):
        await world.turn(command_id)
        world.clock.move_on(1.0)
    view = await world.view(command_id)
    assert "OUTCOME_LOST" in await world.facts(command_id)
    assert (view.state, view.live) == ("HELD", True)
    assert world.passage.sent == [CREATE, STAGE, PUBLISH]


async def test_a_doubt_that_arises_while_held_is_found_out_while_held(world: World) -> None:
    """Another worker's request lands and its answer is lost after a second step was refused by the freeze."""
    first = await world.published()
    version_2 = proposal(version=2, content="# Second", notify=["team"])
    command_id = await world.until_approval(version_2)
    await world.approve(command_id)
    world.passage.before_fence[RECORD] = restricting(world, "freeze:all")
    for _ in range(3):
        await world.turn(command_id)
    assert (await world.view(command_id)).state == "HELD"
    async with world.another() as other:
        await doubt_everything(other.store, world.clock, other.worker.env.ids, "inc_other")
    for _ in range(6):
        world.clock.move_on(1.0)
        await world.turn(command_id)
    facts = await world.facts(command_id)
    assert "PROBING" in facts[facts.index("INCARNATION_CHANGED") :]
    assert first != command_id


async def test_a_grant_that_lapses_before_the_pivot_waits_and_keeps_what_was_done(world: World) -> None:
    lapsing = replace(PROPOSER, grant_until_s=world.clock.now_ms() // 1000 + 3600)
    command_id = await world.until_approval(proposer=lapsing)
    world.clock.move_on(3700)
    await world.approve(command_id)
    for _ in range(3):
        await world.turn(command_id)
        world.clock.move_on(10.0)
    view = await world.view(command_id)
    assert (view.state, view.live) == ("AWAITING_AUTHORIZATION", False)
    assert {"CREATE_WORDPRESS_DRAFT", "STAGE_PUBLICATION_RECORD"} <= set(view.answers.succeeded)
    assert world.passage.sent == [CREATE, STAGE]
    assert view.answers.human is not None

    await renew(world, command_id)
    assert (await world.settle(command_id)).state == "SUCCESS"
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]


async def test_a_grant_that_lapses_after_the_pivot_lets_the_finish_only_steps_go_on(world: World) -> None:
    lapsing = replace(PROPOSER, grant_until_s=world.clock.now_ms() // 1000 + 3600)
    command_id = await world.until_approval(proposal(notify=["team"]), lapsing)
    await world.approve(command_id)

    async def lapse() -> None:
        world.clock.move_on(3700)

    world.passage.before_fence[RECORD] = lapse
    for _ in range(6):
        await world.turn(command_id)
        world.clock.move_on(5.0)
    view = await world.view(command_id)
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]
    assert (view.state, view.live) == ("AWAITING_AUTHORIZATION", True)
    assert view.answers.remaining == ("SEND_NOTIFICATION",)


CHANGES: dict[str, Callable[[World], dict[str, Any]]] = {
    "the site is another one": lambda world: {"sites": with_blog(world, system="https://elsewhere.example")},
    "the site is gone": lambda world: {"sites": {"shop": SiteRules()}},
    "its gate insists on more": lambda world: {"sites": with_blog(world, require=frozenset({"sources", "title"}))},
    "others are behind the list": lambda world: {"lists": {**world.publish.lists, "team": ("new@remit.invalid",)}},
}
IRRELEVANT: dict[str, Callable[[World], dict[str, Any]]] = {
    "another site": lambda world: {"sites": {**world.publish.sites, "shop": SiteRules(system="https://x.example")}},
    "a new site": lambda world: {"sites": {**world.publish.sites, "third": SiteRules()}},
    "another list": lambda world: {"lists": {**world.publish.lists, "board": ("new@remit.invalid",)}},
    "addresses and clocks": lambda world: {"sites": with_blog(world, timezone="Europe/Berlin", purge=("{url}",))},
    "times": lambda world: {"approval_ttl_s": 60.0, "deadline_s": 3600.0, "max_lateness_s": 1.0, "monitoring": True},
}


@pytest.mark.behaviour("policy.changed")
async def test_what_judged_a_command_is_judged_by_again_at_its_fence(world: World) -> None:
    command_id = await world.until_approval(proposal(notify=["team"]))
    await world.approve(command_id)
    for change in CHANGES.values():
        configured(world, **change(world))
        for _ in range(3):
            await world.turn(command_id)
            world.clock.move_on(10.0)
        assert (await world.view(command_id)).state == "AWAITING_AUTHORIZATION"
        traces = len(await world.facts(command_id))
        for _ in range(3):
            await world.turn(command_id)
            world.clock.move_on(10.0)
        assert len(await world.facts(command_id)) == traces, "polling leaves no trace"
    assert world.passage.sent == [CREATE, STAGE]
    configured(world)
    assert (await world.settle(command_id)).state == "SUCCESS", "put back it goes on by itself, under the same yes"


@pytest.mark.behaviour("policy.changed")
async def test_an_edit_that_does_not_concern_a_command_does_not_hold_it_up(world: World) -> None:
    command_id = await world.until_approval(proposal(notify=["team"]))
    for change in IRRELEVANT.values():
        configured(world, **change(world))
        await world.turn(command_id)
    configured(world, **{name: value for change in IRRELEVANT.values() for name, value in change(world).items()})
    await world.approve(command_id)
    assert (await world.settle(command_id)).state == "SUCCESS"


async def test_an_operator_authorizes_it_under_what_is_configured_now_and_the_yes_is_asked_for_anew(
    world: World,
) -> None:
    command_id = await world.until_approval(proposal(notify=["team"]))
    first = await world.approve(command_id)
    configured(world, sites=with_blog(world, require=frozenset({"title", "sources"})))
    await world.turn(command_id)
    await renew(world, command_id)
    assert "REAUTHORIZED" in await world.facts(command_id)
    view = await world.settle(command_id)
    assert (view.state, world.passage.sent) == ("AWAITING_APPROVAL", [CREATE, STAGE])
    before, asked = (await world.saga(command_id)).approvals
    assert (before.state, before.reason) == ("VOID", "policy")
    assert asked.content_hash != first.content_hash, "the policy is part of what is approved"
    await world.approve(command_id)
    assert (await world.settle(command_id)).state == "SUCCESS"
    with pytest.raises(OperationRefused, match="already_ended"):
        await renew(world, command_id)


async def test_under_another_policy_a_compensation_waits_for_an_operator_too(world: World) -> None:
    """The site may be another one: what is not there then was not undone."""
    command_id = await world.until_approval()
    configured(world, sites=with_blog(world, system="https://elsewhere.example"))
    await world.operations.reject(command_id, operator="operator:olivia", reason="no")
    for _ in range(3):
        await world.turn(command_id)
        world.clock.move_on(10.0)
    assert not (await world.view(command_id)).done
    await renew(world, command_id)
    assert (await world.settle(command_id)).state == "COMPENSATED"


async def test_a_rejection_unwinds_although_the_grant_lapsed(world: World) -> None:
    lapsing = replace(PROPOSER, grant_until_s=world.clock.now_ms() // 1000 + 3600)
    command_id = await world.until_approval(proposer=lapsing)
    world.clock.move_on(3700)
    await world.approve(command_id)
    await world.turn(command_id)
    assert (await world.view(command_id)).state == "AWAITING_AUTHORIZATION"
    await world.operations.cancel(command_id, operator="operator:olivia", reason="too late now")
    assert (await world.settle(command_id)).state == "COMPENSATED"


async def test_a_replay_uses_nothing_and_a_spent_token_is_refused(world: World) -> None:
    single = replace(PROPOSER, max_uses=1)
    command_id = await world.accepted(proposer=single)
    for _ in range(5):
        assert (await world.propose(proposer=single)).command_id == command_id
    used = await world.store.read(lambda conn: authority.token_uses(conn, single.issuer, single.token_id))
    assert used == 1
    with pytest.raises(IntakeRefused, match="token_exhausted"):
        await world.propose(proposal(article="article-0029"), single)
    with pytest.raises(IntakeRefused, match="idempotency_conflict"):
        await world.propose(proposal(content="# Changed"), single)


@pytest.mark.behaviour("decision.closed")
async def test_a_decision_that_another_process_closes_accepts_nothing_more_and_what_was_accepted_goes_on(
    world: World,
) -> None:
    decision = await decided(world)
    first = await world.until_approval()
    async with world.another() as console:
        now_ms = world.clock.now_ms()
        assert await console.store.transact(
            lambda conn: authority.close_decision(conn, decision.decision_id, by="operator:pat", now_ms=now_ms)
        )
    with pytest.raises(IntakeRefused, match="decision_closed"):
        await world.propose(proposal(article="article-0029"))
    assert (await world.propose()).command_id == first, "a replay is the same command, whatever was decided since"
    await world.approve(first)
    assert (await world.settle(first)).live


async def test_a_decision_is_over_with_its_time_and_with_its_uses(world: World) -> None:
    await decided(world, uses_max=2)
    for name in ("article-1", "article-2"):
        await world.accepted(proposal(article=name))
        await world.accepted(proposal(article=name))
    with pytest.raises(IntakeRefused, match="decision_exhausted") as spent:
        await world.propose(proposal(article="article-3"))
    assert spent.value.limit == 2
    kept = await world.store.hot(lambda conn: authority.find_decision(conn, PROPOSER.decision_id))
    assert kept is not None
    assert kept.uses == 2
    world.clock.move_on(3_601)
    with pytest.raises(IntakeRefused, match="decision_closed"):
        await world.propose(proposal(article="article-3"))


@pytest.mark.behaviour("law.four-eyes")
async def test_at_high_risk_whoever_opened_the_decision_does_not_approve(world: World) -> None:
    await decided(world, risk_class="high")
    command_id = await world.until_approval()
    with pytest.raises(OperationRefused, match="proposer_cannot_approve"):
        await world.approve(command_id)
    await world.approve(command_id, "operator:pat")
    assert (await world.settle(command_id)).live


async def test_open_commands_are_limited_and_an_ended_one_makes_room(world: World) -> None:
    limited = replace(PROPOSER, max_open_commands=2)
    first = await world.until_approval(proposal(), limited)
    await world.accepted(proposal(article="article-2"), limited)
    with pytest.raises(IntakeRefused, match="too_many_open_commands") as caught:
        await world.propose(proposal(article="article-3"), limited)
    assert (caught.value.limit, caught.value.actual, caught.value.retryable) == (2, 2, True)
    await world.approve(first)
    assert (await world.settle(first)).done
    await world.accepted(proposal(article="article-3"), limited)


async def test_a_revoked_caller_is_refused_even_for_what_they_proposed(world: World) -> None:
    await world.accepted()
    await world.restrict(REVOCATIONS[0])
    with pytest.raises(IntakeRefused, match="revoked"):
        await world.propose()
