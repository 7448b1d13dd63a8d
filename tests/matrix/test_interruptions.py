"""Whatever comes between the steps of a publication: held, undone, finished or asked, and nobody's words are lost."""

from pathlib import Path

import pytest

from tests.integration import passage as at
from tests.matrix.interruptions import PLACES, SAMPLE, TABLE, Cell, Outcome, cells, played

ROWS = [pytest.param(*row, id=f"{row[0]}{', update' if row[1] else ''}") for row in SAMPLE]


@pytest.mark.behaviour("incident.64")
@pytest.mark.behaviour("interruption.right-outcome")
@pytest.mark.parametrize(("interruption", "over"), ROWS)
async def test_whatever_comes_right_before_a_fence_has_its_outcome_and_no_other(
    tmp_path: Path, interruption: str, over: bool
) -> None:
    places = SAMPLE[interruption, over]
    row = [cell for cell in cells(interruption, over=over) if cell.place in places]
    assert len(row) == len(places)
    found = await played(tmp_path / "row", row)
    assert {cell.name: wrong for cell, wrong in found.items() if wrong} == {}


@pytest.mark.behaviour("incident.64")
def test_the_sample_holds_every_interruption_every_step_and_gate_and_every_outcome() -> None:
    sample = [Cell(interruption=name, place=place, over=over) for (name, over), row in SAMPLE.items() for place in row]
    assert {cell.interruption for cell in sample} == set(TABLE)
    assert {cell.operation for cell in sample} == {*PLACES, at.UPDATE}
    assert {cell.outcome for cell in sample} == set(Outcome)
