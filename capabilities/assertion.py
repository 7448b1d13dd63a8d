"""Client assertions (RFC 7523 §3, `private_key_jwt`): a registered program proves that it holds its key.

The same narrow JWS as a token: one algorithm pinned by the client's key, length and shape before anything else, strict
JSON. The claims are a closed world too. An assertion is for one issuer, by its identifier and nothing else, lives five
minutes at most, and works once: whoever accepts it counts its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from capabilities import jws, strict_json
from capabilities.errors import CredentialCode, CredentialError
from capabilities.keys import Algorithm, VerificationKey
from capabilities.strict_json import JsonValue, StrictJsonError
from capabilities.token import SKEW_S

ASSERTION_S_MAX: Final = 300
ID_CHARS_MAX: Final = 128
_HEADER: Final = frozenset({"alg", "typ", "kid"})
_TYPES: Final = (None, "JWT", "client-authentication+jwt")
_REQUIRED: Final = frozenset({"iss", "sub", "aud", "exp", "iat", "jti"})
_CLAIMS: Final = _REQUIRED | {"nbf"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """Who proved to be who, and the id under which it may be counted."""

    client_id: str
    jti: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionVerifier:
    """Whom an issuer believes: the keys of its registered clients, by client id."""

    clients: Mapping[str, VerificationKey]
    issuer: str

    def verify(self, raw: str, now_s: int) -> Assertion:
        """Raises CredentialError with a stable code; never anything else, whatever `raw` is."""
        head, body, proof = jws.segments(raw)
        header = jws.header_of(head, _HEADER)
        if header.get("typ") not in _TYPES:
            raise CredentialError(CredentialCode.WRONG_TOKEN_TYPE)
        algorithm = jws.algorithm_of(header)
        claims = _closed(jws.decoded(body))
        client_id = claims["sub"]
        key = self.clients.get(client_id) if isinstance(client_id, str) else None
        if key is None or not isinstance(client_id, str):
            raise CredentialError(CredentialCode.UNKNOWN_KEY)
        if key.algorithm is not algorithm:
            raise CredentialError(CredentialCode.ALGORITHM_MISMATCH)
        signature = jws.decoded(proof)
        if algorithm is Algorithm.ES256 and len(signature) == jws.SIGNATURE_BYTES:
            signature = jws.with_low_s(signature)  # what others sign has either form, and its id alone makes it unique
        if not jws.verify_signature(key, raw.rpartition(".")[0].encode("ascii"), signature):
            raise CredentialError(CredentialCode.BAD_SIGNATURE)
        if claims["iss"] != client_id:
            raise CredentialError(CredentialCode.WRONG_ISSUER, field="iss")
        if claims["aud"] not in (self.issuer, [self.issuer]):
            raise CredentialError(CredentialCode.WRONG_AUDIENCE, field="aud")
        _check_times(claims, now_s)
        return Assertion(client_id=client_id, jti=_id(claims["jti"]))


def _closed(payload: bytes) -> dict[str, JsonValue]:
    try:
        claims = strict_json.load_object(payload)
    except StrictJsonError:
        raise CredentialError(CredentialCode.MALFORMED_PAYLOAD) from None
    if not claims.keys() <= _CLAIMS:
        raise CredentialError(CredentialCode.UNKNOWN_CLAIM)
    for name in sorted(_REQUIRED - claims.keys()):
        raise CredentialError(CredentialCode.MISSING_CLAIM, field=name)
    return claims


def _check_times(claims: dict[str, JsonValue], now_s: int) -> None:
    iat, exp = _date(claims, "iat"), _date(claims, "exp")
    nbf = _date(claims, "nbf") if "nbf" in claims else iat
    if not iat < exp <= iat + ASSERTION_S_MAX:
        raise CredentialError(CredentialCode.LIFETIME_TOO_LONG, field="exp")
    if max(iat, nbf) > now_s + SKEW_S:
        raise CredentialError(CredentialCode.NOT_YET_VALID, field="nbf")
    if exp <= now_s - SKEW_S:
        raise CredentialError(CredentialCode.EXPIRED, field="exp")


def _date(claims: dict[str, JsonValue], name: str) -> int:
    value = claims[name]
    if type(value) is not int or value <= 0:
        raise CredentialError(CredentialCode.INVALID_CLAIM, field=name)
    return value


def _id(value: JsonValue) -> str:
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= ID_CHARS_MAX
        or not (value.isascii() and value.isprintable())
    ):
        raise CredentialError(CredentialCode.INVALID_CLAIM, field="jti")
    return value
