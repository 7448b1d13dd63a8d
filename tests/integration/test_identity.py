"""One business effect has one identity, however often and by whom it is proposed."""

import asyncio
import email
import email.policy
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.sandbox.faults import FaultKind
from execution.operations import OperationRefused
from execution.proposal import IntakeRefused, Proposal
from execution.store import artifacts
from tests.integration.passage import PUBLISH
from tests.integration.world import PROPOSER, World, proposal, world_at

OTHER = replace(PROPOSER, principal="agent:editor", client_id="mcp-host:other", token_id="tok_2")


async def refusal(world: World, offered: Proposal, proposer: Any = PROPOSER) -> IntakeRefused:
    with pytest.raises(IntakeRefused) as caught:
        await world.propose(offered, proposer)
    return caught.value


async def test_an_intent_proposed_five_times_is_one_command_with_one_of_each_effect(world: World) -> None:
    offered = proposal(notify=["team"])
    answers = await asyncio.gather(*(world.propose(offered) for _ in range(5)))
    assert len({answer.command_id for answer in answers}) == 1
    assert sorted(answer.deduplicated for answer in answers) == [False, True, True, True, True]
    command_id = await world.published(offered)
    assert command_id == answers[0].command_id
    again = await world.propose(offered)
    assert (again.command_id, again.deduplicated) == (command_id, True)
    await world.settle(command_id)
    real = world.reality()
    assert len(real.posts) == len(real.live) == len(real.messages) == len(real.rows) == 1
    assert world.observed > 10  # how many commits fall into one look is the machine's affair


async def test_what_differs_on_every_call_is_no_part_of_what_is_meant(world: World) -> None:
    """Another token of the same agent, another request, another trace: the same intent."""
    first = await world.propose()
    later = replace(proposal(), correlation_id="req_other", trace_id="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    again = await world.propose(later, replace(PROPOSER, token_id="tok_other", decision_id="dec_other"))
    assert (again.command_id, again.deduplicated) == (first.command_id, True)


@pytest.mark.parametrize(
    "title",
    ['Q&A: "Tom & Jerry\u2019s" <b>bold</b>', "50% off: \u00c4pfel \U0001f389 na\u00efve", "\u65e5\u672c\u8a9e" * 60],
)
async def test_a_title_arrives_everywhere_as_it_was_written_under_an_address_that_holds(
    tmp_path: Path, title: str
) -> None:
    async with world_at(tmp_path, archive=True, monitoring=True) as world:
        command_id = await world.published(proposal(title=title, notify=["team"]))
        outside: Any = world.sandbox.effects()
        (post,), (mail,) = outside["posts"], outside["messages"]
        plan = json.loads((await world.saga(command_id)).root.params)["plan"]
        assert (post["title"], post["slug"]) == (title, plan["slug"])
        assert re.fullmatch("[a-z0-9-]{1,200}", post["slug"])
        read = email.message_from_string(mail["content"], policy=email.policy.default)
        assert title in " ".join(str(read["Subject"]).split())
        assert title in read.get_content()
        files = outside["branches"][0]["files"]
        (kept,) = [json.loads(text) for path, text in files.items() if path.endswith(".json")]
        assert kept["title"] == title
        assert "&amp;" not in str(outside)


@pytest.mark.behaviour("threat.19")
@pytest.mark.behaviour("law.conflict")
@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"content": "# Other"}, "content_sha256"),
        ({"title": "Another title"}, "title"),
        ({"slug": "another-slug"}, "slug"),
        ({"notify": ["team"]}, "notify"),
    ],
)
async def test_another_meaning_under_the_same_key_is_a_conflict_that_names_the_field(
    world: World, changed: dict[str, Any], field: str
) -> None:
    command_id = await world.accepted()
    before = await world.saga(command_id)
    refused = await refusal(world, proposal(**changed))
    assert (refused.code, refused.differing, refused.command_id) == ("idempotency_conflict", (field,), command_id)
    assert await world.saga(command_id) == before
    assert world.reality().posts == {}
    stranger = await refusal(world, proposal(**changed), OTHER)
    assert (stranger.code, stranger.command_id) == ("idempotency_conflict", None)


