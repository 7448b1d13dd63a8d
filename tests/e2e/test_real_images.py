"""The featured image of an article on a real WordPress: one file in its library, whatever happens to the upload.

What is counted is read from the site's database and from its folder of uploads.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.real import (
    RealHome,
    fresh_name,
    page,
    quiescence_s,
    real_home,
    rows_of,
    statuses_of,
    wait_until_taken,
    working,
)
from tests.e2e.test_real_faults import LOST_AFTER, LOST_BEFORE
from tests.e2e.world import Agent, agent, answer
from tests.pictures import png
from tests.services import ImageRow, Mailbox, WordPress, wait_until
from tests.testbeds.fault_proxy import fault_proxy_before

UPLOAD: Final = "POST /wp-json/wp/v2/media"
UPLOADING: Final = "UPLOAD_FEATURED_IMAGE"
SLEEP_S: Final = 3.0
ROW_MAX_S: Final = 30.0
ROADS: Final = ("dropped-before", "front-says-503", "dropped-after", "error-after-commit", "html-after-commit")


def proposal(name: str, ref: str, site: str = "blog", version: int = 1) -> dict[str, Any]:
    return {
        "article_id": name,
        "version": version,
        "site": site,
        "title": f"With a picture & more {name}",
        "content": f"Look, {name}.",
        "featured_image": ref,
        "wait_seconds": 0,
    }


class Library:
    """What the site's library holds of this test. An image is told from those of other tests by its bytes."""

    def __init__(self, site: WordPress, content: bytes, ref: str) -> None:
        self.site, self.content, self.sha256 = site, content, ref.rpartition("/")[2]

    def images(self) -> list[ImageRow]:
        return [image for image in self.site.images() if self.sha256[:16] in image.slug]

    def files(self) -> int:
        """Files on disk with that name, rows or no rows, smaller sizes not counted."""
        folder = self.site.directory / "site/wp-content/uploads"
        found = list(folder.rglob(f"remit-*-{self.sha256[:16]}*.png"))
        return sum(1 for path in found if path.read_bytes() == self.content)


def pictured(home: RealHome, site: WordPress, name: str) -> tuple[str, Library]:
    content = png(len(name)) + name.encode()  # bytes after the end of a picture belong to nobody
    ref = home.stored(f"{name}.png", content)
    return ref, Library(site, content, ref)


@pytest.mark.behaviour("publish.image")
async def test_an_article_stands_with_its_image_and_an_unwound_one_leaves_no_file(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path
) -> None:
    home, names = real_home(tmp_path, wordpress, smtp), [fresh_name(), fresh_name()]
    home.issue("--uses", "3", "--open", "2")
    async with agent(home, "--no-worker") as writer:
        with working(home):
            (ref, library), (other_ref, other) = [pictured(home, wordpress, name) for name in names]
            first, second = [
                answer(await writer.call("propose_publish", **proposal(name, r)))["command_id"]
                for name, r in zip(names, (ref, other_ref), strict=True)
            ]
            assert (
                (await writer.settled(first))["state"] == (await writer.settled(second))["state"] == "AWAITING_APPROVAL"
            )
            (image,) = library.images()
            (draft,) = rows_of(wordpress, names[0])
            assert (image.sha256, image.alt, image.processed) == (
                library.sha256,
                f"With a picture & more {names[0]}",
                True,
            )
            assert (draft.status, wordpress.featured_image(draft.post_id)) == ("draft", image.media_id)

            assert home.approve(first).code == 0
            done = await writer.settled(first)
            assert (done["state"], done["live"]) == ("SUCCESS", True)
            assert (statuses_of(wordpress, names[0]), library.images(), library.files()) == (["publish"], [image], 1)
            assert wordpress.featured_image(draft.post_id) == image.media_id
            assert page(done["url"])[0] == 200

            assert (len(other.images()), other.files()) == (1, 1)
            assert home.remit("reject", second, "--reason", "another picture").code == 0
            ended = await writer.settled(second)
            assert (ended["state"], ended["live"]) == ("COMPENSATED", False)
            assert (statuses_of(wordpress, names[1]), other.images(), other.files()) == (["trash"], [], 0)
            await is_replaced(home, writer, wordpress, names[0], library)
    assert home.remit("verify").document["ok"] is True


