"""Filing what an audit found: one guarded commit on the saga, beside whoever drives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from execution.core.apply import sighting_body
from execution.core.auditing import Oddity, asked_before
from execution.core.command import Saga
from execution.core.draft import Draft
from execution.core.events import Fact
from execution.core.horizon import Horizon, asking, open_review
from execution.core.states import Blocker, ReviewKind, State
from execution.looking import Look
from execution.ports import Clock, Ids
from execution.store import registry
from execution.store.errors import Stale
from execution.store.writer import Store

TRIES: Final = 20
OWNER: Final = "operators"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Opens typed reviews. `actor`: who audits (an operator, or a worker)."""

    store: Store
    clock: Clock
    ids: Ids
    actor: str

    async def ask(self, root_id: str, command_id: str, oddity: Oddity, look: Look | None = None) -> str | None:
        """The id of the question about it, an old one or a new one; None when the saga never came to rest."""
        for _ in range(TRIES):
            saga = await self.store.hot(lambda conn: registry.load_saga(conn, root_id))
            if asked_before(saga, command_id, oddity):
                return question_about(saga, command_id, oddity)
            draft = Draft(saga, actor=self.actor, now_ms=self.clock.now_ms())
            _file(draft, command_id, oddity, look, asking(draft.now_ms, self.ids.new, OWNER))
            try:
                await self.store.commit(draft.unit())
            except Stale:
                continue
            return question_about(draft.committed(), command_id, oddity)
        return None


def question_about(saga: Saga, command_id: str, oddity: Oddity) -> str | None:
    """The newest review of that kind about that command."""
    about = [r.review_id for r in saga.reviews if r.command_id == command_id and r.kind is oddity.kind]
    return about[-1] if about else None


def _file(draft: Draft, command_id: str, oddity: Oddity, look: Look | None, at: Horizon) -> None:
    facts = dict(oddity.facts)
    if look is not None:
        body = sighting_body(look.sighting, source=look.system, asked_at_ms=look.asked_at_ms, purpose="audit")
        draft.note(command_id, Fact.OBSERVED, body)
    draft.note(command_id, Fact.FINDING_ADDED, {"kind": oddity.kind, **facts})
    if oddity.kind is ReviewKind.DRIFT and draft.row(command_id).state is State.SUCCESS:
        draft.set(command_id, verified_at_ms=None)
    open_review(draft, command_id, oddity.kind, facts, at)
    draft.block(Blocker.FINDING_OPEN)
