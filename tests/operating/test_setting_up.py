"""Setting up: what cannot work says why and what to do, in the words of whoever typed it."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.desk import Desk, Finished
from tests.e2e.world import environment

OVERRIDES: tuple[int, ...] = (1, 2)
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: with them root ignores modes (capabilities(7))."""


def obey_modes() -> None:
    """In the child: as a user for whom modes count, whoever runs the tests (prctl(2), PR_CAPBSET_DROP)."""
    for capability in OVERRIDES:
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


def ordinary(*words: str) -> Finished:
    """A command of an ordinary user."""
    done = subprocess.run(
        [sys.executable, "-m", "server", *words, "--json"],
        env=environment(),
        preexec_fn=obey_modes,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=90,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def test_a_home_that_cannot_be_written_says_so(desk: Desk) -> None:
    for path in (*desk.home.rglob("*"), desk.home):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        refused = ordinary("ls", "--home", str(desk.home))
        examined = ordinary("doctor", "--offline", "--home", str(desk.home))
    finally:
        for path in (desk.home, *desk.home.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)
    assert (refused.code, refused.error) == (1, "store_unusable")
    assert "cannot be written by this user" in refused.document["error"]["message"]
    assert "owner, mode, mount" in refused.document["error"]["fix"]
    codes = {symptom["code"] for symptom in examined.document["symptoms"]}
    assert (examined.code, "home_not_writable" in codes) == (1, True)


def test_a_home_that_cannot_be_made_is_named_as_it_was_typed(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refused = ordinary("init", "--home", str(tmp_path / "home"))
    tmp_path.chmod(0o700)
    assert (refused.code, refused.error) == (1, "home_unusable")
    assert str(tmp_path / "home") in refused.document["error"]["message"]
    assert ".home." not in refused.stdout
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("token", "inspect", "nowhere/token"), "nowhere/token is not there"),
        (("token", "inspect", "."), ". is no regular file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(desk: Desk, words: tuple[str, ...], said: str) -> None:
    refused = desk.remit(*words)
    assert refused.code == 4
    assert said in refused.document["error"]["message"]
    assert refused.document["error"]["fix"]


def test_a_key_file_that_is_open_or_empty_says_which(desk: Desk, tmp_path: Path) -> None:
    for mode, text, said in ((0o644, "x", "is open to others"), (0o600, "x", "holds no private key")):
        key = tmp_path / f"{mode:o}.pem"
        key.write_text(text)
        key.chmod(mode)
        (issuer,) = (desk.home / "keys").glob("*.pem")
        desk.rewrite(f'key_file = "keys/{issuer.name}"', f'key_file = "{key}"')
        refused = desk.remit("token", "issue", "--agent", "writer")
        assert (refused.code, said in refused.document["error"]["message"]) == (4, True), refused.stdout
        desk.rewrite(f'key_file = "{key}"', f'key_file = "keys/{issuer.name}"')


def test_a_decision_about_one_agent_issues_no_token_for_another(desk: Desk) -> None:
    decision = desk.remit("decision", "open", "--agent", "writer").document["decision_id"]
    refused = desk.remit("token", "issue", "--agent", "somebody", "--decision", decision)
    assert (refused.code, refused.error) == (4, "agent_differs")
    assert "writer" in refused.document["error"]["message"]
    assert desk.remit("token", "issue", "--agent", "writer", "--decision", decision).code == 0


def test_an_agent_named_like_an_operator_is_pointed_out(desk: Desk) -> None:
    issued = desk.remit("token", "issue", "--agent", "olivia")
    assert issued.code == 0
    assert "cannot approve what this agent proposes" in issued.stderr
    assert "cannot approve" not in desk.remit("token", "issue", "--agent", "olivia", "--query-only").stderr
