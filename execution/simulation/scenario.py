"""What one schedule is made of, drawn from its seed: proposals, people, systems, and everything that goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from execution.simulation.chance import seeded
from execution.simulation.disk import Side
from execution.simulation.wire import Limits, Trouble

BLOG: Final = "blog"
SHOP: Final = "shop"
"""The sites."""


class Kind(StrEnum):
    """Which world a schedule plays in.

    MIXED: every fault, bounds kept. CALM: none. FOCUS: one system misbehaves badly while people turn back. STALLED:
    workers stand still between fence and write and go on later, over slow disks and clocks that are set. CLOCKS: the
    wall clock jumps forward while requests linger. DEADLY: what
    is to be published ends every process that opens it. RESTORED: a backup takes the journal's place. TWINS: one
    article on two sites, published again on purpose. FRONT: a front repeats requests. LYING: bounds do not hold. In the
    last two nobody can promise more than that ghosts are known.
    """

    MIXED = "mixed"
    CALM = "calm"
    FOCUS = "focus"
    STALLED = "stalled"
    CLOCKS = "clocks"
    DEADLY = "deadly"
    RESTORED = "restored"
    TWINS = "twins"
    FRONT = "front"
    LYING = "lying"

    @property
    def honest(self) -> bool:
        """Whether the outside keeps what it declares."""
        return self not in (Kind.FRONT, Kind.LYING)


class Answer(StrEnum):
    """What the modelled operator does with an approval request."""

    APPROVE = "approve"
    REJECT = "reject"
    IGNORE = "ignore"
    WITHDRAW = "withdraw"
    WRONG_HASH = "wrong_hash"


class Rules(StrEnum):
    """How the modelled operator answers reviews: looking first, whatever comes to mind, or never."""

    HONEST = "honest"
    CARELESS = "careless"
    SILENT = "silent"


class Act(StrEnum):
    """Something that happens to the schedule."""

    KILL = "kill"
    KILL_GATEWAY = "kill_gateway"
    PAUSE = "pause"
    SUSPEND = "suspend"
    WALL = "wall"
    FREEZE = "freeze"
    REVOKE = "revoke"
    CANCEL = "cancel"
    EDIT = "edit"
    TRASH = "trash"
    SQUAT = "squat"
    PUBLISH = "publish"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One act, when that many callbacks have run or at that second, whichever is given.

    amount: seconds of the pause or of the step, or until the process is back, the freeze is lifted, the backup that is
    made then is put back.
    """

    act: Act
    at_step: int | None = None
    at_s: float | None = None
    amount: float = 0.0
    pick: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One proposal by an agent, at that second. repeats: what was published first is to be published again."""

    at_s: float
    agent: str
    version: int
    title: str
    site: str = BLOG
    repeats: bool = False
    notify: bool = False
    publish_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The process that makes the k-th commit dies there (counted over all processes)."""

    commit: int
    side: Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """See the module. Times in seconds of virtual time. deadly: from that opening of the content on, whoever opens it
    ends there."""

    seed: str
    kind: Kind
    workers: int
    site: Limits
    table: Limits | None
    relay: Limits | None
    plugin: bool
    alters: bool
    trouble: Trouble
    disk_slow: float
    disk_lost: float
    disk_away: float
    bus_loses: float
    bus_doubles: float
    offers: tuple[Offer, ...]
    answer: Answer
    answer_s: float
    rules: Rules
    faults: tuple[Fault, ...]
    faults_until_s: float
    grant_s: float | None
    max_uses: int | None
    deadline_s: float
    approval_ttl_s: float
    deaths: tuple[Death, ...] = ()
    focus: str | None = None
    deadly: int | None = None


STEPS_TYPICAL: Final = 500
"""Callbacks within which an undisturbed publication ends: where faults are aimed."""


def mixed(seed: int, kind: Kind = Kind.MIXED) -> Scenario:
    """The mixed world of a seed, and those that differ from it in one thing."""
    rng = seeded(f"scenario {kind} {seed}")
    offers = _offers(rng)
    mail = any(offer.notify for offer in offers)
    intensity = rng.choice((0.0, 0.1, 0.3, 0.6))
    return Scenario(
        seed=f"{kind} {seed}",
        kind=kind,
        workers=rng.choice((1, 2, 2, 3)),
        site=limits_of(rng),
        table=limits_of(rng) if rng.random() < 0.7 else None,
        relay=limits_of(rng) if mail else None,
        plugin=rng.random() < 0.3,
        alters=rng.random() < 0.3,
        trouble=_trouble(rng, kind, intensity),
        disk_slow=rng.choice((0.0, 0.0, 0.1)),
        disk_lost=rng.choice((0.0, 0.0, 0.05)),
        disk_away=rng.choice((0.0, 0.0, 0.05)),
        bus_loses=rng.choice((0.0, 0.3)),
        bus_doubles=rng.choice((0.0, 0.3)),
        offers=offers,
        answer=rng.choices(tuple(Answer), (12, 2, 1, 2, 1))[0],
        answer_s=rng.choice((0.0, 1.0, 5.0, 25.0)),
        rules=rng.choice((Rules.HONEST, Rules.HONEST, Rules.CARELESS, Rules.SILENT)),
        faults=_faults(rng),
        faults_until_s=rng.choice((30.0, 60.0)),
        grant_s=rng.choice((None, None, None, None, 8.0, 20.0)),
        max_uses=rng.choice((None, 1, 2)),
        deadline_s=rng.choice((3600.0, 3600.0, 40.0)),
        approval_ttl_s=40.0,
    )


