"""The trace of a proposal is kept when it is well-formed, and the work that follows is linked to it."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from execution import tracing
from execution.core.command import evolved
from execution.tracing import stored, trace_id, working
from tests.unit.core.rows import row

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_TRACER", provider.get_tracer("test"))
    yield exporter
    provider.shutdown()


@pytest.mark.parametrize(
    ("parent", "kept"),
    [
        (PARENT, PARENT),
        (PARENT.replace("-01", "-00"), PARENT.replace("-01", "-00")),
        (f"cc-{TRACE}-00f067aa0ba902b7-01-what-comes-later", PARENT),
        (PARENT + "-more", None),
        (f"ff-{TRACE}-00f067aa0ba902b7-01", None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (PARENT.upper(), None),
        (PARENT + "\n", None),
        (" " + PARENT, None),
        ("x" * 10_000, None),
        ("", None),
        (7, None),
        (None, None),
        (["00"], None),
    ],
)
def test_a_context_is_kept_as_the_recommendation_says_or_ignored(parent: object, kept: str | None) -> None:
    assert stored({"traceparent": parent}) == kept


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"),
        ("a=1, b=2 ,", "a=1,b=2"),
        ("fw529a3039@dt=FfAAEA", "fw529a3039@dt=FfAAEA"),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("a", ""),
        ("a=\x00", ""),
        ("a=é", ""),
        (",".join(f"k{number}=1" for number in range(33)), ""),
        ("a=" + "x" * 600, ""),
        (7, ""),
    ],
)
def test_a_state_is_kept_beside_it_or_left_out(state: object, kept: str) -> None:
    assert stored({"traceparent": PARENT, "tracestate": state}) == f"{PARENT} {kept}".rstrip()
    assert stored({"tracestate": state}) is None


def test_work_is_a_trace_of_its_own_with_a_link_to_the_proposal(spans: InMemorySpanExporter) -> None:
    root = evolved(row("cmd_root"), {"trace_id": stored({"traceparent": PARENT, "tracestate": "a=1"})})
    with working("Execute", root, root):
        pass
    [span] = spans.get_finished_spans()
    [link] = span.links
    assert f"{link.context.trace_id:032x}" == trace_id(root.trace_id) == TRACE
    assert dict(link.context.trace_state) == {"a": "1"}
    assert span.parent is None
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" != TRACE
    assert (span.attributes or {})["remit.command_id"] == root.command_id


def test_work_without_a_context_has_no_link(spans: InMemorySpanExporter) -> None:
    with working("Execute", row("cmd_root"), row("cmd_1", 1)):
        pass
    assert spans.get_finished_spans()[0].links == ()


def test_what_went_wrong_is_named_and_not_told(spans: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="canary"), working("Execute", row("cmd_root"), row("cmd_1", 1)):
        raise ValueError("canary")
    [span] = spans.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert "canary" not in span.to_json()
