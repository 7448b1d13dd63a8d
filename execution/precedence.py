"""Which of two sagas about one object gives way.

A later version takes the place of an earlier one that has not reached its pivot's fence; a withdrawal takes the place
of any publication that has not; nothing takes the place of a withdrawal. What is past its pivot's fence is never given
up: while nobody knows whether it landed, whatever comes after it has to be proposed again.
"""

from __future__ import annotations

from execution.catalog import Catalog, Intent
from execution.core.command import Command
from execution.core.states import Phase
from execution.history import History
from execution.proposal import IntakeRefused


def giving_way(history: History, intent: Intent, version: int, catalog: Catalog) -> tuple[Command, ...]:
    """The roots that are to turn back for it. Raises IntakeRefused when it is too late or must wait."""
    for root in history.unfinished:
        if _takes_down(root, catalog):
            raise IntakeRefused("withdrawal_under_way", field="version", retryable=True)
        if root.object_version > version and not intent.definition.takes_down:
            raise IntakeRefused("stale_version", field="version", limit=root.object_version, actual=version)
        if root.phase is Phase.POST_PIVOT and root.command_id != history.previous.command_id:
            raise IntakeRefused("earlier_version_in_doubt", field="version", retryable=True)
    return tuple(root for root in history.unfinished if root.phase is Phase.PRE_PIVOT and root.ending is None)


def _takes_down(root: Command, catalog: Catalog) -> bool:
    definition = catalog.find(root.command_type, root.definition_version)
    return definition is not None and definition.takes_down
