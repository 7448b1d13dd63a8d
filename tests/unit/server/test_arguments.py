"""Tool arguments are closed and strict, and a refusal never repeats what came in."""

from typing import Any

import pytest

from server.arguments import ProposePublish, QueryCommandStatus, input_schema, parse
from server.errors import GatewayRefused, Refusal
from server.gateway import normal_form

GOOD: dict[str, Any] = {"article_id": "article-0028", "version": 1, "site": "blog", "title": "T", "content": "text"}
DIGEST = "0" * 64
CANARY = "canary-5d1f"


def refusal_of(**changes: Any) -> Refusal:
    with pytest.raises(GatewayRefused) as caught:
        parse(ProposePublish, GOOD | changes)
    return caught.value.refusal


@pytest.mark.behaviour("threat.39")
@pytest.mark.behaviour("threat.42")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": True}, "version"),
        ({"version": "7"}, "version"),
        ({"version": 1.0}, "version"),
        ({"version": 0}, "version"),
        ({"preview": "true"}, "preview"),
        ({"preview": 1}, "preview"),
        ({"tags": '["a"]'}, "tags"),
        ({"tags": [["a"]]}, "tags.0"),
        ({"content": ["a"]}, "content"),
        ({"content": {"a": 1}}, "content"),
        ({"structured_data": '{"a": 1}'}, "structured_data"),
        ({"structured_data": {"a": float("nan")}}, "structured_data"),
        ({"structured_data": {"a": "\ud800"}}, "structured_data"),
        ({"structured_data": {"a": "x" * 70_000}}, "structured_data"),
        ({"title": "\ud800"}, "title"),
        ({"title": "a\u202eb"}, "title"),
        ({"title": "a\nb"}, "title"),
        ({"title": "a\x00b"}, "title"),
        ({"title": "a\U000e0041"}, "title"),
        ({"title": ""}, "title"),
        ({"content": "a\x00b"}, "content"),
        ({"site": "../etc"}, "site"),
        ({"article_id": "Article 1"}, "article_id"),
        ({"article_id": "a\n"}, "article_id"),
        ({"slug": "a--b"}, "slug"),
        ({"notify": ["someone@example.org"]}, "notify.0"),
        ({"publish_at": "2026-12-01T09:00:00"}, "publish_at"),
        ({"publish_at": "tomorrow"}, "publish_at"),
        ({"repeat_of": "cmd_x"}, "repeat_of"),
        ({"payload_ref": "artifact://../x"}, "payload_ref"),
        ({"payload_ref": "artifact://%2e%2e/x"}, "payload_ref"),
        ({"payload_ref": "artifact:///etc/passwd"}, "payload_ref"),
        ({"payload_ref": "artifact://a/x\x00"}, "payload_ref"),
        ({"wait_seconds": 21}, "wait_seconds"),
        ({"wait_seconds": 10**400}, "wait_seconds"),
    ],
)
def test_nothing_is_converted_or_let_through(changes: dict[str, Any], field: str) -> None:
    assert refusal_of(**changes).field == field


def test_a_title_over_the_limit_names_limit_and_length() -> None:
    refusal = refusal_of(title="x" * 201)
    assert (refusal.code, refusal.limit, refusal.actual) == ("too_long", 200, 201)


def test_a_misspelt_argument_is_answered_with_the_right_name() -> None:
    refusal = refusal_of(titel="x")
    assert (refusal.code, refusal.field) == ("unknown_argument", "title")


@pytest.mark.parametrize(
    "changes",
    [{CANARY: 1}, {"title": CANARY + "\x00"}, {"site": CANARY + "!"}, {"version": CANARY}, {"slug": CANARY + "_"}],
)
def test_no_refusal_repeats_what_came_in(changes: dict[str, Any]) -> None:
    assert CANARY not in repr(refusal_of(**changes))


def test_deep_nesting_is_refused_before_anything_recurses() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    assert refusal_of(structured_data=deep).code == "invalid_argument"


def test_an_optional_argument_that_is_null_counts_as_absent() -> None:
    assert parse(ProposePublish, GOOD | {"slug": None, "tags": None}) == parse(ProposePublish, GOOD)


@pytest.mark.parametrize("model", [ProposePublish, QueryCommandStatus])
def test_schemas_are_flat_and_closed(model: type[ProposePublish] | type[QueryCommandStatus]) -> None:
    schema = input_schema(model)
    assert schema["additionalProperties"] is False
    for word in ("anyOf", "oneOf", "allOf", "$ref", "$defs", "null"):
        assert word not in repr(schema)
    assert all(part.get("description") for part in schema["properties"].values())


def test_equal_intents_have_one_normal_form() -> None:
    spelt = GOOD | {"content_format": "markdown", "wait_seconds": 0, "publish_at": "2026-12-01T10:00:00+01:00"}
    brief = GOOD | {"wait_seconds": 9, "publish_at": "2026-12-01T09:00:00Z"}
    forms = [normal_form(parse(ProposePublish, given), DIGEST, "c", None).arguments for given in (spelt, brief)]
    assert forms[0] == forms[1]
    assert not {"wait_seconds", "preview", "repeat_of", "content"} & forms[0].keys()


@pytest.mark.parametrize(
    ("given", "code", "helps"),
    [
        ("2027-03-28T02:30:00[Europe/Berlin]", "time_does_not_exist", "2027-03-28T03:00:00+02:00[Europe/Berlin]"),
        ("2027-10-31T02:30:00[Europe/Berlin]", "time_is_ambiguous", "2027-10-31T02:30:00+01:00[Europe/Berlin]"),
        ("2027-10-31T02:30:00+05:00[Europe/Berlin]", "invalid_argument", "offset"),
        ("2027-10-31T02:30:00[Europe/Atlantis]", "invalid_argument", "time zone"),
        ("2027-10-31T02:30:00", "invalid_argument", "offset from UTC or its zone"),
    ],
)
def test_a_time_that_is_no_instant_is_refused_with_what_would_be_one(given: str, code: str, helps: str) -> None:
    refusal = refusal_of(publish_at=given)
    assert (refusal.code, refusal.field) == (code, "publish_at")
    assert helps in refusal.fix


def test_a_time_with_its_zone_is_the_same_intent_as_in_utc() -> None:
    local = parse(ProposePublish, GOOD | {"publish_at": "2027-10-31T02:30:00+01:00[Europe/Berlin]"})
    assert local.publish_at == "2027-10-31T01:30:00Z"


def test_composed_and_decomposed_titles_are_one() -> None:
    first, second = (parse(ProposePublish, GOOD | {"title": title}).title for title in ("\u00e9", "e\u0301"))
    assert first == second


def test_content_and_a_reference_to_the_same_bytes_are_one() -> None:
    by_name = {key: value for key, value in GOOD.items() if key != "content"} | {"payload_ref": "artifact://a/v1"}
    forms = [normal_form(parse(ProposePublish, given), DIGEST, "c", None) for given in (GOOD, by_name)]
    assert forms[0].arguments == forms[1].arguments
