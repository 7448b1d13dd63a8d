"""The featured image of a publication: uploaded before the draft that names it, deleted when that is unwound.

An image in a media library can be read by whoever finds its address, before the article is approved. What is uploaded
is one file for one version, never shared with another: undoing it takes nothing from anybody.
"""

from __future__ import annotations

from typing import Final

from execution.core.command import Context
from execution.core.definition import Action, LookupContract, Prepared, Step
from execution.core.failures import FailureClass, Receipt, Sighting, Unprepared
from execution.core.retry import RetryPolicy
from execution.core.states import EffectClass, Repeat
from execution.ports import Image, MediaLibrary, Ports
from execution.sagas.publish_params import IMAGE, PublishParams, artifact_ref, resource, step_marker
from execution.sagas.vanishing import once_told

SYSTEM: Final = "wordpress"
DELETE_IMAGE: Final = "DELETE_UPLOADED_IMAGE"
OPERATION: Final = "image"
UPLOAD_S: Final = 150.0
"""The longest that a file of the largest size may take, its processing included."""

_BY_NAME: Final = LookupContract(
    strength="strong",
    covers="every file of the media library under our name, whoever uploaded it: by stored id, by slug, trash included",
    authority="a read as the account itself (users/me, context=edit) must show that it sees the files of others",
    cache_bypass="authenticated, context=edit",
)


def library_of(ports: Ports, context: Context) -> MediaLibrary:
    """The site's media library. Raises Unprepared when this process has none for it."""
    library = ports.media.get(context.site)
    if library is None:
        raise Unprepared(FailureClass.PERMANENT, "site_not_configured")
    return library


async def look_at_image(ports: Ports, context: Context) -> Sighting:
    """Our image, from whichever step or gate of the saga it is asked."""
    known = context.receipts.get(IMAGE)
    params = PublishParams.of(context.params)
    marker = step_marker(context, SYSTEM, OPERATION)
    return await library_of(ports, context).observe_image(
        marker=marker, image=_image(params), known_id=known.resource_id if known else None
    )


def _image(params: PublishParams) -> Image:
    return Image(sha256=params.image_sha256, media_type=params.image_type, alt=params.title)


async def _upload(ports: Ports, context: Context) -> Prepared:
    params = PublishParams.of(context.params)
    content = await ports.artifacts.get(artifact_ref(params.image_sha256))
    return library_of(ports, context).upload(marker=context.marker, image=_image(params), content=content)


async def _verify(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await look_at_image(ports, context)


async def _complete(ports: Ports, context: Context) -> Prepared:
    image = _image(PublishParams.of(context.params))
    return await library_of(ports, context).complete(media_id=_uploaded(context).resource_id, image=image)


def _uploaded(context: Context) -> Receipt:
    receipt = context.receipts.get(IMAGE)
    if receipt is None:
        raise Unprepared(FailureClass.PERMANENT, "image_missing")
    return receipt


async def _delete(ports: Ports, context: Context) -> Prepared:
    image = _uploaded(context)
    expected = context.expected_version or image.version
    return library_of(ports, context).delete(media_id=image.resource_id, expected_version=expected)


async def _find_deleted(ports: Ports, context: Context) -> Sighting:
    image = _uploaded(context)
    expected = context.expected_version or image.version
    seen = await library_of(ports, context).observe_deleted(media_id=image.resource_id, expected_version=expected)
    return once_told(seen, context, DELETE_IMAGE)


async def _verify_deleted(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_deleted(ports, context)


UPLOAD_FEATURED_IMAGE: Final[Step[Ports]] = Step(
    name=IMAGE,
    effect=EffectClass.COMPENSABLE,
    action=Action(
        system=SYSTEM,
        per_site=True,
        operation=OPERATION,
        forward=_upload,
        observe=look_at_image,
        verify=_verify,
        adopts=False,
        repeat=Repeat.NEVER,
        retry=RetryPolicy(attempts_max=5),
        deadline_s=UPLOAD_S,
        lookup=_BY_NAME,
        mend=_complete,
    ),
    compensation=Action(
        system=SYSTEM,
        per_site=True,
        operation="delete_image",
        forward=_delete,
        observe=_find_deleted,
        verify=_verify_deleted,
        repeat=Repeat.NEVER,
        retry=RetryPolicy(attempts_max=5, base_s=2.0),
        lookup=_BY_NAME,
    ),
    compensation_type=DELETE_IMAGE,
    compensable_while="the file is as we stored it and nothing outside the trash uses it",
    resource=resource,
    when=lambda params: bool(params["featured_image"]),
    receipt_columns=("status", "slug", "media_type"),
    summary="store the featured image in the site's media library, where it can be read by its address",
    manual="look for remit-… in the site's media library; delete it when no post uses it",
)
