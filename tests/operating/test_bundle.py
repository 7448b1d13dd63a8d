"""A support bundle holds everything about a command that helps, and no secret, wherever one was planted."""

import json
import stat
import tarfile
from pathlib import Path

import pytest

from adapters.sandbox.faults import FaultKind
from tests.desk import Desk
from tests.integration.world import World, proposal

CANARIES = {
    "password": "canary-Site-Password-1f0a",
    "variable": "canary-Variable-2e9b",
    "relay": "canary-Relay-3d8c",
    "database": "canary-Database-4c7d",
    "provider": "canary-Provider-5b6e",
}
CONTENT = "canary-Content-6a5f"
TITLE = "canary-Title-7f4a"
OTHER = "canary-Excerpt-8e3b"


def read(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        members = [(entry.name.removeprefix("remit-bundle/"), archive.extractfile(entry)) for entry in archive]
        return {name: opened.read().decode() for name, opened in members if opened is not None}


def _secret(office: Desk, name: str, value: str) -> None:
    path = office.home / "secrets" / name
    path.touch(mode=0o600)
    path.write_text(value)


def plant(office: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in every place that a configuration can name."""
    _secret(office, "blog.password", CANARIES["password"])
    _secret(office, "relay.password", CANARIES["relay"])
    _secret(office, "publications.url", f"sqlite:///{office.home}/{CANARIES['database']}.db")
    monkeypatch.setenv("SHOP_PASSWORD", CANARIES["variable"])
    shop = office.settings.read_text().split("[site.shop]")
    shop[1] = shop[1].replace('password_file = "secrets/blog.password"', 'password_env = "SHOP_PASSWORD"', 1)
    office.settings.write_text("[site.shop]".join(shop))
    office.rewrite(f'url = "sqlite:///{office.home}/publications.db"', 'url_file = "secrets/publications.url"')
    office.rewrite("[mail]\n", '[mail]\nuser = "remit"\npassword_file = "secrets/relay.password"\n')


async def troubled(world: World, office: Desk) -> str:
    """A command whose provider answered with text, and whose reviewer pasted a password and a token."""
    command_id = await world.until_approval(
        proposal(content=f"# Tea\n\n{CONTENT}", title=TITLE, excerpt=OTHER, meta_description=OTHER, notify=["team"])
    )
    refusal = f'{{"code":"rest_cannot_delete","message":"{CANARIES["provider"]}","data":{{"status":403}}}}'
    world.arm("DELETE /wp-json/wp/v2/posts/1", FaultKind.STATUS_BEFORE, status=403, body=refusal)
    token = (office.home / "tokens" / "writer").read_text().strip()
    reason = f"I logged in with {CANARIES['password']} and {token}"[:500]
    await world.operations.reject(command_id, operator="operator:olivia", reason=reason)
    assert (await world.settle(command_id)).state == "NEEDS_REVIEW"
    return command_id


@pytest.mark.behaviour("incident.73")
@pytest.mark.behaviour("bundle.clean")
@pytest.mark.parametrize("verb", ["status", "why", "journal"])
async def test_no_secret_and_no_content_is_in_a_bundle(
    world: World, office: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    issued = await office.asks("token", "issue", "--agent", "writer", "--out", str(office.home / "tokens" / "writer"))
    assert issued.code == 0
    plant(office, monkeypatch)
    command_id = await troubled(world, office)
    done = await office.asks(verb, command_id, "--bundle", str(tmp_path / "bundle.tar.gz"))
    files = read(tmp_path / "bundle.tar.gz")
    assert done.document["bundle"]["files"] == sorted(files)
    assert stat.S_IMODE((tmp_path / "bundle.tar.gz").stat().st_mode) == 0o600
    everything = "\n".join(files.values())
    token = (office.home / "tokens" / "writer").read_text().strip()
    keys = [*(office.home / "keys").glob("*.pem"), *(office.home / "operators").glob("*.pem")]
    private = [line for key in keys for line in key.read_text().splitlines() if "-" not in line]
    for planted in (*CANARIES.values(), CONTENT, TITLE, OTHER, token, token.split(".")[2], *private, "team@remit"):
        assert planted not in everything, planted
    assert "[redacted:secret]" in files["journal.json"]


async def test_a_bundle_tells_what_happened_with_which_versions(world: World, office: Desk, tmp_path: Path) -> None:
    command_id = await world.until_approval()
    assert (await office.asks("status", command_id, "--bundle", str(tmp_path / "b.tgz"))).code == 6
    files = {name: json.loads(text) for name, text in read(tmp_path / "b.tgz").items() if name.endswith(".json")}
    assert files["manifest.json"]["command_id"] == command_id
    assert files["manifest.json"]["versions"]["sqlite"]
    assert [event["type"] for event in files["journal.json"]] == await world.facts(command_id)
    assert files["attempts.json"][0]["settlement"] == "LANDED"
    assert files["approvals.json"][0]["subject"]["target"]["site"] == "blog"
    assert files["configuration.json"]["site"]["blog"]["password_file"] == "secrets/blog.password"
    assert {symptom["subject"] for symptom in files["doctor.json"]["symptoms"]} >= {"journal", "files", "clock"}
    assert files["registry.json"][0]["params"].startswith("[left out")


async def test_content_is_there_when_it_is_asked_for_and_secrets_are_not(
    world: World, office: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(office, monkeypatch)
    command_id = await world.until_approval(proposal(content=f"# Tea\n\n{CONTENT}", title=TITLE))
    await office.asks("status", command_id, "--bundle", str(tmp_path / "b.tgz"), "--with-content")
    everything = "\n".join(read(tmp_path / "b.tgz").values())
    assert CONTENT in everything
    assert TITLE in everything
    assert not [planted for planted in CANARIES.values() if planted in everything]


async def test_nothing_is_overwritten_by_a_bundle(world: World, office: Desk, tmp_path: Path) -> None:
    command_id = await world.accepted()
    (tmp_path / "mine").write_text("mine")
    refused = await office.asks("why", command_id, "--bundle", str(tmp_path / "mine"))
    assert (refused.code, refused.error) == (1, "file_exists")
    assert (tmp_path / "mine").read_text() == "mine"
    nowhere = await office.asks("why", command_id, "--bundle", str(tmp_path / "no" / "where"))
    assert (nowhere.code, nowhere.error) == (1, "os_error")


def test_a_password_in_the_configuration_is_refused(desk: Desk) -> None:
    desk.rewrite('url = "sqlite:///{home}/sandbox/publications.db"', 'url = "postgresql://remit:secret@db/x"')
    refused = desk.remit("ls")
    assert (refused.code, refused.error) == (1, "config_invalid")
    assert "url_file" in refused.document["error"]["fix"]
    assert "secret" not in refused.document["error"]["message"]
