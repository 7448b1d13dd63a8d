"""The hostile-token corpus: what is sent, and the stable code it is refused with.

Every case is one deviation from a token that verifies. The reference names the attack or the rule.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from capabilities.errors import CredentialCode as C
from capabilities.jwks import KeySet
from capabilities.jws import ED25519_ORDER, P256_ORDER, TOKEN_CHARS_MAX
from tests.security.forge import (
    ABSENT,
    AUDIENCE,
    EC_KEY,
    EC_KID,
    ISSUER,
    KEY,
    KEYS,
    KID,
    NOW_S,
    STRANGER,
    JsonObject,
    Sign,
    b64,
    claims,
    detail,
    es256_token,
    header,
    query_detail,
    token,
    unb64,
    with_details,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileToken:
    """`name` says what is wrong with `raw`, `code` how it is refused."""

    name: str
    raw: str
    code: C
    reference: str = ""


def corpus() -> Iterator[HostileToken]:
    """All cases; names are unique."""
    yield from _algorithm_cases()
    yield from _header_cases()
    yield from _json_cases()
    yield from _time_cases()
    yield from _claim_cases()
    yield from _detail_cases()
    yield from _limit_and_constraint_cases()
    yield from _resource_cases()
    yield from _shape_cases()
    yield from _signature_cases()


def _case(name: str, raw: str, code: C, reference: str = "") -> HostileToken:
    return HostileToken(name=name, raw=raw, code=code, reference=reference)


def _hs256(secret: bytes) -> Sign:
    return lambda message: hmac.new(secret, message, hashlib.sha256).digest()


def _algorithm_cases() -> Iterator[HostileToken]:
    unsigned = token(head=header(alg="none")).rpartition(".")[0] + "."
    yield _case("alg none with an empty signature", unsigned, C.UNSUPPORTED_ALGORITHM, "CVE-2015-9235, CVE-2022-23540")
    yield _case(
        "alg none with a good signature", token(head=header(alg="none")), C.UNSUPPORTED_ALGORITHM, "RFC 8725 2.1"
    )
    yield _case("alg NoNe", token(head=header(alg="NoNe")), C.UNSUPPORTED_ALGORITHM, "RFC 8725 2.1")
    yield _case("alg eddsa in lower case", token(head=header(alg="eddsa")), C.UNSUPPORTED_ALGORITHM, "RFC 7515 4.1.1")
    wrong: tuple[tuple[str, Any], ...] = (
        ("missing", ABSENT),
        ("null", None),
        ("a dict", {"EdDSA": 1}),
        ("a list", ["EdDSA"]),
        ("a number", 1),
        ("true", True),
        ("empty", ""),
        ("Ed25519", "Ed25519"),
        ("Ed448", "Ed448"),
        ("ES256K", "ES256K"),
        ("ES384", "ES384"),
        ("RS256", "RS256"),
        ("PS256", "PS256"),
    )
    for name, value in wrong:
        yield _case(f"alg {name}", token(head=header(alg=value)), C.UNSUPPORTED_ALGORITHM, "RFC 8725 3.1")
    jwk = KEYS.encode()
    raw_key = KEY.private.public_key().public_bytes_raw()
    secrets = {
        "the JWK JSON": jwk,
        "the raw public key": raw_key,
        "the base64 key": b64(raw_key).encode(),
        "nothing": b"",
    }
    for name, secret in secrets.items():
        forged = token(head=header(alg="HS256"), sign=_hs256(secret))
        yield _case(f"HS256 keyed with {name}", forged, C.UNSUPPORTED_ALGORITHM, "CVE-2026-48526, CVE-2026-102266")
    mixed = token(head=header(alg="ES256"), sign=EC_KEY.sign_low)
    yield _case("ES256 header on an Ed25519 kid", mixed, C.ALGORITHM_MISMATCH, "CVE-2026-48523")
    yield _case("EdDSA header on a P-256 kid", token(head=header(kid=EC_KID)), C.ALGORITHM_MISMATCH, "CVE-2026-48523")


def _header_cases() -> Iterator[HostileToken]:
    kids: dict[str, Any] = {
        "path traversal": "../../../../dev/null",
        "a URL": "https://evil.example/jwks.json",
        "SQL": "x' UNION SELECT 'key'--",
        "an integer": 1,
        "a list": [KID],
        "null": None,
        "empty": "",
        "missing": ABSENT,
        "unknown": "acme-cap-2099-01-a",
        "in upper case": KID.upper(),
        "with a NUL": KID + "\x00",
        "65 characters": "a" * 65,
    }
    for name, kid in kids.items():
        yield _case(f"kid {name}", token(head=header(kid=kid)), C.UNKNOWN_KEY, "CVE-2026-101917")
    yield _case("kid of 1 MB", token(head=header(kid="a" * 1_000_000)), C.MALFORMED_TOKEN)
    yield _case("kid of 600 characters", token(head=header(kid="a" * 600)), C.MALFORMED_TOKEN)
    public = json.loads(KeySet.of([STRANGER.verification_key()]).encode())["keys"][0]
    additions: dict[str, JsonObject] = {
        "jku of an attacker": {"jku": "https://evil.example/jwks.json"},
        "jwk of an attacker": {"jwk": {"kty": "OKP", "x": public["x"]}},
        "x5u of an attacker": {"x5u": "https://evil.example/c.pem"},
        "x5c of an attacker": {"x5c": ["MIIB"]},
        "x5t": {"x5t": "AAAA"},
        "crit unknown": {"crit": ["exp2"], "exp2": 1},
        "crit of a registered name": {"crit": ["alg"]},
        "crit empty": {"crit": []},
        "b64 false with crit": {"b64": False, "crit": ["b64"]},
        "b64 false without crit": {"b64": False},
        "zip DEF": {"zip": "DEF"},
        "enc": {"enc": "A128GCM"},
        "cty JWT (nested)": {"cty": "JWT"},
        "an unknown member": {"foo": 1},
        "iss replicated": {"iss": ISSUER},
    }
    for name, members in additions.items():
        signer = STRANGER if "attacker" in name else KEY
        raw = token(head=header(**members), sign=signer.sign)
        yield _case(f"header with {name}", raw, C.UNKNOWN_HEADER, "CVE-2018-0114, CVE-2026-32597, CVE-2024-33664")
    for kind in ("JWT", "jwt", "AT+JWT", "application/at+jwt", "dpop+jwt", "", None, 1, ["at+jwt"], ABSENT):
        shown = "missing" if kind is ABSENT else json.dumps(kind)
        yield _case(f"typ {shown}", token(head=header(typ=kind)), C.WRONG_TOKEN_TYPE, "RFC 9068 4, RFC 8725 3.11")
    heads: dict[str, str | bytes] = {
        "duplicate alg": f'{{"alg":"none","alg":"EdDSA","kid":"{KID}","typ":"at+jwt"}}',
        "duplicate kid": f'{{"alg":"EdDSA","kid":"x","kid":"{KID}","typ":"at+jwt"}}',
        "a list": "[]",
        "a string": '"EdDSA"',
        "null": "null",
        "no JSON": "{alg:EdDSA}",
        "trailing bytes": json.dumps(header()) + "{}",
        "a byte order mark": b"\xef\xbb\xbf" + json.dumps(header()).encode(),
        "UTF-16": json.dumps(header()).encode("utf-16"),
        "invalid UTF-8": b'{"alg":"EdDSA","kid":"\xff","typ":"at+jwt"}',
        "nesting": '{"alg":' + "[" * 60 + "]" * 60 + "}",
    }
    for name, head in heads.items():
        yield _case(f"header is {name}", token(head=head), C.MALFORMED_HEADER, "RFC 8259, RFC 7515 4")


def _json_cases() -> Iterator[HostileToken]:
    good = json.dumps(claims())
    body = good[:-1]
    payloads: dict[str, str | bytes] = {
        "duplicate exp": f'{body},"exp":{NOW_S + 600}}}',
        "duplicate aud": f'{{"aud":"https://evil.example",{good[1:]}',
        "duplicate member deep inside": good.replace('"max_uses": 1,', '"max_uses": 1, "max_uses": 9,'),
        "exp 1e400": good.replace(f'"exp": {NOW_S + 840}', '"exp": 1e400'),
        "exp with an exponent": good.replace(f'"exp": {NOW_S + 840}', '"exp": 1796046e3'),
        "exp Infinity": good.replace(f'"exp": {NOW_S + 840}', '"exp": Infinity'),
        "exp NaN": good.replace(f'"exp": {NOW_S + 840}', '"exp": NaN'),
        "exp a float": good.replace(f'"exp": {NOW_S + 840}', f'"exp": {NOW_S + 840}.0'),
        "exp of 2000 digits": good.replace(f'"exp": {NOW_S + 840}', f'"exp": {"9" * 2000}'),
        "exp beyond 2^53": good.replace(f'"exp": {NOW_S + 840}', f'"exp": {2**53}'),
        "a lone surrogate": good.replace(JTI_TEXT, "\\ud800"),
        "a reversed surrogate pair": good.replace(JTI_TEXT, "\\udc00\\ud800"),
        "not JSON": "hello",
        "empty object brackets missing": good[1:],
        "trailing comma": body + ",}",
        "a comment": good + "/* */",
        "a trailing NUL": good + "\x00",
        "a raw control character": good.replace(JTI_TEXT, "a\nb"),
        "a list": f"[{good}]",
        "a string": json.dumps("claims"),
        "a number": "1",
        "invalid UTF-8": good.encode().replace(b"acme.example", b"acme\xff\xfe.example"),
        "overlong UTF-8": good.encode().replace(b"acme.example", b"acme\xc0\xae.example"),
        "UTF-16": json.dumps({"iss": ISSUER}).encode("utf-16"),
        "UTF-32": json.dumps({"iss": ISSUER}).encode("utf-32"),
        "a byte order mark": b"\xef\xbb\xbf" + good.encode(),
        "encoded surrogates (CESU-8)": good.encode().replace(b"acme.example", b"\xed\xa0\x80"),
        "depth 1000": '{"iss":' + "[" * 1000 + "]" * 1000 + "}",
        "depth 1000 unclosed": '{"iss":' + "[" * 1000,
    }
    for name, payload in payloads.items():
        yield _case(f"payload is {name}", token(payload), C.MALFORMED_PAYLOAD, "RFC 8259, RFC 7493, CVE-2026-101918")
    yield _case("payload with depth 2000", token('{"iss":' + "[" * 2000 + "]" * 2000 + "}"), C.MALFORMED_TOKEN)
    yield _case("exp of 5000 digits", token(body + f',"x":{"9" * 5000}}}'), C.MALFORMED_TOKEN, "CVE-2020-10735")


JTI_TEXT = claims()["jti"]


def _time_cases() -> Iterator[HostileToken]:
    for name in ("exp", "nbf", "iat"):
        for label, value in {
            "string digits": str(NOW_S),
            "negative": -1,
            "zero": 0,
            "true": True,
            "null": None,
        }.items():
            yield _case(f"{name} {label}", token(claims(**{name: value})), C.INVALID_CLAIM, "RFC 7519 NumericDate")
    yield _case("lifetime of 24 h", token(claims(exp=NOW_S + 86_400)), C.LIFETIME_TOO_LONG)
    yield _case("lifetime of 901 s", token(claims(iat=NOW_S, exp=NOW_S + 901)), C.LIFETIME_TOO_LONG)
    yield _case("exp before iat", token(claims(exp=NOW_S - 61)), C.INVALID_CLAIM)
    yield _case("exp equal to iat", token(claims(exp=NOW_S - 60)), C.INVALID_CLAIM)
    yield _case("nbf far in the future", token(claims(nbf=NOW_S + 86_400)), C.NOT_YET_VALID)
    yield _case("nbf 31 s in the future", token(claims(nbf=NOW_S + 31)), C.NOT_YET_VALID)
    yield _case("iat 31 s in the future", token(claims(iat=NOW_S + 31, nbf=NOW_S)), C.CLOCK_SKEW)
    yield _case("iat 5 min in the future", token(claims(iat=NOW_S + 300, nbf=NOW_S, exp=NOW_S + 900)), C.CLOCK_SKEW)
    yield _case("expired 30 s ago", token(claims(iat=NOW_S - 600, exp=NOW_S - 30)), C.EXPIRED)
    year_s = 31_536_000
    long_ago = claims(iat=NOW_S - year_s, exp=NOW_S - year_s + 800, authorization_details=[detail(constraints={})])
    yield _case("expired a year ago", token(long_ago), C.EXPIRED)


def _claim_cases() -> Iterator[HostileToken]:
    for name in claims():
        yield _case(f"{name} missing", token(claims(**{name: ABSENT})), C.MISSING_CLAIM, "RFC 9068 2.2")
    for name in ("cnf", "act", "may_act", "scope", "admin", "roles", "Exp", "__proto__"):
        yield _case(f"extra claim {name}", token(claims(**{name: {}})), C.UNKNOWN_CLAIM, "closed world")
    wrong: dict[str, tuple[C, dict[str, Any]]] = {
        "aud": (
            C.WRONG_AUDIENCE,
            {
                "superstring": AUDIENCE + ".evil.example",
                "prefix": AUDIENCE[:-1],
                "trailing slash": AUDIENCE + "/",
                "in another case": AUDIENCE.upper(),
                "of the tenant next door": "https://gw.other.example/mcp",
                "a dict": {AUDIENCE: True},
                "a list with the right one": [AUDIENCE],
                "a list of two": [AUDIENCE, "https://evil.example"],
                "null": None,
                "empty": "",
            },
        ),
        "iss": (
            C.WRONG_ISSUER,
            {
                "substring": ISSUER[:-3],
                "superstring": ISSUER + ".evil.example",
                "a homoglyph": ISSUER.replace("issuer", "\u0456ssuer"),
                "with a space": ISSUER + " ",
                "a list": [ISSUER],
                "an attacker": "https://evil.example",
            },
        ),
        "tenant": (
            C.WRONG_TENANT,
            {
                "other": "other",
                "a list": ["acme"],
                "upper case": "ACME",
                "empty": "",
                "null": None,
                "a dict": {"acme": 1},
            },
        ),
        "ver": (C.UNSUPPORTED_VERSION, {"2": 2, "0": 0, "a string": "1", "true": True, "null": None}),
        "jti": (
            C.INVALID_CLAIM,
            {
                "SQL": "x'; DROP TABLE token_uses;--",
                "without prefix": JTI_TEXT[4:],
                "of a decision": JTI_TEXT.replace("tok_", "dec_"),
                "upper case": JTI_TEXT.upper(),
                "one character short": JTI_TEXT[:-1],
                "beyond 128 bits": "tok_8" + JTI_TEXT[5:],
                "with a letter outside the alphabet": JTI_TEXT[:-1] + "u",
                "a number": 1,
                "empty": "",
            },
        ),
        "dec": (C.INVALID_CLAIM, {"empty": "", "a wildcard": "*", "a list": [], "path": "dec_../../etc/passwd0000000"}),
        "sub": (
            C.INVALID_CLAIM,
            {
                "without kind": "writer-7",
                "with control characters": "agent:a\nb",
                "with a bidi override": "agent:\u202ewriter",
                "with three parts": "agent:a:b",
                "empty name": "agent:",
                "of 65 characters": "agent:" + "a" * 65,
                "null": None,
            },
        ),
        "client_id": (C.INVALID_CLAIM, {"a URL": "https://evil.example", "a number": 7, "empty": ""}),
    }
    for claim, (code, values) in wrong.items():
        for label, value in values.items():
            yield _case(f"{claim} {label}", token(claims(**{claim: value})), code, "RFC 8725 3.8, 3.9, CVE-2024-53861")


def _detail_cases() -> Iterator[HostileToken]:
    values: dict[str, Any] = {
        "empty": [],
        "a dict": detail(),
        "null": None,
        "a string": json.dumps([detail()]),
        "of nine": [query_detail() for _ in range(9)],
        "with a string inside": ["urn:remit:intent:publish:1"],
        "with a list inside": [[detail()]],
        "twice the same intent": [detail(), detail(resources=["site/other/x"])],
    }
    for name, value in values.items():
        raw = token(claims(authorization_details=value))
        yield _case(f"authorization_details {name}", raw, C.INVALID_DETAILS, "RFC 9396 5")
    yield _case("detail with an unknown member", with_details(detail(privileges=["admin"])), C.UNKNOWN_DETAIL_MEMBER)
    yield _case("detail with identifier", with_details(detail(identifier="x")), C.UNKNOWN_DETAIL_MEMBER)
    for name in detail():
        yield _case(f"detail without {name}", with_details(detail(**{name: ABSENT})), C.INVALID_DETAILS)
    kinds: tuple[Any, ...] = (
        "urn:remit:intent:publish:2",
        "urn:remit:intent:PUBLISH:1",
        "urn:remit:intent:admin:1",
        "publish",
        "",
        None,
        {},
        [],
    )
    for kind in kinds:
        yield _case(f"detail type {json.dumps(kind)}", with_details(detail(type=kind)), C.INVALID_DETAILS)
    for place in (["https://gw.other.example/mcp"], [AUDIENCE, "https://gw.other.example/mcp"], [], AUDIENCE, None):
        raw = with_details(detail(locations=place))
        yield _case(f"detail locations {json.dumps(place)}", raw, C.WRONG_AUDIENCE, "RFC 9396 2.2")
    actions: tuple[Any, ...] = ([], ["*"], ["approve"], ["propose_publish", "approve"], "propose_publish", None)
    for action in actions:
        yield _case(f"detail actions {json.dumps(action)}", with_details(detail(actions=action)), C.INVALID_DETAILS)
    yield _case(
        "publish action in a query detail", with_details(query_detail(actions=["propose_publish"])), C.INVALID_DETAILS
    )


def _limit_and_constraint_cases() -> Iterator[HostileToken]:
    limits = detail()["limits"]
    for name in limits:
        for value in (True, 0, -1, "1", None, [1], 10**12):
            raw = with_details(detail(limits={**limits, name: value}))
            yield _case(f"{name} {json.dumps(value)}", raw, C.INVALID_DETAILS, "a bool is an int in Python")
        missing = {other: value for other, value in limits.items() if other != name}
        yield _case(f"{name} missing", with_details(detail(limits=missing)), C.INVALID_DETAILS, "absent is not endless")
    yield _case(
        "max_uses 1.0", token(json.dumps(claims()).replace('"max_uses": 1,', '"max_uses": 1.0,')), C.MALFORMED_PAYLOAD
    )
    unknown = with_details(detail(limits={**limits, "max_money": 1}))
    yield _case("unknown limit", unknown, C.UNKNOWN_DETAIL_MEMBER, "what is not understood is not enforced")
    yield _case("limits a list", with_details(detail(limits=[1])), C.INVALID_DETAILS)
    queried = with_details(query_detail(limits={"max_uses": 1, "max_bytes": 1}))
    yield _case("write limit in a query detail", queried, C.UNKNOWN_DETAIL_MEMBER)
    constraints: dict[str, JsonObject] = {
        "approval none": {"approval": "none"},
        "approval human:0": {"approval": "human:0"},
        "approval human:10": {"approval": "human:10"},
        "approval human:01": {"approval": "human:01"},
        "approval agent:1": {"approval": "agent:1"},
        "approval true": {"approval": True},
        "approval null": {"approval": None},
        "approval a list": {"approval": ["human:1"]},
        "repeat 1": {"repeat": 1},
        "repeat a string": {"repeat": "true"},
        "repeat null": {"repeat": None},
        "effect_not_after a string": {"effect_not_after": str(NOW_S + 60)},
        "effect_not_after true": {"effect_not_after": True},
        "effect_not_after null": {"effect_not_after": None},
        "effect_not_after in the past": {"effect_not_after": NOW_S - 3600},
        "effect_not_after in eight days": {"effect_not_after": NOW_S + 8 * 86_400},
    }
    for name, members in constraints.items():
        yield _case(name, with_details(detail(constraints=members)), C.INVALID_DETAILS)
    yield _case("unknown constraint", with_details(detail(constraints={"approved": True})), C.UNKNOWN_DETAIL_MEMBER)
    yield _case(
        "constraint in a query detail",
        with_details(query_detail(constraints={"repeat": True})),
        C.UNKNOWN_DETAIL_MEMBER,
    )
    yield _case("constraints null", with_details(detail(constraints=None)), C.INVALID_DETAILS)


def _resource_cases() -> Iterator[HostileToken]:
    resources: dict[str, Any] = {
        "a regular expression": "(a+)+$",
        "a long regular expression": "(a|a)*" * 100,
        "%2e%2e": "site/%2e%2e/article",
        "..": "site/../article",
        ".": "site/./article",
        "with a bidi override": "site/blog/\u202earticle",
        "with a zero-width space": "site/blog/art\u200bicle",
        "with a homoglyph": "site/bl\u043eg/article",
        "in fullwidth letters": "site/\uff42log/x",
        "in upper case": "site/Blog/x",
        "double wildcard": "site/**",
        "wildcard in the middle": "site/*/article",
        "wildcard within a segment": "site/blog/article-*",
        "question mark": "site/blog/article-000?",
        "leading slash": "/site/blog",
        "trailing slash": "site/blog/",
        "empty segment": "site//x",
        "empty": "",
        "nine segments": "/".join("abcdefghi"),
        "nine segments with a wildcard": "a/b/c/d/e/f/g/h/*",
        "a segment of 65 characters": "site/" + "a" * 65,
        "a backslash": "site\\blog",
        "a NUL": "site/blog\x00",
        "a line break": "site/blog\n",
        "a space": "site/blog x",
        "a tag character": "site/blog\U000e0041",
        "a number": 7,
        "null": None,
        "a list": ["site/blog/x"],
    }
    for name, value in resources.items():
        yield _case(f"resource {name}", with_details(detail(resources=[value])), C.INVALID_DETAILS, "resource grammar")
    lists: dict[str, Any] = {
        "empty": [],
        "a string": "site/blog/x",
        "null": None,
        "seventeen": [f"site/blog/{n}" for n in range(17)],
        "the same twice": ["site/blog/x", "site/blog/x"],
    }
    for name, value in lists.items():
        yield _case(f"resources {name}", with_details(detail(resources=value)), C.INVALID_DETAILS)
    scopes = (
        "command/*",
        "command/by-dec/*",
        "command/by-agent/*",
        "command/any/*",
        "command",
        "site/blog/x",
        "*",
        "command/by-dec/x",
    )
    for scope in scopes:
        yield _case(f"query scope {scope}", with_details(query_detail(resources=[scope])), C.INVALID_DETAILS)


def _shape_cases() -> Iterator[HostileToken]:
    good = token()
    head, payload, signature = good.split(".")
    last = signature[-1]
    shapes = {
        "empty": "",
        "only dots": "..",
        "two segments": f"{head}.{payload}",
        "four segments": f"{good}.{signature}",
        "five segments (JWE)": f"{head}.{payload}.{signature}.{payload}.{signature}",
        "a leading dot": f".{good}",
        "an empty header": f".{payload}.{signature}",
        "an empty payload": f"{head}..{signature}",
        "a trailing line break": good + "\n",
        "a leading space": " " + good,
        "a Bearer prefix": "Bearer " + good,
        "quotes around it": f'"{good}"',
        "padding": good + "==",
        "padded header": f"{head}=.{payload}.{signature}",
        "the standard alphabet": f"{head}.{payload}.{signature[:-2]}+/",
        "non-canonical trailing bits": good[:-1] + chr(ord(last) + 1),
        "an impossible length": f"{head}.{payload}{'A' * (5 - len(payload) % 4)}.{signature}",
        "fullwidth digits": f"{head}.{payload}.{signature[:-1]}\uff11",
        "a zero-width space": f"{head}.\u200b{payload}.{signature}",
        "a lone surrogate": f"{head}.{payload}.\ud800",
        "a NUL inside": f"{head}.\x00{payload}.{signature}",
        "percent encoding": good.replace(".", "%2E"),
        "a JSON serialisation": json.dumps({"protected": head, "payload": payload, "signature": signature}),
        "5 MB of junk": "A" * 5_000_000,
        "5 MB of dots": "." * 5_000_000,
        "5 MB in three segments": f"{head}.{'A' * 5_000_000}.{signature}",
        "one character too long": f"{head}.{'A' * (TOKEN_CHARS_MAX - len(head) - len(signature) - 1)}.{signature}",
        "a signature too long": f"{good}AA",
    }
    for name, raw in shapes.items():
        yield _case(f"shape: {name}", raw, C.MALFORMED_TOKEN, "RFC 7515 7.1, CVE-2026-102269")
    yield _case("shape: header and payload swapped", f"{payload[:400]}.{head}.{signature}", C.MALFORMED_HEADER)


def _signature_cases() -> Iterator[HostileToken]:
    head, payload, signature = token().split(".")
    raw = unb64(signature)
    other = token(claims(sub="agent:other")).split(".")
    flipped = bytes([raw[0] ^ 1]) + raw[1:]
    s = int.from_bytes(raw[32:], "little")
    signatures = {
        "empty": b"",
        "truncated by one byte": raw[:-1],
        "half": raw[:32],
        "one bit flipped": flipped,
        "the last bit flipped": raw[:-1] + bytes([raw[-1] ^ 0x80]),
        "all zero": bytes(64),
        "all ones": b"\xff" * 64,
        "S + L (malleable)": raw[:32] + (s + ED25519_ORDER).to_bytes(32, "little"),
        "of an attacker's key": STRANGER.sign(f"{head}.{payload}".encode()),
        "of the payload alone": KEY.sign(unb64(payload)),
        "of another token": unb64(other[2]),
        "R the identity and S zero": b"\x01" + bytes(63),
    }
    for name, value in signatures.items():
        yield _case(
            f"signature {name}", f"{head}.{payload}.{b64(value)}", C.BAD_SIGNATURE, "RFC 8032 5.1.7, CVE-2020-28042"
        )
    yield _case("payload of another token", f"{head}.{other[1]}.{signature}", C.BAD_SIGNATURE)
    reordered = json.dumps(dict(reversed(header().items())))
    yield _case("header spelt otherwise", f"{b64(reordered.encode())}.{payload}.{signature}", C.BAD_SIGNATURE)
    yield from _es256_signature_cases()


def _es256_signature_cases() -> Iterator[HostileToken]:
    head, payload, signature = es256_token().split(".")
    raw = unb64(signature)
    r, s = raw[:32], int.from_bytes(raw[32:], "big")
    n = P256_ORDER.to_bytes(32, "big")
    signatures = {
        "r = s = 0": bytes(64),
        "r = 0": bytes(32) + raw[32:],
        "s = 0": r + bytes(32),
        "r = s = n": n + n,
        "s -> n - s (malleable)": r + (P256_ORDER - s).to_bytes(32, "big"),
        "one bit flipped": bytes([raw[0] ^ 1]) + raw[1:],
        "in DER": b"\x30\x44\x02\x20" + raw[:30] + b"\x02\x20" + raw[34:60],
        "truncated": raw[:-1],
        "empty": b"",
    }
    for name, value in signatures.items():
        yield _case(f"ES256 signature {name}", f"{head}.{payload}.{b64(value)}", C.BAD_SIGNATURE, "CVE-2022-21449")
    yield _case("Ed25519 signature under the P-256 kid", f"{head}.{payload}.{b64(KEY.sign(b'x'))}", C.BAD_SIGNATURE)
