"""The media library of a WordPress site: the port `execution.ports.MediaLibrary` over its REST interface.

An image of ours is named `remit-<marker>-<hash>`, file and slug alike; WordPress answers a second upload of that name
with `-2` behind the slug. The bytes travel with their MD5, which WordPress compares before it keeps anything (a
checksum, no protection). It writes the row first, then the alternative text, then the smaller sizes.

An image may be deleted while nothing uses it: no post or page outside the trash has it as parent, shows its file or
names it as featured image. WordPress cannot be asked for the last, so everything is read that was changed since the
upload; what a program sets without touching the post's time of change is not seen.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from urllib.parse import urlencode

from adapters.answers import Reply, Unreadable, integer, parse_object, text
from adapters.http import HttpSystem
from adapters.wordpress_posts import TRASHED, candidates, digest, error_code, parse_answer
from adapters.wordpress_refusals import DELETE, UPDATE, UPLOAD, refusal
from adapters.wordpress_rest import API, PER_PAGE, Gone, WordPressReader
from capabilities.strict_json import JsonValue
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
    Sighting,
    Unprepared,
)
from execution.images import EXTENSIONS
from execution.ports import Image

WRITE_S: Final = 2.0
BYTES_PER_S: Final = 256 * 1024
"""The slowest way to the site that an upload waits for."""
PAGES_MAX: Final = 20
_MARKER: Final = re.compile(r"[a-z2-7]{16,52}")
_TAG: Final = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Where:
    """A list in which something may use an image."""

    kind: str
    query: dict[str, str]


_ALIVE: Final = {"status": "any"}  # every status but the trash
_PUBLIC: Final = {"status": "publish", "context": "view"}
_EVERYWHERE: Final = (_Where(kind="posts", query=_ALIVE), _Where(kind="pages", query=_ALIVE))
_OWN_AND_PUBLIC: Final = (
    _Where(kind="posts", query=_ALIVE),
    _Where(kind="posts", query=_PUBLIC),
    _Where(kind="pages", query=_PUBLIC),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """One row of the library. created: in the site's own time. parent: the post that it is attached to, 0 for none.
    processed: its sizes are known; missing: some were not made."""

    media_id: int
    status: str
    slug: str
    title: str
    alt: str
    media_type: str
    url: str
    created: str
    modified_gmt: str
    parent: int
    processed: bool
    missing: bool

    @property
    def version(self) -> str:
        """What is expected of it when we delete it."""
        state = digest(self.slug, self.status, self.title, self.alt, self.media_type, self.url)[:32]
        return f"m1.{self.modified_gmt}.{state}"

    @property
    def is_trashed(self) -> bool:
        return self.status == "trash"

    def receipt(self, difference: tuple[str, ...] = ()) -> Receipt:
        """What goes into the journal."""
        data: dict[str, str | int | bool | None] = {
            "status": self.status,
            "slug": self.slug,
            "media_type": self.media_type,
        }
        if difference:
            data["differs"] = ",".join(difference)
        return Receipt(resource_id=str(self.media_id), version=self.version, reference=self.url, data=data)


def image_name(marker: str, sha256: str) -> str:
    """File name and slug of an image of ours, without extension."""
    return f"remit-{marker}-{sha256[:16]}"


def alternative(text_: str) -> str:
    """A text as WordPress keeps it for an image: without markup, white space collapsed."""
    return " ".join(_TAG.sub("", text_).split())


class WordPressMedia:
    """See the module. Shares connections and account with the site's posts."""

    def __init__(self, system: HttpSystem, *, own_posts_only: bool) -> None:
        self._system = system
        self._read = WordPressReader(system)
        self._own_posts_only = own_posts_only

    def upload(self, *, marker: str, image: Image, content: bytes) -> Prepared:
        extension = EXTENSIONS.get(image.media_type)
        if not _MARKER.fullmatch(marker) or extension is None:
            raise Unprepared(FailureClass.PERMANENT, "malformed_image")
        if hashlib.sha256(content).hexdigest() != image.sha256:
            raise Unprepared(FailureClass.PERMANENT, "artifact_altered")
        name, alt = image_name(marker, image.sha256), alternative(image.alt)
        query = urlencode({"slug": name, **({"alt_text": alt} if alt else {})})
        headers = {
            "Content-Disposition": f'attachment; filename="{name}.{extension}"',
            "Content-MD5": hashlib.md5(content, usedforsecurity=False).hexdigest(),
        }
        return self._system.write(
            "POST",
            f"{API}/media?{query}",
            content,
            judge=lambda reply: _uploaded(reply, image),
            content_type=image.media_type,
            headers=headers,
            write_s=WRITE_S + len(content) / BYTES_PER_S,
        )

    async def complete(self, *, media_id: str, image: Image) -> Prepared:
        found = await self._by_id(media_id)
        if not isinstance(found, Attachment):
            code = found.code if isinstance(found, CannotTell) else "gone"
            raise Unprepared(FailureClass.TRANSIENT, code)
        path, fields = f"{API}/media/{media_id}", {"alt_text": alternative(image.alt)}
        if found.missing or not found.processed:
            path, fields = f"{path}/post-process", {"action": "create-image-subsizes"}
        body = json.dumps(fields, ensure_ascii=False).encode()
        return self._system.write("POST", path, body, judge=lambda reply: _completed(reply, image))

    def delete(self, *, media_id: str, expected_version: str) -> Prepared:
        if not media_id.isdecimal():
            raise Unprepared(FailureClass.PERMANENT, "malformed_media_id")
        path = f"{API}/media/{media_id}?force=true"
        return self._system.write("DELETE", path, b"", judge=lambda reply: _deleted(reply, media_id))

    async def observe_image(self, *, marker: str, image: Image, known_id: str | None) -> Sighting:
        known = None if known_id is None else await self._by_id(known_id)
        rows = await self._named(image_name(marker, image.sha256))
        if isinstance(known, CannotTell):
            return known
        if isinstance(rows, CannotTell):
            return rows
        if isinstance(known, Gone):
            return Foreign(code="gone")
        ours = {row.media_id: row for row in (*rows, *((known,) if known else ()))}
        alive = [row for _, row in sorted(ours.items()) if not row.is_trashed]
        if alive:
            first = known if known is not None and not known.is_trashed else alive[0]
            return _present(first, len(alive), image)
        if ours:
            return Foreign(code="trashed", receipt=next(iter(ours.values())).receipt())
        sees = await self._sees_all()
        return Absent() if sees is True else sees

    async def observe_deleted(self, *, media_id: str, expected_version: str) -> Sighting:
        found = await self._by_id(media_id)
        if isinstance(found, CannotTell):
            return found
        if isinstance(found, Gone):
            return Present(receipt=_gone(media_id))
        if found.is_trashed:
            return Present(receipt=found.receipt())
        if found.version != expected_version:
            return Foreign(code="changed", receipt=found.receipt())
        sees = await self._sees_all()
        used = await self._is_used(found) if sees is True else sees
        if isinstance(used, CannotTell):
            return used
        return Foreign(code="in_use", receipt=found.receipt()) if used else Absent(receipt=found.receipt())

    async def _by_id(self, media_id: str) -> Attachment | Gone | CannotTell:
        found = await self._read.one("media", media_id)
        try:
            return found if isinstance(found, Gone | CannotTell) else parse_attachment(found)
        except Unreadable:
            return CannotTell(code="unreadable_answer")

    async def _named(self, name: str) -> tuple[Attachment, ...] | CannotTell:
        wanted = candidates(name)
        query = {"slug": ",".join(wanted), "status": "inherit,private,trash", "orderby": "id", "order": "asc"}
        rows = await self._read.listed("media", query)
        try:
            found = rows if isinstance(rows, CannotTell) else tuple(map(parse_attachment, rows))
        except Unreadable:
            return CannotTell(code="unreadable_answer")
        return found if isinstance(found, CannotTell) else tuple(row for row in found if row.slug in wanted)

    async def _is_used(self, found: Attachment) -> bool | CannotTell:
        """Whether a post or page outside the trash needs this image."""
        if found.parent:
            parent = await self._read.by_id(str(found.parent))
            if isinstance(parent, CannotTell):
                return parent
            if isinstance(parent, Gone) or not parent.is_trashed:
                return True  # Gone: its parent is no post, and WordPress names no parent that does not exist
        name = found.slug.removesuffix(TRASHED)
        for where in _OWN_AND_PUBLIC if self._own_posts_only else _EVERYWHERE:
            shown = await self._read.listed(where.kind, {"search": name, "_fields": "id", **where.query})
            if isinstance(shown, CannotTell) or shown:
                return shown if isinstance(shown, CannotTell) else True
            featured = await self._is_featured(where, found)
            if featured is not False:
                return featured
        return False

    async def _is_featured(self, where: _Where, found: Attachment) -> bool | CannotTell:
        try:
            since = datetime.fromisoformat(found.created) - timedelta(seconds=1)  # the site compares with "later than"
        except ValueError:
            return CannotTell(code="unreadable_answer")
        query = {**where.query, "modified_after": since.strftime("%Y-%m-%dT%H:%M:%S"), "_fields": "id,featured_media"}
        for page in range(PAGES_MAX):
            rows = await self._read.listed(where.kind, {**query, "orderby": "id", "offset": str(page * PER_PAGE)})
            if isinstance(rows, CannotTell):
                return rows
            if any(isinstance(row, dict) and row.get("featured_media") == found.media_id for row in rows):
                return True
            if len(rows) < PER_PAGE:
                return False
        return CannotTell(code="too_many_changes")

    async def _sees_all(self) -> Literal[True] | CannotTell:
        """Whether the account sees whatever there is: without that nothing is known to be absent, or unused."""
        authority = await self._read.authority()
        if isinstance(authority, CannotTell):
            return authority
        sees = authority.upload_files and (authority.edit_others_posts or self._own_posts_only)
        return True if sees else CannotTell(code="cannot_see_others")


