"""What WordPress documents as a refusal: by operation, status *and* error code.

Only those that it gives before it writes the row; errors that it can also give afterwards (meta, media, terms) are
doubt. An upload of a file that the site does not take is answered 500: nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from adapters.answers import Reply, undocumented
from adapters.wordpress_posts import error_code
from execution.core.failures import Answer, FailureClass, Refused

Refusals = Mapping[tuple[int, str], Refused]

_NOT_AUTHENTICATED: Final = Refused(failure=FailureClass.PERMANENT, code="not_authenticated")
_NOT_PERMITTED: Final = Refused(failure=FailureClass.PERMANENT, code="not_permitted")
_INVALID: Final = Refused(failure=FailureClass.BUSINESS, code="content_refused")
_IMAGE: Final = Refused(failure=FailureClass.BUSINESS, code="image_refused")
_ALTERED: Final = Refused(failure=FailureClass.TRANSIENT, code="altered_on_the_way")
_BUSY: Final = Refused(failure=FailureClass.TRANSIENT, code="busy")
_GONE: Final = Refused(failure=FailureClass.CONFLICT, code="gone")
_REST_BLOCKED: Final = Refused(failure=FailureClass.PERMANENT, code="rest_blocked")
_LOGIN: Final = ("rest_not_logged_in", "incorrect_password", "invalid_username", "invalid_email")
_ROLE: Final = ("rest_cannot_create", "rest_cannot_edit", "rest_cannot_edit_others", "rest_cannot_publish")
_FORM: Final = ("rest_invalid_param", "rest_missing_callback_param", "rest_invalid_json", "empty_content")

_WRITE: Final[Refusals] = {
    **{(401, code): _NOT_AUTHENTICATED for code in (*_LOGIN, *_ROLE)},
    **{(403, code): _NOT_PERMITTED for code in (*_ROLE, "rest_cannot_assign_term", "rest_forbidden")},
    **{(400, code): _INVALID for code in _FORM},
    (404, "rest_no_route"): _REST_BLOCKED,
}
_REMOVE: Final[Refusals] = {
    **_WRITE,
    (401, "rest_cannot_delete"): _NOT_AUTHENTICATED,
    (403, "rest_cannot_delete"): _NOT_PERMITTED,
    (403, "rest_user_cannot_delete_post"): _NOT_PERMITTED,
}
CREATE: Final[Refusals] = {**_WRITE, (400, "rest_post_exists"): _INVALID, (503, "remit_busy"): _BUSY}
UPDATE: Final[Refusals] = {
    **_WRITE,
    (404, "rest_post_invalid_id"): _GONE,
    (412, "remit_stale"): Refused(failure=FailureClass.CONFLICT, code="changed"),
    (503, "remit_busy"): _BUSY,
}
TRASH: Final[Refusals] = {
    **_REMOVE,
    (501, "rest_trash_not_supported"): Refused(failure=FailureClass.PERMANENT, code="trash_disabled"),
}
UPLOAD: Final[Refusals] = {
    **_WRITE,
    **{
        (400, code): _IMAGE for code in ("rest_upload_no_data", "rest_upload_file_too_big", "rest_upload_limited_space")
    },
    (412, "rest_upload_hash_mismatch"): _ALTERED,
    (500, "rest_upload_sideload_error"): _IMAGE,
}
DELETE: Final[Refusals] = _REMOVE


def refusal(reply: Reply, refusals: Refusals) -> Answer:
    """The refusal that this answer is, or what an undocumented answer proves."""
    return refusals.get((reply.status, error_code(reply.body, reply.status))) or undocumented(reply)
