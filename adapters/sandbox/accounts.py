"""Who may do what on the sandbox's site, and how WordPress says no.

Errors have the bodies that WordPress documents: {code, message, data: {status}}; 401 for nobody, 403 for somebody else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from adapters.sandbox.state import StoredImage, StoredPost
from adapters.sandbox.wire import Request
from capabilities.strict_json import JsonValue

STATUSES: Final = ("publish", "future", "draft", "pending", "private")
IMAGE_STATUSES: Final = ("inherit", "private")
_EDITOR: Final = frozenset(
    (
        "edit_posts",
        "edit_others_posts",
        "publish_posts",
        "unfiltered_html",
        "manage_terms",
        "upload_files",
        "edit_pages",
    )
)
_ROLES: Final[Mapping[str, frozenset[str]]] = {
    "administrator": _EDITOR,
    "editor": _EDITOR,
    "author": frozenset(("edit_posts", "publish_posts", "upload_files")),
    "contributor": frozenset(("edit_posts",)),
    "subscriber": frozenset(),
}
CAPABILITIES: Final = ("edit_posts", "edit_others_posts", "publish_posts", "unfiltered_html", "upload_files")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who may sign in with an application password."""

    user_id: int
    login: str
    role: str
    app_password: str

    def may(self, capability: str) -> bool:
        return capability in _ROLES[self.role]


ACCOUNTS: Final = tuple(
    Account(user_id=number, login=login, role=role, app_password=f"sandbox-{login}")
    for number, (login, role) in enumerate(
        (
            ("admin", "administrator"),
            ("editor1", "editor"),
            ("author1", "author"),
            ("contributor1", "contributor"),
            ("subscriber1", "subscriber"),
        ),
        start=1,
    )
)
"""Fixed, because they protect nothing: the stand-in listens on loopback only."""


class RestError(Exception):
    """An error body {code, message, data: {status}}."""

    def __init__(self, status: int, code: str, message: str, **data: JsonValue) -> None:
        super().__init__(code)
        self.status, self.code, self.message, self.data = status, code, message, data


def may_edit(account: Account | None, post: StoredPost) -> bool:
    """WordPress's edit_post: their own, or everybody's."""
    if account is None or not account.may("edit_posts"):
        return False
    if account.may("edit_others_posts"):
        return True
    return post.author == account.login and (post.status != "publish" or account.may("publish_posts"))


def may_read(account: Account | None, post: StoredPost) -> bool:
    """What is live is everybody's; the rest is for those who may edit it."""
    return post.status == "publish" or may_edit(account, post)


def may_edit_image(account: Account | None, image: StoredImage) -> bool:
    """Their own, or everybody's."""
    if account is None or not account.may("upload_files"):
        return False
    return account.may("edit_others_posts") or image.author == account.login


def statuses_asked(request: Request, account: Account | None) -> set[str]:
    """The statuses that a list of posts was asked for; `any` is everything but the trash."""
    asked = _asked(request, account, "publish", (*STATUSES, "trash", "any"))
    return {*asked, *(STATUSES if "any" in asked else ())}


def image_statuses_asked(request: Request, account: Account | None) -> set[str]:
    """The statuses that a list of images was asked for; there is no `any`."""
    return set(_asked(request, account, "inherit", (*IMAGE_STATUSES, "trash")))


def _asked(request: Request, account: Account | None, usual: str, allowed: tuple[str, ...]) -> list[str]:
    asked = request.query.get("status", usual).split(",")
    if any(status not in allowed for status in asked):
        raise RestError(400, "rest_invalid_param", "Invalid parameter(s): status")
    if asked != [usual] and not (account and account.may("edit_posts")):
        details: JsonValue = {"status": {"code": "rest_forbidden_status", "message": "Status is forbidden."}}
        raise RestError(400, "rest_invalid_param", "Invalid parameter(s): status", details=details)
    return asked


def need(account: Account | None, capability: str, code: str, message: str) -> Account:
    """The account, if it may; raises RestError."""
    if account is None or not account.may(capability):
        raise forbidden(account, code, message)
    return account


def forbidden(account: Account | None, code: str, message: str) -> RestError:
    """401 for an anonymous request, 403 for an account that may not."""
    return RestError(401 if account is None else 403, code, f"Sorry, you are {message}.")
