"""The eleven questions that a status answers, each compared with what is true at that instant, or with what came after.

Has it executed · what succeeded · what remains · is the outcome unknown · may it be retried · does it go on · does it
turn back · is it undone · did reality diverge · can it resume · must a person act. The truth is the modelled systems'
own history, what is still on its way to them, and whom the journal asks; never the answer's own arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from execution.core.command import Command, Saga
from execution.core.states import IN_DOUBT, ApprovalState, Blocker, CompensationState, State
from execution.proposal import CommandView
from execution.simulation.wire import Effect
from execution.simulation.world import World

DRAFT: Final = "CREATE_WORDPRESS_DRAFT"
PIVOT: Final = "PUBLISH_WORDPRESS_POST"
LEAVE_SOMETHING: Final = frozenset(
    {DRAFT, "STAGE_PUBLICATION_RECORD", PIVOT, "RECORD_PUBLICATION", "SEND_NOTIFICATION"}
)
"""Steps whose effect can be found in the systems' history by the digest of their requests."""
KEPT_BY_KEY: Final = frozenset({"STAGE_PUBLICATION_RECORD", "RECORD_PUBLICATION"})
"""Steps whose system takes the same write twice and changes nothing the second time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One answer with the journal it was made from. ruled: commands about which a person decided. forgotten: what a
    journal that was put back does not know any more, the digests of requests by their key."""

    view: CommandView
    saga: Saga
    world: World
    ruled: Collection[str]
    forgotten: Mapping[str, frozenset[str]]

    def digests(self, row: Command) -> frozenset[str]:
        known = frozenset(attempt.request_digest for attempt in self.saga.attempts_of(row.command_id))
        return known | self.forgotten.get(row.idempotency_key, frozenset())

    def landed(self, row: Command) -> list[Effect]:
        """What that row's requests did."""
        digests = self.digests(row)
        return [effect for effect in self.world.log.effects if effect.by == "remit" and effect.digest in digests]

    def stands(self, row: Command) -> bool:
        """Whether the draft or the publication of that row is there, untouched by people."""
        if row.command_type == DRAFT:
            made = [self.world.post(e.now) for e in self.landed(row) if e.operation == "create_draft"]
            return any(post is not None and post.status != "trash" and post.owner == "remit" for post in made)
        return row.command_type == PIVOT and self.world.is_live(self.digests(row))

    @property
    def steps(self) -> tuple[Command, ...]:
        """Forward rows that leave something behind and that only the engine decided about."""
        rows = (row for row in self.saga.members if row.command_type in LEAVE_SOMETHING)
        return tuple(row for row in rows if row.command_id not in self.ruled)


def untrue(asked: Asked) -> Iterator[str]:
    """What of the answer is not so."""
    for question in (
        _executed,
        _succeeded,
        _remaining,
        _unknown,
        _retry_safe,
        _forward,
        _backward,
        _compensation,
        _diverged,
        _resumable,
        _human,
    ):
        yield from question(asked)


def _executed(asked: Asked) -> Iterator[str]:
    pivot, said = asked.saga.named(PIVOT), asked.view.answers.executed
    if pivot is None:
        return
    if said == "yes" and not asked.landed(pivot) and not asked.world.was_published_by_hand():
        yield "executed, and it never was"
    if said == "no" and asked.world.is_live(asked.digests(pivot)):
        yield "not executed, and it is live"


def _succeeded(asked: Asked) -> Iterator[str]:
    for row in asked.steps:
        by_hand = row.command_type == PIVOT and asked.world.was_published_by_hand()
        if row.command_type in asked.view.answers.succeeded and not asked.landed(row) and not by_hand:
            yield f"{row.command_type} succeeded, and nothing of it ever happened"


def _remaining(asked: Asked) -> Iterator[str]:
    """What is left out is over: nothing of it is on its way."""
    for row in asked.steps:
        if row.command_type in asked.view.answers.remaining and row.state is State.SUCCESS:
            yield f"{row.command_type} remains, and it succeeded"
        left_out = row.command_type not in asked.view.answers.remaining and row.state is State.FAILED
        if left_out and _on_its_way(asked, row):
            yield f"{row.command_type} does not remain, and it may still arrive"


