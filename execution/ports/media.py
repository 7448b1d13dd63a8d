"""The media library of one WordPress site, and an image as it is to be stored there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from execution.core.definition import Prepared
from execution.core.failures import Sighting


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image of an article. sha256: of its bytes, 64 hex digits. alt: what it shows, for who cannot see it."""

    sha256: str
    media_type: str
    alt: str


class MediaLibrary(Protocol):
    """The media library of one site.

    An image of ours carries a file name and slug made of our marker and the hash of its bytes. Receipts have
    resource_id = media id, version = an opaque string over (modified_gmt, state), reference = address of the file, and
    data: status, slug, media_type.
    """

    def upload(self, *, marker: str, image: Image, content: bytes) -> Prepared:
        """The exact bytes, with their checksum, so that a site never keeps others."""
        ...

    async def observe_image(self, *, marker: str, image: Image, known_id: str | None) -> Sighting:
        """Any status, trash included (a trashed image of ours is Foreign `trashed`, a vanished one `gone`).

        `complete` is false while the file has not been processed, its type is another or it lacks its text;
        `difference` names what differs.
        """
        ...

    async def complete(self, *, media_id: str, image: Image) -> Prepared:
        """What the site writes after the row: smaller sizes, then the text. One thing at a time.

        Raises `Unprepared` TRANSIENT when it cannot be read what is missing.
        """
        ...

    def delete(self, *, media_id: str, expected_version: str) -> Prepared:
        """For good: media libraries have no trash unless a site turns it on."""
        ...

    async def observe_deleted(self, *, media_id: str, expected_version: str) -> Sighting:
        """Present = gone (or in the trash); Absent = still there as expected, and nothing uses it; Foreign = changed,
        or `in_use` by a post or page that is not in the trash: hands off."""
        ...
