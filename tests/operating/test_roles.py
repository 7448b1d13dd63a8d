"""Operators have roles: what their role does not say they may not do, whichever command they type."""

from pathlib import Path

import pytest

from capabilities.keys import save_private_key
from server.config import load_config
from server.operators import approvers_of
from server.roles import ROLES, Role, Verb
from tests.desk import OPERATOR, Desk
from tests.integration.world import World
from tests.operators import key_of

PAT = "pat"
ALL = "issue", "approve", "repair", "audit"

WORDS: dict[Verb, tuple[str, ...]] = {
    Verb.TOKEN_ISSUE: ("token", "issue", "--agent", "writer"),
    Verb.TOKEN_REVOKE: ("token", "revoke", "tok_1"),
    Verb.DECISION_OPEN: ("decision", "open", "--agent", "writer"),
    Verb.DECISION_CLOSE: ("decision", "close", "dec_1"),
    Verb.KEYS_ROTATE: ("keys", "rotate"),
    Verb.KEYS_RETIRE: ("keys", "retire", "acme-cap-2026-11-a"),
    Verb.REAUTHORIZE: ("reauthorize", "cmd_1"),
    Verb.REVOKE: ("revoke", "agent", "writer"),
    Verb.REINSTATE: ("reinstate", "agent", "writer"),
    Verb.REJECT: ("reject", "cmd_1"),
    Verb.CANCEL: ("cancel", "cmd_1"),
    Verb.HOLD: ("hold", "cmd_1"),
    Verb.RESUME: ("resume", "cmd_1"),
    Verb.FREEZE_ON: ("freeze", "on", "--all"),
    Verb.FREEZE_OFF: ("freeze", "off", "--all"),
    Verb.WITHDRAW: ("withdraw", "cmd_1"),
    Verb.REPEAT: ("repeat", "cmd_1"),
    Verb.REVIEW_TAKE: ("review", "take", "rev_1"),
    Verb.REVIEW_ASSIGN: ("review", "assign", "rev_1", OPERATOR),
    Verb.REVIEW_RULE: ("review", "rule", "rev_1", "present"),
    Verb.INBOX_ADD: ("inbox", "add", "there", "--about", "cmd_1"),
    Verb.ARTIFACT_PUT: ("artifact", "put", "remit.toml"),
    Verb.ARTIFACT_ERASE: ("artifact", "erase", f"artifact://sha256/{'0' * 64}", "--yes"),
    Verb.AUDIT: ("audit", "--open-reviews"),
    Verb.CHECKPOINT: ("checkpoint", "--restart"),
}


def staffed(desk: Desk, *roles: str, aliases: tuple[str, ...] = ()) -> None:
    """Beside the operator of the home, one with these roles."""
    key = desk.staffed(PAT)
    listed = ", ".join(f'"{role}"' for role in roles)
    named = ", ".join(f'"{alias}"' for alias in aliases)
    with desk.settings.open("a") as file:
        file.write(f'\n[operator.{PAT}]\nkey = "{key}"\nroles = [{listed}]\naliases = [{named}]\n')


def test_every_verb_has_its_role_and_is_tried_here() -> None:
    assert set(ROLES) == set(Verb)
    assert set(WORDS) == set(Verb) - {Verb.APPROVE}


@pytest.mark.behaviour("operator.roles")
def test_without_the_role_no_verb_does_anything(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.home)
    for verb, words in WORDS.items():
        before = desk.settings.read_text()
        staffed(desk, *(role for role in ALL if role != ROLES[verb]))
        done = desk.remit(*words, "--operator", PAT)
        assert (verb, done.error, done.code) == (verb, "role_missing", 4)
        assert str(ROLES[verb]) in done.document["error"]["message"]
        desk.settings.write_text(before)
    assert desk.remit("freeze", "ls").document["restrictions"] == []
    assert desk.remit("decision", "ls").document["decisions"] == []


async def test_who_may_not_approve_approves_nothing_and_who_may_does(world: World, office: Desk) -> None:
    staffed(office, "issue", "repair", "audit")
    command_id = await world.until_approval()
    shown = (await office.asks("approve", command_id, "--show")).document
    yes = ("approve", command_id, "--hash", shown["content_hash"], "--operator-key")
    path = office.home / "operators" / f"{PAT}.pem"
    refused = await office.asks(*yes, str(path))
    assert (refused.error, refused.code) == ("role_missing", 4)
    assert OPERATOR in refused.document["error"]["fix"]
    assert (await world.view(command_id)).approval.state == "PENDING"
    assert (await office.asks(*yes, str(office.home / "operators" / f"{OPERATOR}.pem"))).code == 0
    assert (await world.settle(command_id)).live


