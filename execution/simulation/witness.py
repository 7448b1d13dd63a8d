"""Laws that are judged the moment something happens: at every commit, at every send, at every status answer.

The witness sits beside the schedule. It sees each committed unit before anybody is told of it, each request at the
instant its bytes leave, and what a status answer claims against what is true at that instant.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Final

from execution.core.command import Approval, Attempt, Command, Saga
from execution.core.draft import Unit
from execution.core.events import Fact
from execution.core.quiescence import SEND_BUDGET_S
from execution.core.states import ApprovalState, EffectClass, Kind, Phase, Settlement, State
from execution.core.transitions import Trigger
from execution.proposal import CommandView
from execution.simulation.disk import Side
from execution.simulation.loop import Process
from execution.simulation.questions import Asked, untrue
from execution.simulation.wire import Request
from execution.simulation.world import World

Restrictions = Callable[[], frozenset[str]]
GrantUntil = Callable[[str], int | None]


class Law(StrEnum):
    """Names of what must hold; DESIGN words, one checker each."""

    WRITE_AHEAD = "no effect without a committed attempt with that digest"
    NO_DUPLICATE = "no duplicate effect per key"
    NOTHING_LOST = "no acknowledged command is lost"
    ONE_COMMAND = "one command per key and generation"
    CONVERGES = "everything ends, or waits with a reason and an owner"
    SUCCESS_IS_TRUE = "SUCCESS: the effect is there and equal to what was approved"
    UNWOUND_IS_TRUE = "COMPENSATED and FAILED: the effect is gone"
    NO_LIVE_TRASHED = "no live post is trashed"
    STOPS_HOLD = "nothing is sent while frozen, revoked or lapsed at its fence"
    APPROVED_BYTES = "nothing is published without an approval of exactly those bytes"
    STATUS_IS_TRUE = "status claims nothing that is untrue at that moment"
    JOURNAL_VERIFIES = "the journal verifies and replays to the registry"
    MAIL_ONCE = "mail at most once, and in review when its answer was lost"
    DOUBT_NOT_RESENT = "an irreversible step in doubt is never resent"
    EPOCHS_RISE = "epochs strictly rise, and one owner commits under each"
    NO_EARLY_RETRY = "a retry never runs early"
    BUDGETS_HOLD = "nothing is tried more often than its budget allows"
    QUARANTINE = "what ends its workers again and again is put before a person, and nothing else is"
    TOKEN_USES = "a token is used at most its uses"  # noqa: S105 (a law's name)
    NO_LOST_UPDATE = "an edit that stood before the look is never overwritten"
    LATE_IS_FILED = "what left after its time is filed as late by whoever sent it"
    GHOSTS_KNOWN = "a ghost belongs to an attempt that is not proven harmless"
    FORWARD_ONLY = "once its pivot succeeded a saga goes forward only"
    NOTHING_BREAKS = "no callback ends in an exception that nobody expected"


@dataclass(frozen=True, slots=True)
class Violation:
    """A law that did not hold."""

    law: Law
    what: str


_SENDS_WITHOUT_GRANT: Final = ("freeze:", "revoked:key:", "revoked:tenant:")


TICK_S: Final = 0.001
"""What a clock of whole milliseconds may miss."""
_BEGINS_ANEW: Final = frozenset({Trigger.RULED_CONTINUE, Trigger.RULED_ABSENT, Trigger.INCARNATION_CHANGED})
"""With one of these a person gives a step another budget."""
_ENDS_A_WAIT: Final = frozenset({Trigger.RULED_CONTINUE, Trigger.RULED_ABSENT, Trigger.DOUBT_REMAINS})


class Forgotten:
    """What a journal that was put back does not say any more. digests: of requests, by their key."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self.digests: dict[str, frozenset[str]] = {}
        self._versions: dict[str, int] = {}

    def add(self, attempts: Iterable[Attempt], rows: Mapping[str, Command], known: Collection[str]) -> None:
        """All of those attempts but the ones that are still known."""
        for attempt in attempts:
            if attempt.attempt_id in known:
                continue
            self.attempts.append(attempt)
            key, digest = attempt.idempotency_key, attempt.request_digest
            self.digests[key] = self.digests.get(key, frozenset()) | {digest}
            self._versions[digest] = rows[attempt.root_id].object_version

    def version(self, digest: str) -> int:
        """Of the article in that request, 0 when none was forgotten."""
        return self._versions.get(digest, 0)


