"""Keys on disk: what is written, and which files are refused."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from capabilities import keyfile
from capabilities.errors import ApprovalSignatureError, KeyFileCode, KeyFileError
from capabilities.jwks import KeySet, KeySource, load_key_set, parse_key_set, write_key_set
from capabilities.keyfile import read_private_file, replace_file
from capabilities.keys import (
    APPROVAL_DOMAIN,
    decode_operator_key,
    generate_operator_key,
    generate_signing_key,
    is_strong_ed25519,
    load_operator_key,
    load_signing_key,
    next_kid,
    save_private_key,
    sign_approval,
    verify_approval,
)
from tests.security.forge import EC_KEY, KEY, KEYS, KID, b64

P = 2**255 - 19
SMALL_ORDER_POINTS = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]
NON_CANONICAL_POINTS = [(P + y).to_bytes(32, "little").hex() for y in (0, 1, 3, 18)]


@pytest.fixture
def key_path(tmp_path: Path) -> Path:
    path = tmp_path / f"{KID}.pem"
    save_private_key(KEY, path)
    return path


def refusal(action: Any, *args: Any, **kwargs: Any) -> KeyFileCode:
    with pytest.raises(KeyFileError) as refused:
        action(*args, **kwargs)
    return refused.value.code


def test_a_signing_key_is_written_private_and_reads_back_under_the_name_of_its_file(key_path: Path) -> None:
    assert stat.S_IMODE(key_path.stat().st_mode) == 0o600
    loaded = load_signing_key(key_path)
    assert loaded.kid == KID
    assert loaded.sign(b"x") == KEY.sign(b"x")


def test_an_open_umask_does_not_open_a_private_key(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        save_private_key(KEY, tmp_path / "k.pem")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "k.pem").stat().st_mode) == 0o600


def test_a_key_file_is_never_overwritten(key_path: Path) -> None:
    before = key_path.read_bytes()
    assert refusal(save_private_key, generate_signing_key("k"), key_path) is KeyFileCode.EXISTS
    assert key_path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601, 0o610, 0o777])
def test_a_private_key_that_others_can_reach_is_refused(key_path: Path, mode: int) -> None:
    key_path.chmod(mode)
    assert refusal(load_signing_key, key_path) is KeyFileCode.OPEN_PERMISSIONS


def test_a_private_key_of_another_user_is_refused(key_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert refusal(load_signing_key, key_path) is KeyFileCode.FOREIGN_OWNER


def test_a_symbolic_link_to_a_key_is_refused(key_path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.pem"
    link.symlink_to(key_path)
    assert refusal(load_signing_key, link) is KeyFileCode.UNREADABLE


def test_neither_a_folder_nor_a_pipe_is_read_as_a_key(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.pem"
    os.mkfifo(pipe, 0o600)
    assert refusal(read_private_file, tmp_path) is KeyFileCode.NOT_REGULAR
    assert refusal(read_private_file, pipe) is KeyFileCode.NOT_REGULAR


def test_a_missing_file_and_a_file_too_large_are_named_as_such(tmp_path: Path) -> None:
    large = tmp_path / "large.pem"
    keyfile.create_private_file(large, b"x" * 4097)
    assert refusal(read_private_file, large) is KeyFileCode.TOO_LARGE
    assert refusal(read_private_file, tmp_path / "absent") is KeyFileCode.UNREADABLE


def test_a_file_of_exactly_the_cap_is_read(tmp_path: Path) -> None:
    keyfile.create_private_file(tmp_path / "t", b"x" * 4096)
    assert len(read_private_file(tmp_path / "t")) == 4096


def pem(key: Any, protection: serialization.KeySerializationEncryption | None = None) -> bytes:
    raw: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection or serialization.NoEncryption()
    )
    return raw


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", KeyFileCode.MALFORMED_KEY),
        (b"not a key", KeyFileCode.MALFORMED_KEY),
        (pem(KEY.private)[:60], KeyFileCode.MALFORMED_KEY),
        (pem(KEY.private, serialization.BestAvailableEncryption(b"pw")), KeyFileCode.MALFORMED_KEY),
        (pem(ec.generate_private_key(ec.SECP256R1())), KeyFileCode.UNSUPPORTED_KEY),
        (pem(rsa.generate_private_key(65537, 2048)), KeyFileCode.UNSUPPORTED_KEY),
    ],
    ids=["empty", "text", "cut", "encrypted", "P-256", "RSA"],
)
def test_only_a_plain_ed25519_pem_is_a_signing_key(tmp_path: Path, content: bytes, code: KeyFileCode) -> None:
    keyfile.create_private_file(tmp_path / "k.pem", content)
    assert refusal(load_signing_key, tmp_path / "k.pem") is code


def test_a_key_file_whose_name_is_no_kid_is_refused(tmp_path: Path) -> None:
    save_private_key(KEY, tmp_path / "My Key.pem")
    assert refusal(load_signing_key, tmp_path / "My Key.pem") is KeyFileCode.MALFORMED_KEY
    assert load_signing_key(tmp_path / "My Key.pem", kid="mine").kid == "mine"


def test_no_private_key_shows_in_a_repr() -> None:
    assert "Private" not in repr(KEY) + repr(generate_operator_key("anna"))


def test_a_key_set_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    write_key_set(path, KEYS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert load_key_set(path).encode() == KEYS.encode()
    assert load_key_set(path).digest == KEYS.digest
    assert os.listdir(tmp_path) == ["jwks.json"]


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_key_set_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "jwks.json"
    write_key_set(path, KEYS)
    path.chmod(mode)
    assert refusal(load_key_set, path) is KeyFileCode.OPEN_PERMISSIONS


def test_a_key_set_in_a_folder_open_to_everyone_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    write_key_set(folder / "jwks.json", KEYS)
    folder.chmod(0o777)
    assert refusal(load_key_set, folder / "jwks.json") is KeyFileCode.OPEN_PERMISSIONS
    folder.chmod(0o1777)
    assert load_key_set(folder / "jwks.json").kids == KEYS.kids


def jwk(which: str = KID, /, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = next(k for k in json.loads(KEYS.encode())["keys"] if k["kid"] == which)
    return {name: value for name, value in {**found, **changes}.items() if value is not None}


EC_JWK = jwk(EC_KEY.kid)
REFUSED_KEYS: list[tuple[str, dict[str, Any], KeyFileCode]] = [
    ("with a private member", jwk(d="AAAA"), KeyFileCode.PRIVATE_MEMBER),
    ("symmetric", {"kty": "oct", "k": "AAAA", "alg": "HS256", "use": "sig", "kid": "a"}, KeyFileCode.PRIVATE_MEMBER),
    (
        "RSA",
        {"kty": "RSA", "n": "AAAA", "e": "AQAB", "alg": "RS256", "use": "sig", "kid": "a"},
        KeyFileCode.UNSUPPORTED_KEY,
    ),
    ("for encryption", jwk(use="enc"), KeyFileCode.UNSUPPORTED_KEY),
    ("without use", jwk(use=None), KeyFileCode.UNSUPPORTED_KEY),
    ("without alg", jwk(alg=None), KeyFileCode.UNSUPPORTED_KEY),
    ("alg of the other curve", jwk(alg="ES256"), KeyFileCode.UNSUPPORTED_KEY),
    ("alg none", jwk(alg="none"), KeyFileCode.UNSUPPORTED_KEY),
    ("alg Ed25519", jwk(alg="Ed25519"), KeyFileCode.UNSUPPORTED_KEY),
    ("Ed448", jwk(crv="Ed448"), KeyFileCode.UNSUPPORTED_KEY),
    ("X25519", jwk(crv="X25519"), KeyFileCode.UNSUPPORTED_KEY),
    ("with a certificate URL", jwk(x5u="https://evil.example"), KeyFileCode.UNSUPPORTED_KEY),
    ("with key_ops", jwk(key_ops=["verify"]), KeyFileCode.UNSUPPORTED_KEY),
    ("P-384", {**EC_JWK, "crv": "P-384"}, KeyFileCode.UNSUPPORTED_KEY),
    ("without kid", jwk(kid=None), KeyFileCode.MALFORMED_KEY_SET),
    ("with a path as kid", {**jwk(), "kid": "../x"}, KeyFileCode.MALFORMED_KEY_SET),
    ("with a number as kid", {**jwk(), "kid": 7}, KeyFileCode.MALFORMED_KEY_SET),
    ("with 31 bytes", jwk(x=b64(bytes(31))), KeyFileCode.WEAK_KEY),
    ("with padding", jwk(x=jwk()["x"] + "="), KeyFileCode.WEAK_KEY),
    ("with a number as x", jwk(x=1), KeyFileCode.WEAK_KEY),
    ("off the P-256 curve", {**EC_JWK, "y": EC_JWK["x"]}, KeyFileCode.WEAK_KEY),
    ("with a short coordinate", {**EC_JWK, "x": b64(bytes(31))}, KeyFileCode.WEAK_KEY),
    *[(f"the weak point {raw}", jwk(x=b64(bytes.fromhex(raw))), KeyFileCode.WEAK_KEY) for raw in SMALL_ORDER_POINTS],
    *[(f"the odd point {raw}", jwk(x=b64(bytes.fromhex(raw))), KeyFileCode.WEAK_KEY) for raw in NON_CANONICAL_POINTS],
]


@pytest.mark.behaviour("threat.46")
@pytest.mark.parametrize(("key", "code"), [case[1:] for case in REFUSED_KEYS], ids=[case[0] for case in REFUSED_KEYS])
def test_a_set_with_one_bad_key_is_refused_whole(key: dict[str, Any], code: KeyFileCode) -> None:
    raw = json.dumps({"keys": [EC_JWK | {"kid": "good"}, key]}).encode()
    assert refusal(parse_key_set, raw, path="jwks.json") is code


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys":[]}',
        b'{"keys":{}}',
        b'{"keys":[1]}',
        b'{"keys":[],"keys":[]}',
        b"\xef\xbb\xbf{}",
        json.dumps({"keys": [jwk()], "more": 1}).encode(),
        json.dumps({"keys": [jwk()] * 65}).encode(),
        b'{"keys":' + b"[" * 3000,
    ],
)
def test_what_is_not_a_key_set_is_refused(raw: bytes) -> None:
    assert refusal(parse_key_set, raw, path="jwks.json") is KeyFileCode.MALFORMED_KEY_SET


def test_a_kid_occurs_once() -> None:
    raw = json.dumps({"keys": [jwk(), jwk()]}).encode()
    assert refusal(parse_key_set, raw, path="jwks.json") is KeyFileCode.DUPLICATE_KID
    with pytest.raises(ValueError, match="twice"):
        KeySet.of([KEY.verification_key(), KEY.verification_key()])


def test_a_key_source_follows_its_file_and_keeps_the_old_set_while_the_new_one_is_invalid(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    write_key_set(path, KeySet.of([KEY.verification_key()]))
    source = KeySource(path)
    assert source.find(EC_KEY.kid) is None
    replace_file(path, b'{"keys": [', mode=0o644)
    assert source.find(KID) is not None
    assert source.problem is not None
    assert source.problem.code is KeyFileCode.MALFORMED_KEY_SET
    path.unlink()
    assert source.find(KID) is not None
    write_key_set(path, KEYS)
    assert source.find(EC_KEY.kid) is not None
    assert source.problem is None


@pytest.mark.behaviour("threat.46")
def test_a_key_source_keeps_the_old_set_when_the_file_becomes_writable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    write_key_set(path, KEYS)
    source = KeySource(path)
    path.chmod(0o666)
    assert source.find(KID) is not None
    assert source.problem is not None
    assert source.problem.code is KeyFileCode.OPEN_PERMISSIONS


def test_a_key_source_does_not_start_without_a_valid_file(tmp_path: Path) -> None:
    assert refusal(KeySource, tmp_path / "absent.json") is KeyFileCode.UNREADABLE


@given(st.binary(min_size=32, max_size=32))
def test_every_generated_key_is_strong_and_only_points_of_the_curve_are(seed: bytes) -> None:
    assert is_strong_ed25519(generate_signing_key("k").private.public_key().public_bytes_raw())
    y = int.from_bytes(seed, "little") & ((1 << 255) - 1)
    d = -121665 * pow(121666, -1, P) % P
    x_squared = (y * y - 1) * pow(d * y * y + 1, -1, P) % P
    on_curve = y < P and pow(x_squared, (P - 1) // 2, P) == 1
    assert is_strong_ed25519(seed) is (on_curve and seed.hex() not in SMALL_ORDER_POINTS)


def test_kids_tell_tenant_month_and_order() -> None:
    now_s = 1_796_045_914
    assert next_kid("acme", now_s, ()) == "acme-cap-2026-11-a"
    assert next_kid("acme", now_s, {"acme-cap-2026-11-a"}) == "acme-cap-2026-11-b"
    taken = {f"acme-cap-2026-11-{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"}
    with pytest.raises(ValueError, match="no kid"):
        next_kid("acme", now_s, taken)


def test_an_approval_verifies_with_the_key_that_signed_it_and_no_other() -> None:
    anna, bert = generate_operator_key("anna"), generate_operator_key("bert")
    signature = sign_approval(anna, b"statement")
    verify_approval(anna.public_key(), b"statement", signature)
    for public, statement, given_signature in (
        (bert.public_key(), b"statement", signature),
        (anna.public_key(), b"statement2", signature),
        (anna.public_key(), b"statement", signature[:-1]),
        (anna.public_key(), b"statement", b""),
    ):
        with pytest.raises(ApprovalSignatureError):
            verify_approval(public, statement, given_signature)


def test_a_signature_made_outside_the_approval_domain_is_no_approval() -> None:
    anna = generate_operator_key("anna")
    with pytest.raises(ApprovalSignatureError):
        verify_approval(anna.public_key(), b"statement", anna.private.sign(b"statement"))
    assert b"\x00" in APPROVAL_DOMAIN


def test_an_operator_key_survives_its_file_and_its_text(tmp_path: Path) -> None:
    anna = generate_operator_key("anna")
    save_private_key(anna, tmp_path / "anna.pem")
    loaded = load_operator_key(tmp_path / "anna.pem")
    assert loaded.name == "anna"
    public = decode_operator_key("anna", loaded.public_key().encode())
    verify_approval(public, b"x", sign_approval(anna, b"x"))
    assert public.fingerprint == anna.public_key().fingerprint


@pytest.mark.parametrize(
    "text", ["", "ed25519:", "rsa:AAAA", "ed25519:" + b64(bytes(32)), "ed25519:" + b64(bytes(31)), "ed25519:ü"]
)
def test_what_is_not_an_operator_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ed25519"):
        decode_operator_key("anna", text)


def test_a_failed_replacement_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jwks.json"
    write_key_set(path, KEYS)

    def full_disk(*_: Any) -> None:
        raise OSError

    monkeypatch.setattr(os, "replace", full_disk)
    assert refusal(write_key_set, path, KeySet.of([KEY.verification_key()])) is KeyFileCode.UNREADABLE
    assert os.listdir(tmp_path) == ["jwks.json"]
    assert load_key_set(path).digest == KEYS.digest
