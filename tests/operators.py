"""Operators of test installations: everybody's key follows from their name, so that any process knows it."""

import hashlib
from collections.abc import Iterator, Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from capabilities import base64url
from capabilities.keys import OperatorKey, sign_approval
from execution.approvers import Approver, approval_statement
from execution.core.command import Approval

NAMES = ("olivia", "pat")


def key_of(name: str) -> OperatorKey:
    seed = hashlib.sha256(f"operator {name}".encode()).digest()
    return OperatorKey(name=name, private=Ed25519PrivateKey.from_private_bytes(seed))


def signed(approval: Approval, operator: str) -> str:
    """That operator's signature under a yes."""
    return base64url.encode(sign_approval(key_of(operator.rpartition(":")[2]), approval_statement(approval, operator)))


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