@pytest.mark.behaviour("threat.50")
@pytest.mark.behaviour("incident.67")
async def test_the_one_key_under_the_name_of_another_and_an_alias_of_the_agent_approve_nothing(
    world: World, office: Desk
) -> None:
    staffed(office, *ALL, aliases=("writer",))
    command_id = await world.until_approval()
    shown = (await office.asks("approve", command_id, "--show")).document
    yes = ("approve", command_id, "--hash", shown["content_hash"], "--operator-key")
    aliased, borrowed = office.home / f"{PAT}.pem", office.home / f"{OPERATOR}.pem"
    save_private_key(key_of(PAT), aliased)
    save_private_key(key_of(PAT), borrowed)
    assert (await office.asks(*yes, str(aliased))).error == "proposer_cannot_approve"
    assert (await office.asks(*yes, str(borrowed))).error == "bad_signature"
    assert (await world.view(command_id)).approval.state == "PENDING"


@pytest.mark.behaviour("threat.50")
def test_at_high_risk_a_decision_needs_somebody_else_who_approves(desk: Desk) -> None:
    high = ("decision", "open", "--agent", "writer", "--risk", "high", "--operator", OPERATOR)
    assert (desk.remit(*high).error, desk.remit("decision", "ls").document["decisions"]) == ("nobody_else_approves", [])
    assert desk.remit(*high[:-4], "--risk", "none").error == "usage"
    staffed(desk, "approve")
    decision_id = desk.remit(*high).document["decision_id"]
    assert desk.remit("decision", "show", decision_id).document["risk_class"] == "high"


def test_a_worker_believes_those_who_may_approve_and_whose_key_can_be_read(desk: Desk) -> None:
    staffed(desk, *ALL, aliases=("robot",))
    known = approvers_of(load_config(desk.home).settings)
    assert set(known) == {f"operator:{OPERATOR}", f"operator:{PAT}"}
    assert known[f"operator:{PAT}"].aliases == ("robot",)
    desk.rewrite(f'[operator.{PAT}]\nkey = "ed25519:', f'[operator.{PAT}]\nkey = "ed25519:x')
    assert set(approvers_of(load_config(desk.home).settings)) == {f"operator:{OPERATOR}"}
    desk.rewrite('roles = ["issue", "approve", "repair", "audit"]\n\n[site.blog]', 'roles = ["audit"]\n\n[site.blog]')
    assert approvers_of(load_config(desk.home).settings) == {}


def test_a_role_that_does_not_exist_is_named(desk: Desk) -> None:
    staffed(desk, "approve", "everything")
    done = desk.remit("ls")
    assert (done.error, done.code) == ("config_invalid", 1)
    assert "roles" in done.document["error"]["message"]
    assert {role.value for role in Role} == set(ALL)


@pytest.mark.behaviour("threat.37")
@pytest.mark.behaviour("operator.proven")
def test_a_name_is_no_proof_without_its_key_no_verb_does_anything(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = desk.home / "operators" / f"{OPERATOR}.pem"
    elsewhere, strange = tmp_path / "my-key", tmp_path / "strange.pem"
    own.rename(elsewhere)
    save_private_key(key_of("mallory"), strange)
    monkeypatch.chdir(desk.home)
    for verb, words in WORDS.items():
        for named in ((), ("--operator", OPERATOR)):
            done = desk.remit(*words, *named)
            assert (verb, done.error, done.code) == (verb, "operator_key_needed", 4)
        done = desk.remit(*words, "--operator", str(strange))
        assert (verb, done.error, done.code) == (verb, "operator_key_differs", 4)
    monkeypatch.setenv("REMIT_OPERATOR_KEY", str(strange))
    assert desk.remit("freeze", "on", "--all", "--operator", OPERATOR).error == "operator_key_differs"
    assert desk.remit("freeze", "ls").document["restrictions"] == []
    monkeypatch.setenv("REMIT_OPERATOR_KEY", str(elsewhere))
    assert desk.remit("freeze", "on", "--all").code == 0
    monkeypatch.delenv("REMIT_OPERATOR_KEY")
    assert desk.remit("freeze", "off", "--all", "--operator", str(elsewhere)).code == 0
    elsewhere.chmod(0o644)
    assert desk.remit("freeze", "on", "--all", "--operator", str(elsewhere)).error == "open_permissions"
