"""The journal is tampered with in its very file, each way, and what was exported before shows it."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from capabilities.errors import KeyFileError
from execution.core.events import GENESIS, chain_hash
from execution.store import authority
from server.app import opened
from server.checkpoints import (
    Exporter,
    JournalContradicts,
    export_from_time_to_time,
    read_checking_key,
    read_exported,
    signing_key,
)
from server.config import load_config
from tests.desk import Desk
from tests.integration.world import World, eventually, proposal

FROZEN = [("freeze:all", "remit")]
CONFIGURED = '[checkpoints]\nfile = "elsewhere/journal.notes"\npublic_file = "elsewhere/journal.pub"\n[site.blog]\n'


@dataclass
class Kept:
    """A journal at rest, whose checkpoint lies elsewhere."""

    office: Desk
    command_id: str

    @property
    def database(self) -> Path:
        return self.office.home / "remit.db"

    @contextmanager
    def tampering(self) -> Iterator[sqlite3.Connection]:
        """As somebody who can write the file."""
        with closing(sqlite3.connect(self.database)) as conn:
            yield conn
            conn.commit()

    async def verified(self) -> Any:
        return (await self.office.asks("verify")).document


@pytest.fixture
async def kept(world: World, office: Desk) -> Kept:
    office.rewrite("[site.blog]\n", CONFIGURED)
    command_id = await world.until_approval()
    await world.store.close()
    assert "checkpoints_none" in await examined(office)
    assert (await office.asks("checkpoint")).code == 0
    kept = Kept(office, command_id)
    assert "checkpoints_exported" in await examined(office)
    assert (await kept.verified())["ok"]
    return kept


def rechained(conn: sqlite3.Connection, command_id: str) -> None:
    """What a careful forger does: every hash of the chain anew, and the registry's end with it."""
    rows = conn.execute(
        "SELECT position, command_id, seq, type, actor, at_ms, body FROM events WHERE command_id = ? ORDER BY seq",
        (command_id,),
    ).fetchall()
    before, seq = GENESIS, 0
    for position, cid, seq, type_, actor, at_ms, body in rows:
        digest = chain_hash(before, cid, seq, type_, actor, at_ms, body)
        conn.execute("UPDATE events SET prev_hash = ?, hash = ? WHERE position = ?", (before, digest, position))
        before = digest
    conn.execute("UPDATE commands SET chain_seq = ?, chain_head = ? WHERE command_id = ?", (seq, before, cid))


def edit(conn: sqlite3.Connection, command_id: str) -> None:
    conn.execute("UPDATE events SET body = '{}' WHERE command_id = ? AND seq = 1", (command_id,))


def rewrite_suffix(conn: sqlite3.Connection, command_id: str) -> None:
    conn.execute(
        "UPDATE events SET actor = 'operator:nobody' WHERE position = (SELECT max(position) FROM events "
        "WHERE command_id = ?)",
        (command_id,),
    )
    rechained(conn, command_id)


def cut_off(conn: sqlite3.Connection, command_id: str) -> None:
    """The last event of a chain that replays to the same state without it (a fact)."""
    conn.execute(
        "DELETE FROM events WHERE position = (SELECT max(position) FROM events WHERE command_id = ? "
        "AND type IN ('BLOCKED', 'APPROVAL_REQUESTED'))",
        (command_id,),
    )
    rechained(conn, command_id)


def exchange(conn: sqlite3.Connection, command_id: str) -> None:
    """Two events of different chains change places: no chain notices."""
    (first,) = conn.execute("SELECT min(position) FROM events WHERE command_id = ?", (command_id,)).fetchone()
    (second,) = conn.execute("SELECT min(position) FROM events WHERE command_id <> ?", (command_id,)).fetchone()
    conn.execute("UPDATE events SET position = -1 WHERE position = ?", (first,))
    conn.execute("UPDATE events SET position = ? WHERE position = ?", (first, second))
    conn.execute("UPDATE events SET position = ? WHERE position = -1", (second,))


async def examined(office: Desk) -> set[str]:
    symptoms = (await office.asks("doctor", "--offline")).document["symptoms"]
    return {symptom["code"] for symptom in symptoms if symptom["subject"] == "journal"}


