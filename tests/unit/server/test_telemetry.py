"""Logs are one JSON object a line and hold no secret, no token, no raw control character."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from server.config import Secret
from server.telemetry import JsonFormatter

TOKEN = "eyJhbGciOiJFZERTQSIsImtpZCI6ImsiLCJ0eXAiOiJhdCtqd3QifQ.eyJhIjoxfQ.c2lnbmF0dXJl"


@pytest.fixture
def logged() -> Iterator[tuple[logging.Logger, io.StringIO, JsonFormatter]]:
    stream, formatter = io.StringIO(), JsonFormatter()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    yield logger, stream, formatter
    handler.close()


Logged = tuple[logging.Logger, io.StringIO, JsonFormatter]


@pytest.mark.behaviour("threat.25")
def test_a_token_in_a_message_is_taken_out(logged: Logged) -> None:
    logger, stream, _ = logged
    logger.warning("got %s", TOKEN)
    assert TOKEN not in stream.getvalue()


def test_a_registered_secret_never_shows_in_message_or_fields(logged: Logged) -> None:
    logger, stream, formatter = logged
    formatter.hide([Secret("hunter2-hunter2")])
    logger.warning("password %s", "hunter2-hunter2", extra={"header": "Basic hunter2-hunter2"})
    assert "hunter2" not in stream.getvalue()


@pytest.mark.behaviour("threat.24")
def test_a_line_break_cannot_forge_a_second_line(logged: Logged) -> None:
    logger, stream, _ = logged
    logger.warning('x\n{"level": "info"}\u2028\u202e')
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["level"] == "warning"
    assert line.isascii()


@pytest.mark.behaviour("threat.25")
def test_a_traceback_names_places_and_not_the_data(logged: Logged) -> None:
    logger, stream, _ = logged
    try:
        int("canary-5d1f")
    except ValueError:
        logger.exception("failed")
    line = json.loads(stream.getvalue())
    assert line["error"].startswith("ValueError in ")
    assert "canary" not in stream.getvalue()
