"""The recorded answers as a table."""

from collections.abc import Iterable
from typing import Final

from tests.evals.play import Row

HEAD: Final = ("situation", "point", "state", "live", "done", "next_action", "concise", "detailed", "verdict")


def table(rows: Iterable[Row]) -> str:
    """One line per answer; what was wrong with it follows below the line."""
    rows = list(rows)
    cells = [HEAD, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    lines = [_line(HEAD, widths)]
    for row in rows:
        lines.append(_line(_cells(row), widths))
        lines += [f"    {fault}" for fault in row.wrong]
        lines += [f"    said: {row.says}"] if row.wrong else []
    return "\n".join(lines)


def summary(rows: Iterable[Row]) -> str:
    """How many of what."""
    rows = list(rows)
    concise = max(row.concise for row in rows)
    detailed = max(row.detailed or 0 for row in rows)
    return (
        f"{len({row.situation for row in rows})} situations, {len(rows)} answers, "
        f"{sum(bool(row.wrong) for row in rows)} wrong; largest: {concise} tokens concise, {detailed} detailed"
    )


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.situation,
        row.point,
        row.state,
        _word(row.live),
        _word(row.done),
        row.next_action,
        str(row.concise),
        "-" if row.detailed is None else str(row.detailed),
        "WRONG" if row.wrong else "right",
    )


def _word(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "no"


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
