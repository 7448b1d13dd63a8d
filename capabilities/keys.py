"""Key pairs: the issuer's, which sign tokens, and the operators', which sign what they do.

Private keys are Ed25519 (RFC 8032) in PKCS #8 PEM files of mode 0600 (`keyfile`). A verifier never sees one: it holds
`VerificationKey`s, each pinned to one algorithm by its kid, from the public key set (`jwks`). ES256 exists on the
verifying side, for issuers whose key management service has no Ed25519 (such a `Signer` normalises S, RFC 8725 §3.2).

The kinds of signature can never be taken for each other: approvals and other acts are signed under a prefix each, with
which no compact JWS can start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from capabilities import base64url
from capabilities.errors import ApprovalSignatureError, KeyFileCode, KeyFileError
from capabilities.identifiers import is_segment
from capabilities.keyfile import create_private_file, read_private_file, read_public_file

APPROVAL_DOMAIN: Final = b"remit-approval-v1\x00"
ACT_DOMAIN: Final = b"remit-act-v1\x00"
ED25519_KEY_BYTES: Final = 32
PUBLIC_KEY_BYTES_MAX: Final = 4_096

_P: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _P) % _P
# y coordinates of the eight points of small order (RFC 7748 §7; cr.yp.to/ecdh.html#validate), both signs of x.
_SMALL_ORDER_Y: Final = frozenset(
    {
        0,
        1,
        _P - 1,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    }
)


class Algorithm(StrEnum):
    """The two signature algorithms there are (RFC 8037, RFC 7518 §3.4)."""

    EDDSA = "EdDSA"
    ES256 = "ES256"


PublicKey: TypeAlias = Ed25519PublicKey | EllipticCurvePublicKey


class PrivateHalf(Protocol):
    """Whatever holds a private key that can lie in a file."""

    @property
    def private(self) -> Ed25519PrivateKey: ...


class Signer(Protocol):
    """What the issuer needs of a key, wherever it lives: its name, its algorithm, and signatures in JWS form."""

    @property
    def kid(self) -> str: ...
    @property
    def algorithm(self) -> Algorithm: ...
    def sign(self, message: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationKey:
    """One public key, usable with one algorithm only."""

    kid: str
    algorithm: Algorithm
    public: PublicKey


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """The issuer's Ed25519 key. Whoever holds it can mint tokens."""

    kid: str
    private: Ed25519PrivateKey = field(repr=False)

    @property
    def algorithm(self) -> Algorithm:
        return Algorithm.EDDSA

    def sign(self, message: bytes) -> bytes:
        """64 bytes, RFC 8032 §5.1.6."""
        return self.private.sign(message)

    def verification_key(self) -> VerificationKey:
        """The half that goes into the public key set."""
        return VerificationKey(kid=self.kid, algorithm=self.algorithm, public=self.private.public_key())


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPublicKey:
    """The half of an operator's key that verifies approvals. `name` is the operator's principal or key name."""

    name: str
    public: Ed25519PublicKey

    @property
    def fingerprint(self) -> str:
        """First 32 hex digits of the SHA-256 of the raw key: short enough to compare by eye, bound to the key."""
        return hashlib.sha256(self.public.public_bytes_raw()).hexdigest()[:32]

    def encode(self) -> str:
        """`ed25519:` and the raw key in base64url, for configuration and journal."""
        return "ed25519:" + base64url.encode(self.public.public_bytes_raw())


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorKey:
    """A person's Ed25519 key. Approvals, rulings and other operator statements are signed with it."""

    name: str
    private: Ed25519PrivateKey = field(repr=False)

    def public_key(self) -> OperatorPublicKey:
        """What others verify with."""
        return OperatorPublicKey(name=self.name, public=self.private.public_key())


def generate_signing_key(kid: str) -> SigningKey:
    """A new key pair, not yet in any file. Raises ValueError when the kid is not a segment."""
    if not is_segment(kid):
        raise ValueError("a kid is one lower-case segment")
    return SigningKey(kid=kid, private=Ed25519PrivateKey.generate())


def generate_operator_key(name: str) -> OperatorKey:
    """A new operator key pair, not yet in any file."""
    return OperatorKey(name=name, private=Ed25519PrivateKey.generate())


