"""The steps of a publication: what each asks of its port, and what it makes of the answer."""

from dataclasses import replace
from typing import Any

import pytest

from execution.core.definition import CheckGate, Step
from execution.core.failures import Absent, CannotTell, FailureClass, Foreign, Present, Receipt, Sighting, Unprepared
from execution.core.states import EffectClass, Repeat
from execution.ports import Article, Ports
from execution.sagas.publish_archive import OPEN_ARCHIVE_PULL_REQUEST
from execution.sagas.publish_article import SEO_ARTICLE_PUBLISH_V1
from execution.sagas.publish_gates import HUMAN_APPROVAL, VALIDATE_PUBLICATION
from execution.sagas.publish_image import UPLOAD_FEATURED_IMAGE
from execution.sagas.publish_notification import SEND_NOTIFICATION, message_of
from execution.sagas.publish_records import RECORD_PUBLICATION, STAGE_PUBLICATION_RECORD
from execution.sagas.publish_webhook import SEND_WEBHOOK
from execution.sagas.publish_wordpress import (
    CREATE_WORDPRESS_DRAFT,
    PUBLISH_WORDPRESS_POST,
    TRASH_STAGED_DRAFT,
    draft_marker,
)
from tests.unit.sagas.world import (
    DRAFT,
    LIVE,
    PNG,
    PUBLISHED,
    SETTINGS,
    UPLOADED,
    World,
    planned,
    proposal,
    with_image,
)

ARTICLE = Article(title="How to brew", content="<h1>Hello</h1>\n<p>world</p>\n", slug="how-to-brew")
SEEN = Present(receipt=DRAFT)


def first() -> World:
    """A first version whose draft exists."""
    world = World(planned(notify=["team"]), receipts={CREATE_WORDPRESS_DRAFT.name: DRAFT})
    world.site.sees["observe_draft"] = SEEN
    return world


def pictured() -> World:
    """A first version with an image, image and draft stored."""
    world = first()
    receipts = {**world.receipts, UPLOAD_FEATURED_IMAGE.name: UPLOADED}
    shown = World(planned(with_image(proposal(notify=["team"]))), site=world.site, receipts=receipts)
    shown.library.sees["observe_image"] = Present(receipt=UPLOADED)
    return shown


def later() -> World:
    """Version 2 of a live article, its draft staged."""
    world = World(planned(version=2, previous=LIVE), receipts={CREATE_WORDPRESS_DRAFT.name: DRAFT})
    live = Present(receipt=Receipt(resource_id="41", version="v-live"))
    world.site.reads["41"] = live
    world.site.sees |= {"observe_draft": SEEN, "find_public": live}
    return world


async def look(world: World, step: Step[Ports], **changed: Any) -> Any:
    assert step.action.observe is not None
    return await step.action.observe(world.ports, world.context(step.name, **changed))


async def prepare(world: World, step: Step[Ports], **changed: Any) -> None:
    await step.action.forward(world.ports, world.context(step.name, **changed))


async def check(world: World) -> Any:
    return await VALIDATE_PUBLICATION.check(world.ports, world.context(VALIDATE_PUBLICATION.name))


async def subject(world: World) -> Any:
    return await HUMAN_APPROVAL.subject(world.ports, world.context(PUBLISH_WORDPRESS_POST.name))


def codes(found: Any) -> list[str]:
    assert isinstance(found, tuple)
    return [finding.code for finding in found]


def parts_of(world: World) -> list[str]:
    return [part.name for part in SEO_ARTICLE_PUBLISH_V1.parts if part.when(world.plan.params)]


