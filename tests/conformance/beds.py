"""The two worlds that a port's suite runs in: the stand-in and the real system."""

import asyncio
import base64
import contextlib
import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from adapters.sandbox.accounts import ACCOUNTS
from adapters.sandbox.running import Sandbox, SandboxSettings
from adapters.wordpress import WordPressSite
from execution.core.failures import Answer
from execution.core.quiescence import Bounds
from execution.ports import Article
from tests.services import WordPress

REST_MAX_S = 15.0
DEADLINE_S = 10.0
PLENTY = SandboxSettings(incomplete_s=10.0, max_run_s=10.0)


class Preparable(Protocol):
    async def connect(self) -> Answer | None: ...
    async def send(self, deadline_s: float) -> Answer: ...
    async def close(self) -> None: ...


async def carry_out(prepared: Preparable, deadline_s: float = DEADLINE_S) -> Answer:
    """Connect, send once, close: what the engine does around its fence."""
    try:
        return await prepared.connect() or await prepared.send(deadline_s)
    finally:
        await prepared.close()


def fresh_marker() -> str:
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(24))


def fresh_article(**fields: Any) -> Article:
    """An article that nobody else uses."""
    return Article(**{"title": "A title", "content": "<p>Body</p>", "slug": f"public-{fresh_marker()[:12]}", **fields})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """A WordPress site, and a person who uses it beside us. `users`: login and application password by role."""

    url: str
    users: Mapping[str, tuple[str, str]]
    bounds: Bounds

    @contextlib.asynccontextmanager
    async def site(
        self, role: str = "editor", password: str | None = None, **settings: Any
    ) -> AsyncIterator[WordPressSite]:
        """The adapter under test, signed in as that role."""
        login, known = self.users[role]
        adapter = WordPressSite(self.url, login, known if password is None else password, self.bounds, **settings)
        try:
            yield adapter
        finally:
            await adapter.aclose()

    async def rest(
        self, method: str, path: str, fields: object = None, *, role: str | None = "editor"
    ) -> tuple[int, Any]:
        """One call by another client: status and parsed body. role None: anonymous."""
        return await asyncio.to_thread(self._rest, method, path, fields, role)

    async def person(self, method: str, path: str, fields: object = None, *, role: str = "editor") -> Any:
        """The body of a call that must succeed."""
        status, body = await self.rest(method, path, fields, role=role)
        assert status in (200, 201), body
        return body

    def _rest(self, method: str, path: str, fields: object, role: str | None) -> tuple[int, Any]:
        request = urllib.request.Request(f"{self.url}/wp-json{path}", method=method)
        if role is not None:
            request.add_header(
                "Authorization", "Basic " + base64.b64encode(":".join(self.users[role]).encode()).decode()
            )
        if fields is not None:
            request.data = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=REST_MAX_S) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    async def file(self, url: str) -> bytes | None:
        """What a reader gets of a file; None when there is none."""

        def fetch() -> bytes | None:
            try:
                with urllib.request.urlopen(url, timeout=REST_MAX_S) as response:
                    content: bytes = response.read()
                    return content
            except urllib.error.HTTPError as error:
                with error:
                    return None

        return await asyncio.to_thread(fetch)

    async def page_status(self, slug: str) -> int:
        """What a reader gets."""

        def fetch() -> int:
            try:
                with urllib.request.urlopen(f"{self.url}/{slug}/", timeout=REST_MAX_S) as response:
                    return int(response.status)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code

        return await asyncio.to_thread(fetch)


@contextlib.asynccontextmanager
async def sandbox_bed(folder: Path, *, plugin: bool = False) -> AsyncIterator[Bed]:
    """The stand-in, in this process."""
    settings = SandboxSettings(incomplete_s=10.0, max_run_s=10.0, plugin=plugin)
    sandbox = Sandbox(folder / "sandbox.db", time.time, settings)
    await sandbox.start()
    try:
        users = {account.role: (account.login, account.app_password) for account in ACCOUNTS}
        yield Bed(url=sandbox.url, users=users, bounds=settings.bounds())
    finally:
        await sandbox.stop()


def real_bed(site: WordPress) -> Bed:
    """The real WordPress behind its front."""
    users = {role: (user.login, user.application_password) for role, user in site.users.items()}
    bounds = Bounds(
        max_run_s=site.run_s + 1.0,
        max_run_source="php-fpm request_terminate_timeout",
        incomplete_s=float(site.incomplete_s),
        incomplete_source="nginx client_body_timeout",
        transit_s=1.0,
    )
    return Bed(url=site.url, users=users, bounds=bounds)
