"""Do keys and tokens work, and is there somebody who can approve?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from capabilities.errors import CapabilityError, CredentialCode, CredentialError, KeyFileError
from capabilities.jwks import KeySet, load_key_set
from capabilities.keyfile import read_private_file
from capabilities.keys import SigningKey, decode_operator_key, load_client_key, load_operator_key, load_signing_key
from capabilities.token import SKEW_S, Verifier
from execution.moments import age
from execution.ports import Clock, Severity, Symptom
from server.config import Config
from server.private_files import told
from server.settings import OperatorSection

KEY_OLD_S: Final = 90 * 86_400.0
TOKENS_LOOKED_AT_MAX: Final = 50


def symptoms(config: Config, clock: Clock) -> Iterator[Symptom]:
    """Of the issuer, the tokens that lie in the home, and the operators."""
    try:
        keys = load_key_set(config.path(config.settings.gateway.jwks))
    except KeyFileError as error:
        fix = "Restore the issuer's public key set: without it every token is refused."
        yield _problem("key_set_unusable", told(error)[0], fix)
        return
    yield Symptom(code="key_set_usable", detail=f"{', '.join(keys.kids)}")
    yield from _issuer(config, keys, clock)
    yield from _clients(config)
    yield from _tokens(config, keys, clock)


def operator_symptoms(config: Config) -> Iterator[Symptom]:
    """Of those who approve."""
    known = config.settings.operator
    if not known:
        fix = "Add [operator.NAME] with the public half of a key: until then nothing can be approved."
        yield Symptom(code="no_operator", severity=Severity.WARNING, fix=fix)
        return
    broken = [problem for name, section in known.items() for problem in _operator(config, name, section)]
    yield from broken
    if not broken:
        yield Symptom(code="operators_can_approve", detail=", ".join(sorted(known)))


def _issuer(config: Config, keys: KeySet, clock: Clock) -> Iterator[Symptom]:
    section = config.settings.issuer
    if section is None:
        yield Symptom(code="no_issuer_here", detail="tokens are issued elsewhere")
        return
    path = config.path(section.key_file)
    try:
        key = load_signing_key(path)
    except KeyFileError as error:
        fix = "Restore the key file (mode 0600), or remove [issuer] where no tokens are issued."
        yield _problem("issuer_key_unusable", told(error)[0], fix)
        return
    if not _in_set(key, keys):
        fix = "Put the key's public half into the key set: tokens signed with it are refused now."
        yield _problem("issuer_key_not_in_set", key.kid, fix)
        return
    old_s = clock.now_ms() / 1000 - path.stat().st_mtime
    severity = Severity.NOTE if old_s > KEY_OLD_S else Severity.FINE
    fix = "`remit keys rotate` now and then, so that one that leaked ends." if old_s > KEY_OLD_S else ""
    yield Symptom(code="issuer_key_usable", severity=severity, detail=f"{key.kid}, {age(old_s)} old", fix=fix)


def _clients(config: Config) -> Iterator[Symptom]:
    """Of the programs that fetch tokens themselves: the issuer starts only when it can read every key."""
    for name, section in sorted(config.settings.client.items()):
        try:
            load_client_key(config.path(section.public_key_file), name)
        except KeyFileError as error:
            fix = (
                "Put its public key there (PEM, Ed25519 or P-256; only its owner may write it), or remove the section."
            )
            yield _problem("client_key_unusable", f"client {name}: {told(error)[0]}", fix)


def _in_set(key: SigningKey, keys: KeySet) -> bool:
    return (
        keys.find(key.kid) is not None
        and KeySet.of([key.verification_key()]).encode()
        == KeySet.of([found for found in (keys.find(key.kid),) if found is not None]).encode()
    )


def _tokens(config: Config, keys: KeySet, clock: Clock) -> Iterator[Symptom]:
    gateway, now_s = config.settings.gateway, clock.now_ms() // 1000
    verifier = Verifier(keys=keys, issuer=gateway.issuer, audience=gateway.audience, tenant=gateway.tenant)
    lying = sorted((config.home / "tokens").glob("*"))[:TOKENS_LOOKED_AT_MAX]
    named = config.token_file
    if named is not None and named not in lying:
        lying.append(named)
    for path in lying:
        yield _token(verifier, path, now_s, served=path == named)


def _token(verifier: Verifier, path: Path, now_s: int, *, served: bool) -> Symptom:
    """A token that the gateway would refuse matters most where a gateway is told to use it."""
    severity = Severity.WARNING if served else Severity.NOTE
    try:
        capability = verifier.verify(read_private_file(path).decode("ascii", "replace").strip(), now_s)
    except CredentialError as error:
        expired = error.code is CredentialCode.EXPIRED
        fix = f"`remit token issue --out {path}` (with --watch it is renewed)."
        code = "token_expired" if expired else "token_refused"
        return Symptom(code=code, severity=severity, detail=f"{path.name}: {error.code}", fix=fix)
    except CapabilityError as error:
        fix = "The file must exist, be regular, belong to this user and have mode 0600."
        return Symptom(code="token_unreadable", severity=severity, detail=f"{path.name}: {error.code}", fix=fix)
    claims = capability.claims
    left_s = claims.exp + SKEW_S - now_s
    return Symptom(code="token_valid", detail=f"{path.name}: {claims.sub}, accepted for another {age(left_s)}")


def _operator(config: Config, name: str, section: OperatorSection) -> Iterator[Symptom]:
    try:
        public = decode_operator_key(name, section.key)
    except ValueError:
        yield _problem(
            "operator_key_malformed", f"[operator.{name}] key", "It begins with ed25519: as `init` wrote it."
        )
        return
    path = config.home / "operators" / f"{name}.pem"
    if not path.exists():
        return
    try:
        held = load_operator_key(path).public_key()
    except KeyFileError as error:
        yield _problem(
            "operator_key_unusable", told(error)[0], "Restore the key file (mode 0600), or make another key."
        )
        return
    if held.encode() != public.encode():
        fix = f"Put {held.encode()} into [operator.{name}], or use the key that is configured there."
        yield _problem("operator_key_differs", f"{path.name} is not the key of [operator.{name}]", fix)


def _problem(code: str, detail: str, fix: str) -> Symptom:
    return Symptom(code=code, severity=Severity.PROBLEM, detail=detail, fix=fix)