def test_the_steps_stand_in_the_order_of_recoverability() -> None:
    assert [(part.name, getattr(part, "effect", None)) for part in SEO_ARTICLE_PUBLISH_V1.parts] == [
        ("ARCHIVE_CONTENT_VERSION", EffectClass.COMPENSABLE),
        ("OPEN_ARCHIVE_PULL_REQUEST", EffectClass.COMPENSABLE),
        ("UPLOAD_FEATURED_IMAGE", EffectClass.COMPENSABLE),
        ("CREATE_WORDPRESS_DRAFT", EffectClass.COMPENSABLE),
        ("STAGE_PUBLICATION_RECORD", EffectClass.COMPENSABLE),
        ("VALIDATE_PUBLICATION", None),
        ("HUMAN_APPROVAL", None),
        ("PUBLISH_WORDPRESS_POST", EffectClass.PIVOT),
        ("PURGE_CLOUDFLARE_CACHE", EffectClass.RETRYABLE),
        ("PURGE_CLOUDFLARE_CACHE_2", EffectClass.RETRYABLE),
        ("PURGE_CLOUDFLARE_CACHE_3", EffectClass.RETRYABLE),
        ("PURGE_CLOUDFLARE_CACHE_4", EffectClass.RETRYABLE),
        ("REGISTER_MONITORING", EffectClass.RETRYABLE),
        ("RECORD_PUBLICATION", EffectClass.RETRYABLE),
        ("TRASH_STAGED_DRAFT", EffectClass.RETRYABLE),
        ("SEND_NOTIFICATION", EffectClass.IRREVERSIBLE),
        ("SEND_WEBHOOK", EffectClass.IRREVERSIBLE),
    ]
    assert (SEO_ARTICLE_PUBLISH_V1.name, SEO_ARTICLE_PUBLISH_V1.version) == ("SEO_ARTICLE_PUBLISH", 1)


def test_creating_and_publishing_are_never_repeated_in_doubt() -> None:
    for step in (
        OPEN_ARCHIVE_PULL_REQUEST,
        UPLOAD_FEATURED_IMAGE,
        CREATE_WORDPRESS_DRAFT,
        PUBLISH_WORDPRESS_POST,
        SEND_NOTIFICATION,
        SEND_WEBHOOK,
    ):
        assert step.action.repeat is Repeat.NEVER


def test_a_draft_with_our_marker_and_no_attempt_of_ours_on_record_is_nobody_to_adopt() -> None:
    assert not CREATE_WORDPRESS_DRAFT.action.adopts
    assert not UPLOAD_FEATURED_IMAGE.action.adopts


def test_no_two_actions_of_the_saga_share_a_key() -> None:
    actions = [a for step in SEO_ARTICLE_PUBLISH_V1.steps for a in (step.action, step.compensation) if a is not None]
    names = [(action.system, action.operation) for action in actions]
    assert len(set(names)) == len(names) == 20


def test_optional_steps_belong_to_proposals_that_need_them() -> None:
    assert {"TRASH_STAGED_DRAFT"}.isdisjoint(parts_of(first()))
    assert "SEND_NOTIFICATION" in parts_of(first())
    assert "TRASH_STAGED_DRAFT" in parts_of(later())
    assert "SEND_NOTIFICATION" not in parts_of(later())
    bare = World(planned(settings=replace(SETTINGS, publications=False)))
    assert {"STAGE_PUBLICATION_RECORD", "RECORD_PUBLICATION", "UPLOAD_FEATURED_IMAGE"}.isdisjoint(parts_of(bare))
    assert parts_of(pictured())[0] == "UPLOAD_FEATURED_IMAGE"


async def test_an_image_is_uploaded_under_its_own_marker_with_its_exact_bytes() -> None:
    world = pictured()
    await prepare(world, UPLOAD_FEATURED_IMAGE)
    ((_, given),) = world.library.calls
    assert (
        given["marker"]
        == world.context(UPLOAD_FEATURED_IMAGE.name).marker
        != draft_marker(world.context(UPLOAD_FEATURED_IMAGE.name))
    )
    assert (given["content"], given["image"].media_type, given["image"].alt) == (PNG, "image/png", "How to brew")


async def test_draft_and_publication_carry_the_image_that_was_uploaded() -> None:
    world = pictured()
    await prepare(world, CREATE_WORDPRESS_DRAFT)
    await prepare(world, PUBLISH_WORDPRESS_POST)
    await look(world, PUBLISH_WORDPRESS_POST)
    assert [given["article"].featured_media for _, given in world.site.calls] == ["12", "12", "12"]
    shown = await subject(world)
    assert (shown["image"]["media_id"], shown["image_bytes"]) == ("12", len(PNG))


