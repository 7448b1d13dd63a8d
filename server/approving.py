"""What an approver sees, and the signed yes.

The subject comes from the journal: what would be sent, where, and what the site stored already. The statement that is
signed names one request for approval and one hash; the signature is verified with the configured public half before
anything is written, so that a key nobody configured approves nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from rich.console import RenderableType

from capabilities import base64url
from capabilities.keys import OperatorKey, sign_approval
from execution.approvers import approval_statement, invalid
from execution.core.command import Approval, Saga
from execution.core.states import Verdict
from execution.gates import subject_of
from execution.operations import OperationRefused
from execution.store import artifacts
from server.app import Installation
from server.cli.output import WHICH_COMMAND, CommandFailed, Exit, fields, line
from server.comparing import unified
from server.operators import approvers_of, check_role
from server.results import moment
from server.roles import Verb

_AUTH: Final = frozenset({"proposer_cannot_approve"})
_FIXES: Final = {
    "unknown_command": WHICH_COMMAND,
    "unknown_review": "`remit review ls` lists the open ones.",
    "not_awaiting_approval": "See `remit why`.",
    "hash_differs": "What is asked for has changed: look at it again (`remit approve CMD --show`).",
    "already_ended": "See `remit why`.",
    "approval_expired": "It was not approved in time; propose it again.",
    "proposer_cannot_approve": "Somebody else must approve it.",
    "unknown_approver": "The configured key of that operator cannot be read: see `remit doctor`.",
    "not_what_was_shown": "Somebody changed the journal: see `remit verify`.",
    "bad_signature": "That key is not the one that is configured for its name.",
    "not_held": "See `remit freeze ls`.",
    "too_late": "Publish a correction as the next version instead.",
    "verdict_not_offered": "See `remit review show`.",
    "artifact_missing": "Check the reference.",
    "artifact_erased": "Only its hash is kept.",
    "artifact_in_use": "Wait until those commands have ended, or cancel them.",
    "already_taken": "`remit review assign` gives it to somebody else.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One request for approval: what would be done, and the difference to what is live."""

    approval: Approval
    subject: dict[str, Any]
    proposed: str
    live: str | None
    saga: Saga

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "command_id": self.approval.root_id,
            "content_hash": self.approval.content_hash,
            "expires_at": moment(self.approval.expires_at_ms),
            "subject": self.subject,
            "diff": self.diff(),
        }

    def diff(self) -> list[str]:
        """Lines of a unified difference between what is live and what is proposed."""
        return unified(self.live or "", self.proposed, ("live", "proposed"))


@asynccontextmanager
async def operating() -> AsyncIterator[None]:
    """An operation that is refused becomes a line for the operator."""
    try:
        yield
    except OperationRefused as error:
        exit_code = Exit.AUTH if error.code in _AUTH else Exit.FAILED
        message = f"Nothing was changed: {error.code.replace('_', ' ')}"
        detail = f" ({error.detail})" if error.detail else ""
        raise CommandFailed(error.code, f"{message}{detail}.", _FIXES.get(error.code, ""), exit_code) from None


async def pending(at: Installation, command_id: str) -> Shown:
    """What waits for a yes."""
    async with operating():
        saga, approval = await at.operations().pending(command_id)
    subject = subject_of(approval)
    return Shown(
        approval=approval,
        subject=subject,
        proposed=await _text(at, subject.get("content_ref", "")),
        live=await _live(at, saga),
        saga=saga,
    )


async def approve(at: Installation, shown: Shown, content_hash: str, key: OperatorKey) -> Approval:
    """Sign and record it."""
    operator, settings = f"operator:{key.name}", at.config.settings
    if key.name not in settings.operator:
        fix = f"Add [operator.{key.name}] with the public half of the key, or use a key that is configured."
        raise CommandFailed("unknown_operator", f"No operator {key.name} is configured.", fix, Exit.AUTH)
    check_role(settings, key.name, Verb.APPROVE)
    signature = base64url.encode(sign_approval(key, approval_statement(shown.approval, operator)))
    signed = replace(shown.approval, decided_by=operator, signature=signature)
    why = invalid(signed, shown.saga, approvers_of(settings))
    if why is not None:
        raise CommandFailed(why, f"Nothing was approved: {why.replace('_', ' ')}.", _FIXES[why], Exit.AUTH)
    async with operating():
        return await at.operations().approve(
            shown.approval.root_id,
            content_hash=content_hash,
            operator=operator,
            signature=signature,
        )


