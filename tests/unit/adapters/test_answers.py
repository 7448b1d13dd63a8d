"""What a system answers is read whole while it is of a size that systems answer with, and not beyond."""

import json

import pytest

from adapters.answers import Unreadable, parse


def test_a_full_page_of_posts_with_what_plugins_add_is_read() -> None:
    added = {f"key_{number}": {"value": number} for number in range(240)}
    page = [{"id": number, "yoast_head_json": added} for number in range(100)]
    assert parse(json.dumps(page).encode()) == page


def test_an_answer_of_nothing_but_values_is_refused_before_any_is_made() -> None:
    with pytest.raises(Unreadable):
        parse(b"[" + b"[]," * 1_000_000 + b"[]]")
