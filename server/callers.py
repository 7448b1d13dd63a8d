"""Where a token may come from: over stdio a private file, over HTTP the header of the very request. Nowhere else.

A `Caller` proves itself anew for every call. The gateway asks it, keeps what the token says and never sees the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from capabilities.errors import CredentialCode, CredentialError
from capabilities.keyfile import read_private_file
from capabilities.token import Capability, Verifier
from execution.ports import Clock
from server.errors import refused

Caller = Callable[[], Capability]
"""Who calls. Raises CredentialError, KeyFileError, or GatewayRefused (`no_token`)."""

AUTHORIZATION = b"authorization"
SCHEME = "bearer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """The caller of a stdio process: whoever the file's token names, reopened on every call."""

    path: Path | None
    verifier: Verifier
    clock: Clock

    def __call__(self) -> Capability:
        return self.verifier.verify(read_token(self.path), self.clock.now_ms() // 1000)


def read_token(path: Path | None) -> str:
    """The token in a private file. Raises GatewayRefused, KeyFileError, CredentialError."""
    if path is None:
        raise refused("no_token")
    raw = read_private_file(path).removesuffix(b"\n")
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError:
        raise CredentialError(CredentialCode.MALFORMED_TOKEN) from None


def bearer(value: bytes | None) -> str:
    """The token of an `Authorization` header (RFC 6750 §2.1). Raises GatewayRefused, CredentialError."""
    scheme, _, token = (value or b"").partition(b" ")
    if scheme.decode("latin-1").lower() != SCHEME:
        raise refused("no_token")
    try:
        return token.strip(b" ").decode("ascii")
    except UnicodeDecodeError:
        raise CredentialError(CredentialCode.MALFORMED_TOKEN) from None
