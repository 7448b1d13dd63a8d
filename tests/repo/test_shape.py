"""Limits on size, names and handlers: what grows out of them is noticed by whoever makes it grow."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

import pytest

from tests.repo.tree import PRODUCT, comments, dotted, functions, modules, parsed, text

FUNCTION_LINES_MAX: Final = 70
MODULE_LINES_MAX: Final = 400
NAMES_THAT_SAY_NOTHING: Final = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "shared"})
BROAD: Final = frozenset({"Exception", "BaseException"})
# The only places that may catch everything, one handler each.
BROAD_HANDLERS: Final = {
    "execution/performer.py": "an attempt turns into an event: whatever it raised, its outcome is unknown",
    "server/protocol.py": "a call turns into an answer: what the server failed with is not for its client to read",
}
# Clock, randomness and ids enter here and are handed on.
AMBIENT: Final = re.compile(
    r"(datetime\.)?datetime\.(now|utcnow|today)|(datetime\.)?date\.today"
    r"|time\.(time|time_ns|monotonic|monotonic_ns|clock_gettime|clock_gettime_ns)"
    r"|random\.\w+|secrets\.\w+|uuid\.uuid[147]|os\.urandom"
)
AMBIENT_ALLOWED: Final = {
    "server/app.py": "the composition root",
    "adapters/wordpress_rest.py": "a cache-busting parameter; nothing depends on its value",
    "adapters/public_pages.py": "a parameter that leads past a cache; nothing depends on its value",
    "execution/simulation/": "a composition root of its own: chance is seeded, time is virtual",
    "adapters/sandbox/": "the sandbox stands for the world outside, which has clocks of its own",
}
SUPPRESSION: Final = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:\s*no cover|nosec|mypy:)")
REASONED: Final = re.compile(
    r"#\s*(noqa: [A-Z0-9]+(, ?[A-Z0-9]+)*|type: ignore\[[a-z-]+(, ?[a-z-]+)*\])\s*\W?\s*\w.{7,}"
)


def test_no_function_is_longer_than_a_screen() -> None:
    sizes = {
        f"{path}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in modules(*PRODUCT)
        for node in functions(path)
    }
    assert {name: size for name, size in sizes.items() if size > FUNCTION_LINES_MAX} == {}


def test_no_module_outgrows_its_limit() -> None:
    sizes = {path: len(text(path).splitlines()) for path in modules(*PRODUCT)}
    assert {path: size for path, size in sizes.items() if size > MODULE_LINES_MAX} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    said = {path: set(PurePosixPath(path).with_suffix("").parts) for path in modules(*PRODUCT, "tests")}
    assert [path for path, parts in said.items() if parts & NAMES_THAT_SAY_NOTHING] == []


def raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def broad_handlers(tree: ast.AST) -> Iterator[int]:
    """Lines of handlers that end what they catch, and catch everything: bare, `Exception`, `BaseException`.

    A handler that cleans up and raises again ends nothing.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and not raises_again(node):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(kind is None or dotted(kind).removeprefix("builtins.") in BROAD for kind in caught):
                yield node.lineno
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("suppress"):
            yield from (node.lineno for kind in node.args if dotted(kind) in BROAD)


def test_everything_is_caught_in_one_place_only() -> None:
    found = {path: list(broad_handlers(parsed(path))) for path in modules(*PRODUCT)}
    assert {path: lines for path, lines in found.items() if len(lines) != (path in BROAD_HANDLERS)} == {}


@pytest.mark.parametrize(
    "source",
    ["except:", "except Exception:", "except (ValueError, BaseException) as error:", "except builtins.Exception:"],
)
def test_every_way_to_catch_everything_is_seen(source: str) -> None:
    assert list(broad_handlers(ast.parse(f"try:\n    pass\n{source}\n    pass"))) == [3]


def test_clock_and_chance_enter_in_the_composition_root_only() -> None:
    inner = [path for path in modules(*PRODUCT) if not path.startswith(tuple(AMBIENT_ALLOWED))]
    named = [(path, node) for path in inner for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute)]
    assert [f"{path}:{node.lineno} {dotted(node)}" for path, node in named if AMBIENT.fullmatch(dotted(node))] == []


def test_each_suppressed_warning_carries_its_reason() -> None:
    written = [(path, line, comment) for path in modules(*PRODUCT, "tests") for line, comment in comments(path)]
    suppressed = [found for found in written if SUPPRESSION.search(found[2])]
    assert [found for found in suppressed if not REASONED.search(found[2])] == []


def test_test_names_are_sentences_and_tests_do_not_sleep() -> None:
    tests = [path for path in modules("tests") if PurePosixPath(path).name.startswith("test_")]
    names = [(path, node.name) for path in tests for node in functions(path) if node.name.startswith("test_")]
    assert [found for found in names if found[1].count("_") < 3] == []
    calls = [(path, node) for path in tests for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
    assert [f"{path}:{node.lineno}" for path, node in calls if dotted(node.func) == "time.sleep"] == []


SENDING: Final = {
    "prepared.send": {
        "execution/performer.py": "the one sender of the engine",
        "server/alerting.py": "tells people about questions, and touches nothing that is published",
    },
    "env.performer.send": {"execution/attempting.py": "after its fence"},
}


@pytest.mark.behaviour("incident.64")
def test_nothing_is_sent_but_by_the_one_function_that_commits_a_fence_first() -> None:
    """So a new system is under it too, whatever its adapter can do."""
    for name, allowed in SENDING.items():
        calls = {path for path in modules(*PRODUCT) for found in called(parsed(path)) if found == name}
        assert {path for path in calls if not path.startswith("execution/simulation/")} == set(allowed), name
    attempting = {node.name: list(called(node)) for node in functions("execution/attempting.py")}
    (sender,) = [calls for calls in attempting.values() if "env.performer.send" in calls]
    assert "_fence" in sender[: sender.index("env.performer.send")]


def called(tree: ast.AST) -> Iterator[str]:
    """What is called, in the order in which it stands."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    yield from (dotted(node.func) or "" for node in sorted(calls, key=lambda node: (node.lineno, node.col_offset)))
