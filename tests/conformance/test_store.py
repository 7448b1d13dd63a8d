"""One suite for every engine the store runs on: commits, guards, fences, locks, authority, verification."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, text, update

from execution.core.command import Approval, Saga
from execution.core.draft import Draft, Unit
from execution.core.identity import generation_suffix
from execution.core.states import ApprovalState, Settlement, State
from execution.pace import Closed
from execution.store import artifacts, authority, journal, meta, outbox, pauses, refusals, registry, schema
from execution.store.errors import (
    ArtifactTooLarge,
    Duplicate,
    FenceRefused,
    LocksHeld,
    NameTaken,
    Refusal,
    Stale,
)
from execution.store.opening import open_store
from execution.store.units import apply_unit
from execution.store.writer import Store
from tests.conftest import unavailable
from tests.integration.world import eventually
from tests.unit.store import building
from tests.unit.store.building import LATER, NOW, POLICY, accept, fenced, noted, opened, outcomes, stored, together
from tests.unit.store.postgres import fresh_database, missing_programs, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server of this run alone."""
    if missing := missing_programs():
        unavailable(f"not installed: {', '.join(missing)}")
    with postgres_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store on each engine."""
    target: str | Path = tmp_path / "journal.db"
    if request.param == "postgresql":
        target = fresh_database(request.getfixturevalue("postgres"), f"t{os.getpid()}_{tmp_path.name}")
    opened_store = open_store(target)
    yield opened_store
    await opened_store.close()


async def test_a_saga_comes_back_as_it_was_committed(store: Store) -> None:
    saga = await accept(store, "cmd_a", steps=3)
    assert await stored(store, "cmd_a") == saga
    assert await store.read(lambda conn: registry.load_saga(conn, "cmd_a")) == saga


async def test_an_owner_that_lost_the_race_learns_it_and_writes_nothing(store: Store) -> None:
    saga = await accept(store, "cmd_a")
    unit, after = noted(saga)
    await store.commit(unit)
    with pytest.raises(Stale):
        await store.commit(noted(saga, {"second": True})[0])
    assert await stored(store, "cmd_a") == after


async def test_only_the_loser_of_a_batch_fails(store: Store) -> None:
    sagas = [await accept(store, f"cmd_{number}") for number in range(8)]
    await store.commit(noted(sagas[3])[0])
    results = await together(*(store.commit(noted(saga)[0]) for saga in sagas))
    assert outcomes(results) == [None, None, None, "Stale", None, None, None, None]


async def test_commits_of_one_saga_in_one_batch_follow_each_other(store: Store) -> None:
    first, after_first = noted(await accept(store, "cmd_a"))
    second, after_second = noted(after_first)
    assert outcomes(await together(store.commit(first), store.commit(second))) == [None, None]
    assert await stored(store, "cmd_a") == after_second


async def test_a_key_is_held_by_one_command(store: Store) -> None:
    await accept(store, "cmd_a")
    with pytest.raises(Duplicate):
        await store.commit(opened("cmd_b", idempotency_key="acme:cmd_a:0")[0])
    assert await store.hot(lambda conn: registry.find(conn, "cmd_b")) is None


async def test_a_function_that_raises_undoes_what_it_wrote_and_nothing_else(store: Store) -> None:
    def broken(conn: Connection) -> None:
        apply_unit(conn, opened("cmd_broken")[0])
        raise LookupError("on purpose")

    saga = await accept(store, "cmd_a")
    results = await together(store.commit(noted(saga)[0]), store.transact(broken), accept(store, "cmd_b"))
    assert outcomes(results) == [None, "LookupError", None]
    assert await store.hot(lambda conn: registry.find(conn, "cmd_broken")) is None


async def test_a_fence_that_holds_writes_the_attempt(store: Store) -> None:
    saga = await accept(store, "cmd_a")
    await store.commit(fenced(saga))
    (attempt,) = (await stored(store, "cmd_a")).attempts
    assert attempt == building.attempt(saga)


@pytest.mark.parametrize(
    ("scope", "reason", "finishing"),
    [
        ("freeze:all", Refusal.HELD, Refusal.HELD),
        ("freeze:tenant:acme", Refusal.HELD, Refusal.HELD),
        ("freeze:system:noop", Refusal.HELD, Refusal.HELD),
        ("freeze:site:blog", Refusal.HELD, Refusal.HELD),
        ("revoked:key:kid-1", Refusal.HELD, Refusal.HELD),
        ("revoked:tenant:acme", Refusal.HELD, Refusal.HELD),
        ("revoked:token:https://issuer tok_1", Refusal.REVOKED, None),
        ("revoked:decision:dec_1", Refusal.REVOKED, None),
        ("revoked:agent:agent:w", Refusal.REVOKED, None),
        ("revoked:client:desk", Refusal.REVOKED, None),
        ("revoked:client:another", None, None),
    ],
)
async def test_a_restriction_stops_what_it_must_and_spares_what_may_finish(
    store: Store, scope: str, reason: Refusal | None, finishing: Refusal | None
) -> None:
    first, second = await accept(store, "cmd_a"), await accept(store, "cmd_b")
    await store.transact(lambda conn: authority.restrict(conn, scope, reason="why", by="ann", now_ms=NOW))
    assert await _refusal(store, fenced(first)) is reason
    assert await _refusal(store, fenced(second, finish_only=True)) is finishing
    await store.transact(lambda conn: authority.lift(conn, scope))
    if reason is not None:
        await store.commit(fenced(first))


async def test_a_lapsed_or_missing_grant_stops_a_step_that_may_not_finish(store: Store) -> None:
    saga = await accept(store, "cmd_a", until_ms=NOW)
    assert await _refusal(store, fenced(saga)) is Refusal.GRANT_LAPSED
    assert await _refusal(store, fenced(saga, finish_only=True)) is None
    await store.commit(opened("cmd_b")[0])
    assert await _refusal(store, fenced(await stored(store, "cmd_b"))) is Refusal.GRANT_LAPSED


@pytest.mark.behaviour("threat.8")
@pytest.mark.parametrize(
    ("pattern", "changes", "reason"),
    [
        ("site/blog/article-1", {}, None),
        ("site/blog/*", {}, None),
        ("site/blog/article-10", {}, Refusal.OUT_OF_SCOPE),
        ("site/shop/*", {}, Refusal.OUT_OF_SCOPE),
        ("site/blog/*", {"resources": ("site/blog/article-1", "site/shop/article-1")}, Refusal.OUT_OF_SCOPE),
        ("site/blog/*", {"resources": ()}, Refusal.OUT_OF_SCOPE),
        ("site/blog/*", {"action": "propose_order"}, Refusal.OUT_OF_SCOPE),
        ("site/shop/*", {"finish_only": True}, Refusal.OUT_OF_SCOPE),
    ],
)
async def test_what_an_attempt_touches_is_held_against_what_the_token_was_for(
    store: Store, pattern: str, changes: dict[str, Any], reason: Refusal | None
) -> None:
    details = json.dumps([{"actions": ["propose_publish"], "resources": [pattern]}])
    saga = await accept(store, "cmd_a", details=details)
    assert await _refusal(store, fenced(saga, **changes)) is reason


@pytest.mark.parametrize("details", ["", "{}", "null", "[[]]", '[{"actions":["propose_publish"],"resources":"*"}]'])
async def test_a_grant_that_cannot_be_read_permits_nothing(store: Store, details: str) -> None:
    assert await _refusal(store, fenced(await accept(store, "cmd_a", details=details))) is Refusal.OUT_OF_SCOPE


async def test_a_renewed_grant_permits_again(store: Store) -> None:
    saga = await accept(store, "cmd_a", until_ms=NOW)
    renew = {"grant_until_ms": LATER, "policy_hash": POLICY}
    assert await store.transact(lambda conn: authority.extend_grant(conn, "cmd_a", **renew))  # type: ignore[arg-type]  # the two keyword arguments
    assert await _refusal(store, fenced(saga)) is None


async def test_another_policy_in_force_stops_even_what_may_finish(store: Store) -> None:
    saga = await accept(store, "cmd_a")
    assert await _refusal(store, fenced(saga, finish_only=True, policy_hash="policy-2")) is Refusal.POLICY_CHANGED
    assert await _refusal(store, fenced(saga, finish_only=True)) is None


@pytest.mark.behaviour("threat.10")
@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({}, None),
        ({"state": ApprovalState.PENDING}, Refusal.APPROVAL_MISSING),
        ({"state": ApprovalState.VOID}, Refusal.APPROVAL_MISSING),
        ({"expires_at_ms": NOW}, Refusal.APPROVAL_MISSING),
        ({"request_digest": "e" * 64}, Refusal.APPROVAL_DIFFERS),
        ({"approval_id": "apr_other"}, Refusal.APPROVAL_MISSING),
    ],
)
async def test_an_approval_must_be_given_alive_and_of_these_bytes(
    store: Store, columns: dict[str, Any], reason: Refusal | None
) -> None:
    saga = await accept(store, "cmd_a")
    draft = building.draft_of(saga)
    draft.put_approval(building.approval(saga, **columns))
    await store.commit(draft.unit())
    saga = await stored(store, "cmd_a")
    assert await _refusal(store, fenced(saga, approval_id="apr_cmd_a")) is reason


@pytest.mark.behaviour("approval.one-open")
async def test_a_gate_has_one_open_approval_and_a_second_asker_is_refused(store: Store) -> None:
    """The version of the root stops the loser first; here both hold the newest one, as if that guard were gone."""
    saga = await accept(store, "cmd_a")

    def asking(known: Saga, name: str, was: Approval | None = None) -> Unit:
        draft = Draft(known, actor="worker", now_ms=NOW)
        if was is not None:
            draft.put_approval(replace(was, state=ApprovalState.VOID))
        draft.put_approval(building.approval(saga, ApprovalState.PENDING, approval_id=name))
        return draft.unit()

    await store.commit(asking(saga, "apr_1"))
    for state in (ApprovalState.PENDING, ApprovalState.APPROVED):
        (first,) = (await stored(store, "cmd_a")).approvals
        given = Draft(await stored(store, "cmd_a"), actor="worker", now_ms=NOW)
        given.put_approval(replace(first, state=state))
        await store.commit(given.unit())
        with pytest.raises(Duplicate):
            await store.commit(asking(await stored(store, "cmd_a"), "apr_2"))
    known = await stored(store, "cmd_a")
    await store.commit(asking(known, "apr_2", known.approvals[0]))
    kept = {each.approval_id: each.state for each in (await stored(store, "cmd_a")).approvals}
    assert kept == {"apr_1": ApprovalState.VOID, "apr_2": ApprovalState.PENDING}


@pytest.mark.behaviour("threat.11")
async def test_an_approval_of_another_saga_does_not_count(store: Store) -> None:
    first, second = await accept(store, "cmd_a"), await accept(store, "cmd_b")
    draft = building.draft_of(first)
    draft.put_approval(building.approval(first))
    await store.commit(draft.unit())
    assert await _refusal(store, fenced(second, approval_id="apr_cmd_a")) is Refusal.APPROVAL_MISSING


async def test_a_refused_fence_fails_only_its_own_unit_and_writes_nothing(store: Store) -> None:
    sagas = [await accept(store, "cmd_a"), await accept(store, "cmd_b", until_ms=NOW), await accept(store, "cmd_c")]
    results = await together(*(store.commit(fenced(saga)) for saga in sagas))
    assert outcomes(results) == [None, "FenceRefused", None]
    assert await stored(store, "cmd_b") == sagas[1]


@pytest.mark.behaviour("threat.15")
async def test_a_revocation_submitted_between_two_fences_stops_the_second(store: Store) -> None:
    first, second = await accept(store, "cmd_a"), await accept(store, "cmd_b")
    scope = "revoked:agent:agent:w"
    results = await together(
        store.commit(fenced(first)),
        store.transact(lambda conn: authority.restrict(conn, scope, reason="why", by="ann", now_ms=NOW)),
        store.commit(fenced(second)),
    )
    assert outcomes(results) == [None, None, "FenceRefused"]


async def test_every_change_of_authority_raises_its_revision(store: Store) -> None:
    await accept(store, "cmd_a")

    def revision(conn: Connection) -> int:
        found: int = conn.execute(text("SELECT revision FROM authority")).scalar_one()
        return found

    def revisions(conn: Connection) -> list[int]:
        seen = [revision(conn)]
        authority.restrict(conn, "freeze:all", reason="why", by="ann", now_ms=NOW)
        seen.append(revision(conn))
        authority.lift(conn, "freeze:all")
        seen.append(revision(conn))
        authority.extend_grant(conn, "cmd_a", grant_until_ms=LATER, policy_hash=POLICY)
        return [*seen, revision(conn)]

    seen = await store.transact(revisions)
    assert seen == sorted(set(seen))


async def test_a_scope_that_no_fence_asks_for_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="not a scope"):
        await store.transact(lambda conn: authority.restrict(conn, "freeze:al", reason="", by="ann", now_ms=NOW))


async def test_locks_are_taken_all_or_none_and_are_their_owners_again(store: Store) -> None:
    await accept(store, "cmd_a", locks=("post/1", "post/2"))
    with pytest.raises(LocksHeld) as refused:
        await store.commit(opened("cmd_b", locks=("post/0", "post/2"))[0])
    assert refused.value.owner == "cmd_a"
    assert await store.hot(lambda conn: registry.lock_owner(conn, "acme", "post/0")) is None
    draft = building.draft_of(await stored(store, "cmd_a"))
    draft.take_locks(("post/2", "post/3"))
    await store.commit(draft.unit())
    held = await store.hot(lambda conn: registry.locks_of(conn, "cmd_a"))
    assert [lock.resource for lock in held] == ["post/1", "post/2", "post/3"]


async def test_of_two_that_want_a_lock_in_one_batch_the_first_gets_it(store: Store) -> None:
    wanting = [store.commit(opened(f"cmd_{name}", locks=("post/1",))[0]) for name in "abc"]
    assert outcomes(await together(*wanting)) == [None, "LocksHeld", "LocksHeld"]


async def test_a_lock_freed_earlier_in_the_batch_can_be_taken(store: Store) -> None:
    draft = building.draft_of(await accept(store, "cmd_a", locks=("post/1",)))
    draft.free_locks()
    taking = [opened(f"cmd_{name}", locks=("post/1",))[0] for name in "bcd"]
    results = await together(*(store.commit(unit) for unit in (taking[0], draft.unit(), taking[1], taking[2])))
    assert outcomes(results) == ["LocksHeld", None, None, "LocksHeld"]


@pytest.mark.behaviour("threat.6")
async def test_locks_of_different_tenants_do_not_meet(store: Store) -> None:
    await accept(store, "cmd_a", locks=("post/1",))
    await accept(store, "cmd_b", locks=("post/1",), tenant="other")
    assert await store.hot(lambda conn: registry.lock_owner(conn, "other", "post/1")) == "cmd_b"


@pytest.mark.behaviour("threat.17")
async def test_a_token_is_used_as_often_as_it_may(store: Store) -> None:
    def use(conn: Connection) -> bool:
        return authority.use_token(conn, iss="i", jti="t", tenant="acme", max_uses=2, now_ms=NOW)

    assert await together(*(store.transact(use) for _ in range(4))) == [True, True, False, False]
    assert await store.hot(lambda conn: authority.token_uses(conn, "i", "t")) == 2


async def test_an_attempt_is_on_the_watch_list_until_it_is_settled(store: Store) -> None:
    await store.commit(fenced(await accept(store, "cmd_a")))
    saga = await stored(store, "cmd_a")
    watched = await store.hot(lambda conn: registry.open_attempts_on(conn, "noop/cmd_a"))
    assert watched == saga.attempts
    draft = building.draft_of(saga)
    draft.put_attempt(replace(watched[0], settlement=Settlement.LANDED, settled_at_ms=NOW, sent_late=True))
    await store.commit(draft.unit())
    assert await store.hot(lambda conn: registry.open_attempts_on(conn, "noop/cmd_a")) == ()
    assert (await stored(store, "cmd_a")).attempts[0].sent_late is True


async def test_the_sweep_finds_due_roots_of_definitions_it_has(store: Store) -> None:
    for name, due, version in (("late", NOW, 1), ("later", NOW - 5, 1), ("early", NOW + 1, 1), ("new", NOW, 2)):
        await accept(store, f"cmd_{name}", next_check_at_ms=due, definition_version=version)
    assert await store.hot(lambda conn: registry.due_roots(conn, NOW, 9, {("NOOP", 1)})) == ("cmd_later", "cmd_late")
    assert await store.hot(lambda conn: registry.due_roots(conn, NOW, 1, {("NOOP", 1)})) == ("cmd_later",)
    assert await store.hot(lambda conn: registry.due_roots(conn, NOW, 9, ())) == ()
    unknown = await store.hot(lambda conn: registry.unknown_definitions(conn, {("NOOP", 1)}))
    assert unknown == {("NOOP", 2): 1}


async def test_pages_show_every_root_once_the_newest_first(store: Store) -> None:
    for number in range(7):
        await accept(store, f"cmd_{number}", created_at_ms=NOW + number // 2)

    def walk(conn: Connection) -> list[str]:
        rows, after = registry.page(conn, registry.Filter(), limit=3)
        seen = [row.command_id for row in rows]
        while after is not None:
            rows, after = registry.page(conn, registry.Filter(), limit=3, after=after)
            seen += [row.command_id for row in rows]
        return seen

    seen = await store.read(walk)
    assert seen == [f"cmd_{number}" for number in (6, 5, 4, 3, 2, 1, 0)]
    assert await store.read(registry.counts_by_state) == {State.QUEUED: 7}
    wanted = registry.Filter(tenant="acme", states=frozenset({State.QUEUED}), principal="agent:w", unfinished=True)
    assert len((await store.read(lambda conn: registry.page(conn, wanted)))[0]) == 7
    assert await store.read(lambda conn: registry.recent(conn, "acme", principal="agent:x")) == ()


async def test_the_newest_generation_is_found_by_the_key_of_the_first(store: Store) -> None:
    key = "acme:wp:publish:blog:article-1:v1"
    await accept(store, "cmd_a", idempotency_key=key)
    for before, name in (("cmd_a", "cmd_b"), ("cmd_b", "cmd_c")):
        suffix = generation_suffix(before)
        await accept(store, name, idempotency_key=key + suffix, generation=suffix, repeat_of=before)
    newest = await store.hot(lambda conn: registry.newest_generation(conn, "acme", key))
    assert newest is not None
    assert newest.command_id == "cmd_c"
    assert await store.hot(lambda conn: registry.newest_generation(conn, "acme", "other")) is None


async def test_the_outbox_gives_what_was_not_said(store: Store) -> None:
    for name in "abc":
        await accept(store, f"cmd_{name}")
    first, second, third = await store.hot(lambda conn: outbox.unsent(conn, 10))
    assert await store.transact(lambda conn: outbox.mark_sent(conn, [first.outbox_id, third.outbox_id], NOW)) == 2
    assert await store.hot(lambda conn: outbox.unsent(conn, 10)) == (second,)
    assert await store.transact(lambda conn: outbox.mark_sent(conn, [first.outbox_id], NOW)) == 0
    assert await store.transact(lambda conn: outbox.prune(conn, NOW + 1, 10)) == 2


async def test_a_decision_is_spent_within_its_budget_and_time(store: Store) -> None:
    decision = authority.Decision(
        decision_id="dec_1",
        tenant="acme",
        opened_by="ann",
        intents='["publish"]',
        resources='["site/blog/*"]',
        evidence="[]",
        risk_class="normal",
        policy_hash=POLICY,
        outcome="allowed",
        opened_at_ms=NOW,
        valid_until_ms=LATER,
        tokens_max=1,
        uses_max=2,
    )
    await store.transact(lambda conn: authority.open_decision(conn, decision))
    assert await store.hot(lambda conn: authority.find_decision(conn, "dec_1")) == decision
    assert await store.transact(lambda conn: authority.spend_token(conn, "dec_1", NOW))
    assert not await store.transact(lambda conn: authority.spend_token(conn, "dec_1", NOW))
    assert not await store.transact(lambda conn: authority.spend_use(conn, "dec_1", LATER))
    assert await store.transact(lambda conn: authority.close_decision(conn, "dec_1", by="ann", now_ms=NOW))
    assert not await store.transact(lambda conn: authority.spend_use(conn, "dec_1", NOW))


@pytest.mark.behaviour("threat.39")
async def test_artifacts_are_stored_once_bound_for_good_and_erasable(store: Store) -> None:
    put: dict[str, Any] = {"media_type": "text/html", "now_ms": NOW, "bytes_max": 10}
    digest = await store.transact(lambda conn: artifacts.put(conn, b"one", **put))
    assert await store.transact(lambda conn: artifacts.put(conn, b"one", **put)) == digest
    other = await store.transact(lambda conn: artifacts.put(conn, b"two", **put))
    with pytest.raises(ArtifactTooLarge):
        await store.transact(lambda conn: artifacts.put(conn, b"12345678901", **put))
    for _ in range(2):
        await store.transact(lambda conn: artifacts.bind(conn, "article/1/v1", digest, NOW))
    with pytest.raises(NameTaken):
        await store.transact(lambda conn: artifacts.bind(conn, "article/1/v1", other, NOW))
    assert await store.hot(lambda conn: artifacts.resolve(conn, "article/1/v1")) == digest
    for path in ("article/1/../1/v1", "../article/1/v1", "/etc/passwd", "article/1/v1/."):
        assert await store.hot(lambda conn, path=path: artifacts.resolve(conn, path)) is None, "a name is no path"  # type: ignore[misc]  # a default argument binds the loop's value
    found = await store.read(lambda conn: artifacts.get(conn, digest))
    assert found is not None
    assert found.content == b"one"
    assert await store.transact(lambda conn: artifacts.erase(conn, digest, NOW))
    erased = await store.read(lambda conn: artifacts.get(conn, digest))
    assert erased is not None
    assert erased.content is None


async def test_refusals_are_kept_without_content_and_cut(store: Store) -> None:
    refused = refusals.Refused(
        tenant="acme", who="agent:w", intent="publish", target="x" * 999, code="scope", at_ms=NOW
    )
    await store.transact(lambda conn: refusals.record(conn, refused))
    (kept,) = await store.read(refusals.recent)
    assert kept == replace(refused, target="x" * refusals.FIELD_CHARS_MAX)


@pytest.mark.behaviour("threat.43")
async def test_a_store_keeps_its_identity_and_its_clock_never_goes_back(store: Store) -> None:
    first = await meta.establish(store, installation="inst_1", incarnation="inc_1", now_ms=NOW)
    again = await meta.establish(store, installation="inst_2", incarnation="inc_2", now_ms=LATER)
    assert (first.created, first.changed) == (True, False)
    assert (again.installation, again.incarnation, again.created, again.changed) == ("inst_1", "inc_1", False, False)
    assert await meta.tick(store, LATER) == LATER
    assert await meta.tick(store, NOW) == LATER
    await meta.mark(store)
    assert not await meta.has_changed(store)


async def test_an_untouched_journal_has_no_findings(store: Store) -> None:
    for name in "abcde":
        await store.commit(noted(await accept(store, f"cmd_{name}", steps=2))[0])
    batches = await store.read(lambda conn: list(journal.verify_all(conn, 4)))
    assert sum(batch.commands for batch in batches) == 15
    assert [finding for batch in batches for finding in batch.findings] == []
    assert await store.read(lambda conn: len(journal.saga_chain(conn, "cmd_a"))) == 7


@pytest.mark.parametrize(
    ("table", "where", "values", "kinds"),
    [
        ("events", "command_id = 'cmd_a' AND seq = 2", {"body": '{"a":1}'}, {"HASH_DIFFERS"}),
        ("events", "command_id = 'cmd_a' AND seq = 2", {"at_ms": 1}, {"HASH_DIFFERS"}),
        ("events", "command_id = 'cmd_a' AND seq = 2", {"hash": "0" * 64}, {"HASH_DIFFERS", "LINK_BROKEN"}),
        ("events", "command_id = 'cmd_a' AND seq = 5", {"seq": 9}, {"HASH_DIFFERS", "SEQUENCE_BROKEN", "END_DIFFERS"}),
        ("commands", "command_id = 'cmd_a'", {"state": "SUCCESS"}, {"STATE_DIFFERS"}),
        ("commands", "command_id = 'cmd_a'", {"chain_seq": 9}, {"END_DIFFERS"}),
        ("commands", "command_id = 'cmd_a'", {"chain_head": "0" * 64}, {"END_DIFFERS"}),
        ("events", "command_id = 'cmd_a' AND seq = 2", {"type": "UNWOUND"}, {"HASH_DIFFERS", "MOVE_ILLEGAL"}),
    ],
)
async def test_tampering_is_found(
    store: Store, table: str, where: str, values: dict[str, Any], kinds: set[str]
) -> None:
    await store.commit(noted(await accept(store, "cmd_a"))[0])
    tampered = update(schema.METADATA.tables[table]).where(text(where)).values(values)
    await store.transact(lambda conn: conn.execute(tampered).rowcount)
    findings = await store.read(lambda conn: journal.verify_chain(conn, "cmd_a"))
    assert {finding.kind.value for finding in findings} == kinds


async def test_a_cut_off_end_is_found(store: Store) -> None:
    await store.commit(noted(await accept(store, "cmd_a"))[0])
    cut = schema.EVENTS.delete().where(schema.EVENTS.c.command_id == "cmd_a", schema.EVENTS.c.seq == 5)
    await store.transact(lambda conn: conn.execute(cut).rowcount)
    (batch,) = await store.read(lambda conn: list(journal.verify_all(conn)))
    assert [finding.kind for finding in batch.findings] == [journal.FindingKind.END_DIFFERS]


async def _refusal(store: Store, unit: Any) -> Refusal | None:
    try:
        await store.commit(unit)
    except FenceRefused as refused:
        return refused.reason
    return None


async def test_a_pause_is_told_to_every_worker_and_only_ever_lengthened(store: Store) -> None:
    for until, code in ((NOW + 5_000, "rate_limited"), (NOW + 1_000, "no_answer"), (NOW + 9_000, "busy")):
        found = {"wordpress/blog": Closed(until_ms=until, code=code)}
        await store.transact(partial(pauses.note, closed=found))
    await store.transact(lambda conn: pauses.note(conn, {"mail": Closed(until_ms=NOW + 10, code="busy")}))
    in_force = await store.read(lambda conn: pauses.in_force(conn, NOW + 10))
    assert in_force == {"wordpress/blog": Closed(until_ms=NOW + 9_000, code="busy")}


async def test_a_checkpoint_waits_for_events_that_could_still_come_before_its_end(
    postgres: str, tmp_path: Path
) -> None:
    """PostgreSQL hands a position out before its commit: a later one can be committed first."""
    store = open_store(fresh_database(postgres, f"t{os.getpid()}_{tmp_path.name}"))
    saga = await accept(store, "cmd_a")
    others = create_engine(store.engine.url)
    with others.connect() as slow, others.connect() as looking:
        slow.execute(
            text(
                "INSERT INTO events (command_id, seq, type, actor, at_ms, body, prev_hash, hash) VALUES "
                "('cmd_a', 99, 'FINDINGS', 'x', 1, '{}', 'p', 'h')"
            )
        )
        await store.commit(noted(saga)[0])
        asked: asyncio.Future[int] = asyncio.ensure_future(store.transact(journal.settled_position))
        waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'ShareLock'")

        async def waits() -> bool:
            found = bool(looking.execute(waiting).scalar())
            looking.rollback()
            return found or asked.done()

        await eventually(waits, "the checkpoint waits for a writer")
        assert not asked.done()
        slow.commit()
    settled = await asked
    leaves = await store.read(lambda conn: journal.hashes(conn, 0, 100, settled))
    assert "h" in [leaf.hash for leaf in leaves]
    assert len(leaves) == await store.read(journal.count)
    others.dispose()
    await store.close()
