"""Who acts is whoever holds the key; what is done is signed and kept, and no name stands in for either."""

import asyncio
import sqlite3

from execution import acts
from execution.store.acts import Act, recent
from server.app import opened
from server.config import load_config
from server.operators import rulers_of
from tests.desk import OPERATOR, Desk


def kept(desk: Desk) -> tuple[Act, ...]:
    async def read() -> tuple[Act, ...]:
        async with opened(load_config(desk.home)) as at:
            return await at.store.read(recent)

    return asyncio.run(read())


def test_what_is_done_is_kept_with_a_signature_that_holds_for_nothing_else(desk: Desk) -> None:
    assert desk.remit("freeze", "on", "--all", "--reason", "smoke", "--operator", OPERATOR).code == 0
    assert desk.remit("freeze", "off", "--all", "--operator", OPERATOR).code == 0
    off, on = kept(desk)
    assert (on.verb, on.subject, on.by, on.what) == (
        "freeze on",
        "freeze:all",
        f"operator:{OPERATOR}",
        '{"reason":"smoke"}',
    )
    assert off.act_id != on.act_id
    believed = rulers_of(load_config(desk.home).settings)
    assert [acts.invalid(act, believed) for act in (on, off)] == [None, None]
    changes = {"act_id": "act_1", "verb": "freeze off", "subject": "freeze:site:blog", "at_ms": 1, "what": "{}"}
    for name, value in changes.items():
        forged = Act(**{field: getattr(on, field) for field in Act.__slots__} | {name: value})
        assert acts.invalid(forged, believed) == "bad_signature", name


def test_what_operators_did_is_told_and_what_nobody_signed_shows(desk: Desk) -> None:
    assert desk.remit("freeze", "on", "--all", "--reason", "smoke").code == 0
    told = desk.remit("acts")
    (act,) = told.document["acts"]
    assert (told.code, act["verb"], act["subject"], act["signature"]) == (0, "freeze on", "freeze:all", "holds")
    assert "smoke" in desk.remit("acts", as_json=False).stdout
    with sqlite3.connect(desk.home / "remit.db") as journal:
        journal.execute('UPDATE acts SET what = \'{"reason":"calm"}\'')
    forged = desk.remit("acts")
    assert (forged.code, forged.document["acts"][0]["signature"]) == (1, "bad_signature")
