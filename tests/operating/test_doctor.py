"""`remit doctor`: a healthy home is called healthy, and each planted fault is named with what to do."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capabilities.keys import generate_operator_key, generate_signing_key, save_private_key
from execution.ports import Severity
from server.doctor import disk
from server.doctor.clock import note
from tests.desk import OPERATOR, Desk, Finished
from tests.e2e.world import environment
from tests.integration.world import PROPOSER, MovableClock, World, proposal


def found(report: Finished) -> dict[str, Any]:
    """Symptoms by code."""
    return {symptom["code"]: symptom for symptom in report.document["symptoms"]}


def test_a_new_home_is_healthy_and_no_secret_of_it_is_shown(desk: Desk) -> None:
    report = desk.remit("doctor")
    assert (report.code, report.document["ok"], report.document["counts"]["problem"]) == (0, True, 0), report.stdout
    assert {
        "clock_not_noted",
        "room_enough",
        "files_private",
        "key_set_usable",
        "issuer_key_usable",
        "operators_can_approve",
        "database_readable",
        "commits_are_durable",
        "history_unbroken",
        "sandbox_not_running",
    } <= found(report).keys()
    shown = report.stdout + desk.remit("doctor", as_json=False).stdout
    for secret in (*(desk.home / "keys").glob("*.pem"), *(desk.home / "operators").glob("*.pem")):
        assert secret.read_text().splitlines()[1] not in shown
    assert (desk.home / "secrets" / "blog.password").read_text().strip() not in shown


@pytest.mark.behaviour("people.first-look")
def test_people_are_told_what_is_not_as_it_should_be_and_of_the_rest_that_it_was_looked_at(desk: Desk) -> None:
    symptoms = desk.remit("doctor", "--offline").document["symptoms"]
    lines = desk.remit("doctor", "--offline", as_json=False).stdout.splitlines()
    others = [symptom for symptom in symptoms if symptom["severity"] != "fine"]
    for symptom in others:
        assert any(symptom["code"].replace("_", " ") in line for line in lines), symptom
    (fine,) = [line for line in lines if line.startswith("fine ")]
    assert fine.startswith(f"fine     {len(symptoms) - len(others)} checks: ")
    assert len([line for line in lines if line[:1] not in (" ", "")]) < len(symptoms)
    assert lines[-1].startswith("It works. ")


def test_whoever_shares_a_user_with_the_agent_is_warned(desk: Desk) -> None:
    warning = found(desk.remit("doctor", "--offline"))["credentials_readable"]
    assert warning["severity"] == "warning"
    assert "secrets/blog.password" in warning["detail"]
    assert "remit worker" in warning["fix"]


def test_every_read_back_shows_its_contract_and_every_system_its_bounds(desk: Desk) -> None:
    desk.rewrite('max_run_s = 5\nmax_run_source = "the sandbox ends requests after this"\n', "")
    report = desk.remit("doctor", "--offline").document
    lookups = {item["step"]: item for item in report["lookups"]}
    assert lookups["CREATE_WORDPRESS_DRAFT"]["authority"]
    assert lookups["SEND_NOTIFICATION"]["repeat"] == "a person will be asked"
    bounds = {item["name"]: item for item in report["bounds"]}
    assert bounds["wordpress blog"]["quiescent_after_s"] is None
    assert bounds["wordpress blog"]["in_doubt"] == "a person will be asked"
    assert (bounds["mail"]["max_run_s"], bounds["mail"]["max_run_source"]) == (
        5,
        "the sandbox ends conversations after this",
    )
    assert bounds["publications"]["quiescent_after_s"] > bounds["publications"]["max_run_s"]


def _open_database(home: Path) -> None:
    (home / "remit.db").chmod(0o644)


def _linked_secret(home: Path) -> None:
    secret = home / "secrets" / "blog.password"
    secret.rename(home / "secrets" / "moved")
    secret.symlink_to("moved")


def _writable_settings(home: Path) -> None:
    (home / "remit.toml").chmod(0o666)


def _no_keys(home: Path) -> None:
    (home / "keys" / "jwks.json").unlink()


def _other_issuer(home: Path) -> None:
    (path,) = (home / "keys").glob("*.pem")
    path.unlink()
    save_private_key(generate_signing_key(path.stem), path)


def _other_operator(home: Path) -> None:
    path = home / "operators" / f"{OPERATOR}.pem"
    path.unlink()
    save_private_key(generate_operator_key(OPERATOR), path)


def _client_without_key(home: Path) -> None:
    with (home / "remit.toml").open("a") as settings:
        settings.write('\n[client.nightly]\npublic_key_file = "clients/nightly.pem"\ndecision = "dec_1"\n')


def _misspelt_key(home: Path) -> None:
    settings = home / "remit.toml"
    settings.write_text(settings.read_text().replace("[mail]\n", "[mail]\nprot = 25\n"))


def _no_database(home: Path) -> None:
    for path in home.glob("remit.db*"):
        path.unlink()


def _no_journal(home: Path) -> None:
    (home / "remit.db").write_bytes(b"not a database, and long enough to be taken for one" * 100)


def _other_installation(home: Path) -> None:
    settings = home / "remit.toml"
    lines = settings.read_text().splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("id = "))
    lines[at] = 'id = "inst_01kb9zq3m4n5p6q7r8s9t0v1w2"'
    settings.write_text("\n".join(lines))


def _missing_secret(home: Path) -> None:
    (home / "secrets" / "blog.password").unlink()


def _journal_from_the_future(home: Path) -> None:
    with sqlite3.connect(home / "remit.db") as database:
        database.execute("UPDATE store_meta SET clock_high_ms = clock_high_ms + 600000")
    database.close()


@pytest.mark.behaviour("threat.44")
@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (_open_database, "open_permissions"),
        (_linked_secret, "secret_is_a_link"),
        (_writable_settings, "configuration_writable"),
        (_no_keys, "key_set_unusable"),
        (_other_issuer, "issuer_key_not_in_set"),
        (_other_operator, "operator_key_differs"),
        (_client_without_key, "client_key_unusable"),
        (_misspelt_key, "config_invalid"),
        (_missing_secret, "config_invalid"),
        (_no_database, "database_missing"),
        (_no_journal, "database_broken"),
        (_other_installation, "installation_differs"),
        (_journal_from_the_future, "clock_went_back"),
    ],
)
@pytest.mark.behaviour("doctor.finds")
def test_what_is_broken_is_named_with_what_to_do(desk: Desk, plant: Callable[[Path], None], code: str) -> None:
    plant(desk.home)
    report = desk.remit("doctor", "--offline")
    symptom = found(report)[code]
    assert (report.code, symptom["severity"]) == (1, "problem"), report.stdout
    assert symptom["fix"]
    assert "Traceback" not in report.stderr


def test_a_home_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    report = Desk(tmp_path / "nothing").remit("doctor")
    assert report.code == 1
    assert "remit init" in found(report)["config_invalid"]["fix"]
    assert not (tmp_path / "nothing").exists()


def test_a_copied_home_is_recognised_and_left_as_it_is(desk: Desk, tmp_path: Path) -> None:
    copy = Desk(tmp_path / "copy")
    shutil.copytree(desk.home, copy.home)
    for _ in range(2):  # looking does not settle it
        assert found(copy.remit("doctor", "--offline"))["history_changed"]["severity"] == "warning"


def test_an_emptied_file_of_checkpoints_is_none_where_nothing_happened_yet(desk: Desk) -> None:
    notes = desk.home / "checkpoints" / "journal.notes"
    notes.parent.mkdir(exist_ok=True)
    notes.touch()
    assert "checkpoints_none" in found(desk.remit("doctor", "--offline"))


def test_a_clock_that_was_set_since_a_worker_started_is_noticed(desk: Desk) -> None:
    clock = MovableClock()
    note(desk.home, clock)
    assert "clock_steady" in found(desk.remit("doctor", "--offline"))

    class SetBack(MovableClock):
        def now_ms(self) -> int:
            return super().now_ms() - 90_000

    note(desk.home, SetBack())
    symptom = found(desk.remit("doctor", "--offline"))["clock_was_set"]
    assert symptom["severity"] == "warning"
    assert "+90." in symptom["detail"]


def test_who_holds_the_database_is_named_and_a_held_write_lock_is_a_problem(desk: Desk) -> None:
    hold = (
        "import sqlite3, sys; held = sqlite3.connect(sys.argv[1]); held.execute('BEGIN IMMEDIATE'); print('held', "
        "flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", hold, str(desk.home / "remit.db")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        report = desk.remit("doctor", "--offline")
        process.communicate("")
    symptoms = found(report)
    assert symptoms["write_lock_held"]["severity"] == "problem"
    assert str(process.pid) in symptoms["database_held_by_others"]["detail"]
    assert "write_lock_held" not in found(desk.remit("doctor", "--offline"))


def test_packages_that_something_else_stands_in_for_are_a_problem(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "shadow" / "adapters").mkdir(parents=True)
    (tmp_path / "shadow" / "adapters" / "__init__.py").touch()
    root = environment()["PYTHONPATH"]
    shadowed = environment(PYTHONPATH=f"{tmp_path / 'shadow'}:{root}")
    words = [sys.executable, "-m", "server", "doctor", "--home", str(desk.home), "--json"]
    done = subprocess.run(words, cwd=tmp_path, env=shadowed, capture_output=True, text=True, timeout=60)
    report = Finished(done.returncode, done.stdout, done.stderr)
    assert report.code == 1
    assert str(tmp_path / "shadow") in found(report)["packages_mixed"]["detail"]


@pytest.mark.parametrize(
    ("median_s", "code"),
    [(1e-6, "fsync_too_fast"), (0.0008, "fsync_reaches_the_disk"), (0.2, "fsync_slow")],
)
def test_a_disk_that_answers_too_fast_or_too_slowly_is_a_warning(median_s: float, code: str) -> None:
    symptom = disk.judged(median_s)
    assert symptom.code == code
    assert (symptom.severity is Severity.WARNING) == (code != "fsync_reaches_the_disk")


async def test_each_system_is_asked_with_its_configured_account(world: World, office: Desk) -> None:
    report = await office.asks("doctor")
    codes = {(symptom["subject"], symptom["code"]) for symptom in report.document["symptoms"]}
    assert {("wordpress blog", "site_ready"), ("publications", "table_ready"), ("mail", "relay_ready")} <= codes
    assert world.reality().writes == {}
    assert world.reality().messages == ()


async def test_an_account_that_sees_too_little_is_a_problem(world: World, office: Desk) -> None:
    office.rewrite('user = "editor1"', 'user = "author1"')
    (office.home / "secrets" / "blog.password").write_text("sandbox-author1\n")
    symptom = found(await office.asks("doctor"))["cannot_see_others"]
    assert symptom["severity"] == "problem"
    assert symptom["subject"].startswith("wordpress")
    assert "Editor" in symptom["fix"]


async def test_a_wrong_password_and_a_missing_table_are_two_problems(world: World, office: Desk) -> None:
    (office.home / "secrets" / "blog.password").write_text("wrong\n")
    world.table.execute("DROP TABLE remit_publications")
    report = await office.asks("doctor")
    symptoms = found(report)
    assert report.code == 1
    assert symptoms["not_authorised"]["subject"].startswith("wordpress")
    assert "remit migrate" in symptoms["table_missing"]["fix"]


async def test_open_questions_and_waiting_approvals_are_told_with_their_age(world: World, office: Desk) -> None:
    await world.until_approval()
    world.clock.move_on(-3_600)
    symptoms = found(await office.asks("doctor", "--offline"))
    assert symptoms["approvals_wait"]["severity"] in ("note", "warning")
    assert "1 commands" in symptoms["backlog"]["detail"]


async def test_work_that_nobody_does_is_told(world: World, office: Desk) -> None:
    world.clock.move_on(-7_200)
    await world.accepted()
    symptom = found(await office.asks("doctor", "--offline"))["work_overdue"]
    assert symptom["severity"] == "warning"
    assert "remit worker" in symptom["fix"]


@pytest.mark.behaviour("threat.47")
@pytest.mark.behaviour("issuer.stolen-key")
async def test_a_token_that_the_issuer_never_noted_is_an_alarm(world: World, office: Desk) -> None:
    """Signed by the very key, taken by the gateway: only the issuer's own notes tell it from the others."""
    issued = (await office.asks("token", "issue", "--agent", "writer", "--uses", "5", "--open", "5")).document
    iss = "https://issuer.example"
    await world.accepted(proposer=replace(PROPOSER, issuer=iss, token_id=issued["token_id"], max_uses=5))
    assert "tokens_all_issued_here" in found(await office.asks("doctor", "--offline"))
    offered = proposal(article="article-0029")
    await world.accepted(offered, replace(PROPOSER, issuer=iss, token_id="tok_of_a_thief", max_uses=1))
    report = await office.asks("doctor", "--offline")
    alarm = found(report)["token_never_issued"]
    assert (report.code, alarm["severity"]) == (1, "problem")
    assert "1 used that this issuer never noted: tok_of_a_thief" in alarm["detail"]
    assert "revoke key" in alarm["fix"]