def parse_attachment(value: JsonValue) -> Attachment:
    """One row of context=edit; raises Unreadable when any of what we rely on is missing."""
    if not isinstance(value, dict):
        raise Unreadable
    parent, details = value.get("post"), value.get("media_details")
    return Attachment(
        media_id=integer(value, "id"),
        status=text(value, "status"),
        slug=text(value, "slug"),
        title=text(value, "title", "raw"),
        alt=text(value, "alt_text"),
        media_type=text(value, "mime_type"),
        url=text(value, "source_url"),
        created=text(value, "date"),
        modified_gmt=text(value, "modified_gmt"),
        parent=parent if isinstance(parent, int) else 0,
        processed=isinstance(details, dict) and bool(details.get("width")),
        missing=bool(value.get("missing_image_sizes")),
    )


def _differing(found: Attachment, image: Image) -> tuple[str, ...]:
    differs = {
        "media_type": found.media_type != image.media_type,
        "alt": found.alt != alternative(image.alt),
        "sizes": found.missing or not found.processed,
    }
    return tuple(name for name, does in differs.items() if does)


def _lacking(found: Attachment, image: Image) -> tuple[str, ...]:
    """What is not as asked; a site that keeps the text its own way, or makes no smaller sizes, lacks nothing."""
    lacks = {
        "media_type": found.media_type != image.media_type,
        "alt": bool(alternative(image.alt)) and not found.alt,
        "sizes": not found.processed,
    }
    return tuple(name for name, does in lacks.items() if does)