class Witness:
    """See the module. `restrictions` and `grant_until` read the database as it stands."""

    def __init__(
        self, world: World, restrictions: Restrictions, grant_until: GrantUntil, *, honest: bool = True
    ) -> None:
        self.world = world
        self.honest = honest
        self.violations: list[Violation] = []
        self.checked: Counter[Law] = Counter()
        self.commits = 0
        self.attempts: dict[str, Attempt] = {}
        self.approvals: dict[str, Approval] = {}
        self.rows: dict[str, Command] = {}
        self.said_yes: set[tuple[str, str]] = set()
        self.done_at_s: dict[str, float] = {}
        self.turning_s: dict[str, float] = {}
        self.asked_at_s: dict[str, float] = {}
        self.on_boundary: Callable[[Process, Side], None] = lambda process, side: None
        self.on_written: Callable[[Sequence[Unit]], None] = lambda units: None
        self._restrictions = restrictions
        self._grant_until = grant_until
        self._owners: dict[tuple[str, int], str] = {}
        self._epochs: dict[str, int] = {}
        self._held_by: dict[str, str | None] = {}
        self._due: dict[str, int] = {}
        self.anew: Counter[str] = Counter()
        self.late: list[tuple[Request, Attempt]] = []
        self._fenced: dict[str, tuple[Process, float]] = {}
        self.forgotten = Forgotten()

    def broken(self, law: Law, what: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(law, what))

    def expect(self, law: Law, holds: bool, what: str) -> None:
        """Count a check, and note the violation when it does not hold."""
        self.checked[law] += 1
        if not holds:
            self.broken(law, what)

    # -- a journal that went back ----------------------------------------------------------------------------------

    def went_back(self, sagas: Sequence[Saga]) -> None:
        """The journal is what those sagas say: nobody remembers what it said since. What was done since is done."""
        self.forgotten.add(self.attempts.values(), self.rows, {a.attempt_id for saga in sagas for a in saga.attempts})
        self.rows = {row.command_id: row for saga in sagas for row in saga.members}
        self.attempts = {attempt.attempt_id: attempt for saga in sagas for attempt in saga.attempts}
        lost = {name: replace(one, state=ApprovalState.VOID) for name, one in self.approvals.items()}
        self.approvals = lost | {one.approval_id: one for saga in sagas for one in saga.approvals}
        self._epochs = {saga.root.command_id: saga.root.lease_epoch for saga in sagas}
        self._held_by = {saga.root.command_id: saga.root.lease_owner for saga in sagas}
        for memory in (self._owners, self._due, self.done_at_s, self.turning_s):
            memory.clear()

    def every_attempt(self) -> Iterator[Attempt]:
        """Also those that the journal forgot."""
        return chain(self.attempts.values(), self.forgotten.attempts)

    def digests_of(self, saga: Saga, row: Command) -> frozenset[str]:
        """Of every request that was fenced for that row, in whatever history."""
        known = frozenset(attempt.request_digest for attempt in saga.attempts_of(row.command_id))
        return known | self.forgotten.digests.get(row.idempotency_key, frozenset())

    # -- commits ---------------------------------------------------------------------------------------------------

    def boundary(self, process: Process, side: Side) -> None:
        """A commit is about to be made, or was made."""
        self.on_boundary(process, side)

    def written(self, process: Process, units: Sequence[Unit]) -> None:
        """These units are on disk."""
        self.commits += 1
        for unit in units:
            self._epoch(process, unit)
            self._direction(unit)
            self._retries(unit)
            for approval in unit.new_approvals:
                self.asked_at_s[approval.approval_id] = self.world.loop.time()
            for approval in (*unit.new_approvals, *unit.approvals):
                self.approvals[approval.approval_id] = approval
            for attempt in unit.new_attempts:
                self._fenced[attempt.attempt_id] = process, self.world.loop.time()
                if attempt.request_digest:  # a doubt about what another history may have sent is no fence
                    self._fence(unit, attempt)
            for attempt in (*unit.new_attempts, *unit.attempts):
                self.attempts[attempt.attempt_id] = attempt
            for row in (*unit.new_commands, *(row for row, _ in unit.cas)):
                self.rows[row.command_id] = row
        self.on_written(units)

    def _epoch(self, process: Process, unit: Unit) -> None:
        for row, _ in unit.cas:
            if row.command_id != unit.root_id:
                continue
            before, held_by = self._epochs.get(unit.root_id, 0), self._held_by.get(unit.root_id)
            alone = not process.name.startswith("worker") or held_by in (None, process.name)
            files = not any(
                isinstance(event.type, Trigger) for event in unit.events
            )  # what it knows of its own attempts
            self.expect(
                Law.EPOCHS_RISE,
                alone or files or row.lease_epoch > before,
                f"{process.name} committed under epoch {before} of {held_by}",
            )
            self._held_by[unit.root_id] = row.lease_owner
            self.expect(Law.EPOCHS_RISE, row.lease_epoch >= before, f"{unit.root_id} fell below epoch {before}")
            self._epochs[unit.root_id] = row.lease_epoch
            if row.lease_owner is None:
                continue
            owner = self._owners.setdefault((unit.root_id, row.lease_epoch), row.lease_owner)
            self.expect(
                Law.EPOCHS_RISE,
                owner == row.lease_owner,
                f"epoch {row.lease_epoch} has two owners, {owner} is one",
            )

    def _direction(self, unit: Unit) -> None:
        root = next((row for row, _ in unit.cas if row.command_id == unit.root_id), None)
        for row, _ in unit.cas:
            if row.effect_class is EffectClass.PIVOT and row.state is State.SUCCESS and root is not None:
                forward = root.phase in (Phase.POST_PIVOT, Phase.COMPLETED)
                self.expect(Law.FORWARD_ONLY, forward, f"the pivot succeeded in phase {root.phase}")

    def _retries(self, unit: Unit) -> None:
        for event in unit.events:
            if event.type in _ENDS_A_WAIT:
                self._due.pop(event.command_id, None)
            if event.type in _BEGINS_ANEW:
                self.anew[event.command_id] += 1
            if event.type is Fact.RETRY_SCHEDULED:
                self._due[event.command_id] = json.loads(event.body)["at"]
            if event.type is not Trigger.CLAIMED:
                continue
            due = self._due.pop(event.command_id, None)
            self.expect(
                Law.NO_EARLY_RETRY,
                due is None or due <= event.at_ms,
                f"claimed {(due or 0) - event.at_ms} ms early",
            )

    def _fence(self, unit: Unit, attempt: Attempt) -> None:
        row = next(row for row, _ in unit.cas if row.command_id == attempt.command_id)
        root = next(row for row, _ in unit.cas if row.command_id == unit.root_id)
        self._stops(row, root, attempt)
        if row.effect_class is EffectClass.PIVOT:
            self._approved(row, attempt)
        if row.effect_class is EffectClass.IRREVERSIBLE:
            doubtful = [a for a in self.attempts.values() if a.command_id == row.command_id and _open(a)]
            self.expect(Law.DOUBT_NOT_RESENT, not doubtful, f"{row.command_type} sent again in doubt")

    def _stops(self, row: Command, root: Command, attempt: Attempt) -> None:
        """What undoes, what finishes after the pivot, and what completes an object that landed, need no grant."""
        finishing = (
            row.kind is Kind.COMPENSATION
            or (root.phase is Phase.POST_PIVOT and row.effect_class is EffectClass.RETRYABLE)
            or self._exists(row)
        )
        hit = sorted(scope for scope in self._restrictions() if self._concerns(scope, row))
        stopped = [scope for scope in hit if scope.startswith(_SENDS_WITHOUT_GRANT) or not finishing]
        self.expect(Law.STOPS_HOLD, not stopped, f"{row.command_type} fenced under {stopped}")
        until = self._grant_until(root.command_id)
        lapsed = until is None or until <= attempt.fenced_at_ms
        self.expect(Law.STOPS_HOLD, finishing or not lapsed, f"{row.command_type} fenced without a grant")

    def _exists(self, row: Command) -> bool:
        """Whether an earlier attempt of that row took effect, in truth."""
        sent = {a.request_digest for a in self.every_attempt() if a.idempotency_key == row.idempotency_key}
        return any(effect.digest in sent for effect in self.world.log.effects)

    def _concerns(self, scope: str, row: Command) -> bool:
        what, _, rest = scope.partition(":")
        kind, _, name = rest.partition(":")
        values = {
            "all": "",
            "tenant": row.tenant,
            "site": row.site,
            "system": row.target_system,
            "agent": row.principal,
            "decision": row.decision_id,
        }
        if what == "revoked" and kind == "token":
            return name.endswith(f" {row.capability_id}")
        if kind == "key":
            return True
        if kind == "client":
            return name.removeprefix("client_") == row.principal.removeprefix("agent:")
        return kind in values and (kind == "all" or values[kind] == name)

    def _approved(self, row: Command, attempt: Attempt) -> None:
        alive = [
            approval
            for approval in self.approvals.values()
            if approval.root_id == row.root_id
            and approval.state is ApprovalState.APPROVED
            and approval.request_digest == attempt.request_digest
            and (approval.approval_id, approval.content_hash) in self.said_yes
        ]
        self.expect(Law.APPROVED_BYTES, bool(alive), "the pivot was fenced without a yes to its bytes")

    # -- sends -----------------------------------------------------------------------------------------------------

    def sends(self, request: Request) -> None:
        """The request's bytes leave now: of an open attempt, or of one that grew old while its sender stood still."""
        digest, may = request.request_digest, (Settlement.OPEN, Settlement.QUIET)
        written = [a for a in self.attempts.values() if a.request_digest == digest and a.settlement in may]
        self.expect(Law.WRITE_AHEAD, bool(written), f"{request.operation} left without an open attempt")
        self._late(request, written)

    def _late(self, request: Request, written: Sequence[Attempt]) -> None:
        """Kept when it left later after the commit of its fence than it may after its stamp, which is earlier still."""
        own = [a for a in written if self._fenced[a.attempt_id][0] is request.process]
        if own and self.world.loop.time() - self._fenced[own[-1].attempt_id][1] > SEND_BUDGET_S + TICK_S:
            self.late.append((request, own[-1]))

    # -- answers ---------------------------------------------------------------------------------------------------

    def answered(self, asked: Asked) -> None:
        """A status answer was given now. Where the outside breaks its word nobody can be held to the truth."""
        if not self.honest:
            return
        view = asked.view
        found = [*untrue(asked), *self._untold(view)]
        self.expect(Law.STATUS_IS_TRUE, not found, f"version {view.object_version} ({view.state}): {'; '.join(found)}")
        if view.answers.direction == "backward":
            self.turning_s.setdefault(view.command_id, self.world.loop.time())
        if view.done:
            self.done_at_s.setdefault(view.command_id, self.world.loop.time())

    def _untold(self, view: CommandView) -> Iterator[str]:
        """What its word and its sentence say beyond the eleven answers."""
        digests = self.digests(view.command_id)
        if view.live and not self.world.was_published(digests) and not self.world.was_published_by_hand():
            yield "called live, and it never was"
        if "not published" in view.say_to_user and self.world.is_live(digests):
            yield "called not published, and it is live"

    def digests(self, root_id: str) -> frozenset[str]:
        """Of everything that this saga ever fenced."""
        return frozenset(a.request_digest for a in self.every_attempt() if a.root_id == root_id)


def _open(attempt: Attempt) -> bool:
    return attempt.settlement is Settlement.OPEN