def save_private_key(key: PrivateHalf, path: Path) -> None:
    """Write PKCS #8 PEM (RFC 5208), 0600, to a new file. Raises KeyFileError(exists) rather than overwrite a key."""
    pem = key.private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    create_private_file(path, pem)


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key, whatever it is for. Raises KeyFileError."""
    pem = read_private_file(path)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFileError(KeyFileCode.MALFORMED_KEY, str(path)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(KeyFileCode.UNSUPPORTED_KEY, str(path))
    return key


def load_signing_key(path: Path, *, kid: str | None = None) -> SigningKey:
    """Read an issuer key; its kid is the file's stem unless given. Raises KeyFileError."""
    name = path.stem if kid is None else kid
    if not is_segment(name):
        raise KeyFileError(KeyFileCode.MALFORMED_KEY, str(path), field="kid")
    return SigningKey(kid=name, private=load_private_key(path))


def load_client_key(path: Path, client_id: str) -> VerificationKey:
    """Read the public key of a registered client: PEM, Ed25519 or P-256. Raises KeyFileError."""
    try:
        key = serialization.load_pem_public_key(read_public_file(path, bytes_max=PUBLIC_KEY_BYTES_MAX))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFileError(KeyFileCode.MALFORMED_KEY, str(path)) from None
    match key:
        case Ed25519PublicKey():
            if not is_strong_ed25519(key.public_bytes_raw()):
                raise KeyFileError(KeyFileCode.WEAK_KEY, str(path))
            return VerificationKey(kid=client_id, algorithm=Algorithm.EDDSA, public=key)
        case EllipticCurvePublicKey() if isinstance(key.curve, SECP256R1):
            return VerificationKey(kid=client_id, algorithm=Algorithm.ES256, public=key)
        case _:
            raise KeyFileError(KeyFileCode.UNSUPPORTED_KEY, str(path))


def load_operator_key(path: Path, *, name: str | None = None) -> OperatorKey:
    """Read an operator key; its name is the file's stem unless given. Raises KeyFileError."""
    return OperatorKey(name=path.stem if name is None else name, private=load_private_key(path))


def decode_operator_key(name: str, text: str) -> OperatorPublicKey:
    """Read back `OperatorPublicKey.encode`. Raises ValueError for anything else, points of small order included."""
    scheme, _, encoded = text.partition(":")
    raw = base64url.decode(encoded)
    if scheme != "ed25519" or raw is None or not is_strong_ed25519(raw):
        raise ValueError("not ed25519: and a usable public key in base64url")
    return OperatorPublicKey(name=name, public=Ed25519PublicKey.from_public_bytes(raw))


def sign_approval(key: OperatorKey, statement: bytes) -> bytes:
    """Sign the exact bytes of an approval statement, in a domain of their own. 64 bytes."""
    return key.private.sign(APPROVAL_DOMAIN + statement)


def verify_approval(public: OperatorPublicKey, statement: bytes, signature: bytes) -> None:
    """Returns when `signature` is this operator's over these bytes; else raises ApprovalSignatureError."""
    try:
        public.public.verify(signature, APPROVAL_DOMAIN + statement)
    except InvalidSignature:
        raise ApprovalSignatureError from None


def sign_act(key: OperatorKey, statement: bytes) -> bytes:
    """Sign the exact bytes of what an operator does; no such signature is ever one of an approval. 64 bytes."""
    return key.private.sign(ACT_DOMAIN + statement)


def is_act_of(public: OperatorPublicKey, statement: bytes, signature: bytes) -> bool:
    """Whether `signature` is this operator's over these bytes."""
    try:
        public.public.verify(signature, ACT_DOMAIN + statement)
    except InvalidSignature:
        return False
    return True


def next_kid(tenant: str, now_s: int, taken: Collection[str]) -> str:
    """`{tenant}-cap-{year}-{month}-{letter}`: when a key began and which of that month's it is.

    Raises ValueError when the month's 26 letters are used up or the tenant is too long for a kid.
    """
    month = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m")
    for letter in "abcdefghijklmnopqrstuvwxyz":
        kid = f"{tenant}-cap-{month}-{letter}"
        if kid not in taken and is_segment(kid):
            return kid
    raise ValueError("no kid is free for this tenant and month")


def is_strong_ed25519(raw: bytes) -> bool:
    """Is this a canonical encoding of a curve point that is not of small order (RFC 8032 §5.1.3)?

    A key of small order verifies one signature for every message, so whoever plants it forges everything.
    """
    if len(raw) != ED25519_KEY_BYTES:
        return False
    y = int.from_bytes(raw, "little") & ((1 << 255) - 1)
    return y < _P and y not in _SMALL_ORDER_Y and _is_on_curve(y)


def _is_on_curve(y: int) -> bool:
    """x² = (y² − 1) / (d·y² + 1) has a root exactly when Euler's criterion gives 1 (0 only for small order)."""
    x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    return pow(x_squared, (_P - 1) // 2, _P) == 1
