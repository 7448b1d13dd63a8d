"""The media library of the stand-in's site: files, their rows, and what WordPress makes of an upload.

Facts and their sources: WP_REST_Attachments_Controller. The row is written first, the alternative text and the sizes
after it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from adapters.sandbox.accounts import Account, RestError, forbidden, image_statuses_asked, may_edit_image, need
from adapters.sandbox.content import slugify, stored_line, unique_slug
from adapters.sandbox.rest import (
    Circumstances,
    answer_json,
    died,
    fields_of,
    invalid,
    invalid_id,
    iso,
    page_of,
    text_of,
)
from adapters.sandbox.state import SandboxState, StoredImage
from adapters.sandbox.wire import Request, Response
from capabilities.strict_json import JsonValue
from execution.images import EXTENSIONS, image_type

UPLOADS: Final = "/wp-content/uploads/"
_FILENAME: Final = re.compile(r'filename="?([^";]+)"?')


class Media:
    """The endpoint /media. `now` is Unix seconds."""

    def __init__(self, state: SandboxState, accounts: tuple[Account, ...], now: Callable[[], float]) -> None:
        self._state, self._accounts, self._now = state, accounts, now

    def list(self, request: Request, account: Account | None, at: Circumstances) -> Response:
        """Without context=edit the library is everybody's to read."""
        statuses = image_statuses_asked(request, account)
        editing = request.query.get("context") == "edit"
        if editing:
            need(account, "edit_posts", "rest_forbidden_context", "not allowed to edit posts in this post type")
        wanted = {slugify(slug) for slug in request.query["slug"].split(",")} if "slug" in request.query else None
        rows = [
            image
            for image in self._state.images(at.as_of(self._now()))
            if image.status in statuses
            and (wanted is None or image.slug in wanted)
            and (not editing or may_edit_image(account, image))
        ]
        if request.query.get("order", "desc") == "desc":
            rows.reverse()
        return answer_json(200, [self._row(image, request) for image in page_of(rows, request)])

    def one(self, media_id: int, request: Request, account: Account | None, at: Circumstances) -> Response:
        image = self._state.image(media_id, at.as_of(self._now()))
        if image is None:
            raise invalid_id()
        if request.query.get("context") == "edit" and not may_edit_image(account, image):
            raise forbidden(account, "rest_forbidden_context", "not allowed to edit this post")
        return answer_json(200, self._row(image, request))

    def upload(self, request: Request, account: Account | None, at: Circumstances) -> Response:
        """create_item with the file as the body; fields come in the query."""
        writer = need(account, "upload_files", "rest_cannot_create", "not allowed to create posts as this user")
        name, media_type = _file(request)
        image = self._new(request, writer, name, media_type, rename=at.rename)
        if not at.dies:
            image = replace(image, alt=stored_line(request.query.get("alt_text", "")), processed=True)
        with self._state.transaction():
            self._state.put_image(image, self._now(), request.body)
            self._state.count_write(request.line, self._now())
        return died() if at.dies else answer_json(201, self._row(image, request, edit=True))

    def _new(self, request: Request, writer: Account, name: str, media_type: str, *, rename: bool) -> StoredImage:
        """upload_from_data, wp_insert_attachment: two files of one name get `-1`, two slugs `-2`."""
        now = int(self._now())
        folder, extension = datetime.fromtimestamp(now, UTC).strftime("%Y/%m/"), EXTENSIONS[media_type]
        stem, number = name, 0
        while self._state.file(f"{folder}{stem}.{extension}") is not None:
            number += 1
            stem = f"{name}-{number}"
        taken = self._state.slugs(None) | self._state.image_slugs(None)
        slug = slugify(request.query.get("slug", "") or stem)
        return StoredImage(
            media_id=self._state.next_id(),
            author=writer.login,
            slug=unique_slug(slug, taken | {slug} if rename else taken),
            title=stem,
            file=f"{folder}{stem}.{extension}",
            media_type=media_type,
            sha256=hashlib.sha256(request.body).hexdigest(),
            size=len(request.body),
            date=now,
            modified=now,
        )

    def update(self, media_id: int, request: Request, account: Account | None, at: Circumstances) -> Response:
        image = self._editable(media_id, account, "rest_cannot_edit", "not allowed to edit this post")
        fields = fields_of(request)
        taken = self._state.slugs(None) | self._state.image_slugs(media_id)
        parent = fields.get("post", image.parent)
        changed = replace(
            image,
            title=text_of(fields, "title", image.title).strip(),
            slug=unique_slug(slugify(text_of(fields, "slug", image.slug)), taken),
            alt=stored_line(text_of(fields, "alt_text", image.alt)),
            parent=parent if isinstance(parent, int) else image.parent,
            modified=int(self._now()),
        )
        return self._put(changed, request)

    def process(self, media_id: int, request: Request, account: Account | None) -> Response:
        """post_process_item: the sizes are made again from the file that is there."""
        image = self._editable(media_id, account, "rest_cannot_edit", "not allowed to edit this post")
        if fields_of(request).get("action") != "create-image-subsizes":
            raise invalid("action")
        return self._put(replace(image, processed=True), request)

    def delete(self, media_id: int, request: Request, account: Account | None) -> Response:
        image = self._editable(media_id, account, "rest_cannot_delete", "not allowed to delete this post")
        if request.query.get("force") not in ("true", "1"):
            raise RestError(501, "rest_trash_not_supported", "The post does not support trashing.")
        shown = self._row(image, request, edit=True)
        with self._state.transaction():
            self._state.remove_image(media_id, self._now())
            self._state.count_write(request.line, self._now())
        return answer_json(200, {"deleted": True, "previous": shown})

    def _put(self, image: StoredImage, request: Request) -> Response:
        with self._state.transaction():
            self._state.put_image(image, self._now())
            self._state.count_write(request.line, self._now())
        return answer_json(200, self._row(image, request, edit=True))

    def _editable(self, media_id: int, account: Account | None, code: str, message: str) -> StoredImage:
        image = self._state.image(media_id)
        if image is None:
            raise invalid_id()
        if not may_edit_image(account, image):
            raise forbidden(account, code, message)
        return image

    def _row(self, image: StoredImage, request: Request, *, edit: bool = False) -> JsonValue:
        base = f"http://{request.headers.get('host', '127.0.0.1')}"
        editing = edit or request.query.get("context") == "edit"
        title: dict[str, JsonValue] = {"rendered": image.title}
        row: dict[str, JsonValue] = {
            "id": image.media_id,
            "date": iso(image.date),
            "date_gmt": iso(image.date),
            "modified": iso(image.modified),
            "modified_gmt": iso(image.modified),
            "slug": image.slug,
            "status": image.status,
            "type": "attachment",
            "link": f"{base}/{image.slug}/",
            "title": {**title, "raw": image.title} if editing else title,
            "author": next(a.user_id for a in self._accounts if a.login == image.author),
            "alt_text": image.alt,
            "media_type": "image",
            "mime_type": image.media_type,
            "media_details": {"width": 1, "height": 1, "file": image.file, "sizes": {}} if image.processed else {},
            "post": image.parent if self._state.post(image.parent) is not None else None,
            "source_url": f"{base}{UPLOADS}{image.file}",
        }
        missing: Mapping[str, JsonValue] = {"missing_image_sizes": [] if image.processed else ["thumbnail"]}
        return {**row, **missing} if editing else row


def _file(request: Request) -> tuple[str, str]:
    """Name without extension and media type of an upload: WP_REST_Attachments_Controller::upload_from_data."""
    if not request.body:
        raise RestError(400, "rest_upload_no_data", "No data supplied.")
    disposition = request.headers.get("content-disposition")
    if disposition is None:
        raise RestError(400, "rest_upload_no_content_disposition", "No Content-Disposition supplied.")
    named = _FILENAME.search(disposition)
    if named is None:
        raise RestError(400, "rest_upload_invalid_disposition", "Invalid Content-Disposition supplied.")
    sum_, wanted = hashlib.md5(request.body, usedforsecurity=False).hexdigest(), request.headers.get("content-md5")
    if wanted is not None and wanted != sum_:
        raise RestError(412, "rest_upload_hash_mismatch", "Content hash did not match expected.")
    media_type = image_type(request.body)
    if media_type is None:
        raise RestError(500, "rest_upload_sideload_error", "Sorry, you are not allowed to upload this file type.")
    return named[1].rpartition(".")[0], media_type
