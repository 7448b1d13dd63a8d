"""JSON (RFC 8259) without the generosity of `json.loads`.

Used on everything that was signed elsewhere or read from a file: token headers, payloads, key sets. Refused are what
two parsers could read differently or what costs more than it carries: encodings other than UTF-8, byte order marks,
duplicate members, NaN, Infinity, fractions and exponents (unless asked for), integers beyond ±(2^53−1) (RFC 7493
§2.2), lone surrogates, nesting deeper than a limit, and input beyond a size. Work is linear in the input. Each value
costs far more than its bytes: whoever reads much at once limits their number, too, and none is made beyond it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

BYTES_MAX: Final = 65_536
DEPTH_MAX: Final = 32
INTEGER_MAX: Final = 2**53 - 1
_INTEGER_CHARS_MAX: Final = len(str(-INTEGER_MAX))
_FLOAT_CHARS_MAX: Final = 64

# Consumes whole strings (closed or not) so that nothing inside them is counted; possessive, hence linear.
_STRING_OR_MARK: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class StrictJsonError(ValueError):
    """The bytes are not JSON as this module understands it. The message never repeats them."""


def loads(
    raw: bytes,
    *,
    bytes_max: int = BYTES_MAX,
    depth_max: int = DEPTH_MAX,
    values_max: int | None = None,
    allow_floats: bool = False,
) -> JsonValue:
    """Parse `raw` or raise StrictJsonError. Numbers with a fraction or exponent pass only with `allow_floats`."""
    if len(raw) > bytes_max:
        raise StrictJsonError("too large")
    _check_structure(raw, depth_max, values_max)
    try:
        text = raw.decode("utf-8")
        value: JsonValue = json.loads(
            text,
            object_pairs_hook=_unique_members,
            parse_int=_bounded_integer,
            parse_float=_finite_float if allow_floats else _refuse("fraction or exponent"),
            parse_constant=_refuse("NaN or Infinity"),
        )
    except StrictJsonError:
        raise
    except (ValueError, RecursionError):  # includes UnicodeDecodeError, JSONDecodeError and a byte order mark
        raise StrictJsonError("not JSON in UTF-8") from None
    if _SURROGATE_ESCAPE.search(raw):
        _check_surrogates(value)
    return value


def load_object(raw: bytes, *, bytes_max: int = BYTES_MAX, depth_max: int = DEPTH_MAX) -> dict[str, JsonValue]:
    """As `loads`, for input that must be a JSON object."""
    value = loads(raw, bytes_max=bytes_max, depth_max=depth_max)
    if not isinstance(value, dict):
        raise StrictJsonError("not an object")
    return value


def canonical(value: JsonValue) -> bytes:
    """One spelling per value: sorted members, no spaces, ASCII.

    For the values of this package (ASCII names, integers, booleans) this equals RFC 8785.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def _check_structure(raw: bytes, depth_max: int, values_max: int | None) -> None:
    """Whatever opens or is set off by a comma is a value, and few more are possible."""
    depth, values = 0, 1
    for match in _STRING_OR_MARK.finditer(raw):
        first = raw[match.start()]
        if first in b"[{":
            depth += 1
            values += 1
        elif first in b"]}":
            depth -= 1
        elif first in b",":
            values += 1
        if not 0 <= depth <= depth_max:
            raise StrictJsonError("nested too deeply, or not JSON")
        if values_max is not None and values > values_max:
            raise StrictJsonError("too many values")


def _unique_members(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise StrictJsonError("duplicate member")
    return members


def _bounded_integer(digits: str) -> int:
    if len(digits) > _INTEGER_CHARS_MAX or abs(value := int(digits)) > INTEGER_MAX:
        raise StrictJsonError("integer out of range")
    return value


def _finite_float(digits: str) -> float:
    if len(digits) > _FLOAT_CHARS_MAX or not math.isfinite(value := float(digits)):
        raise StrictJsonError("number out of range")
    return value


def _refuse(what: str) -> Callable[[str], NoReturn]:
    def refuse(_: str) -> NoReturn:
        raise StrictJsonError(f"{what} not allowed")

    return refuse


def _check_surrogates(value: JsonValue) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise StrictJsonError("lone surrogate") from None
