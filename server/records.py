"""What the gateway needs of the store: revocations, refusal rows, sizes of stored content."""

from __future__ import annotations

from capabilities.revocation import RevocationScope
from capabilities.token import SKEW_S
from execution.operations import Operations
from execution.ports import Clock
from execution.store import artifacts, authority, refusals
from execution.store.connection import Connection
from execution.store.meta import ended_before_ms, last_tick
from execution.store.writer import Store
from server.gateway import BY_HASH, Payload, RefusalRow

BY_NAME = "artifact://"


class StoreRecords:
    """`server.gateway.Records` over the journal's store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def why_not(self, scopes: frozenset[RevocationScope], *, issued_s: int, expires_s: int) -> str | None:
        """Why the journal does not let a verified token in: revoked (or spent, or taken back, in a history that this
        journal does not know), or clock_skew: its time was over already when this journal was last at work, and only a
        clock that went back calls it valid.
        """
        names = tuple(sorted(map(authority.revocation, scopes)))

        def look(conn: Connection) -> str | None:
            if issued_s < ended_before_ms(conn) // 1000 or authority.in_force(conn, names):
                return "revoked"
            return "clock_skew" if expires_s + SKEW_S <= last_tick(conn) // 1000 else None

        return await self._store.read(look)

    async def revoke(self, scope: RevocationScope, reason: str) -> None:
        """In force at the next fence, and at the next call."""
        await Operations(self._store, self._clock).revoke(scope, operator="gateway", reason=reason)

    async def file_refusal(self, row: RefusalRow) -> None:
        """Write it down."""
        refused = refusals.Refused(
            tenant=row.tenant,
            who=f"{row.principal} {row.token_id}".strip() or "unknown",
            intent=row.intent,
            target=row.target,
            code=row.code,
            at_ms=self._clock.now_ms(),
        )
        await self._store.transact(lambda conn: refusals.record(conn, refused))

    async def payload(self, ref: str) -> Payload | None:
        """Stored content by hash or by name, None when it is not there."""
        digest: str | None = ref.removeprefix(BY_HASH)
        if not ref.startswith(BY_HASH):
            name = ref.removeprefix(BY_NAME)
            digest = await self._store.read(lambda conn: artifacts.resolve(conn, name))
        if digest is None:
            return None
        wanted = digest
        found = await self._store.read(lambda conn: artifacts.get(conn, wanted))
        if found is None or found.content is None:
            return None
        return Payload(sha256=found.sha256, size=found.size)
