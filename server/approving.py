"""What an approver sees, and the signed yes.

The subject comes from the journal: what would be sent, where, and what the site stored already. The statement that is
signed names one request for approval and one hash; the signature is verified with the configured public half before
anything is written, so that a key nobody configured approves nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from capabilities import base64url
from capabilities.keys import OperatorKey, sign_approval
from execution.approvers import approval_statement, invalid
from execution.core.command import Approval, Saga
from execution.core.states import Verdict
from execution.gates import subject_of
from execution.operations import OperationRefused
from execution.sagas.publish_params import artifact_ref
from server.app import Installation
from server.cli.output import WHICH_COMMAND, CommandFailed, Exit
from server.comparing import read_text, unified
from server.operators import approvers_of, check_role
from server.results import moment
from server.roles import Verb

_SIDES: Final = ("live", "proposed")
_OWN: Final = frozenset(
    {
        "baseline",
        "command_id",
        "content_bytes",
        "content_ref",
        "content_sha256",
        "difference",
        "hidden",
        "image.media_id",
        "plan_hash",
        "policy_hash",
        "proposal_hash",
        "removed",
        "request_digest",
        "source_ref",
        "target.expected_version",
        "target.mode",
        "target.post_id",
        "version",
    }
)
"""What every version has of its own, or what Remit noted about it: shown, and compared with nothing."""
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
    "too_late": "See `remit why`; what is public is corrected by the next version.",
    "verdict_not_offered": "See `remit review show`.",
    "artifact_missing": "Check the reference.",
    "artifact_erased": "Only its hash is kept.",
    "artifact_in_use": "Wait until those commands have ended, or cancel them.",
    "already_taken": "`remit review assign` gives it to somebody else.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What stands there now, as far as the journal knows it: the same fields that a subject has, and the content."""

    fields: Mapping[str, Any]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One request for approval: what would be done, and the difference to what is live."""

    approval: Approval
    subject: dict[str, Any]
    proposed: str
    live: Live | None
    saga: Saga

    def document(self) -> dict[str, Any]:
        """For programs: everything."""
        return {
            "command_id": self.approval.root_id,
            "content_hash": self.approval.content_hash,
            "expires_at": moment(self.approval.expires_at_ms),
            "subject": self.subject,
            "content": self.proposed,
            "diff": self.diff(whole=True),
            "changes": {name: self.difference(name, whole=True) for name in self.changes()},
        }

    def diff(self, *, whole: bool) -> list[str]:
        """Lines of a unified difference between the content that is live and that which is proposed."""
        return unified(self.live.content if self.live else "", self.proposed, _SIDES, whole=whole)

    def changes(self) -> tuple[str, ...]:
        """Names of the fields beside the content in which what is live is something else."""
        live, subject = (_parts(self.live.fields) if self.live else {}), _parts(self.subject)
        known = set(self.live.fields) & set(self.subject) if self.live else set()
        names = {name: None for name in (*subject, *live) if _head(name) in known and _head(name) not in _OWN}
        return tuple(name for name in names if name not in _OWN and live.get(name) != subject.get(name))

    def difference(self, name: str, *, whole: bool) -> list[str]:
        """Lines of a unified difference of one such field."""
        before, after = _parts(self.live.fields if self.live else {}), _parts(self.subject)
        return unified(before.get(name, ""), after.get(name, ""), _SIDES, whole=whole)


def _parts(fields: Mapping[str, Any]) -> dict[str, str]:
    """Every field as a text, those inside a field as `target.url`; what is not there is the empty text."""
    found: dict[str, str] = {}
    for name, value in fields.items():
        inner = {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
        found |= {path: _as_text(each) for path, each in inner.items()}
    return found


def _head(path: str) -> str:
    return path.partition(".")[0]


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=1, ensure_ascii=False) if value not in (None, [], {}) else ""


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
        proposed=await _text(at, subject.get("content_ref")),
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


async def _live(at: Installation, saga: Saga) -> Live | None:
    """What is live: that of the newest version which our journal knows, with the texts that a person's ruling `rebase`
    took for the new baseline."""
    from execution.store.registry import Filter

    root, rebased = saga.root, _rebased_on(saga)
    wanted = Filter(tenant=root.tenant, site=root.site, object_id=root.object_id)
    views = [view for view in await at.status.listed(wanted, 100) if view.live and view.command_id != root.command_id]
    newest = max(views, key=lambda view: view.object_version, default=None)
    known = await at.status.saga(newest.command_id) if newest is not None else None
    if known is None and not rebased:
        return None
    fields = _approved(known) if known is not None else {}
    texts = {name: await read_text(at.store, ref) for name, ref in rebased.items()}
    content = texts.pop("content", None)
    return Live(
        fields={**fields, **texts}, content=await _text(at, fields.get("content_ref")) if content is None else content
    )


def _approved(saga: Saga) -> dict[str, Any]:
    """What was approved for it; what was accepted, where nobody was asked."""
    if saga.approvals:
        return subject_of(saga.approvals[-1])
    plan: dict[str, Any] = json.loads(saga.root.params)["plan"]
    return {**plan, "content_ref": artifact_ref(plan["content_sha256"])}


def _rebased_on(saga: Saga) -> dict[str, str | None]:
    """References of the texts that somebody else wrote, by field."""
    for review in reversed(saga.reviews):
        if review.verdict == Verdict.REBASE and review.closed_at_ms is not None:
            compared = json.loads(review.facts).get("three_way") or ()
            return {each["field"]: each["live"] for each in compared}
    return {}


async def _text(at: Installation, ref: str | None) -> str:
    """That content; nothing where nothing is named, and a word where it is not there."""
    return await read_text(at.store, ref) if ref else ""
