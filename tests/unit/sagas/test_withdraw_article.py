"""What a withdrawal does beside the post: only what the publication did there, and under keys of its own."""

from dataclasses import replace
from typing import Any

import pytest

from execution.catalog import Plan, Previous
from execution.core.definition import Step
from execution.core.failures import CannotTell, Receipt, Unprepared
from execution.core.states import EffectClass, Repeat
from execution.ports import Ports
from execution.proposal import IntakeRefused, Proposal
from execution.sagas import withdraw_params
from execution.sagas.publish_article import SEO_ARTICLE_PUBLISH_V1
from execution.sagas.publish_monitoring import REGISTER, REGISTER_MONITORING
from execution.sagas.publish_notification import NOTIFY
from execution.sagas.publish_records import RECORD, RECORD_PUBLICATION
from execution.sagas.publish_webhook import SEND
from execution.sagas.publish_wordpress import PUBLISH
from execution.sagas.withdraw_article import ARTICLE_WITHDRAW_V1, WITHDRAWAL_APPROVAL
from execution.sagas.withdraw_correction import SEND_CORRECTION, SEND_CORRECTION_WEBHOOK
from execution.sagas.withdraw_steps import (
    INDEX_MONITORING,
    MARK_PUBLICATION_WITHDRAWN,
    OPEN_INCIDENT,
    PURGE_WITHDRAWN,
    UNPUBLISH,
)
from tests.unit.sagas.world import LIVE, PUBLISHED, SETTINGS, World, planned, proposal

EVERYTHING = (RECORD, REGISTER, NOTIFY, SEND)
DOWN = Receipt(resource_id="41", version="v-down", data={"status": "draft", "modified_gmt": "2026-11-30T12:00:00"})


def previous(steps: tuple[str, ...] = EVERYTHING, **changed: Any) -> Previous:
    return replace(LIVE, plan=planned(proposal(notify=["team", "hook"])).params, steps=steps, **changed)


def withdrawal(before: Previous, settings: Any = SETTINGS, reason: str = "a wrong name") -> Plan:
    asked = Proposal(
        intent="withdraw_article",
        site="blog",
        object_id="article-0028",
        version=before.version,
        arguments={"publication": "cmd_1", "reason": reason},
        content=reason.encode(),
    )
    return withdraw_params.plan(settings, asked, "", before)


def world(before: Previous | None = None) -> World:
    return World(withdrawal(before or previous()), definition=ARTICLE_WITHDRAW_V1, receipts={UNPUBLISH: DOWN})


def has(step: Step[Ports], plan: Plan) -> bool:
    return step.when(plan.params)


async def forward(at: World, step: Step[Ports]) -> None:
    await step.action.forward(at.ports, at.context(step.name))


@pytest.mark.parametrize(
    ("step", "undone"),
    [
        (MARK_PUBLICATION_WITHDRAWN, RECORD),
        (INDEX_MONITORING, REGISTER),
        (SEND_CORRECTION, NOTIFY),
        (SEND_CORRECTION_WEBHOOK, SEND),
    ],
)
def test_only_what_the_publication_did_is_answered(step: Step[Ports], undone: str) -> None:
    rest = tuple(name for name in EVERYTHING if name != undone)
    assert has(step, withdrawal(previous()))
    assert not has(step, withdrawal(previous(rest)))


def test_what_this_installation_no_longer_has_is_left_out() -> None:
    bare = replace(
        SETTINGS,
        publications=False,
        monitoring=False,
        mail=False,
        webhooks=frozenset(),
        sites={"blog": replace(SETTINGS.sites["blog"], purge=())},
    )
    plan = withdrawal(previous(), bare)
    assert [step.name for step in ARTICLE_WITHDRAW_V1.steps if has(step, plan)] == [UNPUBLISH]


async def test_the_address_where_it_was_live_and_the_pages_that_list_it_are_purged() -> None:
    at = world()
    assert [step.name for step in PURGE_WITHDRAWN if has(step, at.plan)] == ["PURGE_CLOUDFLARE_CACHE"]
    await forward(at, PURGE_WITHDRAWN[0])
    assert at.pages.calls[-1][1]["addresses"] == (LIVE.url, "https://blog.example/")


