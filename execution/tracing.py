"""Traces: the context that came with a proposal is kept with its command, and the work on it later is linked to it.

A saga goes on for days and over restarts, so its spans are not children of the call that proposed it: each piece of
work is a trace of its own with a *link* (OpenTelemetry's way for exactly this). Without an SDK nothing is recorded and
spans cost next to nothing. Attributes are ids and names out of our own vocabulary; no text of anybody.

The context is W3C's (w3.org/TR/trace-context): `traceparent`, and `tracestate` beside it. What is malformed is ignored,
as that document demands, and never refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    get_tracer,
    use_span,
)

from execution.core.command import Command

STATE_CHARS_MAX: Final = 512
STATE_MEMBERS_MAX: Final = 32
_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_KEY: Final = r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
_MEMBER: Final = re.compile(_KEY + r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_TRACER: Final = get_tracer("remit")


def stored(meta: Mapping[str, Any]) -> str | None:
    """What is kept of a call's `_meta`: `traceparent`, then a space and `tracestate` if there is one."""
    parent = _parent(meta.get("traceparent"))
    if parent is None:
        return None
    state = _state(meta.get("tracestate"))
    return f"{parent} {state}" if state else parent


def trace_id(kept: str | None) -> str | None:
    """The 32 hex digits under which somebody's tools know the call."""
    return None if kept is None else kept[3:35]


@contextmanager
def working(what: str, root: Command, row: Command) -> Iterator[None]:
    """A span of work on one row of a saga, linked to the call that proposed it."""
    attributes = {
        "remit.command_id": root.command_id,
        "remit.step": row.command_type,
        "remit.system": row.target_system,
        "remit.state": row.state.value,
    }
    span = _TRACER.start_span(
        f"remit {what}",
        context=Context(),
        kind=SpanKind.INTERNAL,
        attributes=attributes,
        links=_links(root.trace_id),
    )
    if not span.is_recording():  # without an SDK: nothing to attach, and nothing to detach where the work is abandoned
        yield
        return
    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise


def _links(kept: str | None) -> list[Link]:
    if kept is None:
        return []
    parent, _, state = kept.partition(" ")
    _, trace, span, flags = parent.split("-")
    context = SpanContext(
        int(trace, 16),
        int(span, 16),
        True,
        TraceFlags(int(flags, 16)),
        TraceState.from_header([state] if state else []),
    )
    return [Link(context)]


def _parent(given: Any) -> str | None:
    """Version 00, or what a later version has in common with it."""
    found = _PARENT.fullmatch(given) if isinstance(given, str) and len(given) <= STATE_CHARS_MAX else None
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(span, 16):
        return None
    return f"00-{trace}-{span}-{flags}"


def _state(given: Any) -> str | None:
    if not isinstance(given, str) or len(given) > STATE_CHARS_MAX:
        return None
    members = [member.strip(" \t") for member in given.split(",")]
    kept = [member for member in members if member]
    keys = [member.partition("=")[0] for member in kept]
    if len(kept) > STATE_MEMBERS_MAX or len(set(keys)) != len(keys):
        return None
    return ",".join(kept) if all(_MEMBER.fullmatch(member) for member in kept) else None
