"""Laws that are judged when a schedule is quiet: what is true outside against what the journal and the registry say."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from execution.core.command import Command, Saga
from execution.core.quiescence import SEND_BUDGET_S
from execution.core.states import (
    TERMINAL,
    Blocker,
    CompensationState,
    Kind,
    Settlement,
    State,
)
from execution.simulation.ending import PIVOT, budgets, converged, quarantined
from execution.simulation.scenario import Act
from execution.simulation.wire import HASTE_S, Effect
from execution.simulation.witness import Law
from execution.status import view_of
from execution.store import authority, journal, registry
from execution.store.connection import Connection

if TYPE_CHECKING:
    from execution.simulation.run import Schedule

NEVER_TWICE: Final = ("create_draft", "publish", "trash", "send")
"""Effects that are never repeated under one key."""
GRACE_S: Final = SEND_BUDGET_S + 60.0
"""What had passed its fence when it was told to turn back may still be written, by a process that stands still."""
DRAFT: Final = "CREATE_WORDPRESS_DRAFT"
STAGE: Final = "STAGE_PUBLICATION_RECORD"
RECORD: Final = "RECORD_PUBLICATION"
TRASH_STAGED: Final = "TRASH_STAGED_DRAFT"
NOTIFY: Final = "SEND_NOTIFICATION"


def judge(conn: Connection, at: Schedule) -> tuple[str, ...]:
    """Check every law that is judged at the end; how each command ended."""
    roots, _ = registry.page(conn, registry.Filter(), limit=50)
    sagas = [registry.load_saga(conn, root.command_id) for root in roots]
    _journal(conn, at)
    _accepted(at, sagas)
    _tokens(conn, at, sagas)
    _duplicates(at)
    _trashed(at)
    _approved(at)
    _ghosts(at)
    _late(at)
    for saga in sagas:
        converged(conn, at, saga)
        _told(at, saga)
        _mail(at, saga)
        budgets(at, saga)
        quarantined(at, saga)
        if at.scenario.kind.honest:
            _succeeded(at, saga)
            _unwound(at, saga)
            _done_is_done(at, saga)
            _turned_back(at, saga)
    if at.scenario.kind.honest:
        _updates(at)
        _versions(at, sagas)
    return tuple(f"{saga.root.state} {saga.root.ending or ''} {saga.root.blockers}".strip() for saga in sagas)


def _journal(conn: Connection, at: Schedule) -> None:
    for verified in journal.verify_all(conn):
        at.witness.expect(Law.JOURNAL_VERIFIES, not verified.findings, str(verified.findings))


def _accepted(at: Schedule, sagas: list[Saga]) -> None:
    known = {saga.root.command_id: saga.root for saga in sagas}
    for accepted, offer in at.actors.accepted:
        found = known.get(accepted.command_id)
        at.witness.expect(
            Law.NOTHING_LOST,
            found is not None and (found.site, found.object_version) == (offer.site, offer.version),
            f"version {offer.version} for {offer.site} by {offer.agent} was acknowledged and is not there",
        )
    keys = Counter(saga.root.idempotency_key for saga in sagas)
    meant = Counter(
        (root.tenant, root.site, root.object_id, root.object_version, root.repeat_of) for root in known.values()
    )
    for counted in (keys, meant):
        at.witness.expect(Law.ONE_COMMAND, all(n == 1 for n in counted.values()), str(counted))
    meanings = {(offer.site, offer.version, offer.repeats) for offer in at.scenario.offers}
    most = Counter((site, version) for site, version, _ in meanings)
    made = Counter((root.site, root.object_version) for root in known.values())
    at.witness.expect(Law.ONE_COMMAND, all(n <= most[what] for what, n in made.items()), f"{made} of {most}")


def _tokens(conn: Connection, at: Schedule, sagas: list[Saga]) -> None:
    most = at.scenario.max_uses
    if most is None:
        return
    for token, used in Counter(saga.root.capability_id for saga in sagas).items():
        counted = authority.token_uses(conn, "https://issuer.example", token)
        at.witness.expect(
            Law.TOKEN_USES,
            used == counted <= most,
            f"{token}: {used} of {most}",
        )


# -- effects ---------------------------------------------------------------------------------------------------------


def _ours(at: Schedule) -> list[Effect]:
    return [effect for effect in at.world.log.effects if effect.by == "remit"]


def _duplicates(at: Schedule) -> None:
    """One landing per key; one more of the pivot for each further yes, and for each landing that the site left half."""
    counted = Counter((effect.operation, effect.key, effect.digest) for effect in _ours(at))
    yes = Counter(approval.request_digest for approval in at.witness.approvals.values())
    for (operation, key, digest), times in counted.items():
        law = Law.MAIL_ONCE if operation == "send" else Law.NO_DUPLICATE
        if operation not in NEVER_TWICE or not at.scenario.kind.honest:
            continue
        allowed = max(1, yes[digest]) if operation == "publish" else 1
        if operation == "publish" and at.world.touched(key):
            allowed += 1
        allowed += sum(e.half and (e.key, e.digest) == (key, digest) for e in at.world.effects("publish"))
        at.witness.expect(
            law,
            times <= allowed,
            f"{operation} {key} took effect {times} times",
        )


def _trashed(at: Schedule) -> None:
    for effect in _ours(at):
        if effect.operation == "trash" and at.scenario.kind.honest:
            at.witness.expect(
                Law.NO_LIVE_TRASHED,
                effect.was != "publish" or _unseen(at, effect),
                f"post {effect.key} was live and was trashed",
            )


def _unseen(at: Schedule, effect: Effect) -> bool:
    """A person wrote the post so shortly before that no look could have shown it."""
    request = next(request for request in at.world.log.sent if request.number == effect.request)
    blind_s = at.settings.absent_fresh_s + SEND_BUDGET_S + HASTE_S + at.scenario.site.stale_s + _paused_s(at)
    since = (request.sent_at_s or 0.0) - blind_s
    return any(e.by == "person" and e.key == effect.key and e.at_s >= since for e in at.world.log.effects)


def _paused_s(at: Schedule) -> float:
    """The longest that a process stood still in this schedule."""
    return max((fault.amount for fault in at.scenario.faults if fault.act in (Act.PAUSE, Act.SUSPEND)), default=0.0)


def _approved(at: Schedule) -> None:
    yes = {
        approval.request_digest
        for approval in at.witness.approvals.values()
        if (approval.approval_id, approval.content_hash) in at.witness.said_yes
    }
    for effect in _ours(at):
        if effect.operation == "publish":
            at.witness.expect(
                Law.APPROVED_BYTES,
                effect.digest in yes,
                f"post {effect.key} was published without a yes",
            )


def _ghosts(at: Schedule) -> None:
    """Whatever landed belongs to an attempt, and not only to such as are proven unsent or refused."""
    harmless = (Settlement.UNSENT, Settlement.REFUSED)
    for effect in _ours(at):
        attempts = [a for a in at.witness.every_attempt() if a.request_digest == effect.digest]
        at.witness.expect(
            Law.GHOSTS_KNOWN,
            any(attempt.settlement not in harmless for attempt in attempts),
            f"{effect.operation} {effect.key} landed and its attempts are called harmless",
        )


def _late(at: Schedule) -> None:
    """A sender that lives tells of its own lateness, whatever became of its lease."""
    for request, attempt in at.witness.late:
        alive = request.process is not None and request.process.alive
        filed = at.witness.attempts[attempt.attempt_id].sent_late
        at.witness.expect(Law.LATE_IS_FILED, filed or not alive, f"{request.operation} left late and nothing says so")


def _updates(at: Schedule) -> None:
    """What a person wrote after the last yes, and long enough before the write that a look shows it."""
    for effect in _ours(at):
        if effect.operation != "publish":
            continue
        yes = [a for a in at.witness.approvals.values() if a.request_digest == effect.digest]
        asked_s = max((at.witness.asked_at_s[a.approval_id] for a in yes), default=0.0)
        edits = [e for e in at.world.log.effects if e.by == "person" and e.key == effect.key]
        between = [edit for edit in edits if asked_s < edit.at_s < effect.at_s]
        at.witness.expect(
            Law.NO_LOST_UPDATE,
            not between or _unseen(at, effect),
            f"post {effect.key} was changed by a person before it was written over",
        )


def _versions(at: Schedule, sagas: list[Saga]) -> None:
    """No version is written over a later one."""
    version = {a.request_digest: saga.root.object_version for saga in sagas for a in saga.attempts}
    newest: Counter[str] = Counter()
    for effect in at.world.effects("publish"):
        written, before = version.get(effect.digest, at.witness.forgotten.version(effect.digest)), newest[effect.key]
        at.witness.expect(Law.NO_LOST_UPDATE, written >= before, f"version {written} was written over version {before}")
        newest[effect.key] = max(before, written)


# -- commands --------------------------------------------------------------------------------------------------------


def _told(at: Schedule, saga: Saga) -> None:
    view = view_of(saga)
    at.witness.expect(
        Law.STATUS_IS_TRUE,
        not view.done or saga.root.state in TERMINAL,
        f"called done in {saga.root.state}",
    )


def _landed(at: Schedule, saga: Saga, name: str) -> list[Effect]:
    """What that step's requests did."""
    row = saga.named(name)
    if row is None:
        return []
    digests = at.witness.digests_of(saga, row)
    return [effect for effect in _ours(at) if effect.digest in digests]


