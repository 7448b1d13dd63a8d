"""Who acts at the command line: whoever holds an operator's key, never who says that name.

What is done is signed with that key, and the signature is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from capabilities.keys import OperatorKey
from execution import acts
from execution.core.events import canonical
from execution.store.acts import Act, record
from server.app import Installation
from server.operators import check_role, proven_operator
from server.roles import Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """An operator who proved who they are, and may do that."""

    at: Installation
    verb: Verb
    key: OperatorKey

    @property
    def by(self) -> str:
        """How the journal names them."""
        return f"operator:{self.key.name}"

    async def signs(self, subject: str, **what: Any) -> str:
        """Sign that it is asked for, and keep that; who asks."""
        at = self.at
        act = Act(
            act_id=at.ids.new("act"),
            verb=self.verb,
            subject=subject,
            by=self.by,
            at_ms=at.clock.now_ms(),
            what=canonical(what),
        )
        signed = acts.signed(act, self.key)
        await at.store.transact(lambda conn: record(conn, signed))
        return self.by

    def rules(self, review_id: str, *, verdict: str, reason: str) -> dict[str, Any]:
        """Who answers that question, when and under which signature, as `Operations.request_ruling` takes it."""
        at_ms = self.at.clock.now_ms()
        act = acts.ruling(review_id, verdict=verdict, reason=reason, by=self.by, at_ms=at_ms)
        return {"operator": self.by, "at_ms": at_ms, "signature": acts.signed(act, self.key).signature}


def acting_with_key(at: Installation, named: str | None, verb: Verb) -> Acting:
    """Who acts. named: an operator or a key file. Raises what `proven_operator` and `check_role` raise."""
    key = proven_operator(at.config, named)
    check_role(at.config.settings, key.name, verb)
    return Acting(at=at, verb=verb, key=key)
