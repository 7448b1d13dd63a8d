"""Builds tokens the way an attacker would: any header, any payload, any signature, with good keys or bad ones."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from capabilities.jwks import KeySet
from capabilities.jws import with_low_s
from capabilities.keys import Algorithm, SigningKey, VerificationKey
from capabilities.token import Verifier

NOW_S: Final = 1_796_045_914
ISSUER: Final = "https://issuer.acme.example"
AUDIENCE: Final = "https://gw.acme.example/mcp"
TENANT: Final = "acme"
KID: Final = "acme-cap-2026-11-a"
EC_KID: Final = "acme-kms-2026-11-a"
JTI: Final = "tok_01kb9zq3m4n5p6q7r8s9t0v1w2"
DEC: Final = "dec_01kb9zp7c1d2e3f4g5h6j7k8m9"
AGENT: Final = "agent:writer-7"
RESOURCE: Final = "site/blog/article-0028"

JsonObject = dict[str, Any]
Sign = Callable[[bytes], bytes]


class Absent:
    """Marks a member to leave out."""


ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsKey:
    """An ES256 signer, as a key management service would be: it does not care which S it returns."""

    kid: str
    private: ec.EllipticCurvePrivateKey
    algorithm: Algorithm = Algorithm.ES256

    def sign(self, message: bytes) -> bytes:
        r, s = decode_dss_signature(self.private.sign(message, ec.ECDSA(SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def sign_low(self, message: bytes) -> bytes:
        return with_low_s(self.sign(message))

    def verification_key(self) -> VerificationKey:
        return VerificationKey(kid=self.kid, algorithm=self.algorithm, public=self.private.public_key())


KEY: Final = SigningKey(kid=KID, private=Ed25519PrivateKey.from_private_bytes(b"\x01" * 32))
STRANGER: Final = SigningKey(kid=KID, private=Ed25519PrivateKey.from_private_bytes(b"\x02" * 32))
EC_KEY: Final = KmsKey(kid=EC_KID, private=ec.derive_private_key(0x1F2E3D4C5B6A, ec.SECP256R1()))
KEYS: Final = KeySet.of([KEY.verification_key(), EC_KEY.verification_key()])


def verifier(**changes: Any) -> Verifier:
    """The gateway all of these tokens are presented to."""
    return Verifier(**{"keys": KEYS, "issuer": ISSUER, "audience": AUDIENCE, "tenant": TENANT, **changes})


def detail(**changes: Any) -> JsonObject:
    """A publish detail; limits and constraints may be changed by passing them whole."""
    return _changed(
        {
            "type": "urn:remit:intent:publish:1",
            "locations": [AUDIENCE],
            "actions": ["propose_publish"],
            "resources": [RESOURCE],
            "limits": {"max_uses": 1, "max_bytes": 262_144, "max_open_commands": 1},
            "constraints": {"approval": "human:1", "effect_not_after": NOW_S + 86_400, "repeat": False},
        },
        changes,
    )


def query_detail(**changes: Any) -> JsonObject:
    """A query detail for the decision's own commands."""
    return _changed(
        {
            "type": "urn:remit:intent:query:1",
            "locations": [AUDIENCE],
            "actions": ["query_command_status"],
            "resources": [f"command/by-dec/{DEC}"],
            "limits": {"max_uses": 500},
            "constraints": {},
        },
        changes,
    )


def claims(**changes: Any) -> JsonObject:
    """A payload that verifies at NOW_S unless changed."""
    return _changed(
        {
            "iss": ISSUER,
            "sub": AGENT,
            "client_id": "mcp-host:desk-3",
            "aud": AUDIENCE,
            "iat": NOW_S - 60,
            "nbf": NOW_S - 60,
            "exp": NOW_S + 840,
            "jti": JTI,
            "ver": 1,
            "tenant": TENANT,
            "dec": DEC,
            "authorization_details": [detail(), query_detail()],
        },
        changes,
    )


def header(**changes: Any) -> JsonObject:
    """The header of a good token of the Ed25519 key, unless changed."""
    return _changed({"alg": "EdDSA", "kid": KID, "typ": "at+jwt"}, changes)


def token(
    payload: JsonObject | bytes | str | None = None,
    head: JsonObject | bytes | str | None = None,
    sign: Sign = KEY.sign,
) -> str:
    """A compact JWS of whatever is passed, properly signed by `sign`."""
    signing_input = (
        f"{b64(_octets(header() if head is None else head))}.{b64(_octets(claims() if payload is None else payload))}"
    )
    return f"{signing_input}.{b64(sign(signing_input.encode()))}"


def with_details(*details: Any) -> str:
    """A token whose authorization_details are exactly these."""
    return token(claims(authorization_details=list(details)))


def es256_token(sign: Sign = EC_KEY.sign_low, **changes: Any) -> str:
    """A token of the P-256 key."""
    return token(claims(**changes), header(alg="ES256", kid=EC_KID), sign)


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _changed(members: JsonObject, changes: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in {**members, **changes}.items() if value is not ABSENT}


def _octets(value: JsonObject | bytes | str) -> bytes:
    match value:
        case bytes():
            return value
        case str():
            return value.encode("utf-8", "surrogatepass")
        case _:
            return json.dumps(value).encode()
