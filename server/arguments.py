"""The arguments of the tools: what a model may write, strictly, and how it is told what was wrong.

One pydantic model per tool is the schema that is published, the check, and the documentation. Nothing unknown is
ignored, nothing is converted, and no error repeats what came in. Schemas are flat: no references, no unions.
"""

from __future__ import annotations

import difflib
import json
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from execution.hidden import misleads_in_a_line
from execution.moments import TEXT_CHARS_MAX, NotAMoment, instant
from server.errors import GatewayRefused, Refusal, refusal

CONTENT_BYTES_MAX: Final = 1_048_576
TITLE_CHARS_MAX: Final = 200
WAIT_S_MAX: Final = 20
STRUCTURED_BYTES_MAX: Final = 65_536
NESTING_MAX: Final = 32

_SEGMENT: Final = r"^[a-z0-9][a-z0-9._-]{0,63}$"
_ULID: Final = r"_[0-7][0-9a-hjkmnp-tv-z]{25}$"


class Arguments(BaseModel):
    """Closed, strict, silent about what it was given."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True, frozen=True)


def _one_line(text: str) -> str:
    """Normal form C; no control, bidirectional or tag character, which could make a person read something else."""
    if misleads_in_a_line(text):
        raise PydanticCustomError("hidden_character", "control, direction and tag characters are not allowed here")
    return unicodedata.normalize("NFC", text)


def _no_nul(text: str) -> str:
    if "\x00" in text:
        raise PydanticCustomError("hidden_character", "the character NUL is not allowed")
    return text


def _aware(text: str) -> str:
    """One spelling for one instant: RFC 3339 in UTC."""
    try:
        return instant(text).isoformat().replace("+00:00", "Z")
    except NotAMoment as error:
        raise PydanticCustomError("not_a_moment", "{why}", {"code": error.code, "why": str(error)}) from None


def _plain_json(value: dict[str, Any]) -> dict[str, Any]:
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, UnicodeEncodeError):
        raise PydanticCustomError("not_json", "numbers must be finite and texts valid Unicode") from None
    if size > STRUCTURED_BYTES_MAX:
        raise PydanticCustomError("too_large", f"at most {STRUCTURED_BYTES_MAX} bytes of JSON")
    return value


Segment = Annotated[str, Field(pattern=_SEGMENT)]
Line = Annotated[str, AfterValidator(_one_line)]
Term = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_one_line)]
Link = Annotated[str, Field(min_length=1, max_length=2_048), AfterValidator(_one_line)]
Terms = Annotated[tuple[Term, ...], Field(strict=False, max_length=30)]
Links = Annotated[tuple[Link, ...], Field(strict=False, max_length=50)]
Lists = Annotated[tuple[Segment, ...], Field(strict=False, max_length=10)]
CommandId = Annotated[str, Field(pattern=r"^cmd" + _ULID)]


class ProposePublish(Arguments):
    """Arguments of propose_publish."""

    article_id: Segment = Field(
        description="Your stable name for the article, e.g. article-0028. Same article, same name."
    )
    version: int = Field(ge=1, le=1_000_000, description="1 for a new article; one higher for every changed text.")
    site: Segment = Field(description="Name of the site as the person gave it, e.g. blog.")
    title: Annotated[str, AfterValidator(_one_line)] = Field(
        min_length=1, max_length=TITLE_CHARS_MAX, description="Headline, plain text, at most 200 characters."
    )
    content: Annotated[str, AfterValidator(_no_nul)] | None = Field(
        default=None,
        min_length=1,
        description="The whole text: at most what the token allows, 256 KiB unless it says otherwise, and never above "
        "1 MiB. Give this or payload_ref, not both.",
    )
    payload_ref: Annotated[str, Field(max_length=200, pattern=r"^artifact://[a-z0-9][a-z0-9./_-]*$")] | None = Field(
        default=None, description="Instead of content: a stored text, e.g. artifact://sha256/<64 hex digits>."
    )
    content_format: Literal["markdown", "html", "blocks"] = Field(
        default="markdown", description="How content is written: markdown, html, or blocks (WordPress block markup)."
    )
    slug: Annotated[str, Field(max_length=200, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")] | None = Field(
        default=None, description="Last part of the public address, e.g. how-to-brew. Default: made from the title."
    )
    excerpt: Line | None = Field(default=None, max_length=1_000, description="Short teaser, plain text.")
    meta_description: Line | None = Field(
        default=None, max_length=320, description="Text for search engines; a preview says where it is not kept."
    )
    categories: Terms | None = Field(default=None, description='Category names, e.g. ["Brewing"]. They must exist.')
    tags: Terms | None = Field(default=None, description='Tag names, e.g. ["coffee", "water"].')
    featured_image: Annotated[str, Field(pattern=r"^artifact://sha256/[0-9a-f]{64}$")] | None = Field(
        default=None, description="Lead image that a person has stored: artifact://sha256/<64 hex digits>."
    )
    structured_data: Annotated[dict[str, Any], AfterValidator(_plain_json)] | None = Field(
        default=None, description="schema.org JSON-LD object."
    )
    sources: Links | None = Field(default=None, description="https addresses of the sources used.")
    publish_at: Annotated[str, Field(max_length=TEXT_CHARS_MAX), AfterValidator(_aware)] | None = Field(
        default=None,
        description="Publish not before this time, with offset or zone: 2026-12-01T09:00:00+01:00 or "
        "2026-12-01T09:00:00[Europe/Berlin].",
    )
    notify: Lists | None = Field(
        default=None, description='Names of notification lists, never addresses, e.g. ["team"].'
    )
    base_version: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="The external_version of the live article you based this on, from its status."
    )
    preview: bool = Field(default=False, description="true: show the plan and accept nothing.")
    repeat_of: CommandId | None = Field(
        default=None, description="Only to do it once more on purpose: id of the ended command to repeat."
    )
    wait_seconds: int = Field(
        default=3,
        ge=0,
        le=WAIT_S_MAX,
        description="How long to wait for a result, 0 to 20. The proposal is safe at once.",
    )


class QueryCommandStatus(Arguments):
    """Arguments of query_command_status."""

    command_id: CommandId | None = Field(default=None, description="Id from propose_publish, e.g. cmd_01kb9zq3….")
    idempotency_key: Annotated[str, Field(min_length=1, max_length=400)] | None = Field(
        default=None, description="Instead of command_id: the idempotency_key of an earlier answer."
    )
    detail: Literal["concise", "detailed"] = Field(
        default="concise", description="concise: short. detailed: every step with its evidence, in pages."
    )
    cursor: Annotated[str, Field(max_length=20, pattern=r"^[0-9]+$")] | None = Field(
        default=None, description="With detailed: the cursor of the page before."
    )
    wait_seconds: int = Field(
        default=0, ge=0, le=WAIT_S_MAX, description="Wait this long, 0 to 20, for something to change for you."
    )


A = TypeVar("A", bound=Arguments)


def parse(model: type[A], given: Mapping[str, Any]) -> A:
    """Check what a caller wrote. An optional argument that is null counts as absent. Raises GatewayRefused."""
    if nested_too_deep(given, NESTING_MAX):
        raise GatewayRefused(refusal("invalid_argument", fix=f"Nest values at most {NESTING_MAX} levels deep."))
    present = {name: value for name, value in given.items() if value is not None}
    try:
        return model.model_validate(present)
    except ValidationError as error:
        raise GatewayRefused(_explain(error, model)) from None


def input_schema(model: type[Arguments]) -> dict[str, Any]:
    """The model's JSON schema, flat: an optional value is simply not required."""
    schema = model.model_json_schema()
    properties = {name: _flat(found) for name, found in schema["properties"].items()}
    return {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


def nested_too_deep(value: Any, levels: int) -> bool:
    """Whether containers lie in containers more than `levels` deep. Iterative: depth cannot exhaust the stack."""
    waiting = [(value, levels)]
    while waiting:
        item, left = waiting.pop()
        if isinstance(item, dict | list):
            if left == 0:
                return True
            children = item.values() if isinstance(item, dict) else item
            waiting += [(child, left - 1) for child in children if isinstance(child, dict | list)]
    return False


def _flat(found: dict[str, Any]) -> dict[str, Any]:
    flat = {key: value for key, value in found.items() if key not in ("title", "anyOf")}
    if flat.get("default", 0) is None:
        del flat["default"]
    for variant in found.get("anyOf", ()):
        if variant.get("type") != "null":
            flat = variant | flat
    return flat


def _explain(error: ValidationError, model: type[Arguments]) -> Refusal:
    every = error.errors(include_input=True, include_url=False, include_context=True)
    first = next((found for found in every if found["type"] == "extra_forbidden"), every[0])  # a typo explains the rest
    location, kind, context = first["loc"], first["type"], first.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(str(location[0]), model)
    field = ".".join(str(part) for part in location)
    if kind == "missing":
        return refusal("missing_argument", field=field)
    description = model.model_fields[str(location[0])].description or ""
    limit = context.get("max_length", context.get("le", context.get("ge", context.get("min_length"))))
    return refusal(
        _CODES.get(context.get("code", kind), "invalid_argument"),
        field=field,
        limit=limit if isinstance(limit, int) else None,
        actual=_measure(first["input"], kind),
        fix=f"{_PLAIN.get(kind, first['msg'])}. {description}",
    )


_CODES: Final = {
    "string_too_long": "too_long",
    "too_long": "too_long",
    "time_does_not_exist": "time_does_not_exist",
    "time_is_ambiguous": "time_is_ambiguous",
}
_PLAIN: Final = {
    "string_pattern_mismatch": "The value does not have the required form",
    "string_type": "A text is needed",
    "string_too_long": "The text is too long",
    "string_too_short": "The text is empty",
    "too_long": "The list is too long",
    "int_type": 'A whole number is needed (7, not "7" or true)',
    "int_from_float": "A whole number is needed",
    "bool_type": "true or false is needed",
    "tuple_type": "A list is needed",
    "dict_type": "An object is needed",
    "string_unicode": "The text is not valid Unicode",
}


def _measure(given: Any, kind: str) -> int | None:
    """A number about the value, never the value."""
    if kind in ("string_too_long", "string_too_short", "too_long", "too_short"):
        return len(given)
    return given if kind in ("greater_than_equal", "less_than_equal") and abs(given) < 2**53 else None


def _unknown(name: str, model: type[Arguments]) -> Refusal:
    near = difflib.get_close_matches(name[:64], list(model.model_fields), n=1, cutoff=0.6)
    if near:
        fix = f"An argument has a name like `{near[0]}`, and that is not known. Did you mean `{near[0]}`?"
        return refusal("unknown_argument", field=near[0], fix=fix)
    return refusal("unknown_argument", fix=f"There is no such argument. Known: {', '.join(model.model_fields)}.")