def _succeeded(at: Schedule, saga: Saga) -> None:
    for row in saga.members:
        if row.state is not State.SUCCESS or row.kind is not Kind.STEP or row.command_id in at.actors.people.ruled:
            continue
        at.witness.expect(
            Law.SUCCESS_IS_TRUE,
            _is_there(at, saga, row),
            f"{row.command_type} is SUCCESS and its effect is not there",
        )
    if saga.root.state is State.SUCCESS:
        pivot = saga.named(PIVOT)
        at.witness.expect(
            Law.SUCCESS_IS_TRUE,
            pivot is not None and pivot.state is State.SUCCESS,
            "the saga is SUCCESS and its pivot is not",
        )


def _is_there(at: Schedule, saga: Saga, row: Command) -> bool:
    table = at.world.table
    match row.command_type:
        case name if name == DRAFT:
            return bool(_landed(at, saga, DRAFT)) and at.world.post(row.external_resource_id or 0) is not None
        case name if name == PIVOT:
            return _is_published(at, saga, row)
        case name if name == RECORD and table is not None:
            done = [effect for effect in _landed(at, saga, RECORD) if effect.now == "published"]
            return bool(done) and row_post(saga) in (None, table.rows[done[-1].key].post_id)
        case name if name == STAGE and table is not None:
            return bool(_landed(at, saga, STAGE))
        case name if name == TRASH_STAGED:
            draft = saga.named(DRAFT)
            post = at.world.post(draft.external_resource_id or 0) if draft is not None else None
            return post is None or post.status == "trash"
        case name if name == NOTIFY:
            return len(_landed(at, saga, NOTIFY)) == 1
        case _:
            return True


