"""A small world for the publishing saga: ports that record what was asked and answer what they are told."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from execution.catalog import Plan, Previous
from execution.core.command import Context
from execution.core.definition import SagaDefinition
from execution.core.failures import Absent, Answer, CannotTell, FailureClass, Lost, Receipt, Sighting, Unprepared
from execution.core.identity import BusinessKey, marker
from execution.core.quiescence import Bounds
from execution.ports import (
    Article,
    Check,
    ContentVersion,
    Event,
    Image,
    Incident,
    Message,
    Ports,
    PublicationRecord,
    PullRequest,
)
from execution.proposal import Proposal, Stored
from execution.sagas.publish_article import SEO_ARTICLE_PUBLISH_V1
from execution.sagas.publish_plan import PublishSettings, SiteRules, plan

BOUNDS = Bounds()
NOTHING = Previous()
SETTINGS = PublishSettings(
    sites={
        "blog": SiteRules(url="https://blog.example/{slug}/", purge=("{url}", "https://blog.example/"), purge_batch=2),
        "shop": SiteRules(),
    },
    lists={"team": ("Ann@example.org", "bob@example.org"), "all": ("ann@Example.org", "cy@example.org")},
    webhooks=frozenset({"hook", "other-hook"}),
    publications=True,
    monitoring=True,
    monitoring_tags=("prod",),
    mail=True,
    mail_domain="remit.example",
)
LIVE = Previous(
    version=1,
    post_id="41",
    external_version="v-live",
    url="https://blog.example/how-to-brew/",
    slug="how-to-brew",
    live=True,
    command_id="cmd_1",
)
DRAFT = Receipt(
    resource_id="7",
    version="v-draft",
    reference="https://blog.example/?p=7",
    data={"status": "draft", "slug": "remit-x", "raw_hash": "h1"},
)
PNG = b"\x89PNG\r\n\x1a\n" + b"." * 40
PICTURE = "artifact://sha256/" + hashlib.sha256(PNG).hexdigest()
UPLOADED = Receipt(resource_id="12", version="v-image", reference="https://blog.example/x.png")
PUBLISHED = Receipt(resource_id="7", version="v-public", reference="https://blog.example/how-to-brew/")


def proposal(content: str = "# Hello\n\nworld", *, version: int = 1, site: str = "blog", **arguments: Any) -> Proposal:
    """A proposal in normal form, as the gateway hands it over."""
    return Proposal(
        intent="propose_publish",
        site=site,
        object_id="article-0028",
        version=version,
        arguments={"title": "How to brew", **arguments},
        content=content.encode(),
    )


def with_image(offered: Proposal, content: bytes = PNG) -> Proposal:
    """The proposal with a featured image, as intake hands it to the plan."""
    sha256 = hashlib.sha256(content).hexdigest()
    stored = {"featured_image": Stored(sha256=sha256, size=len(content), head=content[:64])}
    named = {**offered.arguments, "featured_image": f"artifact://sha256/{sha256}"}
    return replace(offered, arguments=named, stored=stored)


def planned(
    offered: Proposal | None = None, previous: Previous = NOTHING, settings: PublishSettings = SETTINGS, **more: Any
) -> Plan:
    """The plan of that proposal."""
    offered = offered or proposal(**more)
    return plan(settings, offered, hashlib.sha256(offered.content or b"").hexdigest(), previous)


@dataclass
class Request:
    """A prepared request that only knows what it was made of."""

    call: tuple[str, Mapping[str, Any]]
    bounds: Bounds = BOUNDS

    @property
    def request_digest(self) -> str:
        return hashlib.sha256(repr(self.call).encode()).hexdigest()

    async def connect(self) -> Answer | None:
        return None

    async def send(self, deadline_s: float) -> Answer:
        return Lost(code="nothing_is_sent_here")

    async def close(self) -> None:
        return None


@dataclass
class Site:
    """A WordPress port. `sees` holds the sighting that each read answers; `reads` answers by post id."""

    sees: dict[str, Sighting] = field(default_factory=dict)
    reads: dict[str, Sighting] = field(default_factory=dict)
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    bounds: Bounds = BOUNDS
    key_strategy: str = "slug"
    written: Mapping[str, str] = field(default_factory=dict)

    def _request(self, name: str, **given: Any) -> Request:
        self.calls.append((name, given))
        return Request((name, given))

    def _seen(self, name: str, **given: Any) -> Sighting:
        self.calls.append((name, given))
        return self.sees.get(name, Absent())

    async def create_draft(self, *, marker: str, article: Article) -> Request:
        return self._request("create_draft", marker=marker, article=article)

    async def observe_draft(self, *, marker: str, article: Article, known_id: str | None) -> Sighting:
        return self._seen("observe_draft", marker=marker, article=article, known_id=known_id)

    async def complete_draft(self, *, post_id: str, expected_version: str, article: Article) -> Request:
        return self._request("complete_draft", post_id=post_id, expected_version=expected_version, article=article)

    async def publish(self, *, post_id: str, expected_version: str, article: Article) -> Request:
        return self._request("publish", post_id=post_id, expected_version=expected_version, article=article)

    async def update(self, *, post_id: str, expected_version: str, article: Article) -> Request:
        return self._request("update", post_id=post_id, expected_version=expected_version, article=article)

    async def observe_publication(
        self, *, post_id: str, expected_version: str, article: Article, baseline_hash: str = ""
    ) -> Sighting:
        return self._seen(
            "observe_publication",
            post_id=post_id,
            expected_version=expected_version,
            article=article,
            baseline_hash=baseline_hash,
        )

    def trash(self, *, post_id: str, expected_version: str) -> Request:
        return self._request("trash", post_id=post_id, expected_version=expected_version)

    async def observe_trashed(self, *, post_id: str, expected_version: str) -> Sighting:
        return self._seen("observe_trashed", post_id=post_id, expected_version=expected_version)

    def unpublish(self, *, post_id: str, expected_version: str) -> Request:
        return self._request("unpublish", post_id=post_id, expected_version=expected_version)

    async def observe_unpublished(self, *, post_id: str, expected_version: str) -> Sighting:
        return self._seen("observe_unpublished", post_id=post_id, expected_version=expected_version)

    async def read(self, *, post_id: str) -> Sighting:
        return self.reads.get(post_id, Absent())

    async def texts(self, *, post_id: str) -> Mapping[str, str] | CannotTell:
        self.calls.append(("texts", {"post_id": post_id}))
        return self.written

    async def find_public(self, *, slug: str) -> Sighting:
        return self._seen("find_public", slug=slug)


@dataclass
class Library:
    """A media library port. `sees` holds the sighting that each read answers."""

    sees: dict[str, Sighting] = field(default_factory=dict)
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def upload(self, *, marker: str, image: Image, content: bytes) -> Request:
        self.calls.append(("upload", {"marker": marker, "image": image, "content": content}))
        return Request(self.calls[-1])

    async def observe_image(self, *, marker: str, image: Image, known_id: str | None) -> Sighting:
        self.calls.append(("observe_image", {"marker": marker, "image": image, "known_id": known_id}))
        return self.sees.get("observe_image", Absent())

    async def complete(self, *, media_id: str, image: Image) -> Request:
        self.calls.append(("complete", {"media_id": media_id, "image": image}))
        return Request(self.calls[-1])

    def delete(self, *, media_id: str, expected_version: str) -> Request:
        self.calls.append(("delete", {"media_id": media_id, "expected_version": expected_version}))
        return Request(self.calls[-1])

    async def observe_deleted(self, *, media_id: str, expected_version: str) -> Sighting:
        self.calls.append(("observe_deleted", {"media_id": media_id, "expected_version": expected_version}))
        return self.sees.get("observe_deleted", Absent())


@dataclass
class Table:
    """A publications port."""

    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    bounds: Bounds = BOUNDS

    def _request(self, name: str, **given: Any) -> Request:
        self.calls.append((name, given))
        return Request((name, given))

    def stage(self, record: PublicationRecord) -> Request:
        return self._request("stage", record=record)

    def cancel(self, *, key: str) -> Request:
        return self._request("cancel", key=key)

    def record(self, record: PublicationRecord) -> Request:
        return self._request("record", record=record)

    def withdraw(self, *, key: str) -> Request:
        return self._request("withdraw", key=key)

    def open_incident(self, incident: Incident) -> Request:
        return self._request("open_incident", incident=incident)

    async def observe_incident(self, incident: Incident) -> Sighting:
        self.calls.append(("observe_incident", {"incident": incident}))
        return Absent()

    async def observe(self, *, key: str, status: str) -> Sighting:
        self.calls.append(("observe", {"key": key, "status": status}))
        return Absent()


@dataclass
class Shelf:
    """A repository port. `sees` holds the sighting that each read answers."""

    sees: dict[str, Sighting] = field(default_factory=dict)
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    bounds: Bounds = BOUNDS

    def _request(self, name: str, **given: Any) -> Request:
        self.calls.append((name, given))
        return Request((name, given))

    def _seen(self, name: str, **given: Any) -> Sighting:
        self.calls.append((name, given))
        return self.sees.get(name, Absent())

    async def archive(self, version: ContentVersion) -> Request:
        return self._request("archive", version=version)

    async def observe_archived(self, version: ContentVersion, *, known_commit: str | None) -> Sighting:
        return self._seen("observe_archived", version=version, known_commit=known_commit)

    def delete_branch(self, *, branch: str) -> Request:
        return self._request("delete_branch", branch=branch)

    async def observe_deleted(self, *, branch: str, commit: str) -> Sighting:
        return self._seen("observe_deleted", branch=branch, commit=commit)

    def open_pull_request(self, request: PullRequest) -> Request:
        return self._request("open_pull_request", request=request)

    async def observe_pull_request(self, request: PullRequest) -> Sighting:
        return self._seen("observe_pull_request", request=request)

    def close_pull_request(self, *, number: str) -> Request:
        return self._request("close_pull_request", number=number)

    async def observe_closed(self, *, number: str, commit: str) -> Sighting:
        return self._seen("observe_closed", number=number, commit=commit)


@dataclass
class Pages:
    """A cache port."""

    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    sees: Sighting = Absent()  # noqa: RUF009 (a frozen value)
    bounds: Bounds = BOUNDS

    def purge(self, addresses: tuple[str, ...]) -> Request:
        self.calls.append(("purge", {"addresses": addresses}))
        return Request(self.calls[-1])

    async def observe(self, addresses: tuple[str, ...], purged: Receipt) -> Sighting:
        self.calls.append(("observe", {"addresses": addresses, "purged": purged}))
        return self.sees


@dataclass
class Watch:
    """A monitoring port."""

    calls: list[tuple[str, Check]] = field(default_factory=list)
    bounds: Bounds = BOUNDS

    def register(self, check: Check) -> Request:
        self.calls.append(("register", check))
        return Request(("register", {"check": check}))

    async def observe(self, check: Check) -> Sighting:
        self.calls.append(("observe", check))
        return Absent()


@dataclass
class Relay:
    """A mail port."""

    sent: list[Message] = field(default_factory=list)
    bounds: Bounds = BOUNDS

    def send(self, message: Message) -> Request:
        self.sent.append(message)
        return Request(("send", {"message": message}))


@dataclass
class Receiver:
    """A webhook port."""

    sent: list[Event] = field(default_factory=list)
    bounds: Bounds = BOUNDS

    def send(self, event: Event) -> Request:
        self.sent.append(event)
        return Request(("send", {"event": event}))


@dataclass
class Contents:
    """A content store."""

    content: dict[str, bytes]

    async def get(self, ref: str) -> bytes:
        if ref not in self.content:
            raise Unprepared(FailureClass.PERMANENT, "artifact_missing")
        return self.content[ref]


@dataclass
class World:
    """Ports and contexts of one planned publication."""

    plan: Plan
    site: Site = field(default_factory=Site)
    shelf: Shelf = field(default_factory=Shelf)
    library: Library = field(default_factory=Library)
    table: Table = field(default_factory=Table)
    relay: Relay = field(default_factory=Relay)
    pages: Pages = field(default_factory=Pages)
    watch: Watch = field(default_factory=Watch)
    receiver: Receiver = field(default_factory=Receiver)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    generation: str = ""
    definition: SagaDefinition[Ports] = SEO_ARTICLE_PUBLISH_V1
    sources: dict[str, bytes] = field(default_factory=dict)

    @property
    def ports(self) -> Ports:
        return Ports(
            artifacts=Contents({PICTURE: PNG, **self.plan.artifacts, **self.sources}),
            wordpress={"blog": self.site},
            caches={"blog": self.pages},
            media={"blog": self.library},
            repository=self.shelf,
            publications=self.table,
            monitoring=self.watch,
            mail=self.relay,
            webhooks={"hook": self.receiver},
        )

    def context(self, name: str, **changed: Any) -> Context:
        """What the engine would give the step or gate of that name."""
        part = self.definition.part(name)
        action = getattr(part, "action", None)
        key = BusinessKey(
            tenant="acme",
            system=action.system if action else "remit",
            operation=action.operation if action else name.lower(),
            site=str(self.plan.params["site"]),
            object_id=str(self.plan.params["article_id"]),
            version=int(self.plan.params["version"]),
            generation=self.generation,
        )
        context = Context(
            installation="inst_1",
            tenant="acme",
            site=key.site,
            key=key.shown(),
            marker=marker("inst_1", key),
            command_id="cmd_2",
            root_id="cmd_1",
            correlation_id="req_1",
            params=self.plan.params,
            receipts=self.receipts,
        )
        return replace(context, **changed)
