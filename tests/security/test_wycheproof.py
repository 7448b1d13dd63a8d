"""C2SP Wycheproof vectors (github.com/C2SP/wycheproof, Apache-2.0) against our signature, token and key-set checks.

The vectors are not part of the project. Where they are absent these tests skip and say so.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from capabilities import base64url
from capabilities.errors import CredentialError, KeyFileError
from capabilities.jwks import KeySet, parse_key_set
from capabilities.jws import P256_ORDER, authenticate, verify_signature, with_low_s
from capabilities.keys import Algorithm, VerificationKey, is_strong_ed25519
from tests.security.forge import KEYS

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors" / "wycheproof"
pytestmark = pytest.mark.skipif(not VECTORS.is_dir(), reason=f"no Wycheproof vectors in {VECTORS}")

# Byte-identical to the valid 357 or lenient in what they call valid (README of the vectors).
DEFECTIVE = {346, 347, 350, 351, 367, 370, 372, 373}


def groups(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((VECTORS / f"{name}_test.json").read_text())["testGroups"]
    return found


def test_ed25519_signatures_are_judged_as_the_vectors_say() -> None:
    wrong, seen = [], 0
    for group in groups("ed25519"):
        raw = bytes.fromhex(group["publicKey"]["pk"])
        assert is_strong_ed25519(raw)
        key = VerificationKey(kid="k", algorithm=Algorithm.EDDSA, public=Ed25519PublicKey.from_public_bytes(raw))
        for test in group["tests"]:
            seen += 1
            verified = verify_signature(key, bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"]))
            if verified is not (test["result"] == "valid"):
                wrong.append(test["tcId"])
    assert seen > 100
    assert wrong == []


def test_p256_signatures_are_judged_as_the_vectors_say_but_only_in_low_s_form() -> None:
    wrong, low, high = [], 0, 0
    for group in groups("ecdsa_secp256r1_sha256_p1363"):
        point = bytes.fromhex(group["publicKey"]["uncompressed"])
        public = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
        key = VerificationKey(kid="k", algorithm=Algorithm.ES256, public=public)
        for test in group["tests"]:
            message, signature = bytes.fromhex(test["msg"]), bytes.fromhex(test["sig"])
            valid = test["result"] == "valid"
            if valid and int.from_bytes(signature[32:], "big") > P256_ORDER // 2:
                high += 1
                assert not verify_signature(key, message, signature)
                signature = with_low_s(signature)
            else:
                low += 1
            if verify_signature(key, message, signature) is not valid:
                wrong.append(test["tcId"])
    assert low > 100
    assert high > 0
    assert wrong == []


def p256_key(jwk: dict[str, Any]) -> VerificationKey | None:
    """The group's key where our loader takes it as it stands."""
    try:
        keys = parse_key_set(json.dumps({"keys": [jwk]}).encode(), path="vector")
    except KeyFileError:
        return None
    return keys.find(jwk["kid"])


@pytest.mark.parametrize("name", ["json_web_signature", "json_web_crypto"])
def test_no_foreign_jws_is_taken_for_a_token_of_ours(name: str) -> None:
    seen = 0
    for group in groups(name):
        key = p256_key(group.get("public") or group["private"])
        keys = KEYS if key is None else KeySet.of([key])
        for test in group["tests"]:
            for raw in (test.get("jws"), test.get("jwe")):
                if isinstance(raw, str):
                    seen += 1
                    with pytest.raises(CredentialError):
                        authenticate(raw, keys)
    assert seen > 50


@pytest.mark.parametrize("name", ["json_web_signature", "json_web_crypto"])
def test_the_es256_vectors_verify_exactly_where_they_are_valid(name: str) -> None:
    wrong, seen = [], 0
    for group in groups(name):
        key = p256_key(group.get("public") or group["private"])
        for test in group["tests"] if key else ():
            assert key is not None
            seen += 1
            verified = signature_holds(key, test["jws"])
            if verified is not (test["result"] == "valid") and test["tcId"] not in DEFECTIVE:
                wrong.append((test["tcId"], test["comment"]))
    assert seen >= 15
    assert wrong == []


def signature_holds(key: VerificationKey, raw: str) -> bool:
    """The signature check alone, with either S: the vectors know nothing of our header and of low S."""
    if raw.count(".") != 2 or (signature := base64url.decode(raw.rpartition(".")[2])) is None:
        return False
    message = raw.rpartition(".")[0].encode()
    if any(base64url.decode(segment) is None for segment in raw.split(".")) or ".." in raw:
        return False
    usable = len(signature) == 64 and 0 < int.from_bytes(signature[32:], "big") < P256_ORDER
    return usable and verify_signature(key, message, with_low_s(signature))


def test_every_weak_mixed_or_symmetric_key_set_is_refused() -> None:
    accepted = []
    for group in groups("json_web_key"):
        keys = group.get("public") or group["private"]
        document = keys if "keys" in keys else {"keys": [keys]}
        try:
            parse_key_set(json.dumps(document).encode(), path="vector")
        except KeyFileError:
            continue
        accepted.append(group["comment"])
    assert accepted == []
