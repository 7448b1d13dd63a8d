"""Whatever an agent is told, it cannot be read as published when it is not, nor as failed when something exists."""

from pathlib import Path

import pytest

from execution import sentences
from tests.evals.every import SITUATIONS
from tests.evals.situations import Situation, play
from tests.evals.table import table

SITUATIONS_MIN = 50


@pytest.mark.behaviour("answers.honest")
@pytest.mark.parametrize("found", SITUATIONS.values(), ids=lambda found: found.name)
async def test_no_answer_can_be_misread_in_this_situation(found: Situation, tmp_path: Path) -> None:
    rows = await play(found, tmp_path)
    assert not [row for row in rows if row.wrong], "\n" + table(rows)


def test_there_are_as_many_situations_as_promised() -> None:
    assert len(SITUATIONS) >= SITUATIONS_MIN


LIES = {
    "pivot in doubt before quiescence": ("_finding_out", lambda word: "It is online."),
    "rejected with a reason": ("_still", lambda *args, **more: "The article is live."),
    "the undoing fails, and the draft is left there": ("_left_behind", lambda saga: ""),
    "published, then trashed by a person": ("_seen", lambda saga, told: "It is online."),
    "published, the message was refused": ("_seen", lambda saga, told: "Nothing was published."),
    "in progress: publish": ("next_action", lambda word, done, ruled, error_code=None: "stop" if done else "fix_input"),
}
"""What a careless change would make Remit say, and a situation in which it would be a lie. (The world itself stops at
the plainest lies; these are for the judge.)"""


@pytest.mark.behaviour("answers.honest")
@pytest.mark.parametrize("name", LIES)
async def test_a_lying_sentence_is_caught(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoken, lie = LIES[name]
    monkeypatch.setattr(sentences, spoken, lie)
    if spoken == "next_action":
        monkeypatch.setattr("execution.status.next_action", lie)
    rows = await play(SITUATIONS[name], tmp_path)
    assert [row for row in rows if row.wrong], "\n" + table(rows)