def rendered(shown: Shown) -> list[RenderableType]:
    """For a person: the facts first, content last and marked as such."""
    subject, approval = shown.subject, shown.approval
    target = subject.get("target", {})
    facts: list[tuple[str, object]] = [
        ("command", approval.root_id),
        ("article", f"{subject.get('article_id')} v{subject.get('version')}"),
        ("title", subject.get("title")),
        ("site", f"{target.get('site')} ({target.get('mode')})"),
        ("reason", subject.get("reason")),
        ("address", target.get("url") or target.get("slug")),
        ("not before", subject.get("publish_at")),
        ("on the site's clock", subject.get("publish_at_local")),
        ("notifies", ", ".join(subject.get("recipients", ())) or None),
        ("notifies the receiver", ", ".join(subject.get("webhooks", ())) or None),
        ("draft", subject.get("baseline", {}).get("preview")),
        ("image", _image(subject)),
        ("meta description", _description(subject)),
        ("stored differently", _listed(subject.get("difference"))),
        ("removed from HTML", _listed(subject.get("removed"))),
        ("hidden characters", _listed(subject.get("hidden"))),
        ("hash", approval.content_hash),
        ("expires", moment(approval.expires_at_ms)),
    ]
    heading = "Content, compared with what is live:" if shown.live is not None else "Content (nothing is live yet):"
    return [
        fields(facts),
        line(f"\n{heading}", "bold"),
        *(line(f"  | {changed}") for changed in shown.diff()),
        line(""),
    ]


def _description(subject: dict[str, Any]) -> str | None:
    text = subject.get("meta_description")
    lost = "meta_description" in subject.get("difference", ())
    return f"{text} (this site does not keep it)" if text and lost else text or None


def _image(subject: dict[str, Any]) -> str | None:
    if not subject.get("featured_image"):
        return None
    url = (subject.get("image") or {}).get("url")
    return f"{url} ({subject['image_type']}, {subject['image_bytes']} bytes, {subject['featured_image']})"


def _listed(values: object) -> str | None:
    return ", ".join(map(str, values)) or None if isinstance(values, list) else None


async def _live(at: Installation, saga: Saga) -> str | None:
    """The content that is live: as a person's ruling `rebase` took it for the new baseline, else that of the newest
    version that our journal knows."""
    from execution.store.registry import Filter

    if rebased := _rebased_on(saga):
        return await _text(at, rebased)
    root = saga.root
    wanted = Filter(tenant=root.tenant, site=root.site, object_id=root.object_id)
    views = [view for view in await at.status.listed(wanted, 100) if view.live and view.command_id != root.command_id]
    newest = max(views, key=lambda view: view.object_version, default=None)
    if newest is None:
        return None
    known = await at.status.saga(newest.command_id)
    subject = next((subject_of(a) for a in reversed(known.approvals)), {}) if known else {}
    return await _text(at, subject.get("content_ref", ""))


def _rebased_on(saga: Saga) -> str | None:
    for review in reversed(saga.reviews):
        if review.verdict == Verdict.REBASE and review.closed_at_ms is not None:
            compared = json.loads(review.facts).get("three_way") or ()
            return next((each["live"] for each in compared if each["field"] == "content"), None)
    return None


async def _text(at: Installation, ref: str) -> str:
    digest = ref.rpartition("/")[2]
    found = await at.store.read(lambda conn: artifacts.get(conn, digest))
    return "" if found is None or found.content is None else found.content.decode("utf-8", "replace")
