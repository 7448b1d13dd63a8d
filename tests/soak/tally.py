"""What many rounds left in the systems: counted there, against one of each for every version that was acknowledged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.stage.judging import Report
from tests.stage.sandbox import Outside

LATER: Final = "message"
"""May be missing where a person was asked about it: the round's judge sees to that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """version: how many were accepted and published, none when it was undone. No report: it did not get so far."""

    version: int
    report: Report | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Of all rounds. wrong: rounds in which anything at all was not as it has to be, these three among it."""

    rounds: int
    sprung: int
    effects: int
    duplicates: int
    lost: int
    stuck: int
    wrong: int

    @property
    def right(self) -> bool:
        return not (self.duplicates or self.lost or self.stuck or self.wrong)

    @property
    def text(self) -> str:
        return (
            f"{self.rounds} rounds, {self.sprung} reached their instant, {self.effects} effects counted outside\n"
            f"duplicates {self.duplicates}, lost {self.lost}, stuck {self.stuck}, wrong {self.wrong}"
        )


def counted(outside: Outside) -> Mapping[str, int]:
    """How many of each thing exist that every published version has once."""
    return {
        "branch": len(outside.branches),
        "commit": outside.commits,
        "image": len(outside.images),
        "draft": outside.writes.get("POST /wp-json/wp/v2/posts", 0),
        "row": len(outside.rows),
        LATER: len(outside.mails),
    }


def tally(rounds: Sequence[Round]) -> Tally:
    """Count. What was undone may leave one draft in the trash, one cancelled row and an unnamed commit behind."""
    effects = duplicates = lost = 0
    for played in rounds:
        if played.report is None:
            continue
        outside, most = played.report.outside, max(1, played.version)
        found = counted(outside)
        effects += sum(found.values()) + len(outside.live)
        duplicates += sum(max(0, number - most) for number in found.values()) + max(0, len(outside.live) - 1)
        lost += sum(max(0, played.version - number - (thing == LATER)) for thing, number in found.items())
        lost += played.version > 0 and not outside.live
    reports = [played.report for played in rounds if played.report is not None]
    return Tally(
        rounds=len(rounds),
        sprung=sum(report.sprung for report in reports),
        effects=effects,
        duplicates=duplicates,
        lost=lost,
        stuck=len(rounds) - len(reports),
        wrong=sum(bool(report.wrong) for report in reports),
    )
