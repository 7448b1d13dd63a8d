"""Facts that reach us from outside: what they say about an effect, and whether that contradicts how it ended. Pure.

A fact is evidence and nothing else: it moves no command, proves nothing by itself and is never taken for a receipt.
While a command is on its way, its own reads decide. Once it has ended, a fact that says otherwise is a question for a
person.
"""

from __future__ import annotations

from enum import StrEnum

from execution.core.command import Command, Saga
from execution.core.states import TERMINAL, CompensationState, EffectClass, State


class Says(StrEnum):
    """What a fact says about an effect: it is there (a message arrived), or it is not (a message bounced)."""

    THERE = "there"
    GONE = "gone"


def concerned(saga: Saga, command_id: str, step: str = "") -> Command | None:
    """The row that a fact about that command is about: the step that is named, else the pivot."""
    if step:
        return next((row for row in saga.members if row.command_type == step), None)
    row = saga.member(command_id)
    if not row.is_root:
        return row
    return next((each for each in saga.members if each.effect_class is EffectClass.PIVOT), None)


def contradicts(saga: Saga, row: Command, says: Says, *, replaced: bool) -> bool:
    """Whether it says other than how the effect ended. replaced: another command has written in its place since."""
    expected = _expected(saga, row, replaced=replaced)
    return expected is not None and says is not expected


def _expected(saga: Saga, row: Command, *, replaced: bool) -> Says | None:
    """What is true of the effect as far as we know; None while it is on its way, or is not ours alone to say."""
    moved_on = replaced or (row.effect_class is EffectClass.COMPENSABLE and _landed(saga))
    if row.state is State.SUCCESS:
        if row.compensation_state is CompensationState.DONE:
            return Says.GONE
        undoing = row.compensation_state is not CompensationState.NOT_NEEDED
        return None if undoing or moved_on else Says.THERE
    over = row.state in TERMINAL or (row.state is State.AUTHORIZED and saga.root.is_terminal)
    return Says.GONE if over and not moved_on else None


def _landed(saga: Saga) -> bool:
    """Past its pivot: what was prepared for it has become something else."""
    return any(row.effect_class is EffectClass.PIVOT and row.state is State.SUCCESS for row in saga.members)
