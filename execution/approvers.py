"""Whose yes counts, judged where the effect is permitted.

An approval in the journal is a row, and whoever can write the database can write a row. So the worker checks it again
just before the pivot's fence, with what only its own configuration says: that who decided it is an operator who may
approve; that this operator's key signed this very request, its hash, its bytes and its end; that the hash is of what
was shown; that it is nobody who proposed it. What fails is no approval: it is voided, and a person is asked anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from capabilities import base64url
from capabilities.errors import ApprovalSignatureError
from capabilities.keys import OperatorPublicKey, verify_approval
from execution.core.command import Approval, Saga
from execution.core.events import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class Approver:
    """An operator who may approve. aliases: agents they also act as."""

    key: OperatorPublicKey
    aliases: tuple[str, ...] = ()


Approvers: TypeAlias = Mapping[str, Approver]
"""By `operator:NAME`."""


def approval_statement(approval: Approval, approver: str) -> bytes:
    """What an operator's key signs: who approves which hash of which command, once, until when."""
    body = {
        "approval_id": approval.approval_id,
        "command_id": approval.root_id,
        "content_hash": approval.content_hash,
        "request_digest": approval.request_digest,
        "expires_at_ms": approval.expires_at_ms,
        "approver": approver,
    }
    return canonical(body).encode()


def invalid(approval: Approval, saga: Saga, approvers: Approvers) -> str | None:
    """Why that yes does not count: unknown_approver, bad_signature, not_what_was_shown or proposer_cannot_approve; None
    when it does."""
    named = approval.decided_by or ""
    approver = approvers.get(named)
    if approver is None:
        return "unknown_approver"
    signature = base64url.decode(approval.signature or "")
    try:
        verify_approval(approver.key, approval_statement(approval, named), signature or b"")
    except ApprovalSignatureError:
        return "bad_signature"
    if not _as_shown(approval):
        return "not_what_was_shown"
    return "proposer_cannot_approve" if proposed(saga, (named, *approver.aliases)) else None


def _as_shown(approval: Approval) -> bool:
    """Whether the hash, which is signed, is of the text that was shown, and that text about this request."""
    if hashlib.sha256(approval.subject.encode()).hexdigest() != approval.content_hash:
        return False
    shown = json.loads(approval.subject)
    return (shown["command_id"], shown["request_digest"]) == (approval.root_id, approval.request_digest)


def proposed(saga: Saga, names: Iterable[str]) -> bool:
    """Whether somebody of those names proposed it, acted for whoever did, or had it proposed in their name; never where
    there is nobody else who could approve (`four_eyes`)."""
    params = json.loads(saga.root.params)
    if not params["four_eyes"]:
        return False
    chain = {_bare(link) for link in (saga.root.principal, *params["chain"])}
    return bool(chain & {_bare(name) for name in names})


def _bare(name: str) -> str:
    """A name without what it acts as: agent:anna, operator:Anna and anna are one person."""
    return name.rpartition(":")[2].casefold()
