"""What a publication makes the cache forget: which addresses, in how many requests, and what is known of it."""

from dataclasses import replace
from typing import Any

import pytest

from execution.core.definition import Step
from execution.core.failures import Absent, Present, Receipt, Unprepared
from execution.core.states import EffectClass, Repeat
from execution.ports import Ports
from execution.sagas.publish_article import SEO_ARTICLE_PUBLISH_V1
from execution.sagas.publish_cache import PURGE_STEPS
from execution.sagas.publish_plan import SiteRules
from execution.sagas.publish_wordpress import PUBLISH
from execution.sagas.purging import BATCHES_MAX, batches_at_most, filled, is_entry, live_address, planned
from tests.unit.sagas.world import LIVE, PUBLISHED, SETTINGS, World
from tests.unit.sagas.world import planned as plan_of

PURGED = Receipt(resource_id="zone", data={"addresses": 2})


def published(**more: Any) -> World:
    return World(plan_of(**more), receipts={PUBLISH: PUBLISHED})


def with_purge(*entries: str, batch: int = 30) -> Any:
    rules = SiteRules(url="https://blog.example/{slug}/", purge=entries, purge_batch=batch)
    return replace(SETTINGS, sites={"blog": rules})


def purge_steps(world: World) -> list[str]:
    return [step.name for step in PURGE_STEPS if step.when(world.plan.params)]


async def purge(world: World, step: Step[Ports]) -> tuple[str, ...]:
    await step.action.forward(world.ports, world.context(step.name))
    named: tuple[str, ...] = world.pages.calls[-1][1]["addresses"]
    return named


async def test_the_live_address_and_the_pages_that_list_it_are_purged() -> None:
    world = published()
    assert await purge(world, PURGE_STEPS[0]) == ("https://blog.example/how-to-brew/", "https://blog.example/")
    assert purge_steps(world) == ["PURGE_CLOUDFLARE_CACHE"]


async def test_the_address_of_the_version_before_is_purged_too() -> None:
    renamed = replace(LIVE, url="https://blog.example/how-to-brew-tea/")
    world = published(version=2, previous=renamed, slug="how-to-brew")
    assert purge_steps(world) == ["PURGE_CLOUDFLARE_CACHE", "PURGE_CLOUDFLARE_CACHE_2"]
    named = [await purge(world, step) for step in PURGE_STEPS[:2]]
    assert named == [
        ("https://blog.example/how-to-brew/", "https://blog.example/how-to-brew-tea/"),
        ("https://blog.example/",),
    ]


async def test_each_request_is_a_command_of_its_own_so_that_only_the_failed_one_is_repeated() -> None:
    entries = [f"https://blog.example/page/{number}/" for number in range(75)]
    world = published(settings=with_purge(*entries))
    assert purge_steps(world) == [step.name for step in PURGE_STEPS[:3]]
    assert [len(await purge(world, step)) for step in PURGE_STEPS[:3]] == [30, 30, 15]
    assert {world.context(step.name).key for step in PURGE_STEPS} == {
        f"acme:cloudflare:purge{suffix}:blog:article-0028:v1" for suffix in ("", "_2", "_3", "_4")
    }


def test_a_site_without_a_cache_has_no_purge() -> None:
    assert purge_steps(published(settings=replace(SETTINGS, sites={"blog": SiteRules()}))) == []


def test_more_than_the_steps_can_name_is_refused_when_it_is_configured() -> None:
    entries = tuple(f"https://blog.example/{number}/" for number in range(30 * BATCHES_MAX))
    assert batches_at_most(entries, 30) == BATCHES_MAX == len(PURGE_STEPS)
    SiteRules(purge=entries)
    with pytest.raises(ValueError, match="more addresses"):
        SiteRules(purge=("{url}", *entries[1:]))  # the version before makes it one more


async def test_nothing_is_purged_before_the_publication_or_when_nobody_knows_an_address() -> None:
    for receipts, code in (({}, "publication_missing"), ({PUBLISH: Receipt(resource_id="7")}, "address_unknown")):
        world = World(plan_of(settings=replace(with_purge("{url}"), sites={"blog": SiteRules(purge=("{url}",))})))
        world.receipts.update(receipts)
        with pytest.raises(Unprepared) as caught:
            await purge(world, PURGE_STEPS[0])
        assert caught.value.code == code


async def test_a_purge_without_its_answer_counts_as_not_made_and_an_answered_one_is_looked_at() -> None:
    world, step = published(), PURGE_STEPS[0]
    assert step.action.observe is not None
    assert await step.action.observe(world.ports, world.context(step.name)) == Absent()
    assert world.pages.calls == []
    world.receipts[step.name] = PURGED
    world.pages.sees = Present(receipt=PURGED, seen=False)
    assert await step.action.observe(world.ports, world.context(step.name)) == world.pages.sees
    assert world.pages.calls[-1][1]["purged"] == PURGED


def test_purges_are_repeated_freely_and_finish_without_new_authority() -> None:
    for step in PURGE_STEPS:
        assert (step.effect, step.action.repeat, step.finish_only) == (EffectClass.RETRYABLE, Repeat.NATURAL, True)
        assert SEO_ARTICLE_PUBLISH_V1.requirements(step.name) == (PUBLISH,)


@pytest.mark.parametrize(
    ("reported", "expected", "found"),
    [
        ("https://blog.example/a-2/", "https://blog.example/a/", "https://blog.example/a-2/"),
        ("http://10.0.0.7/a/", "https://blog.example/a/", "https://blog.example/a/"),
        ("https://BLOG.example/a/", "https://blog.example/a/", "https://BLOG.example/a/"),
        ("https://blog.example/a/", "", "https://blog.example/a/"),
        ("", "https://blog.example/a/", "https://blog.example/a/"),
        ("http://[broken", "https://blog.example/a/", "https://blog.example/a/"),
        ("", "", ""),
    ],
)
def test_readers_find_an_article_where_the_site_says_on_its_public_origin(
    reported: str, expected: str, found: str
) -> None:
    assert live_address(reported, expected) == found


def test_addresses_are_named_once_and_unknown_ones_left_out() -> None:
    assert planned(("{url}", "{url}amp/", "https://a/", "https://a/"), None) == ("{url}", "{url}amp/", "https://a/")
    assert planned(("{url}amp/",), "https://b/") == ("{url}amp/", "https://b/amp/")
    assert filled(("{url}", "https://a/"), "https://a/") == ("https://a/",)
    assert filled(("{url}", "https://a/"), "") == ("https://a/",)


@pytest.mark.parametrize(
    ("entry", "fit"),
    [
        ("{url}", True),
        ("{url}amp/", True),
        ("https://a.example/", True),
        ("http://a.example", True),
        ("/feed/", False),
        ("a.example/", False),
        ("ftp://a.example/", False),
        ("https://a.example/{url}", False),
        ("https://", False),
    ],
)
def test_an_entry_is_an_address_or_begins_with_the_articles_own(entry: str, fit: bool) -> None:
    assert is_entry(entry) is fit
