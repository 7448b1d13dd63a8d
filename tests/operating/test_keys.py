"""The issuer's key changes while tokens are out: they go on working, and in the end nothing of the old key is left."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from capabilities.jwks import load_key_set
from capabilities.token import LIFETIME_S_MAX, SKEW_S
from server.app import SystemClock
from server.cli.authority import renewed_after_s
from server.config import load_config
from server.rotating import OVERLAP_S, known_keys, rotate
from tests.desk import Desk
from tests.integration.world import World


def issued(desk: Desk, name: str) -> Path:
    path = desk.home / "tokens" / name
    done = desk.remit("token", "issue", "--agent", "writer", "--out", str(path))
    assert done.code == 0, done.stdout
    return path


def signed_by(desk: Desk, token: Path) -> str:
    """The kid of a token that the gateway would accept now."""
    inspected = desk.remit("token", "inspect", str(token))
    assert inspected.code == 0, inspected.stdout
    kid: str = inspected.document["key_id"]
    return kid


def private_keys(desk: Desk) -> set[str]:
    return {path.stem for path in (desk.home / "keys").glob("*.pem")}


def now_s() -> int:
    return SystemClock().now_ms() // 1000


@pytest.mark.behaviour("keys.overlap")
def test_tokens_of_the_old_key_and_of_the_new_one_are_both_accepted(desk: Desk) -> None:
    before = issued(desk, "before")
    rotated = desk.remit("keys", "rotate").document
    after = issued(desk, "after")
    assert signed_by(desk, before) == rotated["replaced"]
    assert signed_by(desk, after) == rotated["kid"] != rotated["replaced"]
    first, second = desk.remit("keys", "ls").document["keys"]
    assert (first["kid"], first["standing"], first["leaves"]) == (rotated["kid"], "signs", None)
    assert (second["kid"], second["standing"]) == (rotated["replaced"], "accepted")
    assert second["leaves"] - second["replaced"] >= LIFETIME_S_MAX + SKEW_S
    assert {"issuer_key_usable", "key_set_usable"} <= {
        symptom["code"] for symptom in desk.remit("doctor", "--offline").document["symptoms"]
    }


@pytest.mark.behaviour("keys.overlap")
def test_a_key_leaves_with_its_private_half_when_no_token_of_it_can_be_accepted(desk: Desk) -> None:
    at_s = now_s()
    first = rotate(desk.home, at_s, by="operator:olivia")
    second = rotate(desk.home, at_s + OVERLAP_S - 1, by="operator:olivia")
    assert second.pruned == ()
    assert private_keys(desk) == {first.replaced, first.kid, second.kid}
    third = rotate(desk.home, at_s + OVERLAP_S, by="operator:olivia")
    assert third.pruned == (first.replaced,)
    assert private_keys(desk) == {first.kid, second.kid, third.kid}
    assert set(load_key_set(desk.home / "keys" / "jwks.json").kids) == private_keys(desk)


def test_a_rotation_changes_one_line_of_the_configuration(desk: Desk) -> None:
    before = desk.settings.read_text().splitlines()
    desk.settings.chmod(0o640)
    rotated = desk.remit("keys", "rotate").document
    after = desk.settings.read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [
        (f'key_file = "keys/{rotated["replaced"]}.pem"', f'key_file = "keys/{rotated["kid"]}.pem"'),
    ]
    assert desk.settings.stat().st_mode & 0o777 == 0o640


def test_a_configuration_that_cannot_be_changed_safely_changes_nothing(desk: Desk) -> None:
    (key,) = private_keys(desk)
    desk.rewrite("[issuer]\n", '[issuer]\n# key_file = "keys/other.pem"\n')
    text = desk.settings.read_text().replace(f'key_file = "keys/{key}.pem"', f"key_file = 'keys/{key}.pem'")
    desk.settings.write_text(text)
    refused = desk.remit("keys", "rotate")
    assert (refused.code, refused.error) == (1, "config_invalid")
    assert private_keys(desk) == {key}
    assert desk.settings.read_text() == text
    assert load_key_set(desk.home / "keys" / "jwks.json").kids == (key,)


@pytest.mark.parametrize("step", ["jwks.json", "rotations.jsonl", "remit.toml"])
def test_a_rotation_that_is_cut_off_leaves_one_key_that_works(
    desk: Desk, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at that file."""
    before = issued(desk, "before")

    def full(real: Any) -> Any:
        def refuse(*given: Any, **named: Any) -> Any:
            if any(step == Path(each).name for each in given[:2] if isinstance(each, str | Path)):
                raise OSError(28, "No space left on device")
            return real(*given, **named)

        return refuse

    with monkeypatch.context() as faulty:
        faulty.setattr(os, "replace", full(os.replace))
        faulty.setattr(os, "open", full(os.open) if step == "rotations.jsonl" else os.open)
        assert desk.remit("keys", "rotate").code != 0
    old = signed_by(desk, before)
    assert signed_by(desk, issued(desk, "between")) == old
    rotated = desk.remit("keys", "rotate").document
    assert rotated["replaced"] == old
    assert signed_by(desk, issued(desk, "after")) == rotated["kid"]
    assert signed_by(desk, before) == old


