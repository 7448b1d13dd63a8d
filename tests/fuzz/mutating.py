"""Changes JSON as JSON: bytes alone hardly ever make another document of it, and so never get behind the parser."""

import json
from random import Random
from typing import Any, Final

STRANGE: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 1.5, 2**53, 2**63, 10**30, float("nan"), float("inf")),
    *("", "0", "1", "*", "..", "a/b", "a/*", "é", "\u202e", "\0", "\ud800", "x" * 65, "tok_", "site/blog/*"),
    *([], {}, [[]], [{}], {"": None}),
)


def mutated(data: bytes, seed: int) -> bytes | None:
    """The document with one thing changed; None when it is no document."""
    rng = Random(seed)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    places = list(_places(value))
    if not places:
        return json.dumps(rng.choice(STRANGE)).encode()
    inside, key = rng.choice(places)
    match rng.randrange(4):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, dict):
            inside[rng.choice([*inside, "x", ""])] = inside[key]
        case 2:
            other, at = rng.choice(places)
            inside[key] = json.loads(json.dumps(other[at]))
        case _:
            inside[key] = rng.choice(STRANGE)
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _places(value: Any) -> Any:
    """Every container and key below the document."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])