async def test_an_image_is_deleted_only_as_we_stored_it() -> None:
    world = pictured()
    compensation = UPLOAD_FEATURED_IMAGE.compensation
    assert compensation is not None
    assert compensation.observe is not None
    context = world.context(UPLOAD_FEATURED_IMAGE.name)
    await compensation.forward(world.ports, context)
    await compensation.observe(world.ports, context)
    expected = {"media_id": "12", "expected_version": "v-image"}
    assert world.library.calls == [("delete", expected), ("observe_deleted", expected)]


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (Foreign(code="trashed", receipt=DRAFT), "image_gone"),
        (Present(receipt=UPLOADED, complete=False), "image_incomplete"),
    ],
)
async def test_an_image_that_is_not_there_as_it_was_uploaded_is_a_finding(seen: Any, code: str) -> None:
    world = pictured()
    assert await check(world) == ()
    world.library.sees["observe_image"] = seen
    assert codes(await check(world)) == [code]
    world.library.sees["observe_image"] = CannotTell(code="unreachable")
    assert await check(world) == CannotTell(code="unreachable")


async def test_a_draft_is_created_under_the_marker_of_its_own_key() -> None:
    world = World(planned())
    await prepare(world, CREATE_WORDPRESS_DRAFT)
    context = world.context(CREATE_WORDPRESS_DRAFT.name)
    assert world.site.calls == [("create_draft", {"marker": context.marker, "article": ARTICLE})]


@pytest.mark.parametrize("generation", ["", "#abcdefghijklmnop"])
def test_every_step_and_gate_knows_the_marker_of_the_draft(generation: str) -> None:
    world = World(planned(), generation=generation)
    marker = world.context(CREATE_WORDPRESS_DRAFT.name).marker
    names = [part.name for part in SEO_ARTICLE_PUBLISH_V1.parts]
    assert {draft_marker(world.context(name)) for name in names} == {marker}
    undone = world.context(STAGE_PUBLICATION_RECORD.name)
    assert draft_marker(replace(undone, key=undone.key + ":cancel")) == marker


async def test_a_known_draft_is_looked_at_by_its_id() -> None:
    world = first()
    assert await look(world, CREATE_WORDPRESS_DRAFT) == SEEN
    assert world.site.calls[-1][1]["known_id"] == "7"


async def test_an_unknown_live_post_under_the_slug_is_foreign_to_a_first_version() -> None:
    world = World(planned())
    taken = Foreign(code="slug_taken", receipt=Receipt(resource_id="41"))
    world.site.sees["observe_draft"] = taken
    assert await look(world, CREATE_WORDPRESS_DRAFT) == taken


async def test_our_own_live_post_does_not_stand_in_the_way_of_a_later_version() -> None:
    world = World(planned(version=2, previous=LIVE))
    world.site.sees["observe_draft"] = Foreign(code="slug_taken", receipt=Receipt(resource_id="41"))
    assert await look(world, CREATE_WORDPRESS_DRAFT) == Absent()
    world.site.sees["observe_draft"] = Foreign(code="slug_taken", receipt=Receipt(resource_id="99"))
    assert isinstance(await look(world, CREATE_WORDPRESS_DRAFT), Foreign)


@pytest.mark.parametrize("code", ["trashed", "gone"])
async def test_a_draft_that_a_person_removed_stays_foreign_whatever_post_it_was(code: str) -> None:
    world = World(planned(version=2, previous=LIVE))
    world.site.sees["observe_draft"] = Foreign(code=code, receipt=Receipt(resource_id="41"))
    assert isinstance(await look(world, CREATE_WORDPRESS_DRAFT), Foreign)


