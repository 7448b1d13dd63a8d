"""The state diagram of the README is generated from the transition table."""

import re

from execution.core.transitions import diagram
from tests.repo.tree import text


def test_the_diagram_in_the_readme_is_the_transition_table() -> None:
    shown = re.search(r"```mermaid\n(.*?)\n```", text("README.md"), re.DOTALL)
    assert shown is not None
    assert shown.group(1) == diagram()
