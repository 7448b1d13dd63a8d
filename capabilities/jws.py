"""Compact JWS (RFC 7515 §7.1), as narrow as a capability token needs it.

`authenticate` turns text into payload bytes that one of our keys has signed, and does nothing that costs before it is
cheap to refuse: length and shape first, then the header as strict JSON, then the key its kid names, then canonical
form of the signature, then the signature. PyJWT's two algorithm objects compute it, chosen by the key and never by the
header; its registry of defaults (`none` and HMAC among them) is not in reach (RFC 8725 §3.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm

from capabilities import base64url, strict_json
from capabilities.errors import CredentialCode, CredentialError
from capabilities.identifiers import is_segment
from capabilities.jwks import Keys
from capabilities.keys import Algorithm, Signer, VerificationKey
from capabilities.strict_json import JsonValue, StrictJsonError

TOKEN_CHARS_MAX: Final = 4096
HEADER_CHARS_MAX: Final = 512
SIGNATURE_BYTES: Final = 64
TOKEN_TYPE: Final = "at+jwt"  # noqa: S105 (RFC 9068 §2.1 names the type)
_HEADER_DEPTH_MAX: Final = 2
_HEADER_MEMBERS: Final = frozenset({"alg", "kid", "typ"})
_SIGNATURE_CHARS: Final = len(base64url.encode(bytes(SIGNATURE_BYTES)))

# All the algorithms this process can verify. PyJWT's own table, which holds more, is never consulted.
_EDDSA: Final = OKPAlgorithm()
_ES256: Final = ECAlgorithm(ECAlgorithm.SHA256, SECP256R1)

ED25519_ORDER: Final = 2**252 + 27742317777372353535851937790883648493  # RFC 8032 §5.1
P256_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # FIPS 186-4 D.1.2.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticated:
    """Bytes that the key `kid` has signed as an access token. Nothing is known yet of what they say."""

    kid: str
    payload: bytes


def authenticate(raw: str, keys: Keys) -> Authenticated:
    """Check everything about a token but its claims. Raises CredentialError; the work is bounded by the length cap."""
    header_segment, payload_segment, signature_segment = segments(raw)
    algorithm, kid = _token_header(header_of(header_segment, _HEADER_MEMBERS))
    payload, signature = decoded(payload_segment), decoded(signature_segment)
    key = keys.find(kid)
    if key is None:
        raise CredentialError(CredentialCode.UNKNOWN_KEY)
    if key.algorithm is not algorithm:
        raise CredentialError(CredentialCode.ALGORITHM_MISMATCH)
    if not verify_signature(key, raw.rpartition(".")[0].encode("ascii"), signature):
        raise CredentialError(CredentialCode.BAD_SIGNATURE)
    return Authenticated(kid=kid, payload=payload)


def verify_signature(key: VerificationKey, message: bytes, signature: bytes) -> bool:
    """Is `signature` (64 bytes, JWS form) the key's over `message`, in canonical form, under the key's algorithm?"""
    if not is_canonical_signature(key.algorithm, signature):
        return False
    match key.public:
        case Ed25519PublicKey() if key.algorithm is Algorithm.EDDSA:
            return _EDDSA.verify(message, key.public, signature)
        case EllipticCurvePublicKey() if key.algorithm is Algorithm.ES256:
            return _ES256.verify(message, key.public, signature)
        case _:
            return False


def sign(payload: bytes, signer: Signer) -> str:
    """The compact serialisation of `payload` under the header this module accepts."""
    header: dict[str, JsonValue] = {"alg": signer.algorithm.value, "kid": signer.kid, "typ": TOKEN_TYPE}
    signing_input = f"{base64url.encode(strict_json.canonical(header))}.{base64url.encode(payload)}"
    signature = signer.sign(signing_input.encode("ascii"))
    if signer.algorithm is Algorithm.ES256:
        signature = with_low_s(signature)
    return f"{signing_input}.{base64url.encode(signature)}"


def with_low_s(signature: bytes) -> bytes:
    """Of the two ES256 signatures (r, s) and (r, n−s), the one this module accepts (BIP 62, RFC 6979 signers vary)."""
    s = int.from_bytes(signature[32:64], "big")
    low = P256_ORDER - s if P256_ORDER // 2 < s < P256_ORDER else s
    return signature[:32] + low.to_bytes(32, "big") + signature[64:]


def is_canonical_signature(algorithm: Algorithm, signature: bytes) -> bool:
    """Has the signature the one form we accept, so that nobody can turn it into another valid one?

    EdDSA: S below the group order (RFC 8032 §5.1.7). ES256: r and s in 1…n−1, s in the lower half.
    """
    if len(signature) != SIGNATURE_BYTES:
        return False
    if algorithm is Algorithm.EDDSA:
        return int.from_bytes(signature[32:], "little") < ED25519_ORDER
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    return 0 < r < P256_ORDER and 0 < s <= P256_ORDER // 2


def segments(raw: str) -> tuple[str, str, str]:
    """Header, payload and signature, still encoded; what is too long or has another shape is refused unread."""
    if not 0 < len(raw) <= TOKEN_CHARS_MAX or raw.count(".") != 2:
        raise CredentialError(CredentialCode.MALFORMED_TOKEN)
    header, payload, signature = raw.split(".")
    if not 0 < len(header) <= HEADER_CHARS_MAX or not payload or len(signature) > _SIGNATURE_CHARS:
        raise CredentialError(CredentialCode.MALFORMED_TOKEN)
    return header, payload, signature


def decoded(segment: str) -> bytes:
    """The bytes of a segment, which has one spelling."""
    found = base64url.decode(segment)
    if found is None:
        raise CredentialError(CredentialCode.MALFORMED_TOKEN)
    return found


def header_of(segment: str, members: frozenset[str]) -> dict[str, JsonValue]:
    """The header, out of these members alone."""
    try:
        header = strict_json.load_object(decoded(segment), depth_max=_HEADER_DEPTH_MAX)
    except StrictJsonError:
        raise CredentialError(CredentialCode.MALFORMED_HEADER) from None
    if not header.keys() <= members:
        raise CredentialError(CredentialCode.UNKNOWN_HEADER)
    return header


def algorithm_of(header: dict[str, JsonValue]) -> Algorithm:
    """The algorithm that it names, of the two there are."""
    name = header.get("alg")
    if name == Algorithm.EDDSA.value:
        return Algorithm.EDDSA
    if name == Algorithm.ES256.value:
        return Algorithm.ES256
    raise CredentialError(CredentialCode.UNSUPPORTED_ALGORITHM)


def _token_header(header: dict[str, JsonValue]) -> tuple[Algorithm, str]:
    if header.get("typ") != TOKEN_TYPE:
        raise CredentialError(CredentialCode.WRONG_TOKEN_TYPE)
    kid = header.get("kid")
    algorithm = algorithm_of(header)
    if not is_segment(kid):
        raise CredentialError(CredentialCode.UNKNOWN_KEY)
    return algorithm, kid
