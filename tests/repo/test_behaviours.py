"""The manifest of required behaviours and the tests are tied in both directions."""

import ast
import re
from collections.abc import Iterator

from tests.behaviours import BEHAVIOURS
from tests.repo.tree import dotted, modules, parsed
from tests.threats import INCIDENTS, NOT_HERE, THREATS, THREATS_COUNT


def marked(tree: ast.AST) -> Iterator[str]:
    """Ids named by `pytest.mark.behaviour(...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func) == "pytest.mark.behaviour":
            yield from (
                name.value for name in node.args if isinstance(name, ast.Constant) and isinstance(name.value, str)
            )


def shown() -> set[str]:
    return {name for path in modules("tests") for name in marked(parsed(path))}


def test_every_required_behaviour_is_shown_by_a_test() -> None:
    assert set(BEHAVIOURS) - shown() == set()


def test_every_threat_is_shown_by_a_test_or_has_its_reason() -> None:
    numbered = {f"threat.{number}" for number in range(1, THREATS_COUNT + 1)}
    assert set(THREATS) | set(NOT_HERE) == numbered | {f"incident.{number}" for number in INCIDENTS}
    assert set(THREATS) & set(NOT_HERE) == set()
    assert set(THREATS) - shown() == set()
    for name, sentence in (*THREATS.items(), *NOT_HERE.items()):
        assert re.fullmatch(r"[A-Z].{20,}\.", sentence), name


def test_every_marked_behaviour_is_in_the_manifest() -> None:
    assert shown() - set(BEHAVIOURS) - set(THREATS) == set()


def test_a_mark_is_seen_wherever_it_stands() -> None:
    source = "pytestmark = [pytest.mark.behaviour('a.b')]\n@pytest.mark.behaviour('c')\ndef test_it(): ..."
    assert set(marked(ast.parse(source))) == {"a.b", "c"}


def test_each_behaviour_is_a_sentence_with_a_source() -> None:
    for name, behaviour in BEHAVIOURS.items():
        assert re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", name)
        assert behaviour.sentence.endswith("."), name
        assert behaviour.source, name