def row_post(saga: Saga) -> str | None:
    """The post that the pivot wrote."""
    pivot = saga.named(PIVOT)
    return None if pivot is None else pivot.external_resource_id


def _is_published(at: Schedule, saga: Saga, row: Command) -> bool:
    """Live with the approved bytes, unless a person or a later version wrote since."""
    done = _landed(at, saga, PIVOT)
    if not done:
        return any(effect.key == row.external_resource_id for effect in at.world.effects("publish", by="person"))
    last = done[-1]
    since = [e for e in at.world.log.effects if e.key == last.key and e.at_s > last.at_s and e.operation != "send"]
    post = at.world.post(last.key)
    return bool(since) or (post is not None and post.status == "publish" and post.version == last.now)


def _unwound(at: Schedule, saga: Saga) -> None:
    """FAILED before anything was done, COMPENSATED after it: either way nothing of it is left."""
    root = saga.root
    if root.state not in (State.FAILED, State.COMPENSATED):
        return
    told = [row for row in saga.members if row.compensation_state is CompensationState.FAILED]
    at.witness.expect(
        Law.UNWOUND_IS_TRUE,
        root.state is not State.COMPENSATED or not told,
        "COMPENSATED, and a compensation failed",
    )
    at.witness.expect(
        Law.UNWOUND_IS_TRUE,
        not at.world.is_live({effect.digest for effect in _landed(at, saga, PIVOT)}),
        f"{root.state} {root.ending}, and the article is live",
    )
    if told or any(row.command_id in at.actors.people.ruled for row in saga.members):
        return
    alive = [
        effect
        for effect in _landed(at, saga, DRAFT)
        if effect.operation == "create_draft"
        and (post := at.world.post(effect.now)) is not None
        and post.status != "trash"
        and post.owner == "remit"
    ]
    at.witness.expect(Law.UNWOUND_IS_TRUE, not alive, f"{root.state} {root.ending}, and the draft is still there")
    staged = [
        effect
        for effect in _landed(at, saga, STAGE)
        if at.world.table is not None and at.world.table.rows[effect.key].status == "staged"
    ]
    at.witness.expect(Law.UNWOUND_IS_TRUE, not staged, f"{root.state}, and the row is still staged")


def _done_is_done(at: Schedule, saga: Saga) -> None:
    """Nothing of a saga takes effect after it was called done."""
    since = at.witness.done_at_s.get(saga.root.command_id)
    if since is None:
        return
    digests = at.witness.digests(saga.root.command_id)
    later = [effect for effect in _ours(at) if effect.digest in digests and effect.at_s > since]
    names = ", ".join(effect.operation for effect in later)
    at.witness.expect(Law.STATUS_IS_TRUE, not later, f"{names} took effect after the command was called done")


def _turned_back(at: Schedule, saga: Saga) -> None:
    """What was said to turn back is not published any more by a request that was written after that."""
    since = at.witness.turning_s.get(saga.root.command_id)
    pivot = saga.named(PIVOT)
    if since is None or pivot is None:
        return
    digests = {attempt.request_digest for attempt in saga.attempts_of(pivot.command_id)}
    later = [r for r in at.world.log.sent if r.request_digest in digests and (r.sent_at_s or 0.0) > since + GRACE_S]
    at.witness.expect(Law.STATUS_IS_TRUE, not later, "said to turn back, and published afterwards")


def _mail(at: Schedule, saga: Saga) -> None:
    row = saga.named(NOTIFY)
    if row is None:
        return
    doubtful = saga.open_attempts(row.command_id)
    at.witness.expect(
        Law.MAIL_ONCE,
        not doubtful
        or row.state is State.NEEDS_REVIEW
        or row.command_id in at.actors.people.ruled
        or Blocker.LOCKED in saga.root.blocked_by,
        f"the answer about the mail was lost and its step is {row.state}",
    )
