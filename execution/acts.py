"""What an operator does is signed with the operator's key: who does what, to what, when.

A name at a command line says nothing about who typed it, and a row in the database nothing about who wrote it. So each
act is signed where it is typed, kept with its signature, and judged again by the worker that carries a ruling out.
"""

from __future__ import annotations

from dataclasses import replace

from capabilities import base64url
from capabilities.keys import OperatorKey, is_act_of, sign_act
from execution.approvers import Approvers
from execution.core.command import Review
from execution.core.events import canonical
from execution.store.acts import Act

RULE = "review rule"
"""The verb of a ruling."""


def statement(act: Act) -> bytes:
    """The bytes that are signed."""
    body = {
        "act_id": act.act_id,
        "verb": act.verb,
        "subject": act.subject,
        "by": act.by,
        "at_ms": act.at_ms,
        "what": act.what,
    }
    return canonical(body).encode()


def signed(act: Act, key: OperatorKey) -> Act:
    """The same with its signature."""
    return replace(act, signature=base64url.encode(sign_act(key, statement(act))))


def invalid(act: Act, believed: Approvers) -> str | None:
    """Why nobody has to believe that this operator did that: unknown_operator or bad_signature; None when they did."""
    known = believed.get(act.by)
    if known is None:
        return "unknown_operator"
    signature = base64url.decode(act.signature) or b""
    return None if is_act_of(known.key, statement(act), signature) else "bad_signature"


def ruling(review_id: str, *, verdict: str, reason: str, by: str, at_ms: int, signature: str = "") -> Act:
    """A person's answer to one question. `at_ms`: when they had looked; it is part of what they sign, because what
    nobody can read back is judged by it."""
    what = canonical({"verdict": verdict, "reason": reason})
    return Act(act_id=review_id, verb=RULE, subject=review_id, by=by, at_ms=at_ms, what=what, signature=signature)


def ruling_of(review: Review) -> Act:
    """The one that stands on that question."""
    return ruling(
        review.review_id,
        verdict=review.verdict or "",
        reason=review.reason or "",
        by=review.closed_by or "",
        at_ms=review.answered_at_ms or 0,
        signature=review.signature or "",
    )
