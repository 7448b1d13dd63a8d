"""Logs: one JSON object a line on stderr, with secrets and tokens taken out and control characters escaped.

stdout belongs to the protocol. Tracebacks are logged as the chain of exception types with their places, without the
messages and source lines that third-party code fills with the data it failed on.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, TextIO

from opentelemetry.trace import set_tracer_provider

from capabilities.credential import redact
from server.config import ConfigError, Secret
from server.settings import LogLevel

HIDDEN: Final = "[redacted:secret]"
MESSAGE_CHARS_MAX: Final = 4_000
SECRET_CHARS_MIN: Final = 6
EXPORT_S_MAX: Final = 5
_FRAMES_MAX: Final = 12
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NOISY: Final = (
    "httpx",
    "httpx2",
    "httpcore",
    "aiosqlite",
    "asyncio",
    "mcp",
    "mcp.server.lowlevel.server",
    "mail.log",
    "uvicorn.error",
)


class JsonFormatter(logging.Formatter):
    """A record as one JSON line. Secrets that were registered never appear in it."""

    def __init__(self) -> None:
        super().__init__()
        self._secrets: set[str] = set()

    def hide(self, secrets: Iterable[Secret]) -> None:
        """From now on these values are replaced wherever they occur."""
        self._secrets |= {secret.value for secret in secrets if len(secret.value) >= SECRET_CHARS_MIN}

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"at": at, "level": record.levelname.lower(), "from": record.name, "message": self._clean(_text(record))}
        line |= {name: self._clean(str(value)) for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = self._clean(_where(record.exc_info[1]))
        return json.dumps(line, ensure_ascii=True)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return redact(text)[:MESSAGE_CHARS_MAX]


def start_logging(level: LogLevel, stream: TextIO | None = None) -> JsonFormatter:
    """Send everything that is logged in this process to stderr. The formatter learns secrets as they are read."""
    formatter = JsonFormatter()
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    if level != "debug":
        for name in _NOISY:
            logging.getLogger(name).setLevel(logging.WARNING)
    return formatter


@contextmanager
def tracing(endpoint: str | None) -> Iterator[None]:
    """Send the spans of this process to an OTLP endpoint; without one none is recorded. Raises ConfigError."""
    if endpoint is None:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        fix = "Install the extra `traces`, or remove the endpoint."
        raise ConfigError("traces.endpoint", "OpenTelemetry's SDK is not installed", fix) from None
    provider = TracerProvider(resource=Resource.create({"service.name": "remit"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_S_MAX)))
    set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()


def _text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return str(record.msg)


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_MAX:]
    places = " < ".join(
        f"{frame.name} ({frame.filename.rsplit('/', 1)[-1]}:{frame.lineno})" for frame in reversed(frames)
    )
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return f"{type(error).__name__} in {places}" + (f"; from {type(cause).__name__}" if cause else "")
