"""Many rulings at once: shown first, counted by cause, and asked for one after the other.

Each is the same request as a single ruling: a worker reads reality back for it and refuses what the facts contradict.
Nothing is skipped and nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import typer

from execution.core.states import ReviewKind, Verdict
from execution.moments import age
from execution.operations import OperationRefused
from execution.store.registry import Question
from server.acting import Acting
from server.app import Installation
from server.cli.options import duration_s
from server.cli.output import CommandFailed, Exit, Output, line, on_terminal, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which reviews, and what for all of them."""

    verdict: Verdict
    kind: str | None
    cause: str | None
    older_than: str | None
    limit: int
    pace_s: float

    def matches(self, question: Question, now_ms: int) -> bool:
        """Open, not ruled on yet, offered this verdict, and as wanted."""
        found = question.review
        open_ms = now_ms - found.opened_at_ms
        return (
            found.verdict is None
            and self.verdict.value in found.verdicts.split(",")
            and self.kind in (None, found.kind.value)
            and self.cause in (None, found.cause)
            and (self.older_than is None or open_ms >= duration_s(self.older_than) * 1000)
        )


async def rule_many(
    at: Installation, wanted: Wanted, by: Acting, reason: str, output: Output, *, dry_run: bool, yes: bool
) -> int:
    """Show, ask, and request them. Exit code 1 when one was refused at once."""
    _check(wanted)
    now_ms = at.clock.now_ms()
    matching = [question for question in await at.operations().reviews() if wanted.matches(question, now_ms)]
    chosen = matching[: wanted.limit]
    preview = _preview(wanted, matching, chosen, dry_run=dry_run)
    if not dry_run and chosen:
        _confirm(len(chosen), output, chosen, now_ms, yes=yes)
    requested, refused = ([], []) if dry_run else await _request(at, wanted, chosen, by, reason)
    document = preview | {"requested": requested, "refused": refused}
    if dry_run:
        output.show(document, *_shown(chosen, now_ms), line(f"{len(chosen)} of {len(matching)} would be ruled."))
    else:
        told = [line(f"{item['review_id']}: {item['code']}", "yellow") for item in refused]
        output.show(document, *told, line(f"{len(requested)} rulings requested; a worker checks each against reality."))
    return Exit.FAILED if refused else Exit.OK


def _check(wanted: Wanted) -> None:
    if wanted.kind is None and wanted.cause is None:
        fix = "Add --kind or --cause: one answer for different questions is no answer."
        raise CommandFailed("usage", "Everything at once cannot be ruled.", fix, Exit.USAGE)
    kinds = [kind.value for kind in ReviewKind]
    if wanted.kind is not None and wanted.kind not in kinds:
        raise CommandFailed("usage", "There is no such kind.", f"Use one of: {', '.join(kinds)}.", Exit.USAGE)
    if wanted.older_than is not None:
        duration_s(wanted.older_than)


def _preview(wanted: Wanted, matching: list[Question], chosen: list[Question], *, dry_run: bool) -> dict[str, Any]:
    by_cause = Counter(f"{q.review.kind} {q.review.cause}".strip() for q in chosen)
    return {
        "verdict": wanted.verdict.value,
        "dry_run": dry_run,
        "matched": len(matching),
        "selected": len(chosen),
        "by_cause": dict(by_cause),
        "reviews": [{"review_id": q.review.review_id, "step": q.step, "object": q.object_id} for q in chosen],
    }


def _shown(chosen: list[Question], now_ms: int) -> list[Any]:
    counts = Counter((q.review.kind.value, q.review.cause) for q in chosen)
    rows = [
        (
            q.review.review_id,
            q.review.kind,
            q.review.cause,
            q.step,
            q.object_id,
            age((now_ms - q.review.opened_at_ms) / 1000),
        )
        for q in chosen
    ]
    return [
        table(["review", "kind", "cause", "step", "object", "age"], rows),
        *(line(f"{count} × {kind} {cause}") for (kind, cause), count in counts.items()),
    ]


def _confirm(count: int, output: Output, chosen: list[Question], now_ms: int, *, yes: bool) -> None:
    if yes:
        return
    if output.as_json or not on_terminal():
        fix = "Look at --dry-run first, then add --yes."
        raise CommandFailed("confirmation_needed", f"Nothing was ruled: {count} would be.", fix, Exit.USAGE)
    output.show({}, *_shown(chosen, now_ms))
    if typer.prompt(f"Type {count} to rule all of these") != str(count):
        raise CommandFailed("not_confirmed", "Nothing was ruled.")


async def _request(
    at: Installation, wanted: Wanted, chosen: list[Question], by: Acting, reason: str
) -> tuple[list[str], list[dict[str, str]]]:
    requested: list[str] = []
    refused: list[dict[str, str]] = []
    for place, question in enumerate(chosen):
        if place:
            await asyncio.sleep(wanted.pace_s)
        review_id = question.review.review_id
        try:
            ruled = by.rules(review_id, verdict=wanted.verdict, reason=reason)
            await at.operations().request_ruling(review_id, verdict=wanted.verdict, reason=reason, **ruled)
            requested.append(review_id)
        except OperationRefused as error:
            refused.append({"review_id": review_id, "code": error.code})
    return requested, refused