def _present(found: Attachment, rows: int, image: Image) -> Present:
    named, lacking = _differing(found, image), _lacking(found, image)
    mendable = "sizes" in named or "alt" in lacking
    receipt = found.receipt(named)
    return Present(receipt=receipt, rows=rows, complete=not lacking, mendable=mendable, difference=named)


def _uploaded(reply: Reply, image: Image) -> Answer:
    if reply.status != 201:
        return refusal(reply, UPLOAD)
    found = parse_attachment(parse_answer(reply.body))
    return Landed(receipt=found.receipt(_differing(found, image)))


def _completed(reply: Reply, image: Image) -> Answer:
    if reply.status != 200:
        return refusal(reply, UPDATE)
    found = parse_attachment(parse_answer(reply.body))
    return Landed(receipt=found.receipt(_differing(found, image)))


def _deleted(reply: Reply, media_id: str) -> Answer:
    if reply.status == 200:
        gone = parse_object(reply.body).get("deleted") is True
        return Landed(receipt=_gone(media_id)) if gone else Lost(code="not_deleted")
    if (reply.status, error_code(reply.body, reply.status)) == (404, "rest_post_invalid_id"):
        return Landed(receipt=_gone(media_id))
    return refusal(reply, DELETE)


def _gone(media_id: str) -> Receipt:
    return Receipt(resource_id=media_id, data={"status": "gone"})
