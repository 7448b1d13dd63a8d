"""The capability token: a JWT access token (RFC 7519, RFC 9068) held to RFC 8725, with details per RFC 9396.

A token is authority to *propose*, for at most 15 minutes. Below: `jws` (is it signed by a key of ours?) and `details`
(what may be proposed?). Above: the gateway, which keeps the `Capability` and forgets the text.

All times are NumericDates: whole epoch seconds, taken by rounding the clock *down*. Clocks may differ by SKEW_S. The
claims form a closed world: each is required, none may be added, and every one has a grammar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NoReturn

from capabilities import strict_json
from capabilities.details import AuthorizationDetail, Details, Intent, parse_details
from capabilities.errors import ClockSkewError, CredentialCode, CredentialError
from capabilities.identifiers import IdPrefix, is_id, is_principal
from capabilities.jwks import Keys
from capabilities.jws import TOKEN_CHARS_MAX, authenticate
from capabilities.strict_json import JsonValue, StrictJsonError

__all__ = [
    "LIFETIME_S_MAX",
    "SKEW_S",
    "TOKEN_CHARS_MAX",
    "AuthorizationDetail",
    "Capability",
    "Claims",
    "Intent",
    "Verifier",
    "parse_claims",
]

LIFETIME_S_MAX: Final = 900
SKEW_S: Final = 30
EFFECT_S_MAX: Final = 7 * 86_400
TOKEN_VERSION: Final = 1

_CLAIMS: Final = frozenset(
    {
        "iss",
        "sub",
        "client_id",
        "aud",
        "iat",
        "nbf",
        "exp",
        "jti",
        "ver",
        "tenant",
        "dec",
        "authorization_details",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a token says, under the names of its claims. `iat`, `nbf`, `exp` are epoch seconds."""

    iss: str
    sub: str
    client_id: str
    aud: str
    iat: int
    nbf: int
    exp: int
    jti: str
    tenant: str
    dec: str
    details: Details

    def encode(self) -> bytes:
        """The payload that `parse_claims` reads back."""
        return strict_json.canonical(
            {
                "iss": self.iss,
                "sub": self.sub,
                "client_id": self.client_id,
                "aud": self.aud,
                "iat": self.iat,
                "nbf": self.nbf,
                "exp": self.exp,
                "jti": self.jti,
                "ver": TOKEN_VERSION,
                "tenant": self.tenant,
                "dec": self.dec,
                "authorization_details": [detail.to_json() for detail in self.details],
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A verified token without its text: what it says, which key said so, and in which set that key stood (its digest).
    Safe to log."""

    claims: Claims
    kid: str
    key_set: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """Whom this gateway believes: the keys of one issuer, for one audience (itself) and one tenant.

    Strings are compared exactly; there is no normalisation, prefix or list anywhere (RFC 8725 §3.8, §3.9).
    """

    keys: Keys
    issuer: str
    audience: str
    tenant: str

    def verify(self, raw: str, now_s: int) -> Capability:
        """Raises CredentialError with a stable code; never anything else, whatever `raw` is."""
        keys = self.keys.current()
        signed = authenticate(raw, keys)
        claims = parse_claims(signed.payload, issuer=self.issuer, audience=self.audience, tenant=self.tenant)
        check_times(claims, now_s)
        return Capability(claims=claims, kid=signed.kid, key_set=keys.digest)


def parse_claims(payload: bytes, *, issuer: str, audience: str, tenant: str) -> Claims:
    """Read a signed payload against the three names it must be made for. Times are only checked against each other."""
    members = _closed(payload)
    if members["ver"] != TOKEN_VERSION or type(members["ver"]) is not int:
        raise CredentialError(CredentialCode.UNSUPPORTED_VERSION, field="ver")
    _require(members, "iss", issuer, CredentialCode.WRONG_ISSUER)
    _require(members, "aud", audience, CredentialCode.WRONG_AUDIENCE)
    _require(members, "tenant", tenant, CredentialCode.WRONG_TENANT)
    claims = Claims(
        iss=issuer,
        aud=audience,
        tenant=tenant,
        sub=_principal(members, "sub"),
        client_id=_principal(members, "client_id"),
        iat=_date(members, "iat"),
        nbf=_date(members, "nbf"),
        exp=_date(members, "exp"),
        jti=_identifier(members, "jti", "tok"),
        dec=_identifier(members, "dec", "dec"),
        details=parse_details(members["authorization_details"], location=audience),
    )
    _check_lifetime(claims)
    return claims


def check_times(claims: Claims, now_s: int) -> None:
    """Is now within the token's life, give or take SKEW_S? Raises ClockSkewError, not_yet_valid or expired."""
    if claims.iat > now_s + SKEW_S:
        raise ClockSkewError(token_time_s=claims.iat, our_time_s=now_s)
    if claims.nbf > now_s + SKEW_S:
        raise CredentialError(CredentialCode.NOT_YET_VALID, field="nbf")
    if claims.exp <= now_s - SKEW_S or claims.iat < now_s - LIFETIME_S_MAX - SKEW_S:
        raise CredentialError(CredentialCode.EXPIRED, field="exp")


def _check_lifetime(claims: Claims) -> None:
    if claims.exp <= claims.iat:
        _refuse("exp")
    if claims.exp - claims.iat > LIFETIME_S_MAX:
        raise CredentialError(CredentialCode.LIFETIME_TOO_LONG, field="exp")
    for detail in claims.details:
        until = detail.constraints.effect_not_after_s
        if until is not None and not claims.iat < until <= claims.iat + EFFECT_S_MAX:
            raise CredentialError(CredentialCode.INVALID_DETAILS, field="effect_not_after")


def _closed(payload: bytes) -> dict[str, JsonValue]:
    try:
        members = strict_json.load_object(payload)
    except StrictJsonError:
        raise CredentialError(CredentialCode.MALFORMED_PAYLOAD) from None
    if not members.keys() <= _CLAIMS:
        raise CredentialError(CredentialCode.UNKNOWN_CLAIM)
    for name in sorted(_CLAIMS - members.keys()):
        raise CredentialError(CredentialCode.MISSING_CLAIM, field=name)
    return members


def _require(members: dict[str, JsonValue], name: str, expected: str, code: CredentialCode) -> None:
    if members[name] != expected:
        raise CredentialError(code, field=name)


def _principal(members: dict[str, JsonValue], name: str) -> str:
    value = members[name]
    return value if is_principal(value) else _refuse(name)


def _identifier(members: dict[str, JsonValue], name: str, prefix: IdPrefix) -> str:
    value = members[name]
    return value if is_id(value, prefix) else _refuse(name)


def _date(members: dict[str, JsonValue], name: str) -> int:
    value = members[name]
    return value if type(value) is int and value > 0 else _refuse(name)


def _refuse(field: str) -> NoReturn:
    raise CredentialError(CredentialCode.INVALID_CLAIM, field=field)
