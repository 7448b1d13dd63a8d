"""Business identity: keys that name one business effect, and fingerprints of what was asked.

A key is a canonical tuple (tenant, system instance, operation, site, object, version, generation). It is shown with
colons and hashed as a length-prefixed tuple, so that no choice of parts can collide with another. Nothing in it comes
from time, randomness, a request id or a tool-call id: those differ on every try of the same thing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from execution.core.events import canonical

FINGERPRINT_ALGORITHM: Final = "f1"
"""Prefix of every fingerprint; a new way of computing them gets a new prefix, so that old ones stay comparable."""
GENERATION_CHARS: Final = 16


def _digest(parts: tuple[str, ...]) -> bytes:
    encoded = [part.encode() for part in parts]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in encoded)).digest()


def _base32(digest: bytes, chars: int) -> str:
    return base64.b32encode(digest).decode().lower()[:chars]


@dataclass(frozen=True, slots=True, kw_only=True)
class BusinessKey:
    """Names one business effect. `generation`: empty for the first, else the `#…` suffix of a deliberate repetition."""

    tenant: str
    system: str
    operation: str
    site: str
    object_id: str
    version: int
    generation: str = ""

    def shown(self) -> str:
        """For people and for the registry's unique index: acme:wordpress:draft:blog:article-0028:v1."""
        body = f"{self.tenant}:{self.system}:{self.operation}:{self.site}:{self.object_id}:v{self.version}"
        return body + self.generation

    def digest(self) -> bytes:
        """SHA-256 of the length-prefixed tuple."""
        return _digest(
            (
                self.tenant,
                self.system,
                self.operation,
                self.site,
                self.object_id,
                str(self.version),
                self.generation,
            )
        )

    def of(self, system: str, operation: str) -> BusinessKey:
        """The key of a step: the same business effect seen from another system."""
        return BusinessKey(
            tenant=self.tenant,
            system=system,
            operation=operation,
            site=self.site,
            object_id=self.object_id,
            version=self.version,
            generation=self.generation,
        )


def workflow_id(tenant: str, site: str, object_id: str) -> str:
    """Names all work about one business object: its sagas of several versions and agents."""
    return "wf_" + _base32(_digest((tenant, site, object_id)), 26)


def generation_suffix(command_id: str) -> str:
    """The suffix that a deliberate repetition of that command carries in its key and all step keys."""
    return "#" + _base32(hashlib.sha256(command_id.encode()).digest(), GENERATION_CHARS)


@lru_cache(maxsize=1024)
def marker(installation: str, key: BusinessKey, chars: int = 24) -> str:
    """What proves that an object is ours: base32 of SHA-256 over installation and key; `[a-z2-7]`, fit for a slug."""
    return _base32(_digest((installation, key.digest().hex())), chars)


def fingerprint(arguments: Mapping[str, Any]) -> str:
    """Fingerprint of all arguments that mean something; whoever calls leaves out what does not."""
    return f"{FINGERPRINT_ALGORITHM}:{hashlib.sha256(canonical(arguments).encode()).hexdigest()}"


def differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the arguments that differ, sorted: the answer to a used key with another meaning."""
    return tuple(sorted(k for k in {*ours, *theirs} if canonical(ours.get(k)) != canonical(theirs.get(k))))
