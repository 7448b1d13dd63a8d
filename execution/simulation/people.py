"""The operator, who approves and rules, and the people who work at the site with their own hands."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from capabilities import base64url
from capabilities.keys import OperatorKey, sign_approval
from execution import acts
from execution.approvers import Approver, approval_statement
from execution.core.command import Approval, Review, Saga
from execution.core.draft import Unit
from execution.core.states import ApprovalState, ReviewKind, Settlement, Verdict
from execution.operations import OperationRefused, Operations
from execution.simulation.chance import seeded
from execution.simulation.scenario import Act, Answer, Fault, Rules

if TYPE_CHECKING:
    from execution.simulation.actors import Actors
    from execution.simulation.run import Schedule

OPERATOR: Final = "op:ann"
_KEY: Final = OperatorKey(name="ann", private=Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
APPROVERS: Final = {OPERATOR: Approver(key=_KEY.public_key())}
"""Whom the workers believe."""
RULINGS_MAX: Final = 5
"""How often the operator tries to answer one question."""
LOOKS_MAX: Final = 40


class People:
    """See the module. `ruled` holds commands about which a person decided."""

    def __init__(self, schedule: Schedule, actors: Actors) -> None:
        self._at = schedule
        self._actors = actors
        self._rng = seeded(f"{schedule.scenario.seed} people")
        self._asked: set[str] = set()
        self._tries: Counter[str] = Counter()
        self.ruled: dict[str, str] = {}

    def start(self) -> None:
        """Watch what is written for questions."""
        self._at.witness.on_written = self._written

    def went_back(self, sagas: Sequence[Saga]) -> None:
        """What was answered since the backup is asked again."""
        for saga in sagas:
            self._asked.difference_update(approval.approval_id for approval in saga.approvals)
            self._consider_all(saga.approvals, saga.reviews)

    def _written(self, units: Sequence[Unit]) -> None:
        for unit in units:
            self._consider_all(unit.new_approvals, (*unit.new_reviews, *unit.reviews))

    def _consider_all(self, approvals: Sequence[Approval], reviews: Sequence[Review]) -> None:
        for approval in approvals:
            if approval.state is ApprovalState.PENDING and approval.approval_id not in self._asked:
                self._asked.add(approval.approval_id)
                self._actors.do(self._at.scenario.answer_s, partial(self._answer, approval))
        for review in reviews:
            if review.closed_at_ms is None and review.verdict is None:
                self._consider(review)

    # -- approvals -------------------------------------------------------------------------------------------------

    async def _answer(self, approval: Approval) -> None:
        match self._at.scenario.answer:
            case Answer.APPROVE:
                await self._approve(approval)
            case Answer.REJECT:
                await self._reject(approval)
            case Answer.IGNORE:
                return
            case Answer.WITHDRAW:
                await self._approve(approval)
                await asyncio.sleep(self._rng.random() * 2.0)
                await self._reject(approval)
            case Answer.WRONG_HASH:
                await self._approve_as(approval, "0" * 64)
                await self._approve(approval)

    async def _approve(self, approval: Approval) -> None:
        self._at.witness.said_yes.add((approval.approval_id, approval.content_hash))
        await self._approve_as(approval, approval.content_hash)

    async def _approve_as(self, approval: Approval, content_hash: str) -> None:
        signature = base64url.encode(sign_approval(_KEY, approval_statement(approval, OPERATOR)))
        await self._actors.insist(
            lambda gateway: gateway.operations.approve(
                approval.root_id, content_hash=content_hash, operator=OPERATOR, signature=signature
            )
        )

    async def _reject(self, approval: Approval) -> None:
        await self._actors.insist(
            lambda gateway: _done(gateway.operations.reject(approval.root_id, operator=OPERATOR, reason="no"))
        )

    async def cancel(self, where: float) -> None:
        """Cancel one of the commands."""
        roots = self._actors.roots
        if roots:
            root_id = roots[int(where * len(roots))]
            await self._actors.insist(
                lambda gateway: _done(gateway.operations.cancel(root_id, operator=OPERATOR, reason="stop"))
            )

    # -- rulings ---------------------------------------------------------------------------------------------------

    def _consider(self, review: Review) -> None:
        if self._at.scenario.rules is Rules.SILENT or self._tries[review.review_id] >= RULINGS_MAX:
            return
        self._tries[review.review_id] += 1
        self._actors.do(1.0 + self._rng.random() * 8.0, partial(self._rule, review))

    async def _rule(self, review: Review) -> None:
        for _ in range(LOOKS_MAX):
            if not self._cannot_know_yet(review):
                break
            await asyncio.sleep(5.0)
        verdict = self._verdict(review)
        answer = await self._actors.insist(lambda gateway: self._request(gateway.operations, review, verdict))
        if not isinstance(answer, OperationRefused):
            self.ruled[review.command_id] = verdict

    async def _request(self, operations: Operations, review: Review, verdict: Verdict) -> Review:
        at_ms = self._at.clock.now_ms()
        act = acts.ruling(review.review_id, verdict=verdict, reason="looked", by=OPERATOR, at_ms=at_ms)
        signature = acts.signed(act, _KEY).signature
        return await operations.request_ruling(
            review.review_id, verdict=verdict, operator=OPERATOR, reason="looked", at_ms=at_ms, signature=signature
        )

    def _cannot_know_yet(self, review: Review) -> bool:
        """Where nobody declares how long a request may run, a person waits until nothing is on its way."""
        open_ones = [
            attempt
            for attempt in self._at.witness.attempts.values()
            if attempt.command_id == review.command_id and attempt.settlement is Settlement.OPEN
        ]
        unknown = any(attempt.quiescent_after_s is None for attempt in open_ones)
        return unknown and bool(self._at.world.log.in_flight)

    def _verdict(self, review: Review) -> Verdict:
        offered = tuple(Verdict(name) for name in review.verdicts.split(","))
        mail = self._at.witness.rows[review.command_id].target_system == "mail"
        if review.kind is ReviewKind.OUTCOME_UNKNOWN and (mail or self._at.scenario.rules is Rules.HONEST):
            return Verdict.PRESENT if self._landed(review.command_id) else Verdict.ABSENT
        if mail and self._landed(review.command_id):
            return Verdict.ABANDON if Verdict.ABANDON in offered else offered[0]
        return offered[int(self._rng.random() * len(offered))]

    def _landed(self, command_id: str) -> bool:
        key = self._at.witness.rows[command_id].idempotency_key
        digests = {a.request_digest for a in self._at.witness.every_attempt() if a.idempotency_key == key}
        return any(effect.digest in digests for effect in self._at.world.log.effects)

    # -- the site --------------------------------------------------------------------------------------------------

    def at_site(self, fault: Fault) -> None:
        """Somebody edits, trashes or publishes by hand."""
        site = self._at.world.site
        if fault.act is Act.SQUAT:
            site.person_creates("tea")
            return
        ours = [post for post in site.posts.values() if post.owner == "remit"]
        if ours:
            post = ours[int(fault.pick * len(ours))]
            site.person_writes(post.post_id, fault.act)


async def _done(work: Any) -> bool:
    await work
    return True
