"""Bringing an answer within its size: about 400 tokens when concise, about 4,000 when detailed.

What is left out goes in a fixed order, the least important first, and the answer says so. Ids, the
state, `live`, `done` and the next action always stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from server.results import CONCISE_CHARS_MAX, CommandStatus, text

DETAILED_CHARS_MAX: Final = 16_000


def fit(answer: CommandStatus, *, detailed: bool) -> CommandStatus:
    """Leave out the least important parts, in a fixed order, until the answer fits, and say so."""
    shortenings, chars_max = (_DETAILED, DETAILED_CHARS_MAX) if detailed else (_CONCISE, CONCISE_CHARS_MAX)
    for shorten in shortenings:
        if len(text(answer)) <= chars_max:
            break
        said = answer.truncated or "shortened; ask with detail=detailed for the rest"
        answer = shorten(answer).model_copy(update={"truncated": said})
    return answer


def _count(names: list[str]) -> list[str]:
    return names if len(names) <= 1 else [names[0], f"and {len(names) - 1} more"]


def _answers_with(answer: CommandStatus, **changes: Any) -> CommandStatus:
    return answer.model_copy(update={"answers": answer.answers.model_copy(update=changes)})


def _sentences(answer: CommandStatus) -> CommandStatus:
    short = {
        name: value[:80]
        for name in ("executed", "retry_safe", "compensation", "human")
        if (value := getattr(answer.answers, name)) is not None
    }
    return _answers_with(answer, **short)


def _waits(answer: CommandStatus) -> CommandStatus:
    """Texts that people wrote, and the addresses of systems, are cut."""
    waiting, approval = answer.waiting_for, answer.approval
    changes: dict[str, Any] = {
        "approval": approval.model_copy(update={"rejection": (approval.rejection or "")[:60] or None}),
        "url": answer.url if len(answer.url or "") <= 120 else None,
        "external_version": None,
        "publish_at_local": None,
    }
    if waiting is not None:
        changes["waiting_for"] = waiting.model_copy(update={"what": waiting.what[:60]})
    return answer.model_copy(update=changes)


Shortening = Callable[[CommandStatus], CommandStatus]

_DETAILED: Final[tuple[Shortening, ...]] = (
    lambda answer: _answers_with(answer, remaining=_count(answer.answers.remaining)),
    lambda answer: _answers_with(answer, succeeded=_count(answer.answers.succeeded)),
    lambda answer: _answers_with(answer, unknown=_count(answer.answers.unknown)),
    _sentences,
    _waits,
    lambda answer: answer.model_copy(update={"reviews": None}),
)
_CONCISE: Final[tuple[Shortening, ...]] = (
    lambda answer: _answers_with(answer, remaining=_count(answer.answers.remaining)),
    lambda answer: _answers_with(answer, succeeded=_count(answer.answers.succeeded)),
    lambda answer: answer.model_copy(update={"steps": answer.steps[:3]}),
    _sentences,
    lambda answer: answer.model_copy(update={"steps": answer.steps[:1]}),
    lambda answer: _answers_with(answer, unknown=_count(answer.answers.unknown)),
    _waits,
    lambda answer: answer.model_copy(update={"say_to_user": answer.say_to_user[:160]}),
    lambda answer: _answers_with(answer, human=None if answer.waiting_for else answer.answers.human),
    lambda answer: answer.model_copy(update={"steps": []}),
    lambda answer: answer.model_copy(update={"idempotency_key": answer.idempotency_key[:120]}),
    lambda answer: answer.model_copy(update={"publish_at": None, "to_repeat": None}),
)
