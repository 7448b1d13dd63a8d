"""Tokens come from open decisions, never reach beyond them, and always verify."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capabilities.details import Intent
from capabilities.errors import IssueCode, IssueError
from capabilities.issuer import Budget, DecisionRecord, Issuer, Outcome, Permission, RiskClass, TokenRequest
from capabilities.resources import QueryScope
from tests.security.forge import AGENT, AUDIENCE, DEC, EC_KEY, EC_KID, ISSUER, JTI, KEY, KID, NOW_S, TENANT, verifier

BLOG = Permission(intent=Intent.PUBLISH, resources=("site/blog/*",))
ARTICLE = Permission(intent=Intent.PUBLISH, resources=("site/blog/article-0028",))


def decision(**changes: Any) -> DecisionRecord:
    found = DecisionRecord(
        dec=DEC,
        tenant=TENANT,
        who="human:anna",
        agent=AGENT,
        permissions=(BLOG,),
        evidence=("ticket/4711",),
        risk_class=RiskClass.MEDIUM,
        policy_hash="sha256:p",
        outcome=Outcome.APPROVED,
        opened_at_s=NOW_S - 10,
        valid_until_s=NOW_S + 3600,
        budget=Budget(tokens=2, uses=5),
        spent=Budget(tokens=0, uses=0),
    )
    return replace(found, **changes)


def request(**changes: Any) -> TokenRequest:
    return replace(TokenRequest(client_id="mcp-host:desk-3", permissions=(ARTICLE,)), **changes)


def issuer(**changes: Any) -> Issuer:
    return replace(Issuer(key=KEY, issuer=ISSUER, audience=AUDIENCE, tenant=TENANT), **changes)


def issue(of: DecisionRecord, what: TokenRequest) -> str:
    return issuer().issue(of, what, now_s=NOW_S, new_id=lambda: JTI)[0]


def refusal(of: DecisionRecord, what: TokenRequest) -> IssueCode:
    with pytest.raises(IssueError) as refused:
        issue(of, what)
    return refused.value.code


def test_an_issued_token_verifies_as_the_claims_that_were_returned() -> None:
    raw, claims = issuer().issue(decision(), request(), now_s=NOW_S, new_id=lambda: JTI)
    capability = verifier().verify(raw, NOW_S)
    assert capability.claims == claims
    assert (capability.kid, claims.jti, claims.dec, claims.sub) == (KID, JTI, DEC, AGENT)
    assert [detail.intent for detail in claims.details] == [Intent.PUBLISH, Intent.QUERY]
    assert claims.details[1].resources == (f"command/by-dec/{DEC}",)


def test_a_token_of_a_key_service_verifies_whichever_s_it_returns() -> None:
    for second in range(8):
        raw, _ = issuer(key=EC_KEY).issue(decision(), request(), now_s=NOW_S + second, new_id=lambda: JTI)
        assert verifier().verify(raw, NOW_S).kid == EC_KID


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"tenant": "other"}, IssueCode.DECISION_OTHER_TENANT),
        ({"outcome": Outcome.REFUSED}, IssueCode.DECISION_NOT_APPROVED),
        ({"closed_at_s": NOW_S - 1}, IssueCode.DECISION_CLOSED),
        ({"valid_until_s": NOW_S}, IssueCode.DECISION_EXPIRED),
        ({"opened_at_s": NOW_S + 1}, IssueCode.DECISION_EXPIRED),
        ({"spent": Budget(tokens=2, uses=0)}, IssueCode.BUDGET_EXHAUSTED),
        ({"spent": Budget(tokens=0, uses=5)}, IssueCode.BUDGET_EXHAUSTED),
        ({"permissions": ()}, IssueCode.OUTSIDE_DECISION),
        ({"permissions": (Permission(intent=Intent.ORDER, resources=("site/blog/*",)),)}, IssueCode.OUTSIDE_DECISION),
        ({"dec": "dec_1"}, IssueCode.INVALID_REQUEST),
    ],
)
def test_only_an_open_decision_with_budget_gives_tokens(changes: dict[str, Any], code: IssueCode) -> None:
    assert refusal(decision(**changes), request()) is code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ttl_s": 901}, IssueCode.LIFETIME_TOO_LONG),
        ({"ttl_s": 0}, IssueCode.LIFETIME_TOO_LONG),
        ({"uses": 6}, IssueCode.BUDGET_EXHAUSTED),
        ({"uses": 0}, IssueCode.INVALID_REQUEST),
        ({"uses": -1}, IssueCode.INVALID_REQUEST),
        ({"client_id": "desk 3"}, IssueCode.INVALID_REQUEST),
        ({"approvals": 10}, IssueCode.INVALID_REQUEST),
        ({"effect_not_after_s": NOW_S + 8 * 86_400}, IssueCode.INVALID_REQUEST),
        ({"permissions": (ARTICLE, ARTICLE)}, IssueCode.INVALID_REQUEST),
        ({"permissions": (replace(ARTICLE, resources=()),)}, IssueCode.INVALID_REQUEST),
        ({"permissions": (replace(ARTICLE, resources=("site/*",)),)}, IssueCode.OUTSIDE_DECISION),
        ({"permissions": (replace(ARTICLE, resources=("site/**",)),)}, IssueCode.OUTSIDE_DECISION),
        ({"queries": (QueryScope(),)}, IssueCode.OUTSIDE_DECISION),
        ({"queries": (QueryScope(agent="agent:other"),)}, IssueCode.OUTSIDE_DECISION),
    ],
)
def test_a_request_beyond_the_decision_or_our_own_verifier_is_not_signed(
    changes: dict[str, Any], code: IssueCode
) -> None:
    assert refusal(decision(), request(**changes)) is code


def test_a_query_only_token_for_the_whole_tenant_needs_a_decision_that_says_so() -> None:
    what = request(permissions=(), queries=(QueryScope(),))
    raw = issue(decision(queries=(QueryScope(),)), what)
    [detail] = verifier().verify(raw, NOW_S).claims.details
    assert (detail.intent, detail.resources) == (Intent.QUERY, ("command/any",))


def test_an_agent_may_always_ask_about_its_own_commands() -> None:
    raw = issue(decision(), request(queries=(QueryScope(agent=AGENT),)))
    assert verifier().verify(raw, NOW_S).claims.details[1].resources == ("command/by-agent/writer-7",)


def test_a_token_that_no_gateway_would_read_is_not_issued() -> None:
    long = tuple("/".join([f"{n:02d}" + "a" * 60] * 8) for n in range(16))
    wide = Permission(intent=Intent.PUBLISH, resources=long)
    assert refusal(decision(permissions=(wide,)), request(permissions=(wide,))) is IssueCode.TOKEN_TOO_LONG


@given(st.integers(-5, 2000), st.integers(-2, 8), st.booleans(), st.integers(-1, 11))
def test_whatever_is_issued_verifies(ttl_s: int, uses: int, repeat: bool, approvals: int) -> None:
    try:
        raw = issue(decision(), request(ttl_s=ttl_s, uses=uses, repeat=repeat, approvals=approvals))
    except IssueError:
        return
    claims = verifier().verify(raw, NOW_S).claims
    assert claims.exp - claims.iat == ttl_s <= 900
    assert claims.details[0].limits.max_uses == uses
    assert claims.details[0].constraints.repeat is repeat