async def test_a_draft_is_trashed_only_as_we_stored_it() -> None:
    world = first()
    compensation = CREATE_WORDPRESS_DRAFT.compensation
    assert compensation is not None
    assert compensation.observe is not None
    context = world.context(CREATE_WORDPRESS_DRAFT.name)
    await compensation.forward(world.ports, context)
    await compensation.observe(world.ports, context)
    expected = {"post_id": "7", "expected_version": "v-draft"}
    assert world.site.calls == [("trash", expected), ("observe_trashed", expected)]


async def test_a_draft_that_nobody_trashed_yet_is_not_believed_to_be_gone() -> None:
    world = first()
    compensation = CREATE_WORDPRESS_DRAFT.compensation
    assert compensation is not None
    assert compensation.observe is not None
    gone = Receipt(resource_id="7", data={"status": "gone"})
    world.site.sees["observe_trashed"] = Present(receipt=gone)
    context = world.context(CREATE_WORDPRESS_DRAFT.name)
    assert await compensation.observe(world.ports, context) == Absent()
    told = replace(context, receipts={**context.receipts, "TRASH_WORDPRESS_DRAFT": gone})
    assert await compensation.observe(world.ports, told) == Present(receipt=gone)


async def test_the_pivot_of_a_first_version_publishes_the_draft_with_the_approved_bytes() -> None:
    world = first()
    await prepare(world, PUBLISH_WORDPRESS_POST)
    target = {"post_id": "7", "expected_version": "v-draft", "article": ARTICLE}
    await look(world, PUBLISH_WORDPRESS_POST)
    assert world.site.calls == [
        ("publish", target),
        ("observe_publication", {**target, "baseline_hash": "h1"}),
    ]


async def test_the_pivot_of_a_later_version_writes_over_the_live_post_under_its_version() -> None:
    world = later()
    await prepare(world, PUBLISH_WORDPRESS_POST)
    assert world.site.calls[-1] == ("update", {"post_id": "41", "expected_version": "v-live", "article": ARTICLE})


@pytest.mark.parametrize(
    ("seen", "failure", "code"),
    [
        (Present(receipt=replace(DRAFT, data={"raw_hash": "h-person"})), FailureClass.CONFLICT, "draft_changed"),
        (Foreign(code="trashed", receipt=DRAFT), FailureClass.CONFLICT, "draft_gone"),
        (Absent(), FailureClass.TRANSIENT, "draft_gone"),
        (Foreign(code="gone"), FailureClass.TRANSIENT, "draft_gone"),
        (CannotTell(code="http_503"), FailureClass.TRANSIENT, "http_503"),
    ],
)
async def test_a_later_version_is_not_published_when_its_draft_is_not_what_was_approved(
    seen: Sighting, failure: FailureClass, code: str
) -> None:
    world = later()
    world.site.sees["observe_draft"] = seen
    with pytest.raises(Unprepared) as refused:
        await prepare(world, PUBLISH_WORDPRESS_POST)
    assert (refused.value.failure, refused.value.code) == (failure, code)
    assert [name for name, _ in world.site.calls] == ["observe_draft"]


async def test_the_pivot_after_a_withdrawal_publishes_the_old_post_again() -> None:
    withdrawn = planned(version=2, previous=replace(LIVE, live=False))
    world = World(withdrawn, receipts={CREATE_WORDPRESS_DRAFT.name: DRAFT})
    world.site.sees["observe_draft"] = SEEN
    await prepare(world, PUBLISH_WORDPRESS_POST)
    assert world.site.calls[-1] == ("publish", {"post_id": "41", "expected_version": "v-live", "article": ARTICLE})


async def test_a_rebased_expectation_replaces_the_planned_one() -> None:
    world = later()
    await prepare(world, PUBLISH_WORDPRESS_POST, expected_version="v-person")
    assert world.site.calls[-1][1]["expected_version"] == "v-person"


async def test_only_the_staged_draft_is_thrown_away_after_a_later_version() -> None:
    world = later()
    world.receipts[PUBLISH_WORDPRESS_POST.name] = replace(PUBLISHED, resource_id="41")
    await prepare(world, TRASH_STAGED_DRAFT)
    assert world.site.calls == [("trash", {"post_id": "7", "expected_version": "v-draft"})]


