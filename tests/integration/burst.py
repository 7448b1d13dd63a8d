"""A process that proposes many different articles under one token: `python -m tests.integration.burst DB NUMBER CALLS`.

Prints what each call came to, as a JSON list.
"""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from execution.catalog import Catalog
from execution.intake import Intake
from execution.proposal import IntakeRefused
from execution.sagas.publish_article import intent
from execution.sagas.publish_plan import PublishSettings, SiteRules
from execution.store.opening import open_store
from tests.integration.world import PROPOSER, SETTINGS, CountedIds, MovableClock, proposal

AT_ONCE = 25
SINGLE_USE = replace(PROPOSER, max_uses=1)


async def burst(database: Path, number: int, calls: int) -> list[str]:
    store = open_store(database)
    catalog = Catalog([intent(PublishSettings(sites={"blog": SiteRules()}))])
    intake = Intake(store, catalog, MovableClock(), CountedIds(f"p{number}"), SETTINGS)

    async def call(index: int) -> str:
        try:
            accepted = await intake.propose(proposal(article=f"article-{number}-{index}"), SINGLE_USE)
        except IntakeRefused as refused:
            return refused.code
        return accepted.command_id

    try:
        outcomes: list[str] = []
        for start in range(0, calls, AT_ONCE):
            outcomes += await asyncio.gather(*map(call, range(start, min(start + AT_ONCE, calls))))
        return outcomes
    finally:
        await store.close()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(burst(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))))
