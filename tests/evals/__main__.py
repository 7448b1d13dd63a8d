"""`python -m tests.evals [WORD]`: play every situation (that has WORD in its name) and print what agents were told."""

import asyncio
import sys
import time
from typing import Final

from tests.evals.every import SITUATIONS
from tests.evals.play import Row
from tests.evals.situations import Situation, play
from tests.evals.table import summary, table

AT_ONCE: Final = 4


async def main(word: str) -> int:
    """Exit code 1: an answer could be misread."""
    begun, turn = time.monotonic(), asyncio.Semaphore(AT_ONCE)
    chosen = [found for found in SITUATIONS.values() if word in found.name]
    rows = list[Row]()
    played = await asyncio.gather(*(one(found, turn) for found in chosen), return_exceptions=True)
    for found, result in zip(chosen, played, strict=True):
        rows += [broken(found.name, result)] if isinstance(result, BaseException) else result
    print(table(rows))
    print(f"\n{summary(rows)}; {time.monotonic() - begun:.0f} s")
    return int(any(row.wrong for row in rows))


async def one(found: Situation, turn: asyncio.Semaphore) -> list[Row]:
    """Its rows."""
    async with turn:
        return await play(found)


def broken(name: str, error: BaseException) -> Row:
    """A situation that did not come about is as bad as a wrong answer."""
    said = f"{type(error).__name__}: {error}"[:600]
    return Row(
        situation=name,
        point="did not come about",
        state="-",
        live=None,
        done=None,
        next_action="-",
        concise=0,
        detailed=None,
        says="",
        wrong=(said,),
    )


if __name__ == "__main__":
    sys.exit(asyncio.run(main(" ".join(sys.argv[1:]))))