def test_a_key_that_signs_or_is_still_needed_is_not_retired(desk: Desk) -> None:
    token = issued(desk, "before")
    rotated = desk.remit("keys", "rotate").document
    refused = desk.remit("keys", "retire", rotated["kid"])
    assert (refused.code, refused.error) == (4, "key_in_use")
    refused = desk.remit("keys", "retire", rotated["replaced"])
    assert (refused.code, refused.error) == (4, "overlap_running")
    assert desk.remit("keys", "retire", "nobody").error == "unknown_key"
    assert signed_by(desk, token) == rotated["replaced"]

    assert desk.remit("keys", "retire", rotated["replaced"], "--now").code == 0
    refused = desk.remit("token", "inspect", str(token))
    assert (refused.code, refused.error) == (4, "unknown_key")
    assert private_keys(desk) == {rotated["kid"]}


def test_a_key_that_no_rotation_replaced_never_leaves_by_itself(desk: Desk) -> None:
    first = rotate(desk.home, now_s(), by="operator:olivia")
    (desk.home / "keys" / "rotations.jsonl").write_text("")
    rotate(desk.home, now_s() + 10 * OVERLAP_S, by="operator:olivia")
    known = {key.kid: key.leaves_s for key in known_keys(load_config(desk.home))}
    assert known[first.replaced] is None
    assert known[first.kid] is not None


def test_what_is_revoked_gets_no_new_token(desk: Desk) -> None:
    for kind, name in (("agent", "writer"), ("client", "writer"), ("tenant", "local")):
        issued(desk, "before")
        assert desk.remit("revoke", kind, name).document["fresh"]
        assert not desk.remit("revoke", kind, name).document["fresh"]
        refused = desk.remit("token", "issue", "--agent", "writer")
        assert (refused.code, refused.error) == (4, "revoked")
        assert kind in refused.document["error"]["message"]
        assert desk.remit("reinstate", kind, name).document["fresh"]
    (kid,) = private_keys(desk)
    assert desk.remit("revoke", "key", kid).code == 0
    assert desk.remit("token", "issue", "--agent", "writer").error == "revoked"
    assert [key["standing"] for key in desk.remit("keys", "ls").document["keys"]] == ["revoked"]
    desk.remit("keys", "rotate")
    assert desk.remit("token", "issue", "--agent", "writer").code == 0


@pytest.mark.parametrize(
    ("kind", "name"),
    [("agent", "writter"), ("client", "nobody"), ("key", "none"), ("tenant", "acme"), ("decision", "dec_1")],
)
def test_what_was_never_there_cannot_be_revoked(desk: Desk, kind: str, name: str) -> None:
    issued(desk, "token")
    refused = desk.remit("revoke", kind, name)
    assert (refused.code, refused.error) == (2, f"unknown_{kind}")
    assert desk.remit("freeze", "ls").document["restrictions"] == []


def test_what_was_issued_is_noted_with_its_key_and_client(desk: Desk) -> None:
    issued(desk, "token")
    (line,) = (desk.home / "keys" / "issued.jsonl").read_text().splitlines()
    (kid,) = private_keys(desk)
    noted = json.loads(line)
    assert (noted["kid"], noted["client_id"]) == (kid, "mcp-host:writer")


async def test_a_revocation_says_what_it_met(world: World, office: Desk) -> None:
    command_id = await world.until_approval()
    held = (await office.asks("revoke", "key", "acme-2026")).document
    assert (held["stopped"], held["held"]) == ([], [command_id])
    assert (await office.asks("reinstate", "key", "acme-2026")).code == 0
    stopped = (await office.asks("revoke", "decision", "dec_1", "--reason", "left the firm")).document
    assert (stopped["stopped"], stopped["held"]) == ([command_id], [])
    assert (await world.settle(command_id)).state == "COMPENSATED"
    told = await office.asks("freeze", "ls")
    assert [(each["scope"], each["reason"]) for each in told.document["restrictions"]] == [
        ("revoked:decision:dec_1", "left the firm")
    ]


@pytest.mark.behaviour("token.watch")
def test_a_watched_token_is_renewed_until_its_decision_is_spent(desk: Desk) -> None:
    opened = desk.remit("decision", "open", "--agent", "writer", "--tokens", "2").document["decision_id"]
    path = desk.home / "tokens" / "watched"
    words = ("token", "issue", "--agent", "writer", "--decision", opened, "--ttl", "2s", "--out", str(path), "--watch")
    done = desk.remit(*words, as_json=False)
    assert (done.code, "budget_exhausted" in done.stderr) == (4, True), done.stderr
    newest, first = desk.remit("token", "ls").document["tokens"]
    assert newest["jti"] != first["jti"]
    assert desk.remit("token", "inspect", str(path)).document["token_id"] == newest["jti"]
    assert desk.remit("decision", "show", opened).document["tokens"] == "2/2"


def test_a_short_token_is_renewed_at_half_of_its_life_and_spends_no_budget_in_a_hurry() -> None:
    assert [renewed_after_s(ttl_s) for ttl_s in (900, 240, 90, 2)] == [780, 120, 45, 1]
