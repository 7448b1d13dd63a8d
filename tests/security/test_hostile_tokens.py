"""Every hostile token is refused with its own stable code, at a bounded cost, and leaves no trace of itself."""

import dataclasses
import time
import traceback

import pytest

from capabilities.errors import ClockSkewError, CredentialCode, CredentialError
from capabilities.jws import ED25519_ORDER, P256_ORDER, is_canonical_signature
from capabilities.keys import Algorithm
from capabilities.token import Capability
from tests.security.forge import JTI, KID, NOW_S, claims, es256_token, header, token, verifier
from tests.security.hostile_tokens import HostileToken, corpus

CASES = tuple(corpus())
CPU_S_MAX = 0.5


def by_name(case: HostileToken) -> str:
    return case.name[:60]


@pytest.mark.behaviour("threat.7")
@pytest.mark.behaviour("threat.30")
@pytest.mark.behaviour("threat.38")
@pytest.mark.behaviour("token.hostile")
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_a_hostile_token_is_refused_with_its_code_and_without_echo(case: HostileToken) -> None:
    began = time.process_time()
    with pytest.raises(CredentialError) as refused:
        verifier().verify(case.raw, NOW_S)
    assert time.process_time() - began < CPU_S_MAX
    assert refused.value.code is case.code
    assert refused.value.http_status == 401
    shown = "".join(traceback.format_exception(refused.value)) + repr(refused.value)
    long_parts = [part for part in case.raw.split(".") if len(part) > 20]
    assert not [part for part in long_parts if part[:40] in shown]


def test_the_corpus_is_as_large_as_it_claims_and_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 150


def test_the_corpus_reaches_every_code_that_a_token_can_cause() -> None:
    elsewhere = {CredentialCode.REVOKED, CredentialCode.CREDENTIAL_IN_ARGUMENTS}
    assert {case.code for case in CASES} == set(CredentialCode) - elsewhere


@pytest.mark.parametrize("raw", [token(), es256_token()], ids=["EdDSA", "ES256"])
def test_the_token_all_cases_deviate_from_is_accepted(raw: str) -> None:
    capability = verifier().verify(raw, NOW_S)
    assert isinstance(capability, Capability)
    assert capability.claims.jti == JTI


@pytest.mark.behaviour("incident.74")
@pytest.mark.parametrize(
    ("changes", "accepted"),
    [
        ({"iat": NOW_S + 30, "nbf": NOW_S, "exp": NOW_S + 900}, True),
        ({"iat": NOW_S + 31, "nbf": NOW_S, "exp": NOW_S + 900}, False),
        ({"nbf": NOW_S + 30}, True),
        ({"nbf": NOW_S + 31}, False),
        ({"iat": NOW_S - 929, "exp": NOW_S - 29}, True),
        ({"iat": NOW_S - 930, "exp": NOW_S - 30}, False),
        ({"iat": NOW_S, "exp": NOW_S + 900}, True),
        ({"iat": NOW_S, "exp": NOW_S + 901}, False),
    ],
)
def test_times_are_accepted_up_to_their_last_second(changes: dict[str, int], accepted: bool) -> None:
    raw = token(claims(**changes))
    if accepted:
        assert verifier().verify(raw, NOW_S).kid == KID
    else:
        with pytest.raises(CredentialError):
            verifier().verify(raw, NOW_S)


@pytest.mark.behaviour("incident.74")
def test_a_clock_that_runs_ahead_is_named_with_both_times() -> None:
    raw = token(claims(iat=NOW_S + 300, nbf=NOW_S, exp=NOW_S + 900))
    with pytest.raises(ClockSkewError) as refused:
        verifier().verify(raw, NOW_S)
    assert (refused.value.token_time_s, refused.value.our_time_s) == (NOW_S + 300, NOW_S)
    assert str(NOW_S + 300) in str(refused.value)


@pytest.mark.behaviour("threat.6")
@pytest.mark.behaviour("threat.7")
def test_a_gateway_believes_only_tokens_made_for_it() -> None:
    for changed in ({"issuer": "https://x"}, {"audience": "https://x"}, {"tenant": "x"}):
        with pytest.raises(CredentialError):
            verifier(**changed).verify(token(), NOW_S)


def test_two_spellings_of_one_header_are_two_signatures_and_one_identity() -> None:
    respelt = dict(reversed(header().items()))
    first, second = verifier().verify(token(), NOW_S), verifier().verify(token(head=respelt), NOW_S)
    assert first == second


@pytest.mark.parametrize(
    ("algorithm", "scalar", "canonical"),
    [
        (Algorithm.EDDSA, (ED25519_ORDER - 1).to_bytes(32, "little"), True),
        (Algorithm.EDDSA, ED25519_ORDER.to_bytes(32, "little"), False),
        (Algorithm.EDDSA, b"\xff" * 32, False),
        (Algorithm.ES256, (P256_ORDER // 2).to_bytes(32, "big"), True),
        (Algorithm.ES256, (P256_ORDER // 2 + 1).to_bytes(32, "big"), False),
        (Algorithm.ES256, bytes(32), False),
    ],
)
def test_a_signature_has_one_form_even_if_the_library_below_accepted_another(
    algorithm: Algorithm, scalar: bytes, canonical: bool
) -> None:
    assert is_canonical_signature(algorithm, b"\x01" * 32 + scalar) is canonical


@pytest.mark.behaviour("threat.9")
def test_a_capability_keeps_no_text_of_its_token() -> None:
    raw = token()
    shown = repr(verifier().verify(raw, NOW_S))
    assert not [part for part in raw.split(".") if part in shown]
    assert "raw" not in {field.name for field in dataclasses.fields(Capability)}
