"""The judge of requests sees what is wrong with them."""

import json
from typing import Any

import pytest

from tests.testbeds.openapi import Contract

CONTRACT = Contract.of("cloudflare_purge.openapi.json")
ZONE = "023e105f4ecef8ad9ca31a8372d0c353"
PATH = f"/client/v4/zones/{ZONE}/purge_cache"
HEADERS = {"authorization": "Bearer t", "content-type": "application/json"}


def wrong(body: Any, path: str = PATH, headers: dict[str, str] = HEADERS, method: str = "POST") -> list[str]:
    return CONTRACT.request(method, path, headers, json.dumps(body).encode())


def test_a_purge_by_address_is_in_order() -> None:
    assert wrong({"files": ["https://blog.example/a/"]}) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"files": []},
        {"files": ["https://blog.example/"] * 101},
        {"files": [1]},
        {"files": ["https://blog.example/"], "tags": ["a"]},
        {"urls": ["https://blog.example/"]},
        {"purge_everything": False},
        [],
    ],
)
def test_another_body_is_not(body: Any) -> None:
    assert wrong(body) != []


def test_neither_is_another_zone_path_method_or_credential() -> None:
    body = {"files": ["https://blog.example/"]}
    assert wrong(body, path=PATH.replace(ZONE, "my-zone")) != []
    assert wrong(body, path="/client/v4/zones/purge_cache") != []
    assert wrong(body, method="PUT") != []
    assert wrong(body, headers={"content-type": "application/json"}) != []
    assert wrong(body, headers={**HEADERS, "content-type": "text/plain"}) != []


def test_answers_are_judged_too() -> None:
    right = {"success": True, "errors": [], "messages": [], "result": None}
    assert CONTRACT.answer("POST", PATH, 200, json.dumps(right).encode()) == []
    assert CONTRACT.answer("POST", PATH, 200, b'{"success": "yes"}') != []
    assert CONTRACT.answer("POST", PATH, 500, b"{}") != []
