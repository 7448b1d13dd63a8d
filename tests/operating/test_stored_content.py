"""`remit artifact`: content is bound for good, read back whole, and erased without a trace of its bytes."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.desk import Desk
from tests.integration.world import World, proposal

CANARY = "canary-content-1c9e-that-somebody-wants-forgotten"


def stored(desk: Desk, folder: Path, text: str, *more: str) -> str:
    file = folder / "content.md"
    file.write_text(text)
    put = desk.remit("artifact", "put", str(file), *more)
    assert put.code == 0, put.stdout
    return str(put.document["ref"])


def anywhere(home: Path) -> list[str]:
    """Files of the journal in which the canary's bytes stand."""
    return [path.name for path in home.glob("remit.db*") if CANARY.encode() in path.read_bytes()]


@pytest.mark.behaviour("content.erased")
def test_erased_content_is_in_no_file_of_the_journal_and_every_chain_stays_whole(desk: Desk, tmp_path: Path) -> None:
    ref = stored(desk, tmp_path, f"# Tea\n\n{CANARY}\n" * 400, "--name", "article/0028/v1")
    assert anywhere(desk.home)
    erased = desk.remit("artifact", "erase", ref, "--yes", "--reason", "asked for by its author")
    assert (erased.code, erased.document["log_emptied"]) == (0, True), erased.stdout
    assert anywhere(desk.home) == []
    for name in (ref, "artifact://article/0028/v1"):
        gone = desk.remit("artifact", "get", name)
        assert (gone.code, gone.error) == (1, "artifact_erased")
    assert desk.remit("artifact", "erase", ref, "--yes").error == "artifact_erased"
    assert desk.remit("verify").code == 0


async def test_what_an_unfinished_command_needs_is_not_erased(world: World, office: Desk) -> None:
    command_id = await world.until_approval(proposal(content=f"# Tea\n\n{CANARY}"))
    plan = json.loads((await world.saga(command_id)).root.params)["plan"]
    ref = f"artifact://sha256/{plan['source_sha256']}"
    refused = await office.asks("artifact", "erase", ref, "--yes")
    assert (refused.code, refused.error) == (1, "artifact_in_use")
    assert command_id in refused.document["error"]["message"]
    await world.approve(command_id)
    await world.settle(command_id)
    done = await office.asks("artifact", "erase", ref, "--yes", "--reason", "asked for")
    assert done.document["commands"] == [command_id]
    events = await world.first.status.journal(command_id)
    (noted,) = [json.loads(event.body) for event in events if event.type == "CONTENT_ERASED"]
    assert (noted["by"], noted["reason"]) == ("operator:olivia", "asked for")
    assert (await world.view(command_id)).live
    assert (await office.asks("verify")).code == 0


def test_nothing_is_erased_without_a_yes(desk: Desk, tmp_path: Path) -> None:
    ref = stored(desk, tmp_path, "# Tea")
    refused = desk.remit("artifact", "erase", ref)
    assert (refused.code, refused.error) == (2, "confirmation_needed")
    assert desk.remit("artifact", "get", ref, "--out", str(tmp_path / "back.md")).code == 0
    assert (tmp_path / "back.md").read_text() == "# Tea"


def test_content_of_a_taken_name_is_not_stored_either(desk: Desk, tmp_path: Path) -> None:
    stored(desk, tmp_path, "# Tea", "--name", "article/0028/v1")
    (tmp_path / "other.md").write_text("# Coffee")
    refused = desk.remit("artifact", "put", str(tmp_path / "other.md"), "--name", "article/0028/v1")
    assert (refused.code, refused.error) == (1, "name_taken")
    digest = hashlib.sha256(b"# Coffee").hexdigest()
    assert desk.remit("artifact", "get", f"artifact://sha256/{digest}").error == "artifact_missing"


@pytest.mark.parametrize("ref", ["artifact://sha256/" + "0" * 64, "artifact://no/such", "nonsense"])
def test_what_was_never_stored_is_said_to_be_missing(desk: Desk, ref: str) -> None:
    for words in (("artifact", "get", ref), ("artifact", "erase", ref, "--yes")):
        refused = desk.remit(*words)
        assert (refused.code, refused.error) == (1, "artifact_missing")


def test_content_above_the_limit_is_refused_with_the_limit(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "large.md").write_bytes(b"x" * (1024 * 1024 + 1))
    refused = desk.remit("artifact", "put", str(tmp_path / "large.md"))
    assert refused.code == 1
    assert "1048576" in refused.stdout
