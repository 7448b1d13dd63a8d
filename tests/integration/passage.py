"""The real adapters, with a place to stand between the look and the fence of each write.

A hook that is set for an operation runs once, when the connection is open and the fence is not yet submitted: whatever
it does is the last thing that could have happened before the effect was permitted. `sent` lists what left.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from adapters.cloudflare import CloudflareCache
from adapters.database import SqlPublications
from adapters.github import GitHubRepository
from adapters.mail import SmtpMail
from adapters.monitoring import Healthchecks
from adapters.wordpress import WordPressSite
from adapters.wordpress_media import WordPressMedia
from execution.core.definition import Prepared
from execution.core.failures import Answer
from execution.core.quiescence import Bounds
from execution.ports import Article, Check, ContentVersion, Image, Incident, Message, PublicationRecord

Hook = Callable[[], Awaitable[None]]

CREATE, STAGE, PUBLISH, UPDATE, RECORD = "create_draft", "stage", "publish", "update", "record"
TRASH, CANCEL, NOTIFY = "trash", "cancel", "notify"
UNPUBLISH, INCIDENT, WITHDRAW = "unpublish", "incident", "withdraw"
COMPLETE, UPLOAD, COMPLETE_IMAGE, DELETE = "complete_draft", "upload", "complete_image", "delete"
ARCHIVE, DELETE_BRANCH, PURGE, REGISTER = "archive", "delete_branch", "purge", "register"


class Passage:
    """What stands before the fence, what stands before the first byte, and what went through."""

    def __init__(self) -> None:
        self.before_fence: dict[str, Hook] = {}
        self.before_send: dict[str, Hook] = {}
        self.after_send: dict[str, Hook] = {}
        self.observers: dict[str, Callable[[], Awaitable[object]]] = {}
        self.sent: list[str] = []

    def through(self, operation: str, prepared: Prepared) -> Prepared:
        return Passing(self, operation, prepared)

    async def run(self, hooks: dict[str, Hook], operation: str) -> None:
        hook = hooks.pop(operation, None)
        if hook is not None:
            await hook()


class Passing:
    """A prepared request (`execution.core.definition.Prepared`) on its way through the passage."""

    def __init__(self, passage: Passage, operation: str, prepared: Prepared) -> None:
        self._passage, self._operation, self._prepared = passage, operation, prepared

    @property
    def request_digest(self) -> str:
        return self._prepared.request_digest

    @property
    def bounds(self) -> Bounds:
        return self._prepared.bounds

    async def connect(self) -> Answer | None:
        refused = await self._prepared.connect()
        await self._passage.run(self._passage.before_fence, self._operation)
        return refused

    async def send(self, deadline_s: float) -> Answer:
        await self._passage.run(self._passage.before_send, self._operation)
        self._passage.sent.append(self._operation)
        answer = await self._prepared.send(deadline_s)
        for look in tuple(self._passage.observers.values()):
            await look()
        await self._passage.run(self._passage.after_send, self._operation)
        return answer

    async def close(self) -> None:
        await self._prepared.close()


class Site(WordPressSite):
    """The WordPress adapter."""

    def __init__(self, *given: Any, passage: Passage, **more: Any) -> None:
        super().__init__(*given, **more)
        self._passage = passage
        self.media = Library(self._system, own_posts_only=False, passage=passage)

    async def create_draft(self, *, marker: str, article: Article) -> Prepared:
        return self._passage.through(CREATE, await super().create_draft(marker=marker, article=article))

    async def complete_draft(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        made = await super().complete_draft(post_id=post_id, expected_version=expected_version, article=article)
        return self._passage.through(COMPLETE, made)

    async def publish(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        made = await super().publish(post_id=post_id, expected_version=expected_version, article=article)
        return self._passage.through(PUBLISH, made)

    async def update(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        made = await super().update(post_id=post_id, expected_version=expected_version, article=article)
        return self._passage.through(UPDATE, made)

    def trash(self, *, post_id: str, expected_version: str) -> Prepared:
        return self._passage.through(TRASH, super().trash(post_id=post_id, expected_version=expected_version))

    def unpublish(self, *, post_id: str, expected_version: str) -> Prepared:
        return self._passage.through(UNPUBLISH, super().unpublish(post_id=post_id, expected_version=expected_version))


class Library(WordPressMedia):
    """The adapter of the site's media library."""

    def __init__(self, *given: Any, passage: Passage, **more: Any) -> None:
        super().__init__(*given, **more)
        self._passage = passage

    def upload(self, *, marker: str, image: Image, content: bytes) -> Prepared:
        return self._passage.through(UPLOAD, super().upload(marker=marker, image=image, content=content))

    async def complete(self, *, media_id: str, image: Image) -> Prepared:
        return self._passage.through(COMPLETE_IMAGE, await super().complete(media_id=media_id, image=image))

    def delete(self, *, media_id: str, expected_version: str) -> Prepared:
        return self._passage.through(DELETE, super().delete(media_id=media_id, expected_version=expected_version))


class Publications(SqlPublications):
    """The adapter of the customer's table."""

    def __init__(self, *given: Any, passage: Passage) -> None:
        super().__init__(*given)
        self._passage = passage

    def stage(self, record: PublicationRecord) -> Prepared:
        return self._passage.through(STAGE, super().stage(record))

    def cancel(self, *, key: str) -> Prepared:
        return self._passage.through(CANCEL, super().cancel(key=key))

    def record(self, record: PublicationRecord) -> Prepared:
        return self._passage.through(RECORD, super().record(record))

    def withdraw(self, *, key: str) -> Prepared:
        return self._passage.through(WITHDRAW, super().withdraw(key=key))

    def open_incident(self, incident: Incident) -> Prepared:
        return self._passage.through(INCIDENT, super().open_incident(incident))


class Mail(SmtpMail):
    """The mail adapter."""

    def __init__(self, *given: Any, passage: Passage, **more: Any) -> None:
        super().__init__(*given, **more)
        self._passage = passage

    def send(self, message: Message) -> Prepared:
        return self._passage.through(NOTIFY, super().send(message))


class Archive(GitHubRepository):
    """The adapter of the repository."""

    def __init__(self, *given: Any, passage: Passage, **more: Any) -> None:
        super().__init__(*given, **more)
        self._passage = passage

    async def archive(self, version: ContentVersion) -> Prepared:
        return self._passage.through(ARCHIVE, await super().archive(version))

    def delete_branch(self, *, branch: str) -> Prepared:
        return self._passage.through(DELETE_BRANCH, super().delete_branch(branch=branch))


class Cache(CloudflareCache):
    """The adapter of the cache in front of the site."""

    def __init__(self, *given: Any, passage: Passage, **more: Any) -> None:
        super().__init__(*given, **more)
        self._passage = passage

    def purge(self, addresses: tuple[str, ...]) -> Prepared:
        return self._passage.through(PURGE, super().purge(addresses))


class Checks(Healthchecks):
    """The adapter of the monitoring service."""

    def __init__(self, *given: Any, passage: Passage, **more: Any) -> None:
        super().__init__(*given, **more)
        self._passage = passage

    def register(self, check: Check) -> Prepared:
        return self._passage.through(REGISTER, super().register(check))
