"""A sandbox process of a home's own, and what it holds: effects are counted there, never in our journal."""

import argparse
import asyncio
import json
import os
import sqlite3
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from adapters.sandbox.__main__ import serve
from tests.stage.processes import Forked, wait_until

INCOMPLETE_S: Final = float(os.environ.get("REMIT_STAGE_PATIENCE_S", "1.5"))
"""H of the sandboxes of these tests. An opened connection must survive the commit of a fence; more on a busy one."""
MAX_RUN_S: Final = 0.5
"""M of the sandboxes of these tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A row of the site."""

    post_id: str
    status: str
    slug: str
    title: str
    content: str
    image_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A row of the site's media library."""

    image_id: str
    sha256: str
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table of publications."""

    key: str
    version: int
    status: str
    post_id: str
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch of the repository. content: of the file that keeps what a site stores."""

    name: str
    commit: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """A pull request of the repository."""

    branch: str
    state: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Everything that exists outside at one moment. commits: how many were ever stored beside the base's, named by a
    branch or not. writes: accepted writes by method and path. purges: addresses. checks: slug and description.
    webhooks: ids of those that were taken.
    """

    branches: tuple[Branch, ...]
    commits: int
    pulls: tuple[Pull, ...]
    posts: tuple[Post, ...]
    images: tuple[Image, ...]
    rows: tuple[Row, ...]
    mails: tuple[str, ...]
    writes: Mapping[str, int]
    purges: tuple[tuple[str, ...], ...] = ()
    checks: tuple[tuple[str, str], ...] = ()
    webhooks: tuple[str, ...] = ()

    @property
    def live(self) -> tuple[Post, ...]:
        return tuple(post for post in self.posts if post.status == "publish")

    def post(self, post_id: str | None) -> Post | None:
        return next((post for post in self.posts if post.post_id == post_id), None)

    def branch(self, name: str | None) -> Branch | None:
        return next((branch for branch in self.branches if branch.name == name), None)

    def image(self, image_id: str | None) -> Image | None:
        return next((image for image in self.images if image.image_id == image_id), None)

    def by_status(self) -> dict[str, int]:
        statuses = [post.status for post in self.posts]
        return {status: statuses.count(status) for status in sorted(set(statuses))}


NOTHING: Final = Outside(branches=(), commits=0, pulls=(), posts=(), images=(), rows=(), mails=(), writes={})
"""What is there where nobody could look."""


class SandboxProcess:
    """Started on the ports that the home's configuration names; its state lies in the home."""

    def __init__(self, folder: Path, http_port: int, smtp_port: int, *, max_run_s: float = MAX_RUN_S) -> None:
        self._folder = folder
        self.url = f"http://127.0.0.1:{http_port}"
        ready = folder / "ready.json"
        arguments = argparse.Namespace(
            state=folder / "state.db",
            port_file=ready,
            http_port=http_port,
            smtp_port=smtp_port,
            incomplete_s=INCOMPLETE_S,
            max_run_s=max_run_s,
            scale=1.0,
            plugin=False,
            front=True,
        )
        self._arguments, self._ready = arguments, ready
        self._process = self._started()

    def _started(self) -> Forked:
        """A process that answers."""
        log = self._folder / "sandbox.log"
        process = Forked(sandbox_main, self._arguments, log=log)
        wait_until(lambda: self._ready.exists() or not process.is_alive, "the sandbox is ready")
        assert self._ready.exists(), log.read_text()
        return process

    def die(self) -> None:
        """SIGKILL, whatever it is doing; what it has committed stays."""
        self._process.end()

    def rise(self) -> None:
        """The same systems again, at the same addresses. No fault is armed any more."""
        self._ready.unlink()
        self._process = self._started()

    def arm(self, match: str, kind: str, **more: Any) -> None:
        """Arm a fault (`adapters.sandbox.faults`)."""
        self._ask("PUT", "/__faults", {"match": match, "kind": kind, **more})

    def clear(self) -> None:
        """Disarm everything, release what is paused."""
        self._ask("DELETE", "/__faults")

    def struck(self) -> list[tuple[str, str]]:
        """Which faults struck what."""
        return [(kind, line) for kind, line in self._ask("GET", "/__faults")["log"]]

    def wait_for(self, kind: str) -> None:
        """Until a fault of that kind struck."""
        wait_until(lambda: any(seen == kind for seen, _ in self.struck()), f"{kind} strikes")

    def outside(self) -> Outside:
        """What exists now, read from the files in which the systems keep it."""
        effects = self._ask("GET", "/__effects")
        return Outside(
            branches=tuple(
                Branch(name=branch["name"], commit=branch["commit"], content=_kept(branch["files"]))
                for branch in effects["branches"]
            ),
            commits=effects["commits"],
            pulls=tuple(Pull(branch=pull["head"], state=pull["state"], body=pull["body"]) for pull in effects["pulls"]),
            posts=tuple(
                Post(
                    post_id=str(post["id"]),
                    status=post["status"],
                    slug=post["slug"],
                    title=post["title"],
                    content=post["content"],
                    image_id=str(post["featured_media"]),
                )
                for post in effects["posts"]
            ),
            images=tuple(
                Image(image_id=str(row["id"]), sha256=row["sha256"], whole=row["processed"] and bool(row["alt"]))
                for row in effects["media"]
            ),
            rows=publication_rows(self._folder / "publications.db"),
            mails=tuple(message["message_id"] for message in effects["messages"]),
            writes=effects["writes"],
            purges=tuple(tuple(purge["addresses"]) for purge in effects["purges"]),
            webhooks=tuple(delivery["webhook_id"] for delivery in effects["webhooks"]),
            checks=tuple((check["slug"], check["desc"]) for check in effects["checks"]),
        )

    def age_copy(self, address: str, by_s: float) -> None:
        """Open a page as a reader does, and make the copy that the front keeps of it older than it is."""
        with urllib.request.urlopen(address, timeout=10) as page:
            assert page.status == 200
        self._change("UPDATE cached_page SET at = at - ? WHERE url = ?", (by_s, address))

    def drop_copy(self, address: str) -> None:
        """The copy runs out by itself."""
        self._change("DELETE FROM cached_page WHERE url = ?", (address,))

    def _change(self, statement: str, values: tuple[Any, ...]) -> None:
        connection = sqlite3.connect(self._folder / "state.db", timeout=10.0, isolation_level=None)
        assert connection.execute(statement, values).rowcount == 1
        connection.close()

    def end(self) -> None:
        self._process.end()

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())


def _kept(files: Mapping[str, str]) -> str:
    return next((text for path, text in files.items() if path.endswith("/content.html")), "")


def publication_rows(path: Path) -> tuple[Row, ...]:
    """The customer's table, read by somebody else than the adapter."""
    if not path.exists():
        return ()
    connection = sqlite3.connect(path, timeout=10.0)
    try:
        found = connection.execute("SELECT key, version, status, post_id, revision FROM remit_publications").fetchall()
    except sqlite3.OperationalError:
        return ()  # the table is not made yet
    finally:
        connection.close()
    return tuple(Row(key=k, version=v, status=s, post_id=p, revision=r) for k, v, s, p, r in found)


def sandbox_main(arguments: argparse.Namespace) -> None:
    """The child: serve until it is ended."""
    asyncio.run(serve(arguments))
