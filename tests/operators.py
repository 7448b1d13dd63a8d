"""Operators of test installations: everybody's key follows from their name, so that any process knows it."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from capabilities import base64url
from capabilities.keys import OperatorKey, sign_approval
from execution import acts
from execution.approvers import Approver, approval_statement
from execution.core.command import Approval
from execution.core.states import Verdict

NAMES = ("olivia", "pat")


def key_of(name: str) -> OperatorKey:
    seed = hashlib.sha256(f"operator {name}".encode()).digest()
    return OperatorKey(name=name, private=Ed25519PrivateKey.from_private_bytes(seed))


def signed(approval: Approval, operator: str) -> str:
    """That operator's signature under a yes."""
    return base64url.encode(sign_approval(key_of(operator.rpartition(":")[2]), approval_statement(approval, operator)))


def ruled(review_id: str, verdict: Verdict, name: str, reason: str, at_ms: int, key: OperatorKey | None = None) -> Any:
    """What a person who rules says, with their signature."""
    by = f"operator:{name}"
    act = acts.ruling(review_id, verdict=verdict, reason=reason, by=by, at_ms=at_ms)
    signature = acts.signed(act, key or key_of(name)).signature
    return {"verdict": verdict, "operator": by, "reason": reason, "at_ms": at_ms, "signature": signature}


class Known(Mapping[str, Approver]):
    """The operators whom a worker believes."""

    def __init__(self, *names: str, aliases: tuple[str, ...] = ()) -> None:
        self._names = tuple(f"operator:{name}" for name in names or NAMES)
        self._aliases = aliases

    def __getitem__(self, named: str) -> Approver:
        if named not in self._names:
            raise KeyError(named)
        return Approver(key=key_of(named.rpartition(":")[2]).public_key(), aliases=self._aliases)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
