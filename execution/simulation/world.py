"""Everything outside of Remit in one schedule, and what is true there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

from execution.ports import Ports
from execution.simulation.loop import Process, VirtualLoop
from execution.simulation.site import Site
from execution.simulation.systems import Contents, Relay, Table
from execution.simulation.wire import Effect, Log, Trouble, Wire
from execution.store.writer import Store

SITE: Final = "blog"


@dataclass(slots=True, kw_only=True)
class World:
    """The modelled systems with their true history."""

    loop: VirtualLoop
    log: Log
    site: Site
    table: Table | None
    relay: Relay | None

    def ports(self, store: Store, opening: Callable[[], Awaitable[None]] | None = None) -> Ports:
        """The ports of one worker. `opening`: what happens when it reads content."""
        return Ports(
            artifacts=Contents(store, opening),
            wordpress={SITE: self.site},
            publications=self.table,
            mail=self.relay,
        )

    @property
    def wires(self) -> tuple[Wire, ...]:
        """All connections."""
        others = [system.wire for system in (self.table, self.relay) if system is not None]
        return (self.site.wire, *others)

    def calm(self) -> None:
        """From now on nothing goes wrong outside; what is on its way still arrives."""
        for wire in self.wires:
            wire.trouble = Trouble()

    def unbounded_pause(self, process: Process) -> float | None:
        """The longest pause that the declared bounds allow this process now; None when any pause is allowed."""
        limits = [
            wire.limits.pause_s
            for wire in self.wires
            if wire.limits.incomplete_s is None and process in wire.unwritten.values()
        ]
        return min(limits, default=None)

    def effects(self, operation: str, by: str = "remit") -> list[Effect]:
        """The true effects of one kind."""
        return [effect for effect in self.log.effects if effect.operation == operation and effect.by == by]

    def was_published(self, digests: Collection[str]) -> bool:
        """Whether a publication with one of those request digests ever took effect."""
        return any(effect.digest in digests for effect in self.effects("publish"))

    def was_published_by_hand(self) -> bool:
        """Whether a person ever published one of our posts."""
        return bool(self.effects("publish", by="person"))

    def is_live(self, digests: Collection[str]) -> bool:
        """Whether what a request with one of those digests published stands there now, untouched since."""
        for effect in self.effects("publish"):
            post = self.site.posts.get(int(effect.key))
            if effect.digest in digests and post is not None and post.version == effect.now:
                return True
        return False

    def touched(self, post_id: str) -> bool:
        """Whether a person ever wrote that post."""
        return any(effect.by == "person" and effect.key == post_id for effect in self.log.effects)
