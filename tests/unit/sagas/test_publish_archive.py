"""What a version's branch holds and is called, and what each step of the archive asks of the repository."""

import hashlib
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from execution.core.definition import Action, Step
from execution.core.failures import Receipt, Unprepared
from execution.core.states import EffectClass, Repeat
from execution.ports import ContentVersion, Ports, PullRequest
from execution.sagas.publish_archive import (
    ARCHIVE_CONTENT_VERSION,
    OPEN_ARCHIVE_PULL_REQUEST,
    branch_of,
    request_of,
    version_of,
)
from execution.sagas.publish_article import SEO_ARTICLE_PUBLISH_V1
from tests.unit.sagas.world import LIVE, SETTINGS, World, planned, proposal

SOURCE = "# Hello\n\nworld"
ACCEPTED_MS = 1_700_000_000_999
SETTINGS_WITH_ARCHIVE = replace(SETTINGS, archive=True, pull_request=True)
BRANCH = "remit/blog/article-0028/v1"
ARCHIVED = Receipt(resource_id=BRANCH, version="c0ffee", data={"commit_sha": "c0ffee", "branch": BRANCH})
REQUESTED = Receipt(resource_id="7", version="c0ffee", data={"state": "open"})
NEVER_A_BRANCH = re.compile(r"\.\.|[\x00-\x20\x7f~^:?*\[\\]|@\{|//|/\.|\.lock(/|$)|\.(/|$)")


def world(content: str = SOURCE, **more: Any) -> World:
    """A publication that archives; `receipts` as after the archive's steps."""
    plan = planned(proposal(content, **more), settings=SETTINGS_WITH_ARCHIVE)
    digest = hashlib.sha256(content.encode()).hexdigest()
    receipts = {ARCHIVE_CONTENT_VERSION.name: ARCHIVED, OPEN_ARCHIVE_PULL_REQUEST.name: REQUESTED}
    return World(plan, receipts=receipts, sources={f"artifact://sha256/{digest}": content.encode()})


async def version(of: World, **changed: Any) -> ContentVersion:
    context = of.context(ARCHIVE_CONTENT_VERSION.name, accepted_at_ms=ACCEPTED_MS, **changed)
    return await version_of(of.ports, context)


def file(archived: ContentVersion, name: str) -> str:
    (found,) = [one.content for one in archived.files if one.path.endswith(f"/{name}")]
    return found