def _unknown(asked: Asked) -> Iterator[str]:
    """An effect that stands is never denied: it is proven, in doubt, being made, being undone or asked about."""
    for row in asked.steps:
        denied = row.state in (State.AUTHORIZED, State.FAILED) and not asked.saga.open_attempts(row.command_id)
        if denied and row.command_type not in asked.view.answers.unknown and asked.stands(row):
            yield f"{row.command_type} is {row.state} without doubt, and it stands"


def _retry_safe(asked: Asked) -> Iterator[str]:
    said = asked.view.answers.retry_safe
    doubtful = [row.command_type for row in asked.saga.members if row.state in IN_DOUBT]
    if said == "automatic" and doubtful:
        yield f"retried by itself, and {doubtful} are in doubt"
    if said == "nothing_to_retry" and any(_on_its_way(asked, row) for row in asked.steps):
        yield "nothing is left to retry, and something may still arrive"


def _forward(asked: Asked) -> Iterator[str]:
    undone = [row for row in asked.saga.members if row.compensates is not None and asked.landed(row)]
    if asked.view.answers.direction == "forward" and undone:
        yield "it goes forward, and something of it was undone"


def _backward(asked: Asked) -> Iterator[str]:
    """Turning back means that nothing of it is public, and (judged at the end) that nothing will be."""
    pivot = asked.saga.named(PIVOT)
    if pivot is None or asked.saga.open_attempts(pivot.command_id) or pivot.state in IN_DOUBT:
        return
    if asked.view.answers.direction == "backward" and asked.stands(pivot):
        yield "it turns back, and it is live"


def _compensation(asked: Asked) -> Iterator[str]:
    said = asked.view.answers.compensation
    for row in asked.steps:
        if said == "done" and row.compensation_state is CompensationState.DONE and asked.stands(row):
            yield f"{row.command_type} is undone, and it stands"
    undone = [row for row in asked.saga.members if row.compensates is not None and asked.landed(row)]
    if said == "none" and undone:
        yield "nothing is undone, and something was taken back"


def _diverged(asked: Asked) -> Iterator[str]:
    log = asked.world.log
    strange = any(effect.by == "person" or effect.half for effect in log.effects)
    writers = {effect.digest for effect in log.effects if effect.by == "remit" and effect.operation == "publish"}
    if asked.view.answers.diverged and not strange and len(writers) < 2 and not asked.forgotten:
        yield "reality diverged, and nobody but this command ever wrote"


def _resumable(asked: Asked) -> Iterator[str]:
    """What is over and may still see something arrive has it on its watch list."""
    watched = any(asked.saga.open_attempts(row.command_id) for row in asked.steps)
    if not asked.view.answers.resumable and not watched and any(_on_its_way(asked, row) for row in asked.steps):
        yield "nothing is left to resume, and something unknown may still arrive"


def _human(asked: Asked) -> Iterator[str]:
    pending = any(approval.state is ApprovalState.PENDING for approval in asked.saga.approvals)
    questions = any(review.closed_at_ms is None for review in asked.saga.reviews)
    stopped = asked.saga.root.blocked_by & {Blocker.HELD, Blocker.AWAITING_AUTHORIZATION}
    if asked.view.answers.human is not None and not (pending or questions or stopped):
        yield "a person must act, and nobody is asked anything"
    if asked.view.answers.human is None and questions:
        yield "no person must act, and somebody is asked"


def _on_its_way(asked: Asked, row: Command) -> bool:
    """Whether a request of that row may still take effect: a row that stands under its key stays as it is."""
    if row.command_type in KEPT_BY_KEY and asked.landed(row):
        return False
    digests = asked.digests(row)
    flying = asked.world.log.in_flight
    return any(request.number in flying and request.request_digest in digests for request in asked.world.log.sent)
