"""Having a publication watched: one check for an article, whatever its version."""

from dataclasses import replace
from typing import Any

import pytest

from execution.core.failures import Receipt, Unprepared
from execution.core.states import EffectClass, Repeat
from execution.ports import Check
from execution.sagas.publish_article import SEO_ARTICLE_PUBLISH_V1
from execution.sagas.publish_monitoring import REGISTER_MONITORING
from execution.sagas.publish_wordpress import PUBLISH
from tests.unit.sagas.world import LIVE, PUBLISHED, SETTINGS, World, planned


async def registered(world: World) -> Check:
    world.receipts[PUBLISH] = PUBLISHED
    await REGISTER_MONITORING.action.forward(world.ports, world.context(REGISTER_MONITORING.name))
    return world.watch.calls[-1][1]


async def test_a_check_names_the_live_address_and_carries_the_configured_tags() -> None:
    check = await registered(World(planned()))
    assert (check.name, check.url) == ("How to brew", PUBLISHED.reference)
    assert check.tags == ("remit", "site:blog", "prod")
    assert (check.site, check.article_id, check.version) == ("blog", "article-0028", 1)


async def test_all_versions_and_repetitions_of_an_article_share_one_check() -> None:
    first = await registered(World(planned()))
    later = await registered(World(planned(version=2, previous=LIVE)))
    again = await registered(World(planned(), generation="#abcdefghijklmnop"))
    assert first.key == later.key == again.key
    assert first != later


async def test_another_article_site_tenant_or_installation_has_another_check() -> None:
    world = World(planned())
    known = (await registered(world)).key
    context = world.context(REGISTER_MONITORING.name)
    others: list[dict[str, Any]] = [
        {"params": {**world.plan.params, "article_id": "article-0029"}},
        {"params": {**world.plan.params, "site": "shop"}},
        {"tenant": "other"},
        {"installation": "inst_2"},
    ]
    for change in others:
        await REGISTER_MONITORING.action.forward(world.ports, replace(context, **change))
        assert world.watch.calls[-1][1].key != known


async def test_nothing_is_watched_before_the_publication_or_without_an_address() -> None:
    bare = replace(SETTINGS, sites={"blog": replace(SETTINGS.sites["blog"], url="")})
    for receipts, code in (({}, "publication_missing"), ({PUBLISH: Receipt(resource_id="7")}, "address_unknown")):
        world = World(planned(settings=bare))
        world.receipts.update(receipts)
        with pytest.raises(Unprepared) as caught:
            await REGISTER_MONITORING.action.forward(world.ports, world.context(REGISTER_MONITORING.name))
        assert caught.value.code == code


def test_a_check_is_registered_by_key_without_new_authority_and_only_where_that_is_configured() -> None:
    step = REGISTER_MONITORING
    assert (step.effect, step.action.repeat, step.finish_only) == (EffectClass.RETRYABLE, Repeat.BY_KEY, True)
    assert SEO_ARTICLE_PUBLISH_V1.requirements(step.name) == (PUBLISH,)
    assert step.when(planned().params)
    assert not step.when(planned(settings=replace(SETTINGS, monitoring=False)).params)