async def test_the_branch_holds_what_was_proposed_what_is_stored_and_what_was_approved_about_it() -> None:
    archived = await version(world(tags=["a"], notify=["team"]))
    place = "blog/article-0028/v1"
    assert [one.path for one in archived.files] == [
        f"{place}/{name}" for name in ("source.md", "content.html", "metadata.json")
    ]
    assert (archived.branch, archived.subject) == (BRANCH, f"Archive {place}")
    assert file(archived, "source.md") == SOURCE
    assert file(archived, "content.html") == "<h1>Hello</h1>\n<p>world</p>\n"
    told = json.loads(file(archived, "metadata.json"))
    assert (told["title"], told["tags"], told["command_id"]) == ("How to brew", ["a"], "cmd_1")
    assert told["content_sha256"] == hashlib.sha256(file(archived, "content.html").encode()).hexdigest()
    assert told["source_sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()


async def test_nobodys_address_is_archived() -> None:
    archived = await version(world(notify=["team"]))
    assert "@" not in "".join(one.content for one in archived.files)


@pytest.mark.parametrize("form", ["html", "blocks"])
async def test_markup_is_archived_byte_for_byte(form: str) -> None:
    text = "<p>a\r\n&amp; b ✓"
    archived = await version(world(text, content_format=form))
    assert file(archived, "source.html") == file(archived, "content.html") == text


async def test_the_same_version_is_the_same_on_every_try_and_dated_by_its_acceptance() -> None:
    one, two = await version(world()), await version(world(), attempt_number=3)
    assert one == two
    assert (one.date_s, one.artifact_hash) == (ACCEPTED_MS // 1000, two.artifact_hash)
    assert one.artifact_hash != (await version(world(SOURCE + "!"))).artifact_hash


async def test_a_repetition_and_a_later_version_have_places_of_their_own() -> None:
    first = await version(world())
    again = world()
    again.generation = "#abcdefghijklmnop"
    later = planned(proposal(SOURCE, version=2), LIVE, SETTINGS_WITH_ARCHIVE)
    second = World(later, sources=world().sources)
    assert (await version(again)).branch == f"{BRANCH}-abcdefghijklmnop"
    assert (await version(second)).branch == "remit/blog/article-0028/v2"
    assert len({first.marker, (await version(again)).marker, (await version(second)).marker}) == 3


@pytest.mark.parametrize(
    ("article", "part"),
    [
        ("a.b", "a.b"),
        ("a..b", "a=2e=2eb"),
        ("a.", "a=2e"),
        ("a.lock", "a=2elock"),
        ("a.b.", "a=2eb=2e"),
        ("a-_9", "a-_9"),
    ],
)
def test_an_article_whose_name_git_would_refuse_still_has_a_branch_of_its_own(article: str, part: str) -> None:
    of = world()
    plan = replace(of.plan, params={**of.plan.params, "article_id": article})
    branch = branch_of(replace(of, plan=plan).context(ARCHIVE_CONTENT_VERSION.name))
    assert branch == f"remit/blog/{part}/v1"
    assert not NEVER_A_BRANCH.search(branch)


async def test_bytes_that_are_missing_or_altered_are_never_archived() -> None:
    of = world()
    (ref,) = of.sources
    for sources, code in (({}, "artifact_missing"), ({ref: b"other"}, "artifact_altered")):
        with pytest.raises(Unprepared) as caught:
            await version(replace(of, sources=sources))
        assert caught.value.code == code


async def run(of: World, action: Action[Ports], **changed: Any) -> tuple[str, Any]:
    """What looking and acting asked of the port."""
    context = of.context(ARCHIVE_CONTENT_VERSION.name, **changed)
    assert action.observe is not None
    await action.observe(of.ports, context)
    await action.forward(of.ports, context)
    (looked, about), (did, what) = of.shelf.calls
    return f"{looked}, {did}", {**about, **what}


def compensation(step: Step[Ports]) -> Action[Ports]:
    assert step.compensation is not None
    return step.compensation


async def test_taking_a_version_back_expects_the_commit_that_was_made() -> None:
    names, given = await run(world(), compensation(ARCHIVE_CONTENT_VERSION))
    assert names == "observe_deleted, delete_branch"
    assert given == {"branch": BRANCH, "commit": "c0ffee"}
    _, moved = await run(world(), compensation(ARCHIVE_CONTENT_VERSION), expected_version="ruled")
    assert moved["commit"] == "ruled"


async def test_a_request_is_closed_by_its_number_and_expects_the_same_head() -> None:
    names, given = await run(world(), compensation(OPEN_ARCHIVE_PULL_REQUEST))
    assert names == "observe_closed, close_pull_request"
    assert given == {"number": "7", "commit": "c0ffee"}


async def test_looking_for_a_version_names_the_commit_on_record() -> None:
    of = world()
    _, given = await run(of, ARCHIVE_CONTENT_VERSION.action)
    assert given["known_commit"] == "c0ffee"
    fresh = replace(world(), receipts={})
    _, given = await run(fresh, ARCHIVE_CONTENT_VERSION.action)
    assert given["known_commit"] is None


def test_a_pull_request_sums_up_and_mentions_nobody() -> None:
    of = world("# secret plan " * 50, title="@team `fixes #1` & more")
    asked: PullRequest = request_of(of.context(OPEN_ARCHIVE_PULL_REQUEST.name))
    assert (asked.branch, asked.commit) == (BRANCH, "c0ffee")
    assert "secret plan" not in asked.body
    assert "* title: `@team 'fixes #1' & more`" in asked.body
    assert "@" not in re.sub(r"`[^`]*`", "", asked.body) + asked.title
    assert of.plan.params["proposal_hash"] in asked.body


def test_without_a_receipt_there_is_nothing_to_ask_for_or_to_take_back() -> None:
    with pytest.raises(Unprepared) as caught:
        request_of(replace(world(), receipts={}).context(OPEN_ARCHIVE_PULL_REQUEST.name))
    assert caught.value.code == "archive_missing"


def test_archiving_belongs_to_installations_that_configure_it() -> None:
    def archiving(*, archive: bool = False, pull_request: bool = False) -> list[str]:
        params = planned(settings=replace(SETTINGS, archive=archive, pull_request=pull_request)).params
        steps = (ARCHIVE_CONTENT_VERSION, OPEN_ARCHIVE_PULL_REQUEST)
        return [step.name for step in steps if step.when(params)]

    assert archiving() == archiving(pull_request=True) == []
    assert archiving(archive=True) == ["ARCHIVE_CONTENT_VERSION"]
    assert archiving(archive=True, pull_request=True) == ["ARCHIVE_CONTENT_VERSION", "OPEN_ARCHIVE_PULL_REQUEST"]


def test_a_branch_is_repeated_under_its_name_and_nothing_that_is_not_ours_is_adopted() -> None:
    assert SEO_ARTICLE_PUBLISH_V1.steps[:2] == (ARCHIVE_CONTENT_VERSION, OPEN_ARCHIVE_PULL_REQUEST)
    assert ARCHIVE_CONTENT_VERSION.action.repeat is Repeat.BY_KEY
    for step in (ARCHIVE_CONTENT_VERSION, OPEN_ARCHIVE_PULL_REQUEST):
        assert (step.effect, step.action.adopts) == (EffectClass.COMPENSABLE, False)
        assert compensation(step).repeat is Repeat.NEVER
        assert compensation(step).looks_first