async def test_another_agents_identical_proposal_is_already_proposed_and_runs_nothing(world: World) -> None:
    command_id = await world.published()
    before = world.reality()
    refused = await refusal(world, proposal(), OTHER)
    assert (refused.code, refused.command_id) == ("already_proposed", command_id)
    assert world.reality() == before


async def test_content_and_a_reference_to_the_same_bytes_are_one_intent(world: World) -> None:
    command_id = await world.accepted()
    whole = proposal()
    by_hash = f"artifact://sha256/{whole.arguments['content_sha256']}"
    answer = await world.propose(replace(whole, content=None, payload_ref=by_hash))
    assert (answer.command_id, answer.deduplicated) == (command_id, True)
    digest = by_hash.rpartition("/")[2]
    await world.store.transact(lambda conn: artifacts.bind(conn, "article/0028/v1", digest, world.clock.now_ms()))
    answer = await world.propose(replace(whole, content=None, payload_ref="artifact://article/0028/v1"))
    assert (answer.command_id, answer.deduplicated) == (command_id, True)


@pytest.mark.behaviour("law.repeat")
async def test_a_repetition_needs_a_grant_an_ended_newest_command_and_then_has_a_post_of_its_own(world: World) -> None:
    first = await world.until_approval()
    granted = replace(PROPOSER, may_repeat=True)
    assert (await refusal(world, proposal(repeat_of=first))).code == "repeat_not_granted"
    assert (await refusal(world, proposal(repeat_of=first), granted)).code == "not_repeatable_yet"
    assert (await refusal(world, proposal(repeat_of="cmd_none"), granted)).code == "repeat_of_not_newest"
    await world.operations.reject(first, operator="operator:olivia", reason="not now")
    assert (await world.settle(first)).state == "COMPENSATED"

    second = await world.until_approval(proposal(repeat_of=first), granted)
    assert second != first
    replay = await world.propose(proposal(repeat_of=first), granted)
    assert (replay.command_id, replay.deduplicated) == (second, True)
    assert (await world.propose(proposal())).command_id == second
    await world.approve(second)
    assert (await world.settle(second)).state == "SUCCESS"

    keys = [{row.idempotency_key for row in (await world.saga(c)).members} for c in (first, second)]
    assert not keys[0] & keys[1]
    posts = [(await world.step(c, "CREATE_WORDPRESS_DRAFT")).external_resource_id for c in (first, second)]
    real = world.reality()
    assert [real.status_of(post) for post in posts] == ["trash", "publish"]
    replay = await world.propose(proposal(repeat_of=first), granted)
    assert (replay.command_id, replay.deduplicated) == (second, True)
    unknown = await refusal(world, proposal(article="article-0099", repeat_of=first), granted)
    assert unknown.code == "repeat_of_unknown"


async def test_a_repetition_with_other_values_is_a_conflict_that_names_the_field(world: World) -> None:
    first = await world.until_approval()
    await world.operations.reject(first, operator="operator:olivia", reason="not now")
    await world.settle(first)
    refused = await refusal(world, proposal(repeat_of=first, title="Another"), replace(PROPOSER, may_repeat=True))
    assert (refused.code, refused.differing) == ("idempotency_conflict", ("title",))