async def test_one_row_of_the_table_serves_staging_cancelling_and_recording() -> None:
    world = first()
    world.receipts[PUBLISH_WORDPRESS_POST.name] = PUBLISHED
    compensation = STAGE_PUBLICATION_RECORD.compensation
    assert compensation is not None
    await prepare(world, STAGE_PUBLICATION_RECORD)
    await compensation.forward(world.ports, world.context(STAGE_PUBLICATION_RECORD.name))
    await prepare(world, RECORD_PUBLICATION)
    await look(world, RECORD_PUBLICATION)
    (_, staged), (_, cancelled), (_, recorded), (_, looked) = world.table.calls
    key = staged["record"].key
    assert key == cancelled["key"] == recorded["record"].key == looked["key"]
    assert (recorded["record"].post_id, recorded["record"].url) == ("7", PUBLISHED.reference)
    assert recorded["record"].content_hash == world.plan.params["content_sha256"]


def test_a_notification_always_carries_the_same_message_id() -> None:
    world = first()
    world.receipts[PUBLISH_WORDPRESS_POST.name] = PUBLISHED
    context = world.context(SEND_NOTIFICATION.name)
    message = message_of(context)
    assert message == message_of(replace(context, attempt_number=2, correlation_id="req_2"))
    assert message.message_id == f"<remit.{context.marker}@remit.example>"
    assert message.recipients == ("Ann@example.org", "bob@example.org")
    assert "How to brew" in message.text
    assert PUBLISHED.reference in message.text
    again = World(world.plan, receipts=world.receipts, generation="#abcdefghijklmnop")
    assert message_of(again.context(SEND_NOTIFICATION.name)).message_id != message.message_id


@pytest.mark.parametrize("step", SEO_ARTICLE_PUBLISH_V1.steps, ids=lambda step: step.name)
async def test_a_step_whose_system_is_not_configured_prepares_nothing(step: Step[Ports]) -> None:
    world = pictured()
    world.receipts[PUBLISH_WORDPRESS_POST.name] = PUBLISHED
    ports = Ports(artifacts=world.ports.artifacts)
    with pytest.raises(Unprepared) as caught:
        await step.action.forward(ports, world.context(step.name))
    assert caught.value.code.endswith("_not_configured")


async def test_bytes_that_are_missing_or_altered_are_never_sent() -> None:
    world = first()
    for artifacts, code in (({}, "artifact_missing"), (dict.fromkeys(world.plan.artifacts, b"x"), "artifact_altered")):
        bad = World(replace(world.plan, artifacts=artifacts), receipts=world.receipts)
        with pytest.raises(Unprepared) as caught:
            await prepare(bad, PUBLISH_WORDPRESS_POST)
        assert caught.value.code == code


async def test_an_article_in_order_passes_validation() -> None:
    assert await check(first()) == ()
    assert await check(later()) == ()


async def test_a_draft_that_was_edited_or_removed_is_a_finding() -> None:
    world = first()
    world.site.sees["observe_draft"] = Present(receipt=replace(DRAFT, data={"raw_hash": "h2"}))
    assert codes(await check(world)) == ["draft_changed"]
    world.site.sees["observe_draft"] = Present(receipt=replace(DRAFT, data={}))
    assert codes(await check(world)) == ["draft_changed"]
    world.site.sees["observe_draft"] = Foreign(code="trashed", receipt=DRAFT)
    assert codes(await check(world)) == ["draft_gone"]


async def test_what_is_nowhere_to_be_seen_is_looked_for_again_before_a_person_is_asked() -> None:
    """A read that lags behind sees a young draft just so."""
    for seen in (Absent(), Foreign(code="gone")):
        world = pictured()
        world.site.sees["observe_draft"] = seen
        assert await check(world) == CannotTell(code="draft_gone")
        world = pictured()
        world.library.sees["observe_image"] = seen
        assert await check(world) == CannotTell(code="image_gone")


