"""Everything outside of Remit in one schedule, and what is true there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from execution.ports import Ports
from execution.simulation.loop import Process, VirtualLoop
from execution.simulation.scenario import BLOG
from execution.simulation.site import Post, Site
from execution.simulation.systems import Contents, Relay, Table
from execution.simulation.wire import Effect, Log, Trouble, Wire
from execution.store.writer import Store


@dataclass(slots=True, kw_only=True)
class World:
    """The modelled systems with their true history."""

    loop: VirtualLoop
    log: Log
    sites: Mapping[str, Site]
    table: Table | None
    relay: Relay | None

    def ports(self, store: Store, opening: Callable[[], Awaitable[None]] | None = None) -> Ports:
        """The ports of one worker. `opening`: what happens when it reads content."""
        return Ports(
            artifacts=Contents(store, opening),
            wordpress=self.sites,
            publications=self.table,
            mail=self.relay,
        )

    @property
    def site(self) -> Site:
        """Where people write by hand."""
        return self.sites[BLOG]

    def post(self, post_id: str | int) -> Post | None:
        """That post, whichever site it is on: no two have the same number."""
        found = (site.posts.get(int(post_id)) for site in self.sites.values())
        return next((post for post in found if post is not None), None)

    @property
    def wires(self) -> tuple[Wire, ...]:
        """All connections."""
        others = [system.wire for system in (self.table, self.relay) if system is not None]
        return (*(site.wire for site in self.sites.values()), *others)

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
            post = self.post(effect.key)
            if effect.digest in digests and post is not None and post.version == effect.now:
                return True
        return False

    def touched(self, post_id: str) -> bool:
        """Whether a person ever wrote that post."""
        return any(effect.by == "person" and effect.key == post_id for effect in self.log.effects)