async def test_an_operator_repeats_without_a_token_and_the_agent_still_owns_and_cannot_approve_it(world: World) -> None:
    first = await world.until_approval()
    refused = await repeat_refused(world, first)
    assert (refused.code, refused.retryable) == ("not_repeatable_yet", True)
    await world.operations.cancel(first, operator="operator:olivia", reason="later")
    assert (await world.settle(first)).state == "COMPENSATED"

    second = await world.repeated(first)
    assert await world.repeated(first) == second
    assert (await world.propose()).command_id == second
    received, *_ = await world.first.status.journal(second)
    assert (received.actor, json.loads(received.body)["reason"]) == ("operator:olivia", "once more")
    view = await world.settle(second)
    assert (view.state, view.principal) == ("AWAITING_APPROVAL", "agent:writer")
    with pytest.raises(OperationRefused, match="proposer_cannot_approve"):
        await world.approve(second, "operator:writer")
    await world.approve(second)
    assert (await world.settle(second)).live
    real = world.reality()
    assert (len(real.live), len(real.with_status("trash"))) == (1, 1)
    assert await world.repeated(first) == second
    assert (await repeat_refused(world, second)).code == "stale_version"
    assert (await world.saga(first)).root.state == "COMPENSATED"


async def test_what_an_attempt_may_still_do_is_not_repeated(world: World) -> None:
    """Ended, but with a request on its way of which nobody knows yet that it is over."""
    first = await world.until_approval()
    world.arm("POST /wp-json/wp/v2/posts/", FaultKind.DROP_BEFORE)
    await world.approve(first)

    async def cancelled() -> None:
        with pytest.raises(OperationRefused, match="too_late"):
            await world.operations.cancel(first, operator="operator:olivia", reason="stop")

    world.passage.after_send[PUBLISH] = cancelled
    await world.turn(first)
    assert (await world.view(first)).state == "OUTCOME_UNKNOWN"
    assert (await repeat_refused(world, first)).code == "not_repeatable_yet"


async def test_a_revoked_agents_work_is_not_repeated_by_anybody(world: World) -> None:
    first = await world.until_approval()
    await world.operations.reject(first, operator="operator:olivia", reason="not now")
    await world.settle(first)
    await world.restrict("revoked:agent:agent:writer")
    assert (await repeat_refused(world, first)).code == "revoked"


async def repeat_refused(world: World, command_id: str) -> IntakeRefused:
    with pytest.raises(IntakeRefused) as caught:
        await world.repeated(command_id)
    return caught.value


async def test_what_is_live_is_not_repeated_over_itself(world: World) -> None:
    first = await world.published()
    refused = await refusal(world, proposal(repeat_of=first), replace(PROPOSER, may_repeat=True))
    assert (refused.code, refused.limit) == ("stale_version", 2)


async def test_versions_that_are_not_above_what_is_live_or_pending_are_refused(world: World) -> None:
    await world.published(proposal(version=2))
    assert (await refusal(world, proposal(version=1, content="# Old"))).code == "stale_version"
    await world.until_approval(proposal(version=4, content="# Four"))
    stale = await refusal(world, proposal(version=3, content="# Three"))
    assert (stale.code, stale.limit, stale.actual) == ("stale_version", 4, 3)


@pytest.mark.behaviour("threat.6")
@pytest.mark.behaviour("threat.18")
async def test_two_tenants_with_the_same_article_do_not_meet(world: World) -> None:
    ours = await world.accepted()
    theirs = await world.accepted(proposal(site="shop"), replace(PROPOSER, tenant="other"))
    same_site = await world.accepted(proposal(), replace(PROPOSER, tenant="third"))
    assert len({ours, theirs, same_site}) == 3
    rows = [await world.step(c, "CREATE_WORDPRESS_DRAFT") for c in (ours, theirs, same_site)]
    assert len({row.idempotency_key for row in rows}) == 3
    for command_id in (ours, same_site):
        assert (await world.settle(command_id)).state == "AWAITING_APPROVAL"
    assert len(world.reality().posts) == 2


@pytest.mark.behaviour("incident.72")
async def test_a_replay_is_answered_during_a_freeze_and_a_new_intent_is_not(world: World) -> None:
    command_id = await world.accepted()
    await world.restrict("freeze:all")
    assert (await world.propose(proposal())).command_id == command_id
    frozen = await refusal(world, proposal(version=2, content="# Two"))
    assert (frozen.code, frozen.retryable) == ("frozen", True)