def put_back(old: Path, database: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    shutil.copy(old, database)


@pytest.mark.behaviour("threat.26")
@pytest.mark.behaviour("journal.tampering")
@pytest.mark.parametrize(
    ("tamper", "chains_notice", "kind"),
    [
        (edit, True, None),
        (rewrite_suffix, False, "HISTORY_DIFFERS"),
        (cut_off, False, "JOURNAL_SHORTER"),
        (exchange, False, "HISTORY_DIFFERS"),
    ],
)
async def test_whatever_is_done_to_the_file_shows(
    kept: Kept, tamper: Callable[[sqlite3.Connection, str], None], chains_notice: bool, kind: str | None
) -> None:
    with kept.tampering() as conn:
        tamper(conn, kept.command_id)
    refused = await kept.office.asks("verify")
    found = refused.document
    assert (refused.code, found["ok"]) == (1, False)
    assert bool(found["findings"]) is chains_notice
    assert [each["kind"] for each in found["checkpoints"]["findings"]] == ([kind] if kind else [])
    assert (await kept.office.asks("verify", as_json=False)).code == 1


@pytest.mark.behaviour("threat.45")
@pytest.mark.behaviour("journal.replayed-backup")
async def test_a_backup_that_is_put_back_shows_although_it_grows_again(world: World, office: Desk) -> None:
    office.rewrite("[site.blog]\n", CONFIGURED)
    command_id = await world.until_approval()
    with closing(sqlite3.connect(world.database)) as source, closing(sqlite3.connect(world.path / "old.db")) as copy:
        source.backup(copy)
    await world.approve(command_id)
    assert (await world.settle(command_id)).live
    await world.store.close()
    assert (await office.asks("checkpoint")).code == 0

    put_back(world.path / "old.db", world.database)
    found = (await office.asks("verify")).document["checkpoints"]["findings"]
    assert [each["kind"] for each in found] == ["JOURNAL_SHORTER"]
    refused = await office.asks("checkpoint")
    assert (refused.code, refused.error) == (1, "journal_contradicts")
    assert "checkpoints_contradict" in await examined(office)
    size = found[0]["size"]
    while (await office.asks("verify")).document["events"] <= size:
        for verb in ("hold", "resume"):
            assert (await office.asks(verb, command_id)).code == 0
    found = (await office.asks("verify")).document["checkpoints"]["findings"]
    assert [each["kind"] for each in found] == ["HISTORY_DIFFERS"]

    assert (await office.asks("checkpoint", "--restart")).code == 0
    verified = (await office.asks("verify")).document
    assert (verified["ok"], len(verified["checkpoints"]["restarts"])) == (True, 1)
    assert "restarted" in (await office.asks("verify", as_json=False)).stdout
    with closing(sqlite3.connect(world.database)) as conn:
        rewrite_suffix(conn, command_id)
        conn.commit()
    assert not (await office.asks("verify")).document["ok"]


async def test_what_is_written_into_the_export_by_others_shows(kept: Kept) -> None:
    file = kept.office.home / "elsewhere" / "journal.notes"
    note = file.read_text()
    file.write_text(note + note.replace("\ntime ", "\ntime 1", 1))
    assert (await kept.verified())["checkpoints"]["unreadable"] == 1
    file.write_text("nothing of ours\n\n" + note)
    assert not (await kept.verified())["ok"]
    file.write_text(note + note[: len(note) // 2])
    assert (await kept.verified())["ok"], "an unfinished last note is being written"
    assert (await kept.office.asks("checkpoint")).code == 0
    assert (await kept.verified())["checkpoints"]["count"] == 2


async def test_a_copy_kept_elsewhere_is_what_counts(kept: Kept, tmp_path: Path) -> None:
    """Whoever can write the home can write its export and key too: then only what is elsewhere convicts."""
    home = kept.office.home
    copy, key = tmp_path / "copy.notes", tmp_path / "copy.pub"
    shutil.copy(home / "elsewhere" / "journal.notes", copy)
    shutil.copy(home / "elsewhere" / "journal.pub", key)
    with kept.tampering() as conn:
        rewrite_suffix(conn, kept.command_id)
    (home / "elsewhere" / "journal.notes").unlink()
    (home / "secrets" / "checkpoint.pem").unlink()
    (home / "elsewhere" / "journal.pub").unlink()
    assert (await kept.office.asks("checkpoint")).code == 0
    assert (await kept.verified())["ok"]
    refused = await kept.office.asks("verify", "--checkpoints", str(copy), "--key", str(key))
    assert [each["kind"] for each in refused.document["checkpoints"]["findings"]] == ["HISTORY_DIFFERS"]
    refused = await kept.office.asks("verify", "--key", str(key))
    assert refused.document["checkpoints"]["unreadable"] == 1


@pytest.mark.behaviour("threat.27")
async def test_two_histories_under_one_key_are_told_apart_by_their_checkpoints(kept: Kept, tmp_path: Path) -> None:
    """Each is whole and signed; whoever holds what was signed over both sees that they are not one journal."""
    first, second = kept.office, Desk(tmp_path / "second")
    await asyncio.to_thread(shutil.copytree, first.home, second.home)
    notes = [desk.home / "elsewhere" / "journal.notes" for desk in (first, second)]
    for desk, reason in ((first, "one"), (second, "two")):
        assert (await desk.asks("hold", kept.command_id, "--reason", reason)).code == 0
        assert (await desk.asks("checkpoint")).code == 0
        assert (await desk.asks("verify")).document["ok"]
    for desk, theirs in ((first, notes[1]), (second, notes[0])):
        refused = await desk.asks("verify", "--checkpoints", str(theirs))
        assert not refused.document["ok"]
        assert {each["kind"] for each in refused.document["checkpoints"]["findings"]} <= {
            "HISTORY_DIFFERS",
            "JOURNAL_SHORTER",
        }


async def test_a_lost_private_key_is_not_replaced_silently(kept: Kept) -> None:
    (kept.office.home / "secrets" / "checkpoint.pem").unlink()
    with pytest.raises(KeyFileError):
        signing_key(load_config(kept.office.home))
    assert (await kept.office.asks("checkpoint")).code == 4


@pytest.mark.behaviour("journal.inclusion")
async def test_a_proof_convinces_whoever_has_only_the_public_key(kept: Kept, tmp_path: Path) -> None:
    proof, key = tmp_path / "proof.json", tmp_path / "journal.pub"
    shutil.copy(kept.office.home / "elsewhere" / "journal.pub", key)
    made = await kept.office.asks("checkpoint", "prove", kept.command_id, "--out", str(proof))
    assert made.code == 0, made.stdout
    elsewhere = Desk(tmp_path / "nowhere")
    checked = elsewhere.checks(proof, key)
    assert checked.document["proven"]
    assert len(checked.document["events"]) == made.document["events"] > 10
    assert {"APPROVAL_REQUESTED", "COMMAND_RECEIVED"} <= {e["type"] for e in checked.document["events"]}

    document = json.loads(proof.read_text())

    def refused(change: Callable[[Any], None]) -> str:
        forged = json.loads(json.dumps(document))
        change(forged)
        proof.write_text(json.dumps(forged))
        found = elsewhere.checks(proof, key)
        assert found.code == 1
        code: str = found.error
        return code

    assert refused(lambda d: d["events"][0]["event"].update(actor="operator:nobody")) == "event_differs"
    assert refused(lambda d: d["events"][0].update(index=1)) == "not_included"
    assert refused(lambda d: d["events"][3]["proof"].reverse()) == "not_included"
    assert refused(lambda d: d.update(checkpoint=d["checkpoint"].replace("\n", "\n1", 1))) == "bad_note_signature"
    assert refused(lambda d: d["events"][0]["event"].update(more="")) == "malformed_proof"
    assert refused(lambda d: d["events"][0]["event"].update(seq="1")) == "malformed_proof"
    assert refused(lambda d: d.update(events=[])) == "malformed_proof"
    proof.write_text("{}")
    assert elsewhere.checks(proof, key).error == "malformed_proof"


async def test_what_grows_is_exported_once_and_by_several_processes(world: World, office: Desk) -> None:
    office.rewrite("[site.blog]\n", CONFIGURED)
    config = load_config(office.home)
    async with opened(config) as one, opened(config) as other:
        first, second = Exporter(one), Exporter(other)
        assert await first.turn() is not None, "an empty journal is a beginning too"
        assert await first.turn() is None
        assert await second.turn() is None
        command_id = await world.accepted()
        made = await second.turn()
        assert made is not None
        assert await first.turn() is None
        await world.settle(command_id)
        done = await asyncio.gather(first.turn(), second.turn())
        assert [each is None for each in done].count(True) == 1
        await world.accepted(proposal(article="article-0029", slug="another-one"))
        assert await first.turn() is not None
    exported = read_exported(
        office.home / "elsewhere" / "journal.notes", read_checking_key(office.home / "elsewhere" / "journal.pub")
    )
    sizes = [each.size for each in exported.checkpoints]
    assert sizes == sorted(set(sizes))
    assert len(sizes) == 4
    assert (await office.asks("verify")).document["ok"]


async def test_nothing_is_signed_over_a_journal_that_contradicts_the_last_checkpoint(
    world: World, office: Desk
) -> None:
    office.rewrite("[site.blog]\n", CONFIGURED)
    command_id = await world.accepted()
    async with opened(load_config(office.home)) as at:
        assert await Exporter(at).turn() is not None
        with closing(sqlite3.connect(world.database)) as conn:
            rewrite_suffix(conn, command_id)
            conn.commit()
        with pytest.raises(JournalContradicts):
            await Exporter(at).turn()
        exporting = asyncio.create_task(export_from_time_to_time(at))

        async def stopped() -> bool:
            return [(each.scope, each.by) for each in await at.store.read(authority.restrictions)] == FROZEN

        await eventually(stopped, "everything is frozen")
        exporting.cancel()
    file = office.home / "elsewhere" / "journal.notes"
    assert file.read_text().count("\ntime ") == 1
