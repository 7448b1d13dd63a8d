"""An agent's article on a real WordPress: what stands in its database, what readers see, and what is said about it."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.real import RealHome, fresh_name, mails_of, page, real_home, rows_of, sha256, statuses_of, working
from tests.e2e.world import Agent, agent, answer
from tests.services import Mailbox, PostRow, WordPress

MARKDOWN: Final = """\
# Über Käse — チーズの作り方 🧀

> "Say 'cheese' & smile," she said. 1 < 2 > 0 … <b>bold</b> it is.

![A wheel of cheese, 一個](/wp-includes/images/media/default.png "Title & more")

| Sorte | 温度 | Preis |
|:------|-----:|:-----:|
| Gouda | 35 °C | 4 € |
| "Edam" | 32 °C | & more |

```python
if a < b and "x" != 'y':  # 漢字 👩🏽‍🍳
    print(f"{a} & {b} \\\\ done")
```

*Ende* — [link](https://example.org/?a=1&b=2#c).
"""


@pytest.mark.behaviour("real.wordpress")
async def test_two_versions_stand_as_they_were_approved_and_a_persons_edit_stops_the_third(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path
) -> None:
    home, name = real_home(tmp_path, wordpress, smtp), fresh_name()
    home.issue("--uses", "3")
    person = replace(home, holder="anna")
    person.issue("--query-only", "--any", agent="anna")
    async with agent(home, "--no-worker") as writer, agent(person, "--no-worker") as reader:
        story = Story(home=home, site=wordpress, mailbox=smtp, name=name, writer=writer, reader=reader)
        await story.is_accepted_without_touching_anything()
        with working(home):
            await story.is_published_as_approved()
            await story.is_replaced_by_a_second_version()
            await story.is_left_alone_after_a_person_edited_it()
        assert (await reader.refused("propose_publish", **story.proposal(4)))["code"] == "intent_not_granted"
    assert home.remit("verify").document["ok"] is True


class Story:
    """One article through its versions."""

    def __init__(
        self, *, home: RealHome, site: WordPress, mailbox: Mailbox, name: str, writer: Agent, reader: Agent
    ) -> None:
        self.home, self.site, self.mailbox, self.name = home, site, mailbox, name
        self.writer, self.reader = writer, reader
        self.first = ""

    @property
    def mails(self) -> int:
        return mails_of(self.mailbox, self.name)

    def proposal(self, version: int) -> dict[str, Any]:
        return {
            "article_id": self.name,
            "version": version,
            "site": "blog",
            "title": f'"Tom & Jerry’s" <b> 猫 {self.name}' + (f" v{version}" if version > 1 else ""),
            "content": MARKDOWN + (f"\nVersion {version}.\n" if version > 1 else ""),
            "excerpt": 'Short & "sweet" ✨',
            "notify": ["team"],
            "wait_seconds": 0,
        }

    async def is_accepted_without_touching_anything(self) -> None:
        """No worker runs yet: the gateway has no way to reach the site."""
        accepted = answer(await self.writer.call("propose_publish", **self.proposal(1)))
        self.first = accepted["command_id"]
        assert (accepted["state"], accepted["live"], accepted["done"]) == ("QUEUED", False, False)
        assert (rows_of(self.site, self.name), self.home.publications(), self.mails) == ((), [], 0)

    async def is_published_as_approved(self) -> None:
        waiting = await self.writer.settled(self.first)
        assert (waiting["state"], waiting["live"]) == ("AWAITING_APPROVAL", False)
        (draft,) = rows_of(self.site, self.name)
        assert draft.status == "draft"
        shown = self.home.remit("approve", self.first, "--show").document
        subject = shown["subject"]
        assert page(subject["target"]["url"])[0] == 404
        assert [row["status"] for row in self.home.publications()] == ["staged"]
        assert self.mails == 0

        assert self.home.approve(self.first).code == 0
        done = await self.writer.settled(self.first)
        assert (done["state"], done["live"], done["done"], done["url"]) == (
            "SUCCESS",
            True,
            True,
            subject["target"]["url"],
        )
        self.stands_as_approved(draft.post_id, subject)
        assert self.mails == 1
        (record,) = self.home.publications()
        assert (record["status"], record["post_id"], record["url"], record["title"], record["content_hash"]) == (
            "published",
            str(draft.post_id),
            done["url"],
            subject["title"],
            subject["content_sha256"],
        )
        assert statuses_of(self.site, self.name) == ["publish"]
        await self.everybody_hears_the_same(self.first, done)

    async def is_replaced_by_a_second_version(self) -> None:
        (live,) = rows_of(self.site, self.name)
        second = answer(await self.writer.call("propose_publish", **self.proposal(2)))["command_id"]
        waiting = await self.writer.settled(second)
        assert (waiting["state"], waiting["live"]) == ("AWAITING_APPROVAL", False)
        assert statuses_of(self.site, self.name) == ["draft", "publish"]
        assert rows_of(self.site, self.name)[0] == live, "staging a version touches nothing that is live"
        shown = self.home.remit("approve", second, "--show").document["subject"]
        assert (shown["target"]["post_id"], shown["target"]["slug"]) == (str(live.post_id), live.slug)

        assert self.home.approve(second).code == 0
        done = await self.writer.settled(second)
        assert (done["state"], done["live"]) == ("SUCCESS", True)
        self.stands_as_approved(live.post_id, shown)
        assert statuses_of(self.site, self.name) == ["publish", "trash"]
        assert [row["status"] for row in self.home.publications()] == ["published", "published"]
        assert self.mails == 2
        await self.everybody_hears_the_same(second, done)

    async def is_left_alone_after_a_person_edited_it(self) -> None:
        live = rows_of(self.site, self.name)[0]
        third = answer(await self.writer.call("propose_publish", **self.proposal(3)))["command_id"]
        assert (await self.writer.settled(third))["state"] == "AWAITING_APPROVAL"
        self.site.edit_as_human(live.post_id, role="administrator", content=f"{live.content}\n<p>A correction.</p>")
        edited = rows_of(self.site, self.name)[0]
        edited_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert self.home.approve(third).code == 0
        stopped = await self.writer.settled(third)
        assert (stopped["state"], stopped["live"], stopped["next_action"]) == ("NEEDS_REVIEW", False, "tell_user")
        assert (stopped["answers"]["diverged"], stopped["answers"]["checked_at"] >= edited_at) == (True, True)
        assert rows_of(self.site, self.name)[0] == edited, "what a person wrote stays"
        assert edited.content.endswith("<p>A correction.</p>")
        assert statuses_of(self.site, self.name) == ["draft", "publish", "trash"]
        assert [row["status"] for row in self.home.publications()] == ["published", "published", "staged"]
        assert self.mails == 2
        assert self.home.remit("status", third).code == 5
        (review,) = self.home.remit("review", "ls").document["reviews"]
        assert (review["kind"], review["cause"]) == ("CONFLICT", "changed")
        await self.everybody_hears_the_same(third, stopped)
        await self.is_written_over_once_a_person_has_ruled(third, review["review_id"], edited)

    async def is_written_over_once_a_person_has_ruled(self, third: str, review: str, edited: PostRow) -> None:
        """Who rules sees the edit; who approves again sees it too; then the version goes live over it."""
        (title, content) = self.home.remit("review", "show", review).document["compared"]
        assert (title["field"], title["changed"], content["field"]) == ("title", [], "content")
        assert [text for text in content["changed"] if text.startswith("+<")] == ["+<p>A correction.</p>"]
        assert "+<p>Version 3.</p>" in content["ours"]
        assert self.home.remit("review", "rule", review, "rebase", "--reason", "ours goes on").code == 0
        waiting = await self.writer.settled(third)
        assert (waiting["state"], waiting["live"]) == ("AWAITING_APPROVAL", False)
        shown = self.home.remit("approve", third, "--show").document
        assert "-<p>A correction.</p>" in shown["diff"]
        assert next(row for row in rows_of(self.site, self.name) if row.post_id == edited.post_id) == edited
        assert self.home.approve(third).code == 0
        done = await self.writer.settled(third)
        assert (done["state"], done["live"], self.mails) == ("SUCCESS", True, 3)
        self.stands_as_approved(edited.post_id, shown["subject"])
        assert statuses_of(self.site, self.name) == ["publish", "trash", "trash"]

    def stands_as_approved(self, post_id: int, subject: dict[str, Any]) -> None:
        """Database, REST and public page against what the approver was shown."""
        row = next(row for row in rows_of(self.site, self.name) if row.post_id == post_id)
        assert (row.status, row.slug, row.title) == ("publish", subject["target"]["slug"], subject["title"])
        assert sha256(row.content) == subject["content_sha256"]
        raw = self.site.rest("GET", f"/wp/v2/posts/{post_id}?context=edit", role="editor").body
        assert (raw["title"]["raw"], raw["content"]["raw"], raw["slug"], raw["status"]) == (
            subject["title"],
            row.content,
            row.slug,
            "publish",
        )
        code, html = page(subject["target"]["url"])
        assert code == 200
        for seen in ("チーズの作り方 🧀", "<table>", "a &lt; b", "👩🏽‍🍳", "default.png", "35 °C"):
            assert seen in html

    async def everybody_hears_the_same(self, command_id: str, known: dict[str, Any]) -> None:
        """A person with a token that may only ask gets the answer that the agent got."""
        heard = answer(await self.reader.call("query_command_status", command_id=command_id))
        told = ("state", "live", "done", "url", "external_version", "say_to_user", "next_action")
        assert {key: heard.get(key) for key in told} == {key: known.get(key) for key in told}


async def test_what_is_taken_down_is_gone_for_readers_kept_in_the_site_and_published_again_by_a_later_version(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path
) -> None:
    home, name = real_home(tmp_path, wordpress, smtp), fresh_name()
    home.issue("--uses", "3", "--open", "2")
    person = replace(home, holder="anna")
    person.issue("--query-only", "--any", agent="anna")
    proposal = {"article_id": name, "version": 1, "site": "blog", "title": f"Down {name}", "content": "Readable words."}
    async with agent(home, "--no-worker") as writer, agent(person, "--no-worker") as reader:
        with working(home):
            first = (await writer.settled((await writer.propose(**proposal))["command_id"]))["command_id"]
            assert home.approve(first).code == 0
            live = await writer.settled(first)
            assert (live["live"], page(live["url"])[0]) == (True, 200)
            (before,) = rows_of(wordpress, name)

            down = home.remit("withdraw", first, "--reason", "a wrong name").document["command_id"]
            assert (await reader.settled(down))["state"] == "AWAITING_APPROVAL"
            assert page(live["url"])[0] == 200
            assert home.approve(down).code == 0
            assert (await reader.settled(down))["state"] == "SUCCESS"
            (after,) = rows_of(wordpress, name)
            assert (after.status, page(live["url"])[0]) == ("draft", 404)
            assert (after.post_id, after.slug, after.title, after.content) == (
                before.post_id,
                before.slug,
                before.title,
                before.content,
            )
            assert [row["status"] for row in home.publications()] == ["withdrawn"]

            second = (await writer.propose(**proposal | {"version": 2, "content": "Better words."}))["command_id"]
            assert (await writer.settled(second))["state"] == "AWAITING_APPROVAL"
            assert home.approve(second).code == 0
            again = await writer.settled(second)
            assert (again["live"], again["url"]) == (True, live["url"])
            code, html = page(live["url"])
            assert (code, "Better words." in html) == (200, True)
            assert next(row for row in rows_of(wordpress, name) if row.status == "publish").post_id == before.post_id
    assert home.remit("verify").document["ok"] is True
