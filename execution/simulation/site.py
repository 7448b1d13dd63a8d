"""A modelled WordPress site: posts with slugs and statuses, as `adapters.wordpress` sees the real one.

Key-blind by default: creating the same draft twice makes two posts, the second with `-2` behind its slug. With the
plugin a second create under the same key is refused and a write carries the expected version. Publishing un-trashes, as
the real one does; trashing asks nobody what it trashes. Nothing here is atomic with anything of ours.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from execution.core.definition import Prepared
from execution.core.failures import (
    Absent,
    Answer,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Sighting,
)
from execution.core.quiescence import Bounds
from execution.ports import Article
from execution.simulation.scenario import Act
from execution.simulation.wire import Effect, Request, Wire

SYSTEM: Final = "wordpress"
TRASHED: Final = "__trashed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One post. owner is who wrote it last; not whole: what the site writes after the row (terms) is missing."""

    post_id: int
    status: str
    slug: str
    title: str
    content: str
    excerpt: str = ""
    key: str = ""
    revision: int = 1
    owner: str = "remit"
    whole: bool = True

    @property
    def raw_hash(self) -> str:
        return raw_hash(self.title, self.content, self.excerpt)

    @property
    def version(self) -> str:
        return f"{self.status}.{self.revision}.{self.raw_hash[:16]}"

    def receipt(self) -> Receipt:
        data: dict[str, str | int | bool | None] = {
            "status": self.status,
            "slug": self.slug,
            "raw_hash": self.raw_hash,
        }
        reference = f"https://blog.example/{self.slug}/"
        return Receipt(resource_id=str(self.post_id), version=self.version, reference=reference, data=data)


def raw_hash(title: str, content: str, excerpt: str) -> str:
    """What a reader sees, hashed."""
    return hashlib.sha256(f"{title}\0{content}\0{excerpt}".encode()).hexdigest()