async def is_replaced(home: RealHome, writer: Agent, site: WordPress, name: str, before: Library) -> None:
    """A second version shows its own image; the first one's stays in the library, as in any WordPress."""
    ref, library = pictured(home, site, name + "-second")
    command_id = answer(await writer.call("propose_publish", **proposal(name, ref, version=2)))["command_id"]
    assert (await writer.settled(command_id))["state"] == "AWAITING_APPROVAL"
    (live,) = (row for row in rows_of(site, name) if row.status == "publish")
    assert site.featured_image(live.post_id) == before.images()[0].media_id
    assert home.approve(command_id).code == 0
    assert (await writer.settled(command_id))["state"] == "SUCCESS"
    (image,) = library.images()
    assert (site.featured_image(live.post_id), len(before.images())) == (image.media_id, 1)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_worker_killed_while_the_site_stores_an_image_leaves_one(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path, when: str
) -> None:
    home, name = real_home(tmp_path, wordpress, smtp), fresh_name()
    home.issue()
    ref, library = pictured(home, wordpress, name)
    async with agent(home, "--no-worker") as writer:
        with working(home) as worker:
            if when == "before":
                wordpress.arm_next_write(before_s=SLEEP_S)
            else:
                wordpress.arm_next_write(after_s=SLEEP_S)
            command_id = answer(await writer.call("propose_publish", **proposal(name, ref)))["command_id"]
            wait_until_taken(wordpress)
            if when == "after":
                wait_until(lambda: len(library.images()) == 1, timeout_s=ROW_MAX_S)
            worker.restart()
            assert (await writer.settled(command_id))["state"] == "AWAITING_APPROVAL"
            (image,) = library.images()
            (draft,) = rows_of(wordpress, name)
            assert (image.sha256, image.processed, library.files()) == (library.sha256, True, 1)
            assert wordpress.featured_image(draft.post_id) == image.media_id


@contextlib.contextmanager
def proxied(site: WordPress) -> Iterator[Mapping[str, Any]]:
    with contextlib.ExitStack() as stack:
        yield {road: stack.enter_context(fault_proxy_before(site.url)) for road in ROADS}


async def test_whatever_happens_to_the_upload_of_an_image_one_image_stands(
    wordpress: WordPress, smtp: Mailbox, tmp_path: Path
) -> None:
    arming = {**LOST_BEFORE, **LOST_AFTER}
    with proxied(wordpress) as proxies:
        home = real_home(tmp_path, wordpress, smtp, {road: proxy.url for road, proxy in proxies.items()})
        home.issue("--uses", str(len(ROADS)), "--open", str(len(ROADS)))
        commands: dict[str, str] = {}
        libraries: dict[str, Library] = {}
        async with agent(home, "--no-worker") as writer:
            for road, proxy in proxies.items():
                name = f"{fresh_name()}-{road}"
                proxy.arm(arming[road](UPLOAD))
                ref, libraries[road] = pictured(home, wordpress, name)
                accepted = await writer.call("propose_publish", **proposal(name, ref, site=road))
                commands[road] = answer(accepted)["command_id"]
            with working(home):
                for road in ROADS:
                    assert (await writer.settled(commands[road]))["state"] == "AWAITING_APPROVAL", road
        for road in ROADS:
            fences = home.fences(commands[road], UPLOADING)
            found = (len(libraries[road].images()), libraries[road].files(), proxies[road].landed(UPLOAD), len(fences))
            assert found == (1, 1, 1, 2 if road in LOST_BEFORE else 1), road
            if road in LOST_BEFORE:
                assert (fences[-1] - fences[0]) / 1000.0 >= quiescence_s(wordpress)
