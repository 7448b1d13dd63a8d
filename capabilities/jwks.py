"""The public key set a gateway verifies with (JWK Set, RFC 7517 §5), from a local file.

Nothing in a token leads to a key: no URL is fetched, no embedded key is believed. A set is taken whole or not at all;
while the file is being replaced by something invalid, the set read before stays in force (`KeySource`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn, Protocol

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from capabilities import base64url, strict_json
from capabilities.errors import KeyFileCode, KeyFileError
from capabilities.identifiers import is_segment
from capabilities.keyfile import PUBLIC_MODE, read_public_file, replace_file
from capabilities.keys import Algorithm, VerificationKey, is_strong_ed25519
from capabilities.strict_json import JsonValue

JWKS_BYTES_MAX: Final = 65_536
KEYS_MAX: Final = 64
P256_COORDINATE_BYTES: Final = 32

_ED25519: Final = ("OKP", "Ed25519", "EdDSA")
_P256: Final = ("EC", "P-256", "ES256")
_OKP_MEMBERS: Final = frozenset({"kty", "crv", "alg", "use", "kid", "x"})
_EC_MEMBERS: Final = _OKP_MEMBERS | {"y"}
_PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"})


class Keys(Protocol):
    """Where a verifier looks up a kid: a fixed `KeySet` or a `KeySource` that follows a file."""

    def find(self, kid: str) -> VerificationKey | None: ...

    def current(self) -> KeySet: ...


@dataclass(frozen=True, slots=True)
class KeySet:
    """Public keys by kid, unchangeable. Build it with `KeySet.of` or `parse_key_set`.

    digest: `sha256:` and hex, which a gateway journals with whatever it accepts under this set.
    """

    by_kid: Mapping[str, VerificationKey]
    digest: str

    @classmethod
    def of(cls, keys: Iterable[VerificationKey]) -> KeySet:
        """Raises ValueError when a kid occurs twice."""
        listed = tuple(keys)
        by_kid = {key.kid: key for key in listed}
        if len(by_kid) != len(listed):
            raise ValueError("a kid occurs twice")
        return cls(MappingProxyType(by_kid), "sha256:" + hashlib.sha256(_encoded(by_kid)).hexdigest())

    def current(self) -> KeySet:
        """Itself: it never changes."""
        return self

    def find(self, kid: str) -> VerificationKey | None:
        """The key of that name, or None."""
        return self.by_kid.get(kid)

    @property
    def kids(self) -> tuple[str, ...]:
        """All kids, sorted."""
        return tuple(sorted(self.by_kid))

    def encode(self) -> bytes:
        """The set as a file, keys in order of kid."""
        return _encoded(self.by_kid)


class KeySource:
    """Follows a key set file. Every `find` compares the file's stamp and reads it again when that changed.

    The first read must succeed (KeyFileError). Later an invalid or missing file leaves the old set in force and its
    error in `problem`, until the file changes again; no token can cause more than one `stat`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = _stamp(path)
        self._current = load_key_set(path)
        self.problem: KeyFileError | None = None

    def find(self, kid: str) -> VerificationKey | None:
        """The key of that name in the newest valid set, or None."""
        return self.current().find(kid)

    def current(self) -> KeySet:
        """The newest valid set."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._current, self.problem = load_key_set(self._path), None
            except KeyFileError as error:
                self.problem = error
        return self._current


def load_key_set(path: Path) -> KeySet:
    """Read and check a key set file. Raises KeyFileError; `field` says which member of a key is at fault."""
    return parse_key_set(read_public_file(path, bytes_max=JWKS_BYTES_MAX), path=str(path))


def write_key_set(path: Path, keys: KeySet) -> None:
    """Replace the file in one step, mode 0644. Raises KeyFileError."""
    replace_file(path, keys.encode(), mode=PUBLIC_MODE)


def parse_key_set(raw: bytes, *, path: str) -> KeySet:
    """Check a key set's bytes; `path` is only for the error."""
    try:
        document = strict_json.load_object(raw, bytes_max=JWKS_BYTES_MAX)
    except strict_json.StrictJsonError:
        _refuse(KeyFileCode.MALFORMED_KEY_SET, path)
    entries = document.get("keys")
    if document.keys() != {"keys"} or not isinstance(entries, list) or not 0 < len(entries) <= KEYS_MAX:
        _refuse(KeyFileCode.MALFORMED_KEY_SET, path)
    keys = [_parse_jwk(entry, path) for entry in entries]
    if len({key.kid for key in keys}) != len(keys):
        _refuse(KeyFileCode.DUPLICATE_KID, path, "kid")
    return KeySet.of(keys)