class Site:
    """The port `WordPress`, and the hands of people who edit (`person_…`). alters: it stores content its own way."""

    def __init__(self, wire: Wire, *, plugin: bool, alters: bool, first_id: int = 1) -> None:
        self.wire = wire
        self._last_id = first_id - 1
        self.plugin = plugin
        self.alters = alters
        self.posts: dict[int, Post] = {}
        self._times: list[float] = [0.0]
        self._states: list[dict[int, Post]] = [{}]

    # -- the port --------------------------------------------------------------------------------------------------

    @property
    def bounds(self) -> Bounds:
        return self.wire.bounds

    @property
    def key_strategy(self) -> str:
        return "plugin" if self.plugin else "slug"

    async def create_draft(self, *, marker: str, article: Article) -> Prepared:
        fields = {"marker": marker, **asdict(article)}
        return self.wire.request("create_draft", marker, fields, lambda request: self._create(request, marker, article))

    async def complete_draft(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        number, fields = int(post_id), {"post_id": post_id, **asdict(article)}
        return self.wire.request("complete", post_id, fields, lambda request: self._complete(request, number))

    async def publish(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        return self._put(post_id, expected_version, article)

    async def update(self, *, post_id: str, expected_version: str, article: Article) -> Prepared:
        return self._put(post_id, expected_version, article)

    def trash(self, *, post_id: str, expected_version: str) -> Prepared:
        number = int(post_id)
        return self.wire.request("trash", post_id, {"post_id": post_id}, lambda request: self._trash(request, number))

    async def observe_draft(self, *, marker: str, article: Article, known_id: str | None) -> Sighting:
        def look(at_s: float) -> Sighting:
            posts = self.at(at_s)
            known = posts.get(int(known_id)) if known_id is not None else None
            if known_id is not None and known is None:
                return Foreign(code="gone")
            ours = [post for post in posts.values() if _is_marked(post, marker) or post is known]
            alive = [post for post in ours if post.status != "trash"]
            if alive:
                first = known if known is not None and known.status != "trash" else alive[0]
                lacking = (*(() if first.status == "draft" else ("status",)), *_lacking(first))
                return Present(
                    receipt=first.receipt(),
                    rows=len(alive),
                    complete=not lacking,
                    mendable=not first.whole and first.status == "draft",
                    difference=(*self._differing(first, article), *lacking),
                )
            if ours:
                return Foreign(code="trashed", receipt=ours[0].receipt())
            holder = _holder(posts, article.slug)
            return Foreign(code="slug_taken", receipt=holder.receipt()) if holder is not None else Absent()

        return await self.wire.read(look)

    async def observe_publication(
        self, *, post_id: str, expected_version: str, article: Article, baseline_hash: str = ""
    ) -> Sighting:
        def look(at_s: float) -> Sighting:
            posts = self.at(at_s)
            post = posts.get(int(post_id))
            if post is None or post.status == "trash":
                return Foreign(code="gone", receipt=None if post is None else post.receipt())
            approved = {raw_hash(article.title, article.content, article.excerpt), baseline_hash}
            if post.status == "publish" and post.raw_hash in approved:
                lacking = (*(() if post.slug == article.slug else ("slug",)), *_lacking(post))
                if not lacking or post.version != expected_version:
                    return Present(
                        receipt=post.receipt(),
                        complete=not lacking,
                        mendable=not post.whole,
                        difference=(*self._differing(post, article), *lacking),
                    )
            if post.version != expected_version:
                return Foreign(code="changed", receipt=post.receipt(), difference=self._differing(post, article))
            holder = _holder(posts, article.slug, but=post.post_id)
            if holder is not None:
                return Foreign(code="slug_taken", receipt=holder.receipt())
            return Absent(receipt=post.receipt())

        return await self.wire.read(look)

    async def observe_trashed(self, *, post_id: str, expected_version: str) -> Sighting:
        def look(at_s: float) -> Sighting:
            post = self.at(at_s).get(int(post_id))
            if post is None:
                return Present(receipt=Receipt(resource_id=post_id, data={"status": "gone"}))
            if post.status == "trash":
                return Present(receipt=post.receipt())
            if post.version == expected_version and post.status != "publish":
                return Absent(receipt=post.receipt())
            return Foreign(code="live" if post.status == "publish" else "changed", receipt=post.receipt())

        return await self.wire.read(look)

    def unpublish(self, *, post_id: str, expected_version: str) -> Prepared:
        number = int(post_id)
        fields = {"post_id": post_id, "status": "draft", **({"if": expected_version} if self.plugin else {})}
        return self.wire.request(
            "unpublish", post_id, fields, lambda request: self._unpublish(request, number, expected_version)
        )

    async def observe_unpublished(self, *, post_id: str, expected_version: str) -> Sighting:
        def look(at_s: float) -> Sighting:
            post = self.at(at_s).get(int(post_id))
            if post is None:
                return Present(receipt=Receipt(resource_id=post_id, data={"status": "gone"}))
            if post.status != "publish":
                return Present(receipt=post.receipt())
            expected = post.version == expected_version
            return Absent(receipt=post.receipt()) if expected else Foreign(code="changed", receipt=post.receipt())

        return await self.wire.read(look)

    async def read(self, *, post_id: str) -> Sighting:
        def look(at_s: float) -> Sighting:
            post = self.at(at_s).get(int(post_id))
            return Absent() if post is None else Present(receipt=post.receipt())

        return await self.wire.read(look)

    async def texts(self, *, post_id: str) -> Mapping[str, str] | CannotTell:
        post = self.posts.get(int(post_id))
        return {} if post is None else {"title": post.title, "content": post.content, "excerpt": post.excerpt}

    async def find_public(self, *, slug: str) -> Sighting:
        def look(at_s: float) -> Sighting:
            holder = _holder(self.at(at_s), slug)
            return Absent() if holder is None else Present(receipt=holder.receipt())

        return await self.wire.read(look)

    # -- the truth -------------------------------------------------------------------------------------------------

    def at(self, at_s: float) -> Mapping[int, Post]:
        """The posts as they stood then."""
        return self._states[max(0, bisect_right(self._times, at_s) - 1)]

    def marked(self, marker: str) -> tuple[Post, ...]:
        """Posts that carry our marker and are not in the trash."""
        return tuple(post for post in self.posts.values() if _is_marked(post, marker) and post.status != "trash")

    def stored_hash(self, article: Article) -> str:
        """The raw hash of that article as this site stores it."""
        return raw_hash(article.title, self._stored(article), article.excerpt)

    def person_writes(self, post_id: int, act: Act) -> None:
        """A person edits, trashes or publishes a post of ours."""
        post = self.posts.get(post_id)
        if post is None or post.status in ("trash", "publish" if act is Act.PUBLISH else "trash"):
            return
        match act:
            case Act.EDIT:
                changed = replace(post, content=post.content + " (edited)")
            case Act.PUBLISH:
                changed = replace(post, status="publish")
            case _:
                changed = _trashed(post)
        self._set(replace(changed, revision=post.revision + 1, owner="person"))
        self._note(None, act, str(post_id), post.status, changed.status)

    def person_creates(self, slug: str) -> None:
        """A person publishes something under that slug."""
        number = max(self.posts, default=self._last_id) + 1
        post = Post(post_id=number, status="publish", slug=self._unique(slug, number), title="Mine", content="mine")
        self._set(replace(post, owner="person"))
        self._note(None, "create", str(number), "", "publish")

    def _put(self, post_id: str, expected_version: str, article: Article) -> Prepared:
        number = int(post_id)
        fields = {"post_id": post_id, **asdict(article), **({"if": expected_version} if self.plugin else {})}
        return self.wire.request(
            "publish", post_id, fields, lambda request: self._publish(request, number, expected_version, article)
        )

    def _create(self, request: Request, marker: str, article: Article) -> Answer:
        if self.plugin and any(post.key == marker for post in self.posts.values()):
            return Lost(code="already_exists")
        number = max(self.posts, default=self._last_id) + 1
        post = Post(
            post_id=number,
            status="draft",
            slug=self._unique(f"remit-{marker}", number),
            title=article.title,
            content=self._stored(article),
            excerpt=article.excerpt,
            key=marker if self.plugin else "",
            whole=not request.half,
        )
        self._set(post)
        self._note(request, "create_draft", marker, "", str(number))
        return Landed(receipt=post.receipt())

    def _publish(self, request: Request, number: int, expected_version: str, article: Article) -> Answer:
        post = self.posts.get(number)
        if post is None:
            return Refused(failure=FailureClass.CONFLICT, code="gone")
        if self.plugin and post.version != expected_version:
            return Refused(failure=FailureClass.CONFLICT, code="changed")
        new = replace(
            post,
            status="publish",
            slug=self._unique(article.slug, number),
            title=article.title,
            content=self._stored(article),
            excerpt=article.excerpt,
            revision=post.revision + 1,
            owner="remit",
            whole=not request.half,
        )
        self._set(new)
        self._note(request, "publish", str(number), post.version, new.version)
        return Landed(receipt=new.receipt())

    def _complete(self, request: Request, number: int) -> Answer:
        post = self.posts.get(number)
        if post is None or post.status == "trash":
            return Refused(failure=FailureClass.CONFLICT, code="gone")
        new = replace(post, whole=not request.half, revision=post.revision + 1)
        self._set(new)
        self._note(request, "complete", str(number), post.version, new.version)
        return Landed(receipt=new.receipt())

    def _unpublish(self, request: Request, number: int, expected_version: str) -> Answer:
        post = self.posts.get(number)
        if post is None:
            return Refused(failure=FailureClass.CONFLICT, code="gone")
        if self.plugin and post.version != expected_version:
            return Refused(failure=FailureClass.CONFLICT, code="changed")
        new = replace(post, status="draft", revision=post.revision + 1, owner="remit")
        self._set(new)
        self._note(request, "unpublish", str(number), post.version, new.version)
        return Landed(receipt=new.receipt())

    def _trash(self, request: Request, number: int) -> Answer:
        post = self.posts.get(number)
        if post is None or post.status == "trash":
            return Landed(receipt=Receipt(resource_id=str(number), data={"status": "trash"}))
        new = replace(_trashed(post), owner="remit")
        self._set(new)
        self._note(request, "trash", str(number), post.status, "trash")
        return Landed(receipt=new.receipt())

    def _set(self, post: Post) -> None:
        self.posts = {**self.posts, post.post_id: post}
        self._times.append(self.wire.loop.time())
        self._states.append(self.posts)

    def _note(self, request: Request | None, operation: str, key: str, was: str, now: str) -> None:
        effect = Effect(
            at_s=self.wire.loop.time(),
            system=SYSTEM,
            operation=operation,
            key=key,
            digest=request.request_digest if request else "",
            request=request.number if request else 0,
            by="remit" if request else "person",
            was=was,
            now=now,
            half=request is not None and request.half,
        )
        self.wire.log.effects.append(effect)

    def _stored(self, article: Article) -> str:
        return article.content + "\n" if self.alters else article.content

    def _unique(self, slug: str, number: int) -> str:
        taken = {post.slug for post in self.posts.values() if post.post_id != number and post.status != "trash"}
        free = (slug, *(f"{slug}-{n}" for n in range(2, len(taken) + 3)))
        return next(name for name in free if name not in taken)

    def _differing(self, post: Post, article: Article) -> tuple[str, ...]:
        stored = (("title", post.title), ("content", post.content), ("excerpt", post.excerpt))
        return tuple(name for name, value in stored if value != getattr(article, name))


def _lacking(post: Post) -> tuple[str, ...]:
    return () if post.whole else ("tags",)


def _trashed(post: Post) -> Post:
    return replace(post, status="trash", slug=post.slug + TRASHED, revision=post.revision + 1)


def _is_marked(post: Post, marker: str) -> bool:
    slug = post.slug.removesuffix(TRASHED)
    return post.key == marker or slug == f"remit-{marker}" or slug.startswith(f"remit-{marker}-")


def _holder(posts: Mapping[int, Post], slug: str, but: int = 0) -> Post | None:
    held = [post for post in posts.values() if post.slug == slug and post.status != "trash" and post.post_id != but]
    return min(held, key=lambda post: (post.status != "publish", post.post_id), default=None)