def calm(seed: str, deaths: tuple[Death, ...] = (), *, versions: int = 1, workers: int = 1) -> Scenario:
    """An undisturbed publication with every step; only the named deaths happen."""
    limits = Limits()
    offers = tuple(
        Offer(at_s=30.0 * (number - 1), agent="writer", version=number, title="Tea", notify=True)
        for number in range(1, versions + 1)
    )
    return Scenario(
        seed=f"calm {seed}",
        kind=Kind.CALM,
        workers=workers,
        site=limits,
        table=limits,
        relay=limits,
        plugin=False,
        alters=False,
        trouble=Trouble(),
        disk_slow=0.0,
        disk_lost=0.0,
        disk_away=0.0,
        bus_loses=0.0,
        bus_doubles=0.0,
        offers=offers,
        answer=Answer.APPROVE,
        answer_s=0.0,
        rules=Rules.SILENT,
        faults=(),
        faults_until_s=30.0 * versions,
        grant_s=None,
        max_uses=None,
        deadline_s=3600.0,
        approval_ttl_s=600.0,
        deaths=deaths,
    )


def _offers(rng: Random) -> tuple[Offer, ...]:
    notify = rng.random() < 0.5
    later = rng.choice((None, None, None, 15.0))
    first = Offer(at_s=0.0, agent="writer", version=1, title="Tea", notify=notify, publish_after_s=later)
    more: list[Offer] = []
    if rng.random() < 0.3:
        agent = rng.choice(("writer", "second"))
        more.append(Offer(at_s=rng.random() * 6.0, agent=agent, version=1, title="Tea", notify=notify))
    if rng.random() < 0.15:
        more.append(Offer(at_s=rng.random() * 6.0, agent="second", version=1, title="Coffee", notify=notify))
    if rng.random() < 0.45:
        at_s = rng.choice((rng.random() * 8.0, 20.0 + rng.random() * 20.0))
        agent = rng.choice(("writer", "second"))
        more.append(Offer(at_s=at_s, agent=agent, version=2, title=rng.choice(("Tea", "More tea")), notify=notify))
    return (first, *more)


def limits_of(rng: Random) -> Limits:
    return Limits(
        transit_s=rng.choice((1.0, 4.0, 8.0)),
        run_s=rng.choice((1.0, 5.0, 25.0)),
        incomplete_s=rng.choice((None, 3.0, 8.0)),
        stale_s=rng.choice((0.0, 0.0, 3.0)),
        pause_s=rng.choice((0.5, 2.0)),
        run_known=rng.random() < 0.9,
    )


def _trouble(rng: Random, kind: Kind, intensity: float) -> Trouble:
    return Trouble(
        write=intensity,
        read=rng.choice((0.0, 0.1, 0.3)),
        connect=rng.choice((0.0, 0.1, 0.3)),
        duplicates=0.3 if kind is Kind.FRONT else 0.0,
        lying=0.2 if kind is Kind.LYING else 0.0,
    )


_ACTS: Final = (
    (Act.KILL, 6.0),
    (Act.KILL_GATEWAY, 1.0),
    (Act.PAUSE, 5.0),
    (Act.SUSPEND, 2.0),
    (Act.WALL, 2.0),
    (Act.FREEZE, 2.0),
    (Act.REVOKE, 1.5),
    (Act.CANCEL, 1.5),
    (Act.EDIT, 1.5),
    (Act.TRASH, 0.5),
    (Act.SQUAT, 0.5),
    (Act.PUBLISH, 0.7),
)


def _faults(rng: Random) -> tuple[Fault, ...]:
    many = rng.choice((0, 1, 2, 3, 5))
    acts = rng.choices([act for act, _ in _ACTS], [weight for _, weight in _ACTS], k=many)
    return tuple(_fault(rng, act) for act in acts)


def _fault(rng: Random, act: Act) -> Fault:
    by_step = rng.random() < 0.7
    amount = rng.choice((0.5, 3.0, 12.0, 25.0)) * (0.5 + rng.random())
    if act is Act.WALL:
        amount = rng.choice((-20.0, -2.0, 2.0, 20.0, 600.0)) * (0.5 + rng.random() / 2)
    return Fault(
        act=act,
        at_step=int(rng.random() * STEPS_TYPICAL) if by_step else None,
        at_s=None if by_step else rng.random() * 30.0,
        amount=amount,
        pick=rng.random(),
    )
