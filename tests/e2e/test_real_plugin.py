"""A real WordPress with the must-use plugin that the package ships, through whole publications.

One post for one key, writes only over what is expected, meta descriptions that readers' search engines see; and a site
that should have the plugin and has it not. What is counted is read from the site's database.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.real import (
    RealHome,
    fresh_name,
    mails_of,
    page,
    real_home,
    rows_of,
    statuses_of,
    wait_until_taken,
    working,
)
from tests.e2e.world import Agent, agent, answer
from tests.services import Mailbox, WordPress, wait_until
from tests.testbeds.fault_proxy import Armed, Fault, fault_proxy_before

DRAFT: Final = "CREATE_WORDPRESS_DRAFT"
PUBLISH: Final = "PUBLISH_WORDPRESS_POST"
DESCRIPTION: Final = 'How to "brew" & serve, 100 %20'
SHOWN: Final = '<meta name="description" content="How to &quot;brew&quot; &amp; serve, 100 %20">'
SLEEP_S: Final = 3.0
ROW_MAX_S: Final = 30.0


def proposal(name: str, version: int = 1) -> dict[str, Any]:
    return {
        "article_id": name,
        "version": version,
        "site": "blog",
        "title": f"Under a key {name}",
        "content": f"Version {version} of {name}.",
        "meta_description": f"{DESCRIPTION}, version {version}",
        "notify": ["team"],
        "wait_seconds": 0,
    }


async def proposed(home: RealHome, writer: Agent, name: str, version: int) -> tuple[str, str]:
    """The command, waiting for approval, and the hash that is to be approved."""
    command_id = answer(await writer.call("propose_publish", **proposal(name, version)))["command_id"]
    found = await writer.settled(command_id)
    assert found["state"] == "AWAITING_APPROVAL", found
    return str(command_id), str(found["approval"]["content_hash"])


def keys(site: WordPress, name: str) -> list[tuple[int, str]]:
    """Post and key of every post of the article that has one."""
    found = []
    for row in rows_of(site, name):
        rows = site.sql(f"SELECT meta_value FROM wp_postmeta WHERE post_id = {row.post_id} AND meta_key = '_remit_key'")
        found += [(row.post_id, value) for (value,) in rows]
    return found


@pytest.mark.behaviour("real.plugin")
async def test_two_versions_are_published_under_keys_and_a_persons_edit_in_the_last_moment_is_kept(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path
) -> None:
    with wordpress.key_plugin(), fault_proxy_before(wordpress.url) as proxy:
        home = real_home(tmp_path, wordpress, smtp, {"blog": proxy.url}, key_strategy="plugin")
        home.issue("--uses", "3")
        name = fresh_name()
        checks = home.remit("doctor")
        assert "key strategy plugin" in checks.stdout
        async with agent(home, "--no-worker") as writer:
            with working(home):
                first, hash_ = await proposed(home, writer, name, 1)
                shown = home.remit("approve", first, "--show").document["subject"]
                assert shown["difference"] == []
                home.approve_by_hash(first, hash_)
                done = await writer.settled(first)
                assert (done["state"], done["live"]) == ("SUCCESS", True)
                detailed = answer(await writer.call("query_command_status", command_id=first, detail="detailed"))
                assert {step["name"]: step.get("key_strategy") for step in detailed["steps"]}[DRAFT] == "plugin"
                (live,) = rows_of(wordpress, name)
                assert [post_id for post_id, _ in keys(wordpress, name)] == [live.post_id]
                assert SHOWN[:-2] + ', version 1">' in page(f"{wordpress.url}/{live.slug}/")[1]

                second, hash_ = await proposed(home, writer, name, 2)
                home.approve_by_hash(second, hash_)
                assert (await writer.settled(second))["state"] == "SUCCESS"
                assert (statuses_of(wordpress, name), mails_of(smtp, name)) == (["publish", "trash"], 2)
                assert SHOWN[:-2] + ', version 2">' in page(f"{wordpress.url}/{live.slug}/")[1]

                third, hash_ = await proposed(home, writer, name, 3)
                line = f"POST /wp-json/wp/v2/posts/{live.post_id}"
                edit = Armed(
                    fault=Fault.DELAY_BEFORE,
                    match=line,
                    meanwhile=lambda: wordpress.edit_as_human(live.post_id, content="A correction."),
                )
                proxy.arm(edit)
                home.approve_by_hash(third, hash_)
                stopped = await writer.settled(third)
                assert (stopped["state"], stopped["live"]) == ("NEEDS_REVIEW", False)
                assert [seen.status for seen in proxy.seen if seen.fault is Fault.DELAY_BEFORE] == [412]
                assert (
                    next(row for row in rows_of(wordpress, name) if row.status == "publish").content == "A correction."
                )
                (review,) = home.remit("review", "ls").document["reviews"]
                assert (review["kind"], review["cause"]) == ("CONFLICT", "changed")
                (content,) = home.remit("review", "show", review["review_id"]).document["compared"]
                assert (content["field"], "+A correction." in content["changed"]) == ("content", True)
                assert mails_of(smtp, name) == 2
    assert home.remit("verify").document["ok"] is True


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_worker_killed_at_each_write_leaves_one_post_for_one_key(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path, when: str
) -> None:
    def arm() -> None:
        late = when == "after"
        wordpress.arm_next_write(before_s=0.0 if late else SLEEP_S, after_s=SLEEP_S if late else 0.0)

    def has(status: str) -> bool:
        return any(row.status == status for row in rows_of(wordpress, name))

    with wordpress.key_plugin():
        home, name = real_home(tmp_path, wordpress, smtp, key_strategy="plugin"), fresh_name()
        home.issue()
        async with agent(home, "--no-worker") as writer:
            with working(home) as worker:
                arm()
                command_id = answer(await writer.call("propose_publish", **proposal(name)))["command_id"]
                wait_until_taken(wordpress)
                if when == "after":
                    wait_until(lambda: has("draft"), timeout_s=ROW_MAX_S)
                worker.restart()
                waiting = await writer.settled(command_id)
                assert (waiting["state"], statuses_of(wordpress, name)) == ("AWAITING_APPROVAL", ["draft"])
                arm()
                with home.approving(command_id, waiting["approval"]["content_hash"]):
                    wait_until_taken(wordpress)
                    if when == "after":
                        wait_until(lambda: has("publish"), timeout_s=ROW_MAX_S)
                    worker.restart()
                done = await writer.settled(command_id)
                assert (done["state"], done["live"]) == ("SUCCESS", True)
        assert (statuses_of(wordpress, name), len(keys(wordpress, name))) == (["publish"], 1)
        assert mails_of(smtp, name) == 1


@pytest.mark.behaviour("real.plugin")
async def test_a_site_that_should_have_the_plugin_and_has_it_not_is_left_alone_and_named(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path
) -> None:
    home, name = real_home(tmp_path, wordpress, smtp, key_strategy="plugin"), fresh_name()
    home.issue()
    examined = home.remit("doctor")
    assert (examined.code, "plugin_missing" in examined.stdout) == (1, True)
    async with agent(home, "--no-worker") as writer:
        with working(home):
            command_id = answer(await writer.call("propose_publish", **proposal(name)))["command_id"]
            ended = await writer.settled(command_id)
    assert (ended["state"], ended["live"], ended["error_code"]) == ("FAILED", False, "plugin_missing")
    assert (rows_of(wordpress, name), mails_of(smtp, name)) == ((), 0)
