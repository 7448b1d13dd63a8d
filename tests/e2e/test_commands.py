"""The command line: exit codes, JSON, errors in one line, and nothing it need not load."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.world import COMMAND_MAX_S, Home, environment, served

WITHOUT_HOME = ("connect", "header", "check")
"""They run where an agent runs, or whoever was handed a proof."""


def test_a_home_is_for_its_owner_alone(home: Home) -> None:
    open_ = {path for path in home.path.rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077}
    assert open_ == {home.path / "keys" / "jwks.json", home.path / "checkpoints" / "journal.pub"}  # public keys
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700


def test_init_refuses_to_touch_what_is_there(home: Home) -> None:
    before = (home.path / "remit.toml").read_bytes()
    again = home.remit("init")
    assert (again.code, again.document["error"]["code"]) == (1, "home_exists")
    assert (home.path / "remit.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("no-such-command",), 2),
        (("status",), 2),
        (("token", "issue", "--agent", "Not A Name"), 2),
        (("token", "issue", "--agent", "writer", "--ttl", "2h"), 2),
        (("freeze", "on", "--scope", "everything"), 2),
        (("freeze", "on", "--scope", "site:no-such-site"), 2),
        (("freeze", "on", "--scope", "system:no-such-system"), 2),
        (("freeze", "on", "--scope", "tenant:no-such-tenant"), 2),
        (("freeze", "on", "--scope", "command:cmd_x"), 2),
        (("freeze", "on", "--scope", "site:"), 2),
        (("freeze", "on", "--all", "--scope", "site:blog"), 2),
        (("freeze", "off", "--scope", "site:no-such-site"), 2),
        (("hold", "cmd_x"), 1),
        (("resume", "cmd_x"), 1),
        (("token", "issue", "--agent", "writer", "--site", "no-such-site"), 1),
        (("token",), 2),
        (("review", "rule", "rev_x", "perhaps"), 2),
        (("status", "cmd_01kb9zq3m4n5p6q7r8s9t0v1w2"), 1),
        (("review", "show", "rev_x"), 1),
        (("artifact", "get", "artifact://sha256/" + "0" * 64), 1),
        (("cancel", "cmd_x", "--operator", "nobody"), 4),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(untouched: Home, arguments: tuple[str, ...], code: int) -> None:
    done = untouched.remit(*arguments)
    assert done.code == code
    assert done.document["error"]["message"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [(), ("token",)])
def test_a_group_without_a_command_shows_its_help(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "server", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=COMMAND_MAX_S,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(" ".join(("Usage: remit", *words)))
    assert "<U+" not in done.stderr


def test_a_missing_home_says_how_to_make_one(tmp_path: Path) -> None:
    done = Home(tmp_path / "nothing").remit("ls", as_json=False)
    assert (done.code, done.stdout) == (1, "")
    assert "remit init" in done.stderr


def test_serve_without_a_home_writes_nothing_to_the_wire(tmp_path: Path) -> None:
    home = Home(tmp_path / "nothing")
    with served(home) as server:
        code, log = server.ended(COMMAND_MAX_S)
        assert server.process.stdout is not None
        assert (code, server.process.stdout.read()) == (1, b"")
        assert "remit init" in log


def test_content_is_stored_and_read_back_by_hash_and_by_name(home: Home, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Water")
    put = home.remit("artifact", "put", str(tmp_path / "a.md"), "--name", "article/0028/v1").document
    for ref in (put["ref"], put["name"]):
        assert home.remit("artifact", "get", ref, "--out", str(tmp_path / "b.md")).code == 0
        assert (tmp_path / "b.md").read_text() == "# Water"
    (tmp_path / "a.md").write_text("# Other")
    taken = home.remit("artifact", "put", str(tmp_path / "a.md"), "--name", "article/0028/v1")
    assert taken.document["error"]["code"] == "name_taken"


def test_a_decision_is_spent_and_closed(home: Home) -> None:
    dec = home.remit("decision", "open", "--agent", "writer", "--tokens", "1").document["decision_id"]
    assert home.issue("--decision", dec)["decision_id"] == dec
    spent = home.remit("token", "issue", "--agent", "writer", "--decision", dec)
    assert (spent.code, spent.document["error"]["code"]) == (4, "budget_exhausted")
    assert home.remit("decision", "close", dec).code == 0
    assert home.remit("decision", "show", dec).document["open"] is False


def test_a_token_file_is_inspected_without_showing_it(home: Home) -> None:
    issued = home.issue()
    shown = home.remit("token", "inspect", str(home.token))
    assert shown.document["token_id"] == issued["token_id"]
    assert home.token.read_text().strip() not in shown.stdout
    assert stat.S_IMODE(home.token.stat().st_mode) == 0o600
    assert [row["jti"] for row in home.remit("token", "ls").document["tokens"]] == [issued["token_id"]]


@pytest.mark.parametrize("package", ["mcp", "alembic", "httpx"])
def test_commands_load_nothing_of_protocol_migrations_or_adapters(untouched: Home, package: str) -> None:
    source = "import sys; from server.cli.main import run; run(sys.argv[2:]); sys.exit(sys.argv[1] in sys.modules)"
    words = [sys.executable, "-c", source, package, "ls", "--home", str(untouched.path), "--json"]
    done = subprocess.run(words, env=environment(), capture_output=True, timeout=COMMAND_MAX_S, text=True)
    assert done.returncode == 0, f"{package} was loaded"


def test_every_command_has_help_and_knows_json_and_home() -> None:
    from server.cli.main import app

    groups = {info.name: info.typer_instance for info in app.registered_groups}
    listed = [*app.registered_commands, *(c for group in groups.values() for c in group.registered_commands)]  # type: ignore[union-attr]  # groups are Typers here
    for command in listed:
        assert command.callback is not None
        assert command.callback.__doc__, command.name
        known = {"as_json"} if command.name in WITHOUT_HOME else {"home", "as_json"}
        assert known <= command.callback.__annotations__.keys(), command.name
