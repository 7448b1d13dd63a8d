"""Numbers of the engine, all in seconds unless their name says otherwise, with the defaults of the design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from execution.core.retry import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How the engine paces itself.

    absent_fresh_s: how old the ABSENT observation may be that a fence with an unproven attempt needs. looks: how often
    and how far apart a doubt is looked at before a person is asked. spread_s: over how long those come back who waited
    for the same system. slots: sagas in memory; more than the slowest systems together may keep waiting. claims_max: a
    command claimed more often than this without an attempt, or a step so often started over, is quarantined. spacing_s:
    by site, the least distance of two scheduled publications.
    """

    lease_s: float = 30.0
    renew_s: float = 10.0
    sweep_s: float = 1.0
    relay_s: float = 0.2
    slots: int = 256
    sweep_batch: int = 10_000
    absent_fresh_s: float = 5.0
    looks: RetryPolicy = RetryPolicy(attempts_max=12, base_s=0.5, cap_s=60.0)
    held_poll_s: float = 5.0
    lock_poll_s: float = 1.0
    spread_s: float = 2.0
    claims_max: int = 12
    refences_max: int = 5
    observe_deadline_s: float = 15.0
    review_owner: str = "operators"
    spacing_s: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.renew_s < self.lease_s:
            raise ValueError("a lease must outlast its renewal")