async def test_the_articles_one_check_is_the_publications_and_says_that_it_was_withdrawn() -> None:
    published = World(planned(), receipts={PUBLISH: PUBLISHED})
    await forward(published, REGISTER_MONITORING)
    at = world()
    await forward(at, INDEX_MONITORING)
    registered, indexed = published.watch.calls[-1][1], at.watch.calls[-1][1]
    assert indexed.key == registered.key
    assert (indexed.name, indexed.url) == ("Withdrawn: How to brew", LIVE.url)
    assert indexed.tags == ("remit", "withdrawn", "site:blog", "prod")


@pytest.mark.parametrize("generation", ["", "#abcdefghijklmnop"])
async def test_the_row_that_is_marked_is_the_publications_own(generation: str) -> None:
    published = World(planned(), receipts={PUBLISH: PUBLISHED}, generation=generation)
    await forward(published, RECORD_PUBLICATION)
    at = world(previous(generation=generation))
    await forward(at, MARK_PUBLICATION_WITHDRAWN)
    await forward(at, OPEN_INCIDENT)
    recorded = published.table.calls[-1][1]["record"]
    marked, opened = at.table.calls
    assert marked == ("withdraw", {"key": recorded.key})
    incident = opened[1]["incident"]
    assert (incident.publication_key, incident.reason) == (recorded.key, "a wrong name")
    assert incident.key != recorded.key


async def test_whoever_was_told_is_told_of_the_end_and_never_why() -> None:
    at = world()
    await forward(at, SEND_CORRECTION)
    (message,) = at.relay.sent
    assert message.recipients == ("Ann@example.org", "bob@example.org")
    assert message.subject == "Withdrawn: How to brew"
    assert "a wrong name" not in message.text
    await forward(at, SEND_CORRECTION_WEBHOOK)
    (event,) = at.receiver.sent
    assert (event.kind, event.at) == ("article.withdrawn", "2026-11-30T12:00:00Z")
    assert event.data == {
        "site": "blog",
        "article_id": "article-0028",
        "version": 1,
        "title": "How to brew",
        "url": LIVE.url,
    }


async def test_nobody_is_told_before_it_is_down() -> None:
    at = world()
    at.receipts.clear()
    with pytest.raises(Unprepared, match="withdrawal_missing"):
        await forward(at, SEND_CORRECTION_WEBHOOK)


@pytest.mark.parametrize(
    ("before", "code"),
    [
        (previous(live=False), "not_live"),
        (previous(command_id="cmd_9"), "not_live"),
        (previous(post_id=None), "not_live"),
        (previous(external_version=None), "not_live"),
    ],
)
def test_what_is_not_live_is_not_withdrawn(before: Previous, code: str) -> None:
    with pytest.raises(IntakeRefused, match=code):
        withdrawal(before)


def test_a_reason_is_a_sentence_or_two() -> None:
    with pytest.raises(IntakeRefused, match="too_long"):
        withdrawal(previous(), reason="x" * 501)


async def test_a_person_approves_what_would_be_taken_down_and_who_would_be_told() -> None:
    at = world()
    shown = await WITHDRAWAL_APPROVAL.subject(at.ports, at.context(WITHDRAWAL_APPROVAL.name))
    assert not isinstance(shown, CannotTell)
    assert shown["recipients"] == ["Ann@example.org", "bob@example.org"]
    assert shown["webhooks"] == ["hook"]
    assert shown["purge"] == [LIVE.url, "https://blog.example/"]
    assert shown["target"]["expected_version"] == "v-live"
    assert (shown["reason"], shown["baseline"]["status"]) == ("a wrong name", "gone")


def test_what_cannot_be_asked_is_never_repeated_and_everything_before_it_is_by_key() -> None:
    effects = {step.name: (step.effect, step.action.repeat) for step in ARTICLE_WITHDRAW_V1.steps}
    assert effects[UNPUBLISH] == (EffectClass.PIVOT, Repeat.NEVER)
    for step in (SEND_CORRECTION, SEND_CORRECTION_WEBHOOK):
        assert effects[step.name] == (EffectClass.IRREVERSIBLE, Repeat.NEVER)
    for step in (OPEN_INCIDENT, MARK_PUBLICATION_WITHDRAWN, INDEX_MONITORING):
        assert effects[step.name] == (EffectClass.RETRYABLE, Repeat.BY_KEY)


def test_no_step_shares_a_key_with_one_of_the_publication() -> None:
    def keys(definition: Any) -> set[tuple[str, str]]:
        return {(step.action.system, step.action.operation) for step in definition.steps}

    assert not keys(ARTICLE_WITHDRAW_V1) & keys(SEO_ARTICLE_PUBLISH_V1)
