"""The README's promises are the simulation's checkers: one row for each, by its very name."""

from pathlib import Path

import pytest

from execution.simulation.witness import Law

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("law", sorted(Law))
def test_each_checker_stands_in_the_table_of_promises(law: Law) -> None:
    rows = [line for line in README.read_text().splitlines() if line.startswith("| ") and f"| {law} |" in line]
    assert len(rows) == 1, law