async def test_a_draft_whose_stored_bytes_are_not_known_does_not_pass() -> None:
    world = first()
    world.receipts[CREATE_WORDPRESS_DRAFT.name] = replace(DRAFT, data={})
    world.site.sees["observe_draft"] = Present(receipt=replace(DRAFT, data={}))
    assert codes(await check(world)) == ["draft_changed"]


async def test_what_a_site_dropped_without_a_word_is_a_finding_and_what_it_stores_its_own_way_is_not() -> None:
    world = first()
    world.site.sees["observe_draft"] = Present(receipt=DRAFT, difference=("content",))
    assert await check(world) == ()
    dropped = Present(receipt=DRAFT, difference=("content", "tags", "featured_image"), complete=False)
    world.site.sees["observe_draft"] = dropped
    assert [(f.code, f.where) for f in await check(world)] == [("not_stored", "tags"), ("not_stored", "featured_image")]


async def test_an_address_taken_meanwhile_is_a_finding() -> None:
    world = first()
    world.site.sees["find_public"] = Present(receipt=Receipt(resource_id="99"))
    assert codes(await check(world)) == ["slug_taken"]


async def test_a_live_post_that_somebody_changed_is_a_finding_for_a_later_version() -> None:
    world = later()
    world.site.reads["41"] = Present(receipt=Receipt(resource_id="41", version="v-person"))
    assert codes(await check(world)) == ["live_changed"]
    world.site.reads["41"] = Absent()
    assert codes(await check(world)) == ["live_gone"]


@pytest.mark.parametrize("unread", ["observe_draft", "41", "find_public"])
async def test_validation_that_cannot_read_says_so_instead_of_passing(unread: str) -> None:
    world = later()
    (world.site.reads if unread == "41" else world.site.sees)[unread] = CannotTell(code="unreachable")
    assert await check(world) == CannotTell(code="unreachable")


async def test_an_approver_sees_everything_that_would_be_done_and_where() -> None:
    world = first()
    world.site.sees["observe_draft"] = Present(receipt=DRAFT, difference=("content",))
    shown = await subject(world)
    assert shown["baseline"]["raw_hash"] == "h1"
    assert shown["target"] == {
        "site": "blog",
        "slug": "how-to-brew",
        "url": "https://blog.example/how-to-brew/",
        "mode": "first",
        "post_id": "7",
        "expected_version": "v-draft",
    }
    assert shown["difference"] == ["content"]
    assert shown["proposal_hash"] == world.plan.params["proposal_hash"]
    assert shown["recipients"] == ["Ann@example.org", "bob@example.org"]
    assert shown["webhooks"] == []
    assert shown["content_ref"] in world.plan.artifacts
    assert {"title", "site", "article_id", "version", "publish_at", "policy_version", "removed", "hidden"} <= set(shown)


async def test_an_approver_of_a_later_version_sees_which_post_is_written_over() -> None:
    shown = await subject(later())
    assert (shown["target"]["post_id"], shown["target"]["expected_version"]) == ("41", "v-live")
    assert shown["target"]["mode"] == "update"


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (Absent(), "draft_gone"),
        (Foreign(code="trashed"), "draft_trashed"),
        (CannotTell(code="unreachable"), "unreachable"),
        (Present(receipt=replace(DRAFT, data={"raw_hash": "h2"})), "draft_changed"),
    ],
)
async def test_nobody_is_asked_to_approve_a_draft_that_is_not_as_we_stored_it(seen: Any, code: str) -> None:
    world = first()
    world.site.sees["observe_draft"] = seen
    shown = await subject(world)
    assert isinstance(shown, CannotTell)
    assert shown.code == code


def test_every_read_back_says_what_it_can_be_trusted_for() -> None:
    for step in SEO_ARTICLE_PUBLISH_V1.steps:
        for action in (step.action, step.compensation):
            if action is not None and action.observe is not None:
                assert action.lookup is not None
                assert all((action.lookup.covers, action.lookup.authority, action.lookup.cache_bypass))
        assert step.summary
        assert step.manual
    assert all(part.summary for part in SEO_ARTICLE_PUBLISH_V1.parts if isinstance(part, CheckGate))