def _parse_jwk(jwk: JsonValue, path: str) -> VerificationKey:
    if not isinstance(jwk, dict):
        _refuse(KeyFileCode.MALFORMED_KEY_SET, path)
    if jwk.keys() & _PRIVATE_MEMBERS:
        _refuse(KeyFileCode.PRIVATE_MEMBER, path)
    kid = jwk.get("kid")
    if not is_segment(kid):
        _refuse(KeyFileCode.MALFORMED_KEY_SET, path, "kid")
    if jwk.get("use") != "sig":
        _refuse(KeyFileCode.UNSUPPORTED_KEY, path, "use")
    triple = (jwk.get("kty"), jwk.get("crv"), jwk.get("alg"))
    if triple == _ED25519 and jwk.keys() == _OKP_MEMBERS:
        return VerificationKey(kid=kid, algorithm=Algorithm.EDDSA, public=_ed25519(jwk, path))
    if triple == _P256 and jwk.keys() == _EC_MEMBERS:
        return VerificationKey(kid=kid, algorithm=Algorithm.ES256, public=_p256(jwk, path))
    raise KeyFileError(KeyFileCode.UNSUPPORTED_KEY, path)


def _ed25519(jwk: dict[str, JsonValue], path: str) -> Ed25519PublicKey:
    raw = _octets(jwk["x"])
    if raw is None or not is_strong_ed25519(raw):
        _refuse(KeyFileCode.WEAK_KEY, path, "x")
    return Ed25519PublicKey.from_public_bytes(raw)


def _p256(jwk: dict[str, JsonValue], path: str) -> EllipticCurvePublicKey:
    x, y = _octets(jwk["x"]), _octets(jwk["y"])
    if x is None or y is None or len(x) != P256_COORDINATE_BYTES or len(y) != P256_COORDINATE_BYTES:
        _refuse(KeyFileCode.WEAK_KEY, path, "x")
    numbers = EllipticCurvePublicNumbers(int.from_bytes(x, "big"), int.from_bytes(y, "big"), SECP256R1())
    try:
        return numbers.public_key()
    except ValueError:  # the point is not on the curve
        _refuse(KeyFileCode.WEAK_KEY, path, "x")


def _octets(value: JsonValue) -> bytes | None:
    return base64url.decode(value) if isinstance(value, str) else None


def _encoded(by_kid: Mapping[str, VerificationKey]) -> bytes:
    keys: list[JsonValue] = [_to_jwk(by_kid[kid]) for kid in sorted(by_kid)]
    return strict_json.canonical({"keys": keys}) + b"\n"


def _to_jwk(key: VerificationKey) -> dict[str, JsonValue]:
    if isinstance(key.public, Ed25519PublicKey):
        kty, crv, alg = _ED25519
        point: dict[str, JsonValue] = {"x": base64url.encode(key.public.public_bytes_raw())}
    else:
        kty, crv, alg = _P256
        numbers = key.public.public_numbers()
        size = P256_COORDINATE_BYTES
        point = {
            "x": base64url.encode(numbers.x.to_bytes(size, "big")),
            "y": base64url.encode(numbers.y.to_bytes(size, "big")),
        }
    return {"kty": kty, "crv": crv, "alg": alg, "use": "sig", "kid": key.kid, **point}


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size)


def _refuse(code: KeyFileCode, path: str, field: str | None = None) -> NoReturn:
    raise KeyFileError(code, path, field=field)
