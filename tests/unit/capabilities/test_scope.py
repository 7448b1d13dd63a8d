"""What a token permits, and that what was narrowed never permits more."""

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
from capabilities.errors import CredentialError, IssueError, ScopeCode, ScopeError
from capabilities.issuer import Permission, TokenRequest
from capabilities.narrowing import narrowed
from capabilities.resources import QueryScope, covers, is_pattern, is_resource, matches, parse_query_scope
from capabilities.revocation import (
    RevocationEffect,
    RevocationKind,
    RevocationScope,
    scopes_of,
    token_scope,
)
from capabilities.scope import may_query, permits, query_scopes
from capabilities.token import Capability
from tests.security.forge import AGENT, AUDIENCE, DEC, ISSUER, JTI, KID, NOW_S, RESOURCE, TENANT, token, verifier

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


@pytest.mark.behaviour("threat.41")
def test_matching_a_hostile_pattern_costs_no_more_than_its_length() -> None:
    assert not matches("(a+)+$" * 10_000, "a" * 64)
    assert not matches("a/" * 1_000_000, "a")
    assert not matches("a", "a/" * 1_000_000)


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


def test_a_snapshot_reads_back_and_an_edited_one_has_another_hash() -> None:
    details = (publish(constraints=Constraints(approvals=2, effect_not_after_s=5, repeat=True)), query("command/any"))
    snapshot = encode_details(details)
    assert decode_details(snapshot, location=AUDIENCE) == details
    assert hash_details(details) != hash_details((publish(), query("command/any")))
    for broken in (b"", b"{}", snapshot[:-1], snapshot.replace(b"human:2", b"human:x")):
        with pytest.raises(CredentialError):
            decode_details(broken, location=AUDIENCE)


LIMITS = st.builds(
    Limits, max_uses=st.integers(1, 4), max_bytes=st.integers(1, 2000), max_open_commands=st.integers(1, 3)
)
CONSTRAINTS = st.builds(
    Constraints,
    approvals=st.integers(0, 2),
    effect_not_after_s=st.none() | st.integers(NOW_S + 1, NOW_S + 500),
    repeat=st.booleans(),
)
ASKED = st.builds(
    publish,
    resources=st.lists(PATTERNS, min_size=1, max_size=3, unique=True).map(tuple),
    limits=LIMITS,
    constraints=CONSTRAINTS,
)


@given(
    st.lists(PATTERNS, min_size=1, max_size=4, unique=True).map(tuple), LIMITS, CONSTRAINTS, ASKED, RESOURCES, st.data()
)
def test_what_is_asked_for_narrows_a_token_and_never_widens_it(
    held: tuple[str, ...],
    limits: Limits,
    constraints: Constraints,
    asked: AuthorizationDetail,
    resource: str,
    data: st.DataObject,
) -> None:
    widest = TokenRequest(
        client_id="client:x",
        permissions=(Permission(intent=Intent.PUBLISH, resources=held),),
        uses=limits.max_uses,
        content_bytes_max=limits.max_bytes or 0,
        open_commands_max=limits.max_open_commands or 0,
        approvals=constraints.approvals,
        effect_not_after_s=constraints.effect_not_after_s,
        repeat=constraints.repeat,
    )
    try:
        found = narrowed(widest, (asked,))
    except IssueError:
        return
    (permission,) = found.permissions
    granted = publish(
        resources=permission.resources,
        limits=Limits(
            max_uses=found.uses, max_bytes=found.content_bytes_max, max_open_commands=found.open_commands_max
        ),
        constraints=Constraints(
            approvals=found.approvals, effect_not_after_s=found.effect_not_after_s, repeat=found.repeat
        ),
    )
    assert granted == asked, "neither more nor less than was asked for"
    whole = publish(resources=held, limits=limits, constraints=constraints)
    assert granted.limits.max_uses <= limits.max_uses
    assert (granted.limits.max_open_commands or 0) <= (limits.max_open_commands or 0)
    assert granted.constraints.approvals >= constraints.approvals
    until = constraints.effect_not_after_s
    assert until is None or (granted.constraints.effect_not_after_s or until + 1) <= until
    size, repeat = data.draw(st.integers(0, 2000)), data.draw(st.booleans())
    try:
        permits((granted,), Intent.PUBLISH, resource, content_bytes=size, repeat=repeat)
    except ScopeError:
        return
    assert permits((whole,), Intent.PUBLISH, resource, content_bytes=size, repeat=repeat) == whole


def test_asking_for_nothing_but_questions_proposes_nothing() -> None:
    widest = TokenRequest(
        client_id="client:x", permissions=(Permission(intent=Intent.PUBLISH, resources=("site/blog/*",)),)
    )
    found = narrowed(widest, (query(f"command/by-dec/{DEC}"),))
    assert (found.permissions, found.queries, found.query_uses) == ((), (QueryScope(dec=DEC),), 9)
    assert narrowed(replace(widest, query_uses=9), (query("command/any"),)).query_uses == 9
    with pytest.raises(IssueError):
        narrowed(replace(widest, query_uses=8), (query("command/any"),))
    limits = Limits(max_uses=1, max_bytes=1, max_open_commands=1)
    proposing = narrowed(replace(widest, queries=(QueryScope(agent="a"),)), (publish(limits=limits),))
    assert (proposing.queries, proposing.query_uses) == ((QueryScope(agent="a"),), widest.query_uses)
    with pytest.raises(IssueError):
        narrowed(widest, (publish(), publish(limits=Limits(max_uses=1, max_bytes=1, max_open_commands=1))))


def test_a_capability_is_stopped_by_six_scopes() -> None:
    scopes = scopes_of(capability())
    assert {scope.kind for scope in scopes} == set(RevocationKind)
    assert token_scope(tenant=TENANT, iss=ISSUER, jti=JTI) in scopes
    assert RevocationScope(tenant=TENANT, kind=RevocationKind.KEY, value=KID) in scopes


def test_every_revocation_is_of_one_tenant_and_one_issuer() -> None:
    scopes = scopes_of(capability())
    assert RevocationScope(tenant="other", kind=RevocationKind.AGENT, value=AGENT) not in scopes
    assert token_scope(tenant=TENANT, iss="https://other", jti=JTI) not in scopes


def test_a_compromised_key_or_tenant_holds_everything() -> None:
    effects = {scope.kind: scope.effect for scope in scopes_of(capability())}
    held = {kind for kind, effect in effects.items() if effect is RevocationEffect.HOLD}
    assert held == {RevocationKind.KEY, RevocationKind.TENANT}


def test_intents_have_distinct_types_and_actions() -> None:
    for first, second in pairwise(Intent):
        assert first.urn != second.urn
        assert first.action != second.action
