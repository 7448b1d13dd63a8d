"""A review's case, for people and for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import RenderableType

from execution.case import Case, Record, Tried
from execution.moments import age
from execution.repeating import proposed_by
from server.cli.output import fields, line, table
from server.comparing import Compared
from server.config import Config
from server.operators import having
from server.results import moment
from server.roles import Role


def document_of(case: Case, compared: tuple[Compared, ...], config: Config) -> dict[str, Any]:
    """For programs. Names stay as they are in the journal; nothing is left out that a person is shown."""
    found, root, row = case.review, case.saga.root, case.row
    return {
        "review_id": found.review_id,
        "command_id": found.root_id,
        "kind": found.kind.value,
        "cause": found.cause,
        "step": case.saga.member(found.command_id).command_type,
        "object": {"kind": root.object_kind, "id": root.object_id, "version": root.object_version, "site": root.site},
        "proposed_by": proposed_by(root),
        "repeat_of": root.repeat_of,
        "tenant": root.tenant,
        "key": row.idempotency_key,
        "state": root.state.value,
        "phase": root.phase,
        "owner": found.owner,
        "opened_at_ms": found.opened_at_ms,
        "age_s": case.age_s,
        "may_rule": list(having(config.settings, Role.REPAIR)),
        "facts": dict(case.facts),
        "compared": [asdict(each) for each in compared],
        "versions": dict(case.versions),
        "agreeing": [list(names) for names in case.agreeing],
        "records": [_plain(asdict(record)) for record in case.records],
        "actions": [_action(tried) for tried in case.tried],
        "verdicts": [{"verdict": option.verdict.value, "would": option.would} for option in case.options],
        "ruling": found.verdict,
        "by": found.closed_by,
        "reason": found.reason,
        "closed": found.closed_at_ms is not None,
    }


def _action(tried: Tried) -> dict[str, Any]:
    attempts = [
        {
            "number": attempt.number,
            "cause": attempt.cause.value,
            "fenced_at_ms": attempt.fenced_at_ms,
            "settlement": attempt.settlement.value,
            "code": attempt.code,
            "quiescent_after_s": attempt.quiescent_after_s,
            "sent_late": attempt.sent_late,
        }
        for attempt in tried.attempts
    ]
    return {
        "step": tried.step,
        "direction": "backward" if tried.undoes else "forward",
        "undoes": tried.undoes,
        "state": tried.state.value,
        "compensation": tried.compensation,
        "attempts": attempts,
        "again": tried.again,
    }


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value not in (None, ())}


def rendered(case: Case, compared: tuple[Compared, ...], config: Config) -> list[RenderableType]:
    """For a person: what it is about, what is known, what was done, and what each answer would do."""
    found, root = case.review, case.saga.root
    step = case.saga.member(found.command_id).command_type
    head: list[tuple[str, object]] = [
        ("question", f"{found.kind} ({found.cause})" if found.cause else found.kind),
        ("about", f"{root.object_kind} {root.object_id} v{root.object_version} on {root.site}, tenant {root.tenant}"),
        ("proposed by", proposed_by(root)),
        ("repeats", root.repeat_of),
        ("step", step),
        ("key", case.row.idempotency_key),
        ("command", f"{root.command_id}, {root.state}" + (f" ({root.phase})" if root.phase else "")),
        ("owner", f"{found.owner}, open for {age(case.age_s)}"),
        ("may rule", ", ".join(sorted(config.settings.operator))),
        ("ruling", f"{found.verdict} by {found.closed_by}" if found.verdict else None),
        ("last said", found.reason),
    ]
    facts = [(name, _told(value)) for name, value in case.facts.items() if value and name != "three_way"]
    told: list[RenderableType] = [line("\nFacts", "bold"), fields(facts)] if facts else []
    return [
        fields(head),
        *told,
        *_versions(case),
        *(shown for each in compared for shown in _three_ways(each)),
        line("\nWhat each system holds", "bold"),
        table(["step", "record", "seen", "asked", "how"], [_record(record) for record in case.records]),
        line("\nWhat was done", "bold"),
        table(["step", "state", "attempts", "may be sent again"], [_done(tried) for tried in case.tried]),
        line("\nVerdicts", "bold"),
        fields([(option.verdict.value, option.would) for option in case.options]),
    ]


def _versions(case: Case) -> list[RenderableType]:
    if not case.versions:
        return []
    same = "; ".join(" = ".join(names) for names in case.agreeing if len(names) > 1) or "none agree"
    return [line("\nVersions", "bold"), fields([*case.versions.items(), ("which match", same)])]


def _three_ways(each: Compared) -> list[RenderableType]:
    changed = each.changed or ["(nothing)"]
    return [
        line(f"\n{each.field.capitalize()}: what was changed since it was approved", "bold"),
        *(line(f"  | {text}") for text in changed),
        line(f"\n{each.field.capitalize()}: what this version would change", "bold"),
        *(line(f"  | {text}") for text in each.ours or ["(nothing)"]),
    ]


def _record(record: Record) -> tuple[object, ...]:
    seen = record.verdict
    if seen is not None and record.code:
        seen += f" ({record.code})"
    if seen is not None and record.difference:
        seen += f": {', '.join(record.difference)}"
    how = None if record.query is None else f"{record.system}, {record.query}"
    named = " ".join(part for part in (record.resource_id, record.reference) if part) or None
    return record.step, named, seen or "never looked at", moment(record.asked_at_ms), how


def _done(tried: Tried) -> tuple[object, ...]:
    name = f"{tried.step} (undoes {tried.undoes})" if tried.undoes else tried.step
    attempts = ", ".join(f"{a.number}: {a.settlement}{f' {a.code}' if a.code else ''}" for a in tried.attempts)
    return name, tried.state, attempts or "none", tried.again


def _told(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_told(item) for item in value)
    if isinstance(value, dict):
        return " ".join(str(part) for part in value.values() if part)
    return str(value)
