"""Planning a publication: what is frozen, and what is refused before anything happened."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from execution.catalog import Previous
from execution.core.events import canonical
from execution.images import IMAGE_BYTES_MAX
from execution.proposal import IntakeRefused
from execution.sagas.publish_article import intent
from execution.sagas.publish_params import Mode, PublishParams
from execution.sagas.publish_plan import PublishSettings, SiteRules
from tests.unit.sagas.world import LIVE, NOTHING, PICTURE, PNG, SETTINGS, planned, proposal, with_image


def refused(previous: Previous = NOTHING, settings: PublishSettings = SETTINGS, **more: Any) -> IntakeRefused:
    with pytest.raises(IntakeRefused) as caught:
        planned(previous=previous, settings=settings, **more)
    return caught.value


def test_the_rendered_bytes_are_frozen_and_travel_with_the_plan() -> None:
    plan = planned()
    (ref,) = plan.artifacts
    assert plan.artifacts[ref] == b"<h1>Hello</h1>\n<p>world</p>\n"
    assert ref == "artifact://sha256/" + hashlib.sha256(plan.artifacts[ref]).hexdigest()
    assert plan.params["content_sha256"] == ref.removeprefix("artifact://sha256/")
    assert plan.params["source_sha256"] == hashlib.sha256(b"# Hello\n\nworld").hexdigest()


def test_parameters_are_json_and_come_back_as_they_were() -> None:
    plan = planned(tags=["a", "a", "b"], sources=["https://x.example/"], structured_data={"@type": "Article", "n": [1]})
    stored = json.loads(canonical(plan.params))
    assert stored == plan.params
    params = PublishParams.of(stored)
    assert params.tags == ("a", "b")
    assert params.to_json() == plan.params


def test_planning_the_same_twice_gives_the_same_plan() -> None:
    assert planned(notify=["team"]) == planned(notify=["team"])


@pytest.mark.behaviour("incident.65")
@pytest.mark.parametrize(
    "change",
    [
        {"content": "# Hello\n\nworld!"},
        {"title": "How to brew!"},
        {"slug": "other"},
        {"excerpt": "x"},
        {"meta_description": "x"},
        {"categories": ["x"]},
        {"tags": ["x"]},
        {"structured_data": {"@type": "Article"}},
        {"sources": ["https://x.example/"]},
        {"publish_at": "2027-01-01T00:00:00Z"},
        {"notify": ["team"]},
        {"notify": ["hook"]},
        {"content_format": "html"},
    ],
)
def test_the_proposal_hash_changes_with_everything_that_is_approved(change: dict[str, Any]) -> None:
    assert planned(**change).params["proposal_hash"] != planned().params["proposal_hash"]


def test_an_article_and_its_address_are_locked_together() -> None:
    assert planned().resources == ("site/blog/article-0028", "slug/blog/how-to-brew")


def test_structured_data_becomes_part_of_the_frozen_content() -> None:
    plan = planned(structured_data={"@context": "https://schema.org", "@type": "Article"})
    (content,) = plan.artifacts.values()
    assert content.endswith(b'"@type":"Article"}</script>\n')


def test_a_list_of_people_and_a_receiver_are_told_apart() -> None:
    params = PublishParams.of(planned(notify=["team", "hook"]).params)
    assert (params.notify, params.webhook) == (("team", "hook"), "hook")
    assert params.recipients == ("Ann@example.org", "bob@example.org")


def test_a_receiver_needs_no_mail() -> None:
    params = planned(notify=["hook"], settings=replace(SETTINGS, mail=False)).params
    assert (params["webhook"], params["recipients"]) == ("hook", [])


def test_a_publication_tells_one_program_at_most() -> None:
    found = refused(notify=["hook", "team", "other-hook"])
    assert (found.code, found.field, found.limit, found.actual) == ("too_many_webhooks", "notify", 1, 2)


def test_html_is_frozen_byte_for_byte() -> None:
    (content,) = planned(content="<p>a\r\n&amp; b", content_format="html").artifacts.values()
    assert content == b"<p>a\r\n&amp; b"


def test_a_first_version_has_no_base_and_takes_its_slug_from_the_title() -> None:
    plan = planned(title="  Über Kaffee  ")
    params = PublishParams.of(plan.params)
    assert (params.mode, params.slug, params.title) == (Mode.FIRST, "ueber-kaffee", "Über Kaffee")
    assert params.url == "https://blog.example/ueber-kaffee/"
    assert (plan.base_version, params.post_id) == (None, None)


def test_a_later_version_writes_over_the_live_post_and_keeps_its_address() -> None:
    plan = planned(version=2, title="Another title", previous=LIVE)
    params = PublishParams.of(plan.params)
    assert (params.mode, params.post_id, params.slug) == (Mode.UPDATE, "41", "how-to-brew")
    assert plan.base_version == params.base_version == "v-live"


def test_the_slug_is_read_from_the_live_address_when_it_was_not_recorded() -> None:
    assert planned(version=2, previous=replace(LIVE, slug=None)).params["slug"] == "how-to-brew"
    assert planned(version=2, previous=replace(LIVE, slug=None, url="https://x.example/?p=3")).params["slug"] == (
        "how-to-brew"
    )


def test_the_base_version_that_the_agent_names_counts_before_the_recorded_one() -> None:
    assert planned(version=2, base_version="v-seen", previous=LIVE).base_version == "v-seen"


def test_a_withdrawn_article_is_published_again_over_its_own_post() -> None:
    withdrawn = replace(LIVE, live=False)
    assert planned(version=1, previous=withdrawn).params["mode"] == Mode.REPUBLISH
    assert planned(version=2, previous=withdrawn).params["post_id"] == "41"


@pytest.mark.parametrize(("version", "live"), [(1, True), (3, True), (2, False)])
def test_a_version_that_is_not_above_the_live_one_is_stale(version: int, live: bool) -> None:
    found = refused(version=version, previous=replace(LIVE, version=3, live=live))
    assert (found.code, found.field, found.limit, found.actual) == ("stale_version", "version", 4, version)


def test_a_base_version_of_an_article_that_we_never_published_is_refused() -> None:
    assert refused(base_version="v-live").code == "base_version_unknown"


@pytest.mark.parametrize("missing", ["post_id", "external_version"])
def test_a_later_version_without_anything_to_expect_is_refused(missing: str) -> None:
    changed = replace(LIVE, post_id=None) if missing == "post_id" else replace(LIVE, external_version=None)
    assert refused(version=2, previous=changed).code == "base_version_required"


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        ({"site": "other"}, "unknown_site", "site"),
        ({"site": "Blog/.."}, "invalid_name", "site"),
        ({"version": 0}, "stale_version", "version"),
        ({"notify": ["strangers"]}, "unknown_list", "notify"),
        ({"title": "   "}, "invalid_title", "title"),
        ({"title": "a\nb"}, "invalid_title", "title"),
        ({"title": "a\u2028b"}, "invalid_title", "title"),
        ({"title": "x" * 201}, "too_long", "title"),
        ({"title": "\ud800"}, "invalid_text", None),
        ({"structured_data": {"n": float("nan")}}, "invalid_text", None),
        ({"tags": [1]}, "invalid_text", "tags"),
        ({"slug": "2024"}, "invalid_slug", "slug"),
        ({"slug": "remit-" + "a" * 24}, "invalid_slug", "slug"),
        ({"excerpt": "x" * 1001}, "too_long", "excerpt"),
        ({"sources": [f"https://x.example/{n}" for n in range(51)]}, "too_long", "sources"),
        ({"structured_data": {"x": "y" * 65_536}}, "too_long", "structured_data"),
        ({"content": "x" * 1_048_577}, "too_long", "content"),
        ({"content": "![" * 500_000}, "content_too_complex", "content"),
        ({"content_format": "pdf"}, "invalid_format", "content_format"),
        ({"featured_image": "artifact://x"}, "payload_missing", "featured_image"),
        ({"publish_at": "2027-03-28T02:30:00"}, "not_a_time", "publish_at"),
        ({"publish_at": "2027-03-28"}, "not_a_time", "publish_at"),
        ({"publish_at": "tomorrow"}, "not_a_time", "publish_at"),
        ({"publish_at": "0001-01-01T00:00:00+14:00"}, "not_a_time", "publish_at"),
        ({"publish_at": "2027-03-28T02:30:00[Europe/Berlin]"}, "time_does_not_exist", "publish_at"),
        ({"publish_at": "2027-10-31T02:30:00[Europe/Berlin]"}, "time_is_ambiguous", "publish_at"),
    ],
)
def test_what_can_be_known_to_be_wrong_is_refused_with_its_field(
    arguments: dict[str, Any], code: str, field: str | None
) -> None:
    found = refused(**arguments)
    assert (found.code, found.field) == (code, field)


def test_an_image_is_frozen_with_what_its_first_bytes_say() -> None:
    params = PublishParams.of(planned(with_image(proposal())).params)
    assert (params.featured_image, params.image_type, params.image_bytes) == (PICTURE, "image/png", len(PNG))
    assert params.image_sha256 == hashlib.sha256(PNG).hexdigest()
    assert planned(with_image(proposal(), PNG + b"!")).params["proposal_hash"] != params.proposal_hash


@pytest.mark.parametrize(
    "content", [b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"", b"text", b"RIFF....WAVE", b"BM"]
)
def test_what_is_not_an_image_is_refused_whatever_it_is_called(content: bytes) -> None:
    found = refused(offered=with_image(proposal(), content))
    assert (found.code, found.field) == ("not_an_image", "featured_image")


def test_an_image_that_is_too_large_is_refused_with_the_limit() -> None:
    offered = with_image(proposal())
    stored = {"featured_image": replace(offered.stored["featured_image"], size=IMAGE_BYTES_MAX + 1)}
    found = refused(offered=replace(offered, stored=stored))
    assert (found.code, found.field, found.limit) == ("too_long", "featured_image", IMAGE_BYTES_MAX)


def test_a_refusal_for_length_says_the_limit_and_what_it_was() -> None:
    found = refused(title="x" * 700)
    assert (found.limit, found.actual) == (200, 700)


def test_a_list_without_configured_mail_is_refused() -> None:
    assert refused(notify=["team"], settings=replace(SETTINGS, mail=False)).code == "mail_not_configured"


def test_content_that_is_not_at_hand_cannot_be_planned() -> None:
    offered = replace(proposal(), content=None, payload_ref="artifact://sha256/" + "0" * 64)
    with pytest.raises(IntakeRefused) as caught:
        planned(offered)
    assert caught.value.code == "payload_missing"


def test_content_that_is_not_utf8_is_refused() -> None:
    offered = replace(proposal(), content=b"\xff")
    with pytest.raises(IntakeRefused) as caught:
        planned(offered)
    assert caught.value.code == "content_not_utf8"


@pytest.mark.parametrize(
    ("given", "utc", "ms"),
    [
        ("2027-03-28T02:30:00+01:00", "2027-03-28T01:30:00Z", 1_806_197_400_000),
        ("1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000001Z", 1),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999000Z", -1),
    ],
)
def test_a_schedule_is_an_instant_and_never_early(given: str, utc: str, ms: int) -> None:
    plan = planned(publish_at=given)
    assert (plan.params["publish_at"], plan.not_before_ms) == (utc, ms)


def test_a_schedule_is_shown_as_the_sites_clock_shows_it() -> None:
    sites = {**SETTINGS.sites, "blog": replace(SETTINGS.sites["blog"], timezone="Asia/Kathmandu")}
    plan = planned(settings=replace(SETTINGS, sites=sites), publish_at="2027-03-28T09:00:00[Europe/Berlin]")
    assert (plan.params["publish_at"], plan.params["publish_at_local"]) == (
        "2027-03-28T07:00:00Z",
        "2027-03-28T12:45:00+05:45[Asia/Kathmandu]",
    )
    assert planned(publish_at="2027-03-28T09:00:00Z").params["publish_at_local"] is None


def test_recipients_of_several_lists_are_addressed_once_whatever_their_case() -> None:
    assert planned(notify=["team", "all"]).params["recipients"] == [
        "Ann@example.org",
        "bob@example.org",
        "cy@example.org",
    ]


def test_characters_that_hide_are_listed_for_the_approver() -> None:
    assert planned(content="a\u202eb").params["hidden"] == ["content:4 U+202E RIGHT-TO-LEFT OVERRIDE"]


def test_a_site_cannot_require_a_field_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="colour"):
        SiteRules(require=frozenset({"colour"}))


def test_the_intent_carries_the_times_of_the_configuration() -> None:
    offered = intent(replace(SETTINGS, approval_ttl_s=60.0, deadline_s=120.0, max_lateness_s=30.0))
    definition = offered.definition
    assert (definition.approval_ttl_s, definition.deadline_s, definition.max_lateness_s) == (60.0, 120.0, 30.0)
    assert offered.plan(proposal(), hashlib.sha256(proposal().content or b"").hexdigest(), Previous()) == planned()
