"""The list of situations: a name, what happens, and the kind of installation it needs."""

import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from execution.core.retry import RetryPolicy
from tests.evals.play import Play, Row
from tests.integration.world import SETTINGS, world_at

Played = Callable[[Play], Awaitable[None]]
PATIENT: Final = replace(SETTINGS, looks=RetryPolicy(attempts_max=12, base_s=0.5, cap_s=2.0))
"""However slow the machine is, what is asked about is not given up to a person meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What happens. given: how the installation differs from the usual one (`world_at`)."""

    name: str
    played: Played
    given: Mapping[str, Any] = field(default_factory=dict)


SITUATIONS: Final[dict[str, Situation]] = {}


def situation(name: str, **given: Any) -> Callable[[Played], Played]:
    """Add it to the list."""

    def add(played: Played) -> Played:
        assert name not in SITUATIONS, name
        SITUATIONS[name] = Situation(name=name, played=played, given=given)
        return played

    return add


async def play(found: Situation, folder: Path | None = None) -> list[Row]:
    """Play it in an installation of its own; the answers that were recorded."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="remit-evals-") as made:
            return await play(found, Path(made))
    async with world_at(folder, **{"settings": PATIENT, **found.given}) as world:
        at = Play(world, found.name)
        await found.played(at)
    assert at.rows, f"{found.name}: nothing was recorded"
    return at.rows
