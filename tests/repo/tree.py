"""What the repository's tests about itself look at: tracked files, parsed modules, comments."""

import ast
import functools
import io
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("server", "capabilities", "execution", "adapters")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def files() -> tuple[str, ...]:
    """Paths of what is, or is about to be, under version control."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return tuple(sorted({path for path in listed if (ROOT / path).is_file()}))


def modules(*tops: str) -> tuple[str, ...]:
    """Python files below the top-level folders `tops`."""
    return tuple(path for path in files() if path.endswith(".py") and path.split("/")[0] in tops)


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


@functools.cache
def parsed(path: str) -> ast.Module:
    return ast.parse(text(path), filename=path)


def functions(path: str) -> Iterator[Function]:
    return (node for node in ast.walk(parsed(path)) if isinstance(node, Function))


def comments(path: str) -> Iterator[tuple[int, str]]:
    """(line, comment) for each comment; strings that look like one do not count."""
    for token in tokenize.generate_tokens(io.StringIO(text(path)).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def dotted(node: ast.expr) -> str:
    """`a.b.c` of such an expression, else the empty string."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute) if prefix := dotted(value):
            return f"{prefix}.{attribute}"
        case _:
            return ""
