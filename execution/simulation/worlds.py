"""The worlds that a seed can play in, each drawn to show one kind of fault soon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from execution.simulation.chance import seeded
from execution.simulation.scenario import (
    SHOP,
    STEPS_TYPICAL,
    Act,
    Answer,
    Fault,
    Kind,
    Offer,
    Rules,
    Scenario,
    calm,
    limits_of,
    mixed,
)
from execution.simulation.wire import Limits, Trouble


def scenario(seed: int, kind: Kind = Kind.MIXED) -> Scenario:
    """The scenario of a seed."""
    drawn = _DRAWN.get(kind)
    return mixed(seed, kind) if drawn is None else drawn(seed)


def _focused(seed: int) -> Scenario:
    """A short life with much doubt about one system, and reasons to turn back in the middle of it."""
    rng = seeded(f"scenario focus {seed}")
    later = Offer(at_s=rng.random() * 12.0, agent="second", version=2, title="More tea", notify=True)
    cancel = Fault(act=Act.CANCEL, at_s=rng.random() * 15.0)
    kill = Fault(act=Act.KILL, at_step=int(rng.random() * STEPS_TYPICAL), amount=1.0)
    freeze = Fault(act=Act.FREEZE, at_s=rng.random() * 20.0, amount=rng.choice((10.0, 300.0)), pick=rng.random())
    return replace(
        calm(f"focus {seed}"),
        seed=f"focus {seed}",
        kind=Kind.FOCUS,
        workers=rng.choice((1, 2)),
        site=limits_of(rng),
        table=limits_of(rng),
        relay=replace(limits_of(rng), run_known=True),
        trouble=Trouble(write=0.7, read=rng.choice((0.0, 0.3)), connect=rng.choice((0.0, 0.3))),
        focus=rng.choice(("wordpress", "publications", "mail")),
        offers=(calm("").offers[0], *((later,) if rng.random() < 0.5 else ())),
        rules=rng.choice((Rules.HONEST, Rules.CARELESS)),
        faults=tuple(fault for fault in (cancel, kill, freeze) if rng.random() < 0.4),
        faults_until_s=60.0,
        grant_s=rng.choice((None, None, 8.0)),
    )


def _stalled(seed: int) -> Scenario:
    """Two workers before servers with short limits: whoever stands still for long is taken over, and comes back."""
    rng = seeded(f"scenario stalled {seed}")
    later = Offer(at_s=rng.random() * 20.0, agent="second", version=2, title="More tea", notify=True)
    cancel = Fault(act=Act.CANCEL, at_s=rng.random() * 20.0)
    step = Fault(act=Act.WALL, at_s=rng.random() * 20.0, amount=rng.choice((-20.0, 20.0, 600.0)))
    kill = Fault(act=Act.KILL, at_step=int(rng.random() * STEPS_TYPICAL), amount=1.0)
    return replace(
        calm(f"stalled {seed}"),
        seed=f"stalled {seed}",
        kind=Kind.STALLED,
        workers=2,
        site=_short(rng),
        table=_short(rng),
        relay=_short(rng),
        plugin=rng.random() < 0.3,
        trouble=Trouble(write=rng.choice((0.2, 0.5)), stalls=0.3),
        disk_slow=rng.choice((0.0, 0.3)),
        offers=(calm("").offers[0], *((later,) if rng.random() < 0.4 else ())),
        rules=rng.choice((Rules.HONEST, Rules.CARELESS)),
        faults=tuple(fault for fault in (cancel, step, kill) if rng.random() < 0.3),
        faults_until_s=60.0,
        answer=rng.choice((Answer.APPROVE, Answer.APPROVE, Answer.WITHDRAW)),
    )


def _clocks(seed: int) -> Scenario:
    """Much doubt about one slow system, and a wall clock that jumps over its quiescence."""
    rng = seeded(f"scenario clocks {seed}")
    jumps = [Fault(act=Act.WALL, at_s=rng.random() * 40.0, amount=60.0 + rng.random() * 60.0) for _ in range(3)]
    slow = Limits(transit_s=8.0, run_s=25.0, pause_s=0.5)
    return replace(
        calm(f"clocks {seed}"),
        seed=f"clocks {seed}",
        kind=Kind.CLOCKS,
        workers=rng.choice((1, 2)),
        site=slow,
        table=Limits(),
        relay=Limits(),
        trouble=Trouble(write=0.7),
        focus="wordpress",
        rules=rng.choice((Rules.HONEST, Rules.CARELESS)),
        faults=tuple(jumps),
        faults_until_s=60.0,
    )


def _deadly(seed: int) -> Scenario:
    """Nothing else goes wrong; a person may look at it, and a fleet may be restarted beside it."""
    rng = seeded(f"scenario deadly {seed}")
    kills = [Fault(act=Act.KILL, at_s=rng.random() * 60.0, amount=1.0, pick=rng.random()) for _ in range(3)]
    return replace(
        calm(f"deadly {seed}"),
        seed=f"deadly {seed}",
        kind=Kind.DEADLY,
        workers=rng.choice((1, 2)),
        faults=tuple(kills[: rng.choice((0, 3))]),
        deadly=rng.choice((None, 0, 0, *range(1, 12))),
        trouble=Trouble(write=rng.choice((0.0, 0.7))),
        rules=rng.choice((Rules.SILENT, Rules.SILENT, Rules.CARELESS)),
    )


def _short(rng: Random) -> Limits:
    return Limits(
        transit_s=1.0,
        run_s=rng.choice((1.0, 5.0)),
        incomplete_s=rng.choice((None, None, 3.0)),
        pause_s=rng.choice((0.5, 2.0)),
    )


def _restored(seed: int) -> Scenario:
    """A backup of any instant is put back at any later one, over what was sent since."""
    rng = seeded(f"scenario restored {seed}")
    again = Offer(at_s=5.0 + rng.random() * 60.0, agent="second", version=2, title="More tea", notify=True)
    backup = Fault(act=Act.RESTORE, at_s=rng.random() * 15.0, amount=0.5 + rng.random() * 20.0)
    cancel = Fault(act=Act.CANCEL, at_s=rng.random() * 40.0)
    kill = Fault(act=Act.KILL, at_step=int(rng.random() * STEPS_TYPICAL), amount=1.0)
    return replace(
        calm(f"restored {seed}"),
        seed=f"restored {seed}",
        kind=Kind.RESTORED,
        workers=rng.choice((1, 2)),
        site=limits_of(rng),
        table=limits_of(rng),
        relay=limits_of(rng),
        plugin=rng.random() < 0.3,
        trouble=Trouble(write=rng.choice((0.0, 0.3)), read=rng.choice((0.0, 0.1))),
        offers=(calm("").offers[0], *((again,) if rng.random() < 0.5 else ())),
        answer=rng.choice((Answer.APPROVE, Answer.APPROVE, Answer.APPROVE, Answer.REJECT)),
        answer_s=rng.choice((0.0, 5.0)),
        rules=rng.choice((Rules.HONEST, Rules.HONEST, Rules.CARELESS)),
        faults=(backup, *(fault for fault in (cancel, kill) if rng.random() < 0.3)),
        faults_until_s=80.0,
    )


def _twins(seed: int) -> Scenario:
    """The same article for two sites; one is called off, proposed once more on purpose and perhaps called off again,
    while answers are lost and the gateway dies."""
    rng = seeded(f"scenario twins {seed}")
    first = calm("").offers[0]
    twin = replace(first, at_s=rng.random() * 5.0, site=SHOP, agent=rng.choice(("writer", "second")))
    repeats = [replace(first, at_s=40.0 + rng.random() * 80.0, repeats=True) for _ in range(rng.choice((1, 2, 3)))]
    cancels = [
        Fault(act=Act.CANCEL, at_s=1.0 + rng.random() * 6.0),
        *(Fault(act=Act.CANCEL, at_s=45.0 + rng.random() * 80.0, pick=0.99) for _ in range(rng.choice((0, 3)))),
    ]
    second = replace(first, at_s=rng.random() * 20.0, version=2, title="More tea", agent="second")
    deaths = [Fault(act=Act.KILL_GATEWAY, at_s=rng.random() * 120.0) for _ in range(6)]
    kill = Fault(act=Act.KILL, at_step=int(rng.random() * STEPS_TYPICAL), amount=1.0)
    return replace(
        calm(f"twins {seed}"),
        seed=f"twins {seed}",
        kind=Kind.TWINS,
        workers=rng.choice((1, 2)),
        plugin=rng.random() < 0.3,
        trouble=Trouble(write=rng.choice((0.0, 0.3)), read=rng.choice((0.0, 0.1))),
        disk_lost=rng.choice((0.0, 0.1, 0.3)),
        disk_slow=rng.choice((0.0, 0.3)),
        offers=(first, twin, *repeats, *((second,) if rng.random() < 0.2 else ())),
        rules=rng.choice((Rules.HONEST, Rules.CARELESS)),
        answer_s=rng.choice((0.0, 5.0, 5.0)),
        faults=(*cancels, *deaths, *((kill,) if rng.random() < 0.5 else ())),
        faults_until_s=140.0,
        grant_s=None,
    )


_DRAWN: Final[Mapping[Kind, Callable[[int], Scenario]]] = {
    Kind.CALM: lambda seed: calm(str(seed)),
    Kind.FOCUS: _focused,
    Kind.STALLED: _stalled,
    Kind.CLOCKS: _clocks,
    Kind.DEADLY: _deadly,
    Kind.RESTORED: _restored,
    Kind.TWINS: _twins,
}
