"""Taking authority back from what waits: a withdrawal undoes at once, a suspected compromise touches nothing."""

import asyncio

import pytest

from adapters.sandbox.faults import FaultKind
from capabilities.revocation import RevocationKind, RevocationScope
from execution.operations import Revoked
from execution.store import authority
from tests.integration.passage import CANCEL, CREATE, NOTIFY, PUBLISH, RECORD, STAGE, TRASH
from tests.integration.world import PROPOSER, World, proposal

VALUES = {
    RevocationKind.TOKEN: f"{PROPOSER.issuer} {PROPOSER.token_id}",
    RevocationKind.DECISION: PROPOSER.decision_id,
    RevocationKind.AGENT: PROPOSER.principal,
    RevocationKind.CLIENT: PROPOSER.client_id,
    RevocationKind.KEY: PROPOSER.key_id,
    RevocationKind.TENANT: PROPOSER.tenant,
}
WITHDRAWN = [RevocationKind.TOKEN, RevocationKind.DECISION, RevocationKind.AGENT, RevocationKind.CLIENT]
COMPROMISED = [RevocationKind.KEY, RevocationKind.TENANT]


def scope(kind: RevocationKind, value: str | None = None) -> RevocationScope:
    return RevocationScope(tenant="acme", kind=kind, value=value or VALUES[kind])


async def revoke(world: World, kind: RevocationKind, value: str | None = None) -> Revoked:
    return await world.operations.revoke(scope(kind, value), operator="operator:olivia", reason="left the firm")


@pytest.mark.behaviour("revoke.stops")
@pytest.mark.parametrize("kind", WITHDRAWN)
async def test_what_waits_for_an_approval_is_undone_without_one(world: World, kind: RevocationKind) -> None:
    command_id = await world.until_approval()
    met = await revoke(world, kind)
    assert (met.fresh, met.stopped, met.past_pivot, met.held) == (True, (command_id,), (), ())
    view = await world.settle(command_id)
    assert (view.state, view.ending) == ("COMPENSATED", "revoked")
    assert world.passage.sent == [CREATE, STAGE, CANCEL, TRASH]
    assert world.reality().live == []
    again = await revoke(world, kind)
    assert (again.fresh, again.stopped) == (False, ())


@pytest.mark.behaviour("revoke.compromise-holds")
@pytest.mark.parametrize("kind", COMPROMISED)
async def test_a_compromise_sends_nothing_more_not_even_to_undo(world: World, kind: RevocationKind) -> None:
    command_id = await world.until_approval()
    met = await revoke(world, kind)
    assert (met.stopped, met.past_pivot, met.held) == ((), (), (command_id,))
    await world.operations.cancel(command_id, operator="operator:olivia", reason="not ours")
    for _ in range(5):
        await world.turn(command_id)
        world.clock.move_on(10.0)
    assert world.passage.sent == [CREATE, STAGE]
    assert "HELD" in (await world.view(command_id)).blockers
    await world.lift(authority.revocation(scope(kind)))
    assert (await world.settle(command_id)).state == "COMPENSATED"
    assert world.passage.sent == [CREATE, STAGE, CANCEL, TRASH]


@pytest.mark.parametrize("kind", WITHDRAWN)
async def test_what_is_past_its_pivot_is_counted_and_finishes_what_needs_no_authority(
    world: World, kind: RevocationKind
) -> None:
    met: list[Revoked] = []

    async def withdraw() -> None:
        async with world.another() as other:
            met.append(await other.operations.revoke(scope(kind), operator="operator:olivia", reason="left"))

    world.passage.before_fence[RECORD] = withdraw
    command_id = await world.until_approval(proposal(notify=["team"]))
    await world.approve(command_id)
    view = await world.settle(command_id)
    assert [(each.stopped, each.past_pivot) for each in met] == [((), (command_id,))]
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]
    assert (view.state, view.live) == ("NEEDS_REVIEW", True)
    assert [review.kind for review in view.reviews] == ["REVOKED_AFTER_PIVOT"]
    assert NOTIFY not in world.passage.sent


async def test_a_publication_in_doubt_is_found_out_and_never_undone_blindly(world: World) -> None:
    command_id = await world.until_approval()
    await world.approve(command_id)
    world.arm("POST /wp-json/wp/v2/posts/", FaultKind.DROP_AFTER)

    async def withdraw() -> None:
        async with world.another() as other:
            await other.operations.revoke(scope(RevocationKind.AGENT), operator="operator:olivia", reason="left")

    world.passage.after_send[PUBLISH] = withdraw
    view = await world.settle(command_id)
    assert (view.state, view.live, view.ending) == ("SUCCESS", True, "completed")
    assert world.passage.sent == [CREATE, STAGE, PUBLISH, RECORD]


async def test_a_draft_in_doubt_is_found_out_before_it_is_undone(world: World) -> None:
    command_id = await world.accepted()
    world.arm("POST /wp-json/wp/v2/posts", FaultKind.DROP_AFTER)

    async def withdraw() -> None:
        async with world.another() as other:
            await other.operations.revoke(scope(RevocationKind.AGENT), operator="operator:olivia", reason="left")

    world.passage.after_send[CREATE] = withdraw
    view = await world.settle(command_id)
    assert (view.state, view.ending) == ("COMPENSATED", "revoked")
    assert world.passage.sent == [CREATE, TRASH]


async def test_other_agents_and_what_has_ended_are_left_alone(world: World) -> None:
    done = await world.published()
    waiting = await world.until_approval(proposal(article="article-0029", slug="another-one"))
    met = await revoke(world, RevocationKind.AGENT, "agent:somebody")
    assert (met.stopped, met.past_pivot) == ((), ())
    await world.approve(waiting)
    assert (await world.settle(waiting)).live
    met = await revoke(world, RevocationKind.AGENT)
    assert (met.stopped, met.past_pivot) == ((), ())
    assert (await world.view(done)).live


async def test_a_revocation_and_an_approval_at_once_end_in_one_of_both(world: World) -> None:
    """Whoever commits first: a revoked command is never published afterwards."""
    command_id = await world.until_approval()
    async with world.another() as other:
        await asyncio.gather(
            other.operations.revoke(scope(RevocationKind.DECISION), operator="operator:olivia", reason="left"),
            world.approve(command_id),
            return_exceptions=True,
        )
    view = await world.settle(command_id)
    assert (view.state, view.ending, view.live) == ("COMPENSATED", "revoked", False)
    assert world.reality().live == []
