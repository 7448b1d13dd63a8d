"""SQL stands where it is expected, and never has values pasted into it."""

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.repo.tree import PRODUCT, dotted, modules, parsed

ALLOWED: Final = ("execution/store/", "adapters/database", "adapters/sandbox/")
STATEMENT: Final = re.compile(
    r"\s*(SELECT\s+(\S+,|\S+\s+FROM\b|\*|1\b|count)|INSERT\s+(OR\s+\w+\s+)?INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s"
    r"|CREATE\s+(UNIQUE\s+)?(TABLE|INDEX|VIEW|TRIGGER)\s|ALTER\s+TABLE\s|DROP\s+(TABLE|INDEX)\s|PRAGMA\s+\w|BEGIN\s+IMMEDIATE)",
    re.IGNORECASE,
)


def docstrings(tree: ast.AST) -> set[ast.expr]:
    """String expressions that stand alone: documentation, not data."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def sql_strings(tree: ast.AST) -> Iterator[int]:
    prose = docstrings(tree)
    for node in ast.walk(tree):
        if (isinstance(node, ast.expr) and node not in prose and starts_as_sql(node)) or (
            isinstance(node, ast.Call) and dotted(node.func) in {"sqlalchemy.text", "sa.text"}
        ):
            yield node.lineno


def starts_as_sql(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(STATEMENT.match(node.value))


def pasted_sql(tree: ast.AST) -> Iterator[int]:
    """Lines where a value is pasted into a statement: f-string, `%`, `+`, `.format`."""
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=[first, *rest]) if rest and starts_as_sql(first):
                yield node.lineno
            case ast.BinOp(left=left, op=ast.Mod() | ast.Add()) if starts_as_sql(left):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=value, attr="format")) if starts_as_sql(value):
                yield node.lineno
            case _:
                pass


def test_no_sql_outside_the_store_and_the_database_adapter() -> None:
    elsewhere = [path for path in modules(*PRODUCT) if not path.startswith(ALLOWED)]
    assert {path: lines for path in elsewhere if (lines := list(sql_strings(parsed(path))))} == {}


@pytest.mark.behaviour("threat.38")
def test_no_value_is_pasted_into_a_statement() -> None:
    assert {path: lines for path in modules(*PRODUCT) if (lines := list(pasted_sql(parsed(path))))} == {}


@pytest.mark.parametrize(
    "source",
    [
        'f"SELECT a FROM {t}"',
        '"DELETE FROM t WHERE a = %s" % a',
        '"UPDATE t SET a = " + a',
        '"PRAGMA x = {}".format(a)',
    ],
)
def test_every_way_to_paste_is_seen(source: str) -> None:
    assert list(pasted_sql(ast.parse(f"x = {source}"))) == [1]
