"""What a token permits, what a grant keeps of it, and that neither ever permits more."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capabilities.details import (
    AuthorizationDetail,
    Constraints,
    Details,
    Intent,
    Limits,
    decode_details,
    encode_details,
    hash_details,
)
from capabilities.errors import CredentialError, ScopeCode, ScopeError
from capabilities.grant import (
    GRANT_S_DEFAULT,
    GRANT_S_MAX,
    Grant,
    check_open_commands,
    check_uses,
    may_query,
    permits,
    query_scopes,
)
from capabilities.resources import QueryScope, covers, is_pattern, is_resource, matches, parse_query_scope
from capabilities.revocation import (
    RevocationEffect,
    RevocationKind,
    RevocationScope,
    scopes_of,
    strongest_effect,
    token_scope,
)
from capabilities.token import Capability
from tests.security.forge import AGENT, AUDIENCE, DEC, ISSUER, JTI, KID, NOW_S, RESOURCE, TENANT, token, verifier

CMD = "cmd_01kb9zq3m4n5p6q7r8s9t0v1w2"
CHILD = "cmd_01kb9zq3m4n5p6q7r8s9t0v1w3"

SEGMENTS = st.sampled_from(["a", "b", "a-1"])  # few and short, so that patterns often meet
RESOURCES = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)
PATTERNS = st.one_of(RESOURCES, RESOURCES.map(lambda parent: f"{parent}/*"), st.just("*"))


def publish(**changes: Any) -> AuthorizationDetail:
    found = AuthorizationDetail(
        intent=Intent.PUBLISH,
        location=AUDIENCE,
        resources=(RESOURCE,),
        limits=Limits(max_uses=2, max_bytes=1000, max_open_commands=1),
        constraints=Constraints(approvals=1),
    )
    return replace(found, **changes)


def query(*resources: str) -> AuthorizationDetail:
    return AuthorizationDetail(
        intent=Intent.QUERY,
        location=AUDIENCE,
        resources=resources,
        limits=Limits(max_uses=9),
        constraints=Constraints(),
    )


def capability() -> Capability:
    return verifier().verify(token(), NOW_S)


def accepted(detail: AuthorizationDetail | None = None, **changes: Any) -> Grant:
    held = capability()
    if detail is not None:
        held = replace(held, claims=replace(held.claims, details=(detail,)))
    arguments = {"command_id": CMD, "policy_hash": "sha256:p", "revocation_epoch": 3, "now_s": NOW_S, **changes}
    return Grant.accept(held, detail or held.claims.details[0], **arguments)


def refusal(details: Details, intent: Intent, resource: str, **changes: Any) -> ScopeError:
    with pytest.raises(ScopeError) as refused:
        permits(details, intent, resource, **changes)
    assert refused.value.http_status == 403
    return refused.value


def test_what_is_granted_is_permitted_and_its_detail_returned() -> None:
    assert permits((query("command/any"), publish()), Intent.PUBLISH, RESOURCE, content_bytes=1000) == publish()


def test_each_way_of_asking_too_much_has_its_own_code() -> None:
    details = (publish(),)
    assert refusal(details, Intent.ORDER, RESOURCE).code is ScopeCode.INTENT_NOT_GRANTED
    assert refusal((), Intent.PUBLISH, RESOURCE).code is ScopeCode.INTENT_NOT_GRANTED
    assert refusal(details, Intent.PUBLISH, "site/blog/article-0029").code is ScopeCode.RESOURCE_NOT_GRANTED
    assert refusal(details, Intent.PUBLISH, RESOURCE, repeat=True).code is ScopeCode.REPEAT_NOT_GRANTED
    too_large = refusal(details, Intent.PUBLISH, RESOURCE, content_bytes=1001)
    assert (too_large.code, too_large.limit, too_large.actual) == (ScopeCode.LIMIT_EXCEEDED, 1000, 1001)


@pytest.mark.parametrize(
    "resource",
    [
        "",
        "*",
        "site/blog/*",
        "site/../x",
        "Site/blog",
        "site/blog/\u0430",
        "/site",
        "site/",
        "a/b/c/d/e/f/g/h/i",
        "a" * 65,
        "site/blog/article-0028\n",
        "site/blog/%61",
        "a\x00",
    ],
)
def test_a_malformed_resource_is_never_permitted(resource: str) -> None:
    assert (
        refusal((publish(resources=("*", "site/blog/*")),), Intent.PUBLISH, resource).code
        is ScopeCode.MALFORMED_RESOURCE
    )


def test_repetition_is_permitted_only_where_the_constraint_says_so() -> None:
    detail = publish(constraints=Constraints(repeat=True))
    assert permits((detail,), Intent.PUBLISH, RESOURCE, repeat=True) == detail


def test_a_wildcard_stands_for_exactly_one_segment() -> None:
    assert matches("site/blog/*", "site/blog/x")
    assert not matches("site/blog/*", "site/blog")
    assert not matches("site/blog/*", "site/blog/x/y")
    assert not matches("site/blog/*", "site/blogger/x")
    assert matches("*", "x")
    assert not matches("*", "x/y")


@pytest.mark.parametrize(
    "text", ["", "**", "a/**", "*/a", "a*", "a/*b", "a//b", "/", "a/b/c/d/e/f/g/h/*", "A", None, 7, ["a"]]
)
def test_what_is_not_a_pattern_grants_nothing(text: Any) -> None:
    assert not is_pattern(text)
    assert isinstance(text, str) is False or not matches(text, "a")


def test_eight_segments_are_a_resource_and_seven_with_a_wildcard_a_pattern() -> None:
    assert is_resource("a/b/c/d/e/f/g/h")
    assert matches("a/b/c/d/e/f/g/*", "a/b/c/d/e/f/g/h")


@given(PATTERNS, RESOURCES)
def test_matching_agrees_with_its_definition_segment_by_segment(pattern: str, resource: str) -> None:
    have, want = pattern.split("/"), resource.split("/")
    expected = len(have) == len(want) and have[:-1] == want[:-1] and have[-1] in {"*", want[-1]}
    assert matches(pattern, resource) is expected


@given(PATTERNS, PATTERNS, RESOURCES)
def test_a_covered_pattern_never_grants_what_its_cover_does_not(wider: str, narrower: str, resource: str) -> None:
    if covers(wider, narrower) and matches(narrower, resource):
        assert matches(wider, resource)


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_whatever_makes_matching_fail_or_match_itself_when_malformed(pattern: str, resource: str) -> None:
    if matches(pattern, resource):
        assert is_pattern(pattern)
        assert is_resource(resource)


def test_matching_a_hostile_pattern_costs_no_more_than_its_length() -> None:
    assert not matches("(a+)+$" * 10_000, "a" * 64)
    assert not matches("a/" * 1_000_000, "a")
    assert not matches("a", "a/" * 1_000_000)


def test_uses_and_open_commands_end_at_their_limit() -> None:
    check_uses(publish(), 1)
    check_open_commands(publish(), 0)
    with pytest.raises(ScopeError, match="uses_exhausted"):
        check_uses(publish(), 2)
    with pytest.raises(ScopeError, match="open_commands_exceeded"):
        check_open_commands(publish(), 1)


@pytest.mark.parametrize(
    ("resource", "dec", "agent", "tenant", "seen"),
    [
        (f"command/by-dec/{DEC}", DEC, "agent:other", TENANT, True),
        (f"command/by-dec/{DEC}", DEC[:-1] + "0", AGENT, TENANT, False),
        ("command/by-agent/writer-7", "dec_x", AGENT, TENANT, True),
        ("command/by-agent/writer-7", DEC, "human:writer-7", TENANT, False),
        ("command/by-agent/writer-7", DEC, "agent:writer-70", TENANT, False),
        ("command/any", "dec_x", "agent:other", TENANT, True),
        ("command/any", DEC, AGENT, "other", False),
    ],
)
def test_a_query_scope_shows_its_commands_and_no_others(
    resource: str, dec: str, agent: str, tenant: str, seen: bool
) -> None:
    assert may_query((query(resource),), token_tenant=TENANT, tenant=tenant, dec=dec, agent=agent) is seen


def test_without_a_query_detail_nothing_is_shown() -> None:
    assert query_scopes((publish(resources=("command/any",)),)) == ()
    assert not may_query((publish(),), token_tenant=TENANT, tenant=TENANT, dec=DEC, agent=AGENT)


@pytest.mark.parametrize("scope", [QueryScope(), QueryScope(dec=DEC), QueryScope(agent=AGENT)])
def test_a_query_scope_reads_back_from_its_resource(scope: QueryScope) -> None:
    assert parse_query_scope(scope.resource) == scope


def test_a_grant_keeps_who_what_and_why_and_outlives_the_token() -> None:
    grant = accepted()
    assert (grant.dec, grant.iss, grant.jti, grant.kid) == (DEC, ISSUER, JTI, KID)
    assert (grant.sub, grant.client_id, grant.tenant) == (AGENT, "mcp-host:desk-3", TENANT)
    assert [detail.intent for detail in grant.details] == [Intent.PUBLISH]
    assert grant.permits(Intent.PUBLISH, RESOURCE, now_s=NOW_S + 3600).resources == (RESOURCE,)


def test_a_grant_lapses_at_effect_not_after_or_after_a_day_and_never_beyond_seven() -> None:
    assert accepted().grant_until_s == NOW_S + 86_400
    assert accepted(publish()).grant_until_s == NOW_S + GRANT_S_DEFAULT
    far = publish(constraints=Constraints(effect_not_after_s=NOW_S + 2 * GRANT_S_MAX))
    assert accepted(far).grant_until_s == NOW_S + GRANT_S_MAX
    grant = accepted(publish())
    assert not grant.lapsed(grant.grant_until_s - 1)
    with pytest.raises(ScopeError, match="grant_lapsed"):
        grant.permits(Intent.PUBLISH, RESOURCE, now_s=grant.grant_until_s)


def test_a_grant_whose_details_were_edited_does_not_load() -> None:
    grant = accepted()
    with pytest.raises(ValueError, match="hash"):
        replace(grant, details=(publish(resources=("site/blog/*",)),))
    with pytest.raises(ValueError, match="seven days"):
        replace(grant, grant_until_s=NOW_S + GRANT_S_MAX + 1)


def test_a_grant_is_accepted_only_under_a_detail_of_its_own_token() -> None:
    with pytest.raises(ValueError, match="detail"):
        Grant.accept(capability(), publish(), command_id=CMD, policy_hash="p", revocation_epoch=0, now_s=NOW_S)


def test_a_snapshot_reads_back_and_an_edited_one_has_another_hash() -> None:
    details = (publish(constraints=Constraints(approvals=2, effect_not_after_s=5, repeat=True)), query("command/any"))
    snapshot = encode_details(details)
    assert decode_details(snapshot, location=AUDIENCE) == details
    assert hash_details(details) != hash_details((publish(), query("command/any")))
    for broken in (b"", b"{}", snapshot[:-1], snapshot.replace(b"human:2", b"human:x")):
        with pytest.raises(CredentialError):
            decode_details(broken, location=AUDIENCE)


@given(
    st.lists(PATTERNS, min_size=1, max_size=4, unique=True),
    st.lists(PATTERNS, min_size=1, max_size=4),
    RESOURCES,
    st.integers(0, 2000),
    st.integers(-10, 2 * GRANT_S_MAX),
)
def test_a_narrowed_grant_permits_nothing_that_its_parent_does_not(
    held: list[str], wanted: list[str], resource: str, size: int, later_s: int
) -> None:
    parent = accepted(publish(resources=tuple(held)))
    try:
        child = parent.narrow(command_id=CHILD, resources=wanted, until_s=NOW_S + later_s)
    except ScopeError:
        return
    assert child.grant_until_s <= parent.grant_until_s
    try:
        child.permits(Intent.PUBLISH, resource, now_s=NOW_S, content_bytes=size)
    except ScopeError:
        return
    assert parent.permits(Intent.PUBLISH, resource, now_s=NOW_S, content_bytes=size) == parent.details[0]


@given(st.lists(PATTERNS, min_size=1, max_size=4, unique=True), RESOURCES, st.integers(0, 2000), st.booleans())
def test_no_grant_permits_what_its_token_does_not(held: list[str], resource: str, size: int, repeat: bool) -> None:
    detail = publish(resources=tuple(held))
    try:
        accepted(detail).permits(Intent.PUBLISH, resource, now_s=NOW_S, content_bytes=size, repeat=repeat)
    except ScopeError:
        return
    assert permits((detail,), Intent.PUBLISH, resource, content_bytes=size, repeat=repeat) == detail
    assert size <= 1000
    assert any(matches(pattern, resource) for pattern in held)


def test_narrowing_to_nothing_or_to_something_else_is_refused() -> None:
    parent = accepted(publish(resources=("site/blog/*",)))
    for wanted in ((), ("site/other/x",), ("site/blog/x", "*"), ("site/blog/x/y",)):
        with pytest.raises(ScopeError, match="resource_not_granted"):
            parent.narrow(command_id=CHILD, resources=wanted)
    assert parent.narrow(command_id=CHILD, until_s=parent.grant_until_s + 1).grant_until_s == parent.grant_until_s
    child = parent.narrow(command_id=CHILD, resources=("site/blog/x",), until_s=NOW_S + 60)
    assert (child.command_id, child.details[0].resources, child.grant_until_s) == (CHILD, ("site/blog/x",), NOW_S + 60)
    assert child.details_hash == hash_details(child.details)


def test_a_capability_and_its_grant_are_stopped_by_the_same_six_scopes() -> None:
    scopes = scopes_of(accepted())
    assert scopes == scopes_of(capability())
    assert {scope.kind for scope in scopes} == set(RevocationKind)
    assert token_scope(tenant=TENANT, iss=ISSUER, jti=JTI) in scopes
    assert RevocationScope(tenant=TENANT, kind=RevocationKind.KEY, value=KID) in scopes


def test_every_revocation_is_of_one_tenant_and_one_issuer() -> None:
    scopes = scopes_of(accepted())
    assert RevocationScope(tenant="other", kind=RevocationKind.AGENT, value=AGENT) not in scopes
    assert token_scope(tenant=TENANT, iss="https://other", jti=JTI) not in scopes


def test_a_compromised_key_or_tenant_holds_everything_and_outranks_a_stop() -> None:
    effects = {scope.kind: scope.effect for scope in scopes_of(accepted())}
    held = {kind for kind, effect in effects.items() if effect is RevocationEffect.HOLD}
    assert held == {RevocationKind.KEY, RevocationKind.TENANT}
    assert strongest_effect(scopes_of(accepted())) is RevocationEffect.HOLD
    assert strongest_effect([token_scope(tenant=TENANT, iss=ISSUER, jti=JTI)]) is RevocationEffect.STOP
    assert strongest_effect([]) is None


def test_intents_have_distinct_types_and_actions() -> None:
    for first, second in pairwise(Intent):
        assert first.urn != second.urn
        assert first.action != second.action
